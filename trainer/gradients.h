/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gradients.h: the engine of sync: the gradients of every step are averaged in place, slice by
 * slice, the last of the arena first, as the backward pass makes them.
 *
 * Threads: as its averager.
 */
#ifndef STRETTO_TRAINER_GRADIENTS_H
#define STRETTO_TRAINER_GRADIENTS_H

#include "trainer/average.h"

struct stretto_gradients {
	struct stretto_slicing slicing;
	struct stretto_route route;
	size_t started; /* slices in this step, from the end */
};

/* Opens it on average->gradients. */
stretto_status stretto_gradients_open(struct stretto_average *average,
				      struct stretto_gradients *gradients);
/* A zeroed one is left as is. */
void stretto_gradients_close(struct stretto_gradients *gradients);

/* The strategy's ready() and step(); the weights are updated in place. */
stretto_status stretto_gradients_ready(struct stretto_average *average,
				       struct stretto_gradients *gradients);
stretto_status stretto_gradients_step(struct stretto_average *average,
				      struct stretto_gradients *gradients);

#endif
