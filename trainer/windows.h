/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h: robust step times. Steps of a round differ (only one of them merges), so the unit that
 * is compared is a window of whole rounds, 16 steps or a little more; of the windows' means the
 * median is reported, which a busy machine disturbs less than the mean.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_WINDOWS_H
#define STRETTO_TRAINER_WINDOWS_H

#include "runtime/stretto.h"

/* Means of one window. */
struct stretto_window {
	double seconds; /* of a step */
	double exposed; /* seconds of it spent waiting */
};

struct stretto_windows {
	struct stretto_window *windows; /* owned */
	size_t count;                   /* complete ones */
	size_t length;                  /* steps of a window */
	size_t steps;                   /* in the window that is being filled */
	double start_seconds;           /* totals when it began */
	double start_exposed;
	double loss_sum; /* over its steps */
	double loss;     /* mean of the last complete window, or of the steps so far */
};

/* For a training of `steps` steps in rounds of tau. STRETTO_NO_MEMORY. */
stretto_status stretto_windows_init(struct stretto_windows *windows, size_t steps, size_t tau);
void stretto_windows_fini(struct stretto_windows *windows);

/* Adds a step, with the totals since the start of the training. */
void stretto_windows_add(struct stretto_windows *windows, double seconds, double exposed,
			 double loss);

/* Medians over the windows of the time of a step, and of its exposed part. 0 without any step. */
void stretto_windows_medians(const struct stretto_windows *windows, double *seconds,
			     double *exposed);

#endif
