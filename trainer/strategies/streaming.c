/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streaming: dasgd by fragments, with an outer optimiser. tau = 4, F = 2, d = 1, one row a step:
 *
 *	step  starts       merges
 *	2     fragment 0
 *	3                  fragment 0
 *	4     fragment 1
 *	5                  fragment 1
 *	6     fragment 0
 */
#include "trainer/loop.h"
#include "trainer/periodic.h"

static const char *check(const struct stretto_average_options *options)
{
	size_t fragments = options->fragments ? options->fragments : 1;
	const char *problem = stretto_check_round(options);

	if (!problem)
		problem = stretto_check_own_weight(options);
	if (!problem)
		problem = stretto_check_outer(options);
	if (problem)
		return problem;
	if (options->tau % fragments != 0)
		return "tau must be a multiple of the fragments";
	if (fragments > options->parameters)
		return "there must be at least one parameter in each fragment";
	if (options->delay > options->tau / fragments)
		return "the delay must not be greater than tau / fragments";
	return NULL;
}

static double effective_steps(const struct stretto_average_options *options)
{
	double own = (double)options->own_weight;
	double gain = (double)options->outer_rate / (1 - (double)options->outer_momentum);
	double kept = (double)options->tau - (double)options->delay * (1 - own);

	return kept / (own + (1 - own) / gain);
}

/* A fragment travels in its share of the time; tau stays a multiple of the fragments. */
static enum stretto_fit fit(struct stretto_average_options *options, size_t steps, size_t most)
{
	size_t fragments = options->fragments ? options->fragments : 1;
	size_t wanted = (steps + fragments - 1) / fragments, longest = most / fragments;

	options->delay = wanted < longest ? wanted : longest;
	if (options->tau < options->delay * fragments)
		options->tau = options->delay * fragments;
	return wanted <= longest ? STRETTO_FIT_HIDES : STRETTO_FIT_SHORT;
}

/* With e = average - z: v <- beta v + e, z <- z + rate (e + beta v), next <- p next + (1 - p) z. */
static void merge_outer(const struct stretto_merge *merge)
{
	const struct stretto_average_options *options = merge->options;
	float own = options->own_weight, other = 1.0f - own;
	float rate = options->outer_rate, beta = options->outer_momentum;
	const float *average = merge->average;
	float *next = merge->next, *anchor = merge->anchor, *velocity = merge->velocity;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < merge->count; i++) {
		float e = average[i] - anchor[i];
		float v = beta * velocity[i] + e;
		float z = anchor[i] + rate * (e + beta * v);

		velocity[i] = v;
		anchor[i] = z;
		next[i] = own * next[i] + other * z;
	}
}

static stretto_status open_streaming(struct stretto_average *average)
{
	const struct stretto_average_options *chosen = &average->options;
	/* An outer step of 1 without momentum puts the anchor where the average is. */
	bool anchored = chosen->outer_rate != 1.0f || chosen->outer_momentum > 0.0f;
	const struct stretto_periodic_options options = {
		.rule = anchored ? merge_outer : stretto_merge_overwrite,
		.delay = chosen->delay,
		.fragments = chosen->fragments,
		.anchored = anchored,
	};

	return stretto_periodic_own_open(average, &options);
}

const struct stretto_strategy_ops stretto_strategy_streaming = {
	.check = check,
	.effective_steps = effective_steps,
	.fit = fit,
	.open = open_streaming,
	.close = stretto_periodic_own_close,
	.ready = stretto_periodic_own_ready,
	.step = stretto_periodic_own_step,
	.drain = stretto_periodic_own_drain,
	.visit = stretto_periodic_own_visit,
};
