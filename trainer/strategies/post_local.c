/* SPDX-License-Identifier: BSD-3-Clause */
/* post-local: sync for the first `warmup` steps, then local. */
#include <stdlib.h>

#include "trainer/gradients.h"
#include "trainer/periodic.h"

struct post_local {
	struct stretto_gradients gradients; /* of the first phase */
	struct stretto_periodic periodic;   /* of the second; its arenas serve both */
};

static const char *check(const struct stretto_average_options *options)
{
	const char *problem = stretto_check_round(options);

	return problem ? problem : stretto_check_own_weight(options);
}

static double effective_steps(const struct stretto_average_options *options)
{
	return (double)options->tau;
}

static stretto_status open_post_local(struct stretto_average *average)
{
	const struct stretto_periodic_options options = {
		.rule = stretto_merge_overwrite,
		.fragments = 1,
		.origin = average->options.warmup,
	};
	struct post_local *own = calloc(1, sizeof(*own));
	stretto_status status;

	if (!own)
		return STRETTO_NO_MEMORY;
	average->own = own;
	status = stretto_periodic_open(average, &options, &own->periodic);
	return status == STRETTO_OK ? stretto_gradients_open(average, &own->gradients) : status;
}

static void close_post_local(struct stretto_average *average)
{
	struct post_local *own = average->own;

	stretto_gradients_close(&own->gradients);
	stretto_periodic_close(&own->periodic);
	free(own);
}

static bool warming(const struct stretto_average *average)
{
	return average->step < average->options.warmup;
}

static stretto_status ready_post_local(struct stretto_average *average)
{
	struct post_local *own = average->own;

	return warming(average) ? stretto_gradients_ready(average, &own->gradients) : STRETTO_OK;
}

static stretto_status step_post_local(struct stretto_average *average)
{
	struct post_local *own = average->own;

	return warming(average) ? stretto_gradients_step(average, &own->gradients)
				: stretto_periodic_step(average, &own->periodic);
}

static stretto_status drain_post_local(struct stretto_average *average)
{
	struct post_local *own = average->own;

	return stretto_periodic_drain(average, &own->periodic);
}

const struct stretto_strategy_ops stretto_strategy_post_local = {
	.check = check,
	.effective_steps = effective_steps,
	.open = open_post_local,
	.close = close_post_local,
	.ready = ready_post_local,
	.step = step_post_local,
	.drain = drain_post_local,
};
