/* SPDX-License-Identifier: BSD-3-Clause */
/* overlap-local: an average in flight for a whole round moves an anchor, which pulls the weights. */
#include "trainer/loop.h"
#include "trainer/periodic.h"

static const char *check(const struct stretto_average_options *options)
{
	const char *problem = stretto_check_round(options);

	if (!problem)
		problem = stretto_check_own_weight(options);
	return problem ? problem : stretto_check_outer(options);
}

static double effective_steps(const struct stretto_average_options *options)
{
	double own = (double)options->own_weight, beta = (double)options->outer_momentum;

	return own * (double)options->tau / (1 - (1 - own) * beta);
}

/* v <- beta v + (average - z), z <- z + v, next <- p next + (1 - p) z. */
static void merge_anchor(const struct stretto_merge *merge)
{
	const struct stretto_average_options *options = merge->options;
	float own = options->own_weight, other = 1.0f - own, beta = options->outer_momentum;
	const float *average = merge->average;
	float *next = merge->next, *anchor = merge->anchor, *velocity = merge->velocity;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < merge->count; i++) {
		float v = beta * velocity[i] + (average[i] - anchor[i]);
		float z = anchor[i] + v;

		velocity[i] = v;
		anchor[i] = z;
		next[i] = own * next[i] + other * z;
	}
}

static stretto_status open_overlap(struct stretto_average *average)
{
	/* Without momentum the anchor is the average. */
	bool anchored = average->options.outer_momentum > 0.0f;
	const struct stretto_periodic_options options = {
		.rule = anchored ? merge_anchor : stretto_merge_overwrite,
		.delay = average->options.tau,
		.fragments = 1,
		.anchored = anchored,
	};

	return stretto_periodic_own_open(average, &options);
}

const struct stretto_strategy_ops stretto_strategy_overlap_local = {
	.check = check,
	.effective_steps = effective_steps,
	.fit = stretto_fit_tau,
	.open = open_overlap,
	.close = stretto_periodic_own_close,
	.ready = stretto_periodic_own_ready,
	.step = stretto_periodic_own_step,
	.drain = stretto_periodic_own_drain,
	.visit = stretto_periodic_own_visit,
};
