/* SPDX-License-Identifier: BSD-3-Clause */
/* sync: the gradients of every step are averaged, in slices under the rest of the backward pass. */
#include <stdlib.h>

#include "trainer/gradients.h"

static stretto_status open_sync(struct stretto_average *average)
{
	size_t count = average->options.parameters;
	stretto_status status =
		stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS, count, &average->weights);

	if (status == STRETTO_OK)
		status = stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS, count,
						  &average->gradients);
	if (status != STRETTO_OK)
		return status;
	average->own = calloc(1, sizeof(struct stretto_gradients));
	if (!average->own)
		return STRETTO_NO_MEMORY;
	return stretto_gradients_open(average, average->own);
}

static void close_sync(struct stretto_average *average)
{
	stretto_gradients_close(average->own);
	free(average->own);
}

static stretto_status ready_sync(struct stretto_average *average)
{
	return stretto_gradients_ready(average, average->own);
}

static stretto_status step_sync(struct stretto_average *average)
{
	return stretto_gradients_step(average, average->own);
}

const struct stretto_strategy_ops stretto_strategy_sync = {
	.open = open_sync,
	.close = close_sync,
	.ready = ready_sync,
	.step = step_sync,
};
