/* SPDX-License-Identifier: BSD-3-Clause */
/* local: the weights are averaged every tau steps, waited for on the spot. */
#include "trainer/periodic.h"

static const char *check(const struct stretto_average_options *options)
{
	const char *problem = stretto_check_round(options);

	return problem ? problem : stretto_check_own_weight(options);
}

static double effective_steps(const struct stretto_average_options *options)
{
	return (double)options->tau;
}

static stretto_status open_local(struct stretto_average *average)
{
	const struct stretto_periodic_options options = {
		.rule = stretto_merge_overwrite,
		.fragments = 1,
	};

	return stretto_periodic_own_open(average, &options);
}

const struct stretto_strategy_ops stretto_strategy_local = {
	.check = check,
	.effective_steps = effective_steps,
	.open = open_local,
	.close = stretto_periodic_own_close,
	.ready = stretto_periodic_own_ready,
	.step = stretto_periodic_own_step,
	.drain = stretto_periodic_own_drain,
	.visit = stretto_periodic_own_visit,
};
