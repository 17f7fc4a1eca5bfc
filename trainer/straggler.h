/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * straggler.h: which rank computes slowest, and where it is.
 *
 * A slow rank makes the others wait, so that all steps take as long as its own: it shows in the time
 * that a rank computes, without its waiting. That is gathered once, after the training.
 *
 * Threads: one at a time for each communicator.
 */
#ifndef STRETTO_TRAINER_STRAGGLER_H
#define STRETTO_TRAINER_STRAGGLER_H

#include "collectives/stretto_coll.h"

/* Longest name of a host that is kept, with its end. */
enum { STRETTO_STRAGGLER_HOST = 64 };

/* More than so many percent above the median is worth a line. */
enum { STRETTO_STRAGGLER_PERCENT = 10 };

struct stretto_straggler {
	int rank;                          /* the slowest; of equal ones the first */
	char host[STRETTO_STRAGGLER_HOST]; /* its */
	double compute;                    /* seconds that it computes in a step */
	double median;                     /* of all ranks; the mean of the middle two */
	double slower_percent;             /* compute above the median; 0 if that is 0 */
};

/* The slowest of `ranks` times, and the median; host is left. Sorts `compute`. Pure. */
void stretto_straggler_pick(double *compute, int ranks, struct stretto_straggler *straggler);

/*
 * The slowest of all ranks, where this one computes `compute` seconds in a step; on rank 0 alone,
 * elsewhere *straggler is left. Collective; blocks. STRETTO_NO_MEMORY, errors of a gather.
 */
stretto_status stretto_straggler_find(struct stretto_comm *comm, double compute,
				      struct stretto_straggler *straggler);

#endif
