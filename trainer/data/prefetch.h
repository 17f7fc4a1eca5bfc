/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefetch.h: batches made by a thread while the steps before them compute.
 *
 *	buffers, 2 ahead:   [ step 7 ]   [ step 8 ]   [ step 9 ]
 *	                     computes     made         being made; then the thread sleeps until step 8
 *
 * Batches come in the order of their steps, with the bits that they have without a thread: the same
 * function makes them, from the step alone. What is ahead is in no checkpoint: who resumes begins at
 * another step. The thread sleeps on a condition variable while all buffers are full, is bound to the
 * core that it is given, lets whoever else wakes there go first (SCHED_BATCH), and takes no signals.
 *
 * Threads: one at a time calls; the thread of this file is the only other one.
 */
#ifndef STRETTO_TRAINER_DATA_PREFETCH_H
#define STRETTO_TRAINER_DATA_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/stretto.h"

/* Batches ahead, at most. */
enum { STRETTO_PREFETCH_MOST = 16 };

/*
 * Makes the batch of a step in x and labels. Called for rising steps, by one thread at a time, which may
 * not be the caller's. What is not STRETTO_OK ends the batches.
 */
typedef stretto_status stretto_prefetch_fill(void *context, size_t step, float *x, uint8_t *labels);

struct stretto_prefetch_options {
	stretto_prefetch_fill *fill;
	void *context; /* of fill; must live as long as the prefetch, and belongs to it */
	size_t floats; /* of x */
	size_t labels; /* bytes of labels */
	size_t end;    /* the step that no batch is made for any more */
	size_t ahead; /* batches, to STRETTO_PREFETCH_MOST; 0: no thread, made when they are asked for */
	int core; /* that the thread is bound to; -1: it runs where the caller may run */
};

struct stretto_batch {
	const float *x;
	const uint8_t *labels;
};

struct stretto_prefetch;

/* Allocates the buffers; starts nothing yet. STRETTO_NO_MEMORY. */
stretto_status stretto_prefetch_new(const struct stretto_prefetch_options *options,
				    struct stretto_prefetch **prefetch);
/* Ends the thread, waiting for the batch that it makes. */
void stretto_prefetch_free(struct stretto_prefetch *prefetch);

/*
 * The batch of a step: any step before the end at first, and then the one after the last. Owned by the
 * prefetch, valid until the next call. Blocks until it is made. What fill() returned for this step or one
 * before, if that was not STRETTO_OK; the batches before it are handed out. STRETTO_INVALID for a step out
 * of turn. The first call starts the thread:
 * if it cannot be started, that is a warning, and batches are made when they are asked for.
 */
stretto_status stretto_prefetch_batch(struct stretto_prefetch *prefetch, size_t step,
				      struct stretto_batch *batch);

#endif
