/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rate.h: the learning rate as a function of the step.
 *
 *	constant                 1
 *	step:every=N,factor=F    F^(step / N), N in local steps
 *	onecycle                 linear from 1/25 up to 1 over the first quarter of the training,
 *	                         then linear down to 1/10000 (Smith & Topin 2017, the shape that
 *	                         DaSGD's authors used)
 *	cosine:warmup=N,floor=F  linear from 1/N over N local steps, then half a cosine from 1 to F
 *	                         (Loshchilov & Hutter 2017, without restarts); both 0 if not given
 *
 * All as a share of the optimiser's rate. Neither the number of ranks nor tau changes it.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_RATE_H
#define STRETTO_TRAINER_RATE_H

#include <stddef.h>

enum stretto_rate_kind {
	STRETTO_RATE_CONSTANT,
	STRETTO_RATE_STEP,
	STRETTO_RATE_ONECYCLE,
	STRETTO_RATE_COSINE,
};

struct stretto_rate {
	enum stretto_rate_kind kind;
	size_t every;  /* step: local steps between two changes, >= 1 */
	double factor; /* step: of each change, 0 < factor <= 1 */
	size_t warmup; /* cosine: local steps */
	double floor;  /* cosine: at the end, 0 <= floor <= 1 */
};

/* Reads one of the texts above; NULL, or what is wrong with it, static. */
const char *stretto_rate_parse(const char *text, struct stretto_rate *rate);

/* The share of the highest rate for local step `step` (from 0) of `steps`. */
double stretto_rate_at(const struct stretto_rate *rate, size_t step, size_t steps);

#endif
