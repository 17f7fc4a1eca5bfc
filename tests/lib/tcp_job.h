/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_job.h: jobs of forked processes that meet over loopback, for the tests of the rendezvous.
 *
 * The parent makes rank 0's listening socket, so that no other process can take the port. The log
 * of each rank goes to a file that the parent reads. Whatever fails, fails the running test.
 */
#ifndef STRETTO_TESTS_TCP_JOB_H
#define STRETTO_TESTS_TCP_JOB_H

#include <stdio.h>
#include <sys/types.h>

#include "runtime/bootstrap/bootstrap.h"

enum { JOB_RANKS = 8, JOB_LOG = 4096 };

#define JOB_TOKEN "00112233445566778899aabbccddeeff"

/* What a rank does when all have met; 0 if what it saw was right, else its exit status. */
typedef int job_body(struct stretto_bootstrap *);

struct job {
	int size;              /* number of ranks */
	int listener;          /* rank 0's, made by the parent: no race for a port */
	char root[32];         /* its address */
	double seconds;        /* that the ranks have to meet */
	pid_t pids[JOB_RANKS]; /* 0 for a rank that is not started */
	FILE *logs[JOB_RANKS]; /* what each rank writes to stderr */
	int meetings;          /* how often each rank meets the others, one after the other */
	const char *token;     /* of the rank that is started next */
	char text[JOB_LOG];    /* the log read last */
	job_body *body;        /* what a rank does when all have met */
};

/* A job with a listener and no processes, and 20 s to meet. */
void job_init(struct job *job, int size, job_body *body);

/* Starts a rank; or a process that acts as `rank`, known to the job by another slot. */
void job_start(struct job *job, int rank);
void job_start_as(struct job *job, int slot, int rank);

/* Waits for a rank's end: its exit status (128 + signal), its log in job->text. */
int job_finish(struct job *job, int slot);
/* Waits for all ranks, which must end with 0, and closes the listener. */
void job_finish_well(struct job *job);
/* A job from start to end, all well. */
void job_run(int size, job_body *body);

/* The log read last must hold these words. */
void job_assert_says(const struct job *job, const char *words);

/* A connection to rank 0's port of someone who is no rank. */
int job_connect(const struct job *job);

void job_nap(double seconds);
double job_now(void);

#endif
