/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.h: from a fork to a rank that runs its program.
 *
 * Threads: only in a program of one thread, since the child sets its environment after the fork.
 */
#ifndef STRETTO_TOOLS_SPAWN_H
#define STRETTO_TOOLS_SPAWN_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* A mask of cores is an array of so many cpu_set_t, for CPU_..._S(). */
enum { SPAWN_CPU_SETS = 16 };

/* What all ranks of a job are given. */
struct spawn {
	int size;                        /* number of ranks */
	char **argv;                     /* program and arguments, ended by NULL; borrowed */
	char **variables;                /* NAME=VALUE to set; an owned array of borrowed texts */
	size_t variable_count;           /* of variables */
	int listener;                    /* listening socket of rank 0 */
	char root[32];                   /* its address */
	char token[33];                  /* of the job, hex digits */
	bool bind;                       /* each rank gets its share of cores */
	cpu_set_t cores[SPAWN_CPU_SETS]; /* the launcher's affinity mask */
	pid_t launcher;                  /* with which the ranks die */
	sigset_t old_mask;               /* signal mask of the ranks */
	struct rlimit old_files;         /* RLIMIT_NOFILE of the ranks */
	bool shares_terminal;            /* rank 0 stays in the launcher's process group */
	bool tag_output;                 /* stdout and stderr are pipes to the launcher */
};

/* Why a rank could not be started: "cannot WHAT PROGRAM: ERROR". */
struct spawn_failure {
	int error;     /* errno */
	char what[24]; /* such as "run" or "bind to its cores" */
};

/*
 * Starts a rank: its pid, once it runs its program, or -1 after *failure was written and nothing is
 * left of it. With tag_output, outputs[] are the caller's read ends of its stdout and stderr.
 */
pid_t spawn_rank(const struct spawn *spawn, int rank, int outputs[2],
		 struct spawn_failure *failure);

#endif
