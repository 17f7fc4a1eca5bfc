/* SPDX-License-Identifier: BSD-3-Clause */
/* dasgd-delta: rule B, the average corrects by what it differs from the rank's own snapshot. */
#include "trainer/loop.h"
#include "trainer/periodic.h"

static double effective_steps(const struct stretto_average_options *options)
{
	return (double)options->tau;
}

/* next <- next + (1 - p) (average - snapshot). */
static void merge_delta(const struct stretto_merge *merge)
{
	const float *average = merge->average, *snapshot = merge->snapshot;
	float other = 1.0f - merge->options->own_weight;
	float *next = merge->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < merge->count; i++)
		next[i] += other * (average[i] - snapshot[i]);
}

static stretto_status open_delta(struct stretto_average *average)
{
	const struct stretto_periodic_options options = {
		/* Without a delay the snapshot is what is merged into: the same by rule A. */
		.rule = average->options.delay > 0 ? merge_delta : stretto_merge_overwrite,
		.delay = average->options.delay,
		.fragments = 1,
	};

	return stretto_periodic_own_open(average, &options);
}

const struct stretto_strategy_ops stretto_strategy_dasgd_delta = {
	.check = stretto_check_delayed,
	.effective_steps = effective_steps,
	.fit = stretto_fit_delay,
	.open = open_delta,
	.close = stretto_periodic_own_close,
	.ready = stretto_periodic_own_ready,
	.step = stretto_periodic_own_step,
	.drain = stretto_periodic_own_drain,
	.visit = stretto_periodic_own_visit,
};
