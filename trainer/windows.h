/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h: robust step times. Steps of a round differ (only one of them merges), so the unit that
 * is measured is a window of whole rounds, 4 steps or a little more. Of the windows the slowest and
 * the fastest quarter are left out, which a machine with other work would disturb, and the mean of
 * the rest is reported (the midmean), separately for each quantity.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_WINDOWS_H
#define STRETTO_TRAINER_WINDOWS_H

#include "runtime/stretto.h"

/* Times of a step in seconds, as means over a window; or totals since the training began. */
struct stretto_window {
	double seconds;   /* all of it */
	double exposed;   /* of which waiting for averages */
	double in_flight; /* that averages were in flight */
};

struct stretto_windows {
	struct stretto_window *windows; /* owned */
	double *scratch;                /* three numbers for each, for sorting; owned */
	size_t count;                   /* complete ones */
	size_t length;                  /* steps of a window */
	size_t steps;                   /* in the window that is being filled */
	struct stretto_window start;    /* totals when it began */
	double loss_sum;                /* over its steps */
	double loss; /* mean of the last complete window, or of the steps so far */
};

/* For a training of `steps` steps in rounds of tau. STRETTO_NO_MEMORY. */
stretto_status stretto_windows_init(struct stretto_windows *windows, size_t steps, size_t tau);
void stretto_windows_fini(struct stretto_windows *windows);

/* Adds a step, with the totals since the start of the training. */
void stretto_windows_add(struct stretto_windows *windows, const struct stretto_window *total,
			 double loss);

/* The midmeans over the windows, each quantity on its own. Zeros without a complete window. */
struct stretto_window stretto_windows_typical(struct stretto_windows *windows);

#endif
