/* SPDX-License-Identifier: BSD-3-Clause */
/* dasgd: rule A, the average overwrites a share of what was done while it was in flight. */
#include "trainer/periodic.h"

static double effective_steps(const struct stretto_average_options *options)
{
	return (double)options->tau - (double)options->delay * (1.0 - (double)options->own_weight);
}

static stretto_status open_dasgd(struct stretto_average *average)
{
	const struct stretto_periodic_options options = {
		.rule = stretto_merge_overwrite,
		.delay = average->options.delay,
		.fragments = 1,
	};

	return stretto_periodic_own_open(average, &options);
}

const struct stretto_strategy_ops stretto_strategy_dasgd = {
	.check = stretto_check_delayed,
	.effective_steps = effective_steps,
	.fit = stretto_fit_delay,
	.open = open_dasgd,
	.close = stretto_periodic_own_close,
	.ready = stretto_periodic_own_ready,
	.step = stretto_periodic_own_step,
	.drain = stretto_periodic_own_drain,
	.visit = stretto_periodic_own_visit,
};
