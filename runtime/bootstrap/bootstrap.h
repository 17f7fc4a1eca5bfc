/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h: how the ranks of a job meet.
 *
 * The runtime needs one thing from a bootstrap: an allgather of a small blob (barrier is an
 * allgather of nothing). A provider is one file and one line of the table in bootstrap.c:
 *
 *   callback  the application's own functions, given to stretto_init()
 *   pmix      libpmix, where the build has it: srun --mpi=pmix, Open MPI's mpirun
 *   pmi2      libpmi2, loaded when needed: srun --mpi=pmi2
 *   tcp       our rendezvous: rank 0 listens at STRETTO_ROOT, STRETTO_TOKEN must match
 *   slurm     the same at a port that Slurm keeps free for the step: srun --mpi=none
 *   single    a job of one process
 *
 * Threads: used only by the thread that is in stretto_init() or stretto_finalize().
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_H
#define STRETTO_RUNTIME_BOOTSTRAP_H

#include <stddef.h>

#include "runtime/config.h"
#include "runtime/stretto.h"

/* Bytes of the largest blob of one rank; a provider refuses more with STRETTO_INVALID. */
enum { STRETTO_BOOTSTRAP_BLOB_MAX = 64 * 1024 };

struct stretto_bootstrap;

/* What a provider implements. Every call has the deadline config->bootstrap_timeout_seconds. */
struct stretto_bootstrap_ops {
	const char *name;
	/*
	 * Whether the environment (as read into config) offers this provider; `why` (of `size`
	 * bytes) says in a few words what was found or is missing, either way.
	 */
	bool (*offered)(const struct stretto_config *config, char *why, size_t size);
	/* Meets all ranks. On success *bootstrap is the caller's, with rank and size filled in. */
	stretto_status (*open)(const struct stretto_config *config,
			       const struct stretto_bootstrap_callbacks *callbacks,
			       struct stretto_bootstrap **bootstrap);
	/* Gathers `bytes` (the same on all ranks) of each rank into all[size * bytes]. Blocks. */
	stretto_status (*allgather)(struct stretto_bootstrap *bootstrap, const void *mine,
				    size_t bytes, void *all);
	/* Closes without waiting for anyone. NULL does nothing. */
	void (*close)(struct stretto_bootstrap *bootstrap);
};

/* The common head of every provider's private struct; the provider embeds it first. */
struct stretto_bootstrap {
	const struct stretto_bootstrap_ops *ops;
	int rank;
	int size;
};

/*
 * Chooses the provider (callbacks if given, else the first that is offered), logs the choice and
 * the reason at info level, and opens it. The caller owns *bootstrap, ends it with ops->close().
 * STRETTO_BOOTSTRAP if the ranks could not meet in time; the log names the missing ranks where the
 * provider knows them. Also if the launcher says that there are more ranks, but the provider knows
 * of one only.
 */
stretto_status stretto_bootstrap_open(const struct stretto_config *config,
				      const struct stretto_bootstrap_callbacks *callbacks,
				      struct stretto_bootstrap **bootstrap);

/* Returns when every rank has called it. */
stretto_status stretto_bootstrap_barrier(struct stretto_bootstrap *bootstrap);

extern const struct stretto_bootstrap_ops stretto_bootstrap_callback;
#ifdef STRETTO_HAVE_PMIX
extern const struct stretto_bootstrap_ops stretto_bootstrap_pmix;
#endif
extern const struct stretto_bootstrap_ops stretto_bootstrap_pmi2;
extern const struct stretto_bootstrap_ops stretto_bootstrap_tcp;
extern const struct stretto_bootstrap_ops stretto_bootstrap_slurm;
extern const struct stretto_bootstrap_ops stretto_bootstrap_single;

#endif
