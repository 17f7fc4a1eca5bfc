/* SPDX-License-Identifier: BSD-3-Clause */
/* none: independent replicas. Also what every strategy is on one rank. */
#include "trainer/average.h"

static stretto_status open_none(struct stretto_average *average)
{
	size_t count = average->options.parameters;
	stretto_status status =
		stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS, count, &average->weights);

	if (status != STRETTO_OK)
		return status;
	return stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS, count,
					&average->gradients);
}

static stretto_status step_none(struct stretto_average *average)
{
	struct stretto_work work = {
		.weights = average->weights,
		.gradients = average->gradients,
		.next = average->weights,
	};

	stretto_average_clip(average);
	stretto_average_pass(average, &work, 0, average->options.parameters);
	average->updates++;
	return STRETTO_OK;
}

const struct stretto_strategy_ops stretto_strategy_none = {
	.open = open_none,
	.step = step_none,
};
