/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/delay.h"

#include <stdio.h>

/* Steps of a trial, and of a round of it: enough rounds that the first, which connects, does not count. */
enum { STEPS = 24, TAU = 2 };

stretto_status stretto_delay_measure(struct stretto_comm *comm,
				     const struct stretto_train_options *options,
				     struct stretto_average_times *times)
{
	struct stretto_train_options trials[2] = {*options, *options};
	struct stretto_train_result results[2];
	double longest[2]; /* the average, and minus the step: both are maximal where it is worst */
	stretto_status status;

	for (size_t i = 0; i < 2; i++) {
		trials[i].average = (struct stretto_average_options){
			.strategy = i ? STRETTO_STRATEGY_LOCAL : STRETTO_STRATEGY_NONE,
			.tau = TAU,
			.slice = options->average.slice,
		};
		trials[i].epochs = STEPS;
		trials[i].steps = STEPS;
		trials[i].observer = NULL;
	}
	status = stretto_train_run(comm, trials, 2, results);
	if (status != STRETTO_OK)
		return status;
	longest[0] = results[1].step.in_flight * TAU;
	longest[1] = -results[0].step.seconds;
	status = stretto_allreduce(comm, longest, longest, 2, STRETTO_F64, STRETTO_MAX);
	if (status == STRETTO_OK)
		*times = (struct stretto_average_times){-longest[1], longest[0]};
	return status;
}

void stretto_delay_describe(const struct stretto_average_options *options,
			    const struct stretto_average_times *times, enum stretto_fit fit,
			    char line[STRETTO_DELAY_LINE])
{
	int length =
		snprintf(line, STRETTO_DELAY_LINE,
			 "a step computes %.3g ms, an average takes %.3g ms: ", times->step * 1e3,
			 times->average * 1e3);
	char *rest = line + length;
	size_t room = STRETTO_DELAY_LINE - (size_t)length;
	const char *name = stretto_strategy_name(options->strategy);

	if (fit == STRETTO_FIT_NOTHING)
		snprintf(rest, room, "%s has no delay to choose", name);
	else if (fit == STRETTO_FIT_LATENCY)
		snprintf(rest, room, "%s with delay %zu hides it if the link takes one a step",
			 name, options->delay);
	else if (fit == STRETTO_FIT_HIDES)
		snprintf(rest, room, "%s with delay %zu and tau %zu hides it", name, options->delay,
			 options->tau);
	else
		snprintf(rest, room,
			 "nothing hides it; %s goes on with delay %zu and tau %zu, and waits", name,
			 options->delay, options->tau);
}
