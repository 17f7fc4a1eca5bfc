/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/averaging.h"

#include <stdint.h>
#include <string.h>

/* One name, or several with commas between them. */
static void set_strategy(struct tool_averaging *averaging, const char *text)
{
	const char *at = text;

	averaging->count = 0;
	do {
		size_t length = strcspn(at, ",");
		char name[32] = "";

		if (length < sizeof(name))
			memcpy(name, at, length);
		if (averaging->count == TOOL_STRATEGIES ||
		    !stretto_strategy_find(name, &averaging->strategies[averaging->count++]))
			tool_fail("--strategy %s: expected one, or up to %d with commas between, "
				  "of: %.*s",
				  text, TOOL_STRATEGIES, (int)sizeof(STRETTO_STRATEGY_WORDS) - 2,
				  STRETTO_STRATEGY_WORDS); /* but for the space at its end */
		at += length;
	} while (*at++ == ',');
}

/* Options that some of the strategies have. */
static bool set_outer(struct tool_averaging *averaging, int id, const char *text)
{
	struct stretto_average_options *average = &averaging->average;

	switch (id) {
	case TOOL_AVERAGING_WARMUP:
		average->warmup = (size_t)tool_int("--warmup", text, 0, 1000000000);
		averaging->warmup_given = true;
		return true;
	case TOOL_AVERAGING_FRAGMENTS:
		average->fragments = (size_t)tool_int("--fragments", text, 1, 1000000);
		return true;
	case TOOL_AVERAGING_OUTER_RATE:
		average->outer_rate = (float)tool_double("--outer-rate", text, 1e-6, 1000);
		return true;
	case TOOL_AVERAGING_OUTER_MOMENTUM:
		average->outer_momentum = (float)tool_double("--outer-momentum", text, 0, 1);
		return true;
	case TOOL_AVERAGING_OUTER_CLIP:
		average->outer_clip = (float)tool_double("--outer-clip", text, 0, 1e30);
		return true;
	default:
		return false;
	}
}

bool tool_averaging_set(struct tool_averaging *averaging, int id, const char *text)
{
	struct stretto_average_options *average = &averaging->average;

	switch (id) {
	case TOOL_AVERAGING_STRATEGY:
		set_strategy(averaging, text);
		return true;
	case TOOL_AVERAGING_TAU:
		average->tau = (size_t)tool_int("--tau", text, 1, 1000000);
		averaging->tau_given = true;
		return true;
	case TOOL_AVERAGING_DELAY:
		averaging->delay_auto = strcmp(text, "auto") == 0;
		averaging->delay_given = !averaging->delay_auto;
		if (averaging->delay_given)
			average->delay = (size_t)tool_int("--delay", text, 0, 1000000);
		return true;
	case TOOL_AVERAGING_OWN_WEIGHT:
		averaging->own_weight_given = true;
		average->own_weight = (float)tool_double("--own-weight", text, 0, 1);
		return true;
	case TOOL_AVERAGING_SLICE:
		average->slice =
			tool_bytes("--slice", text, sizeof(float), (size_t)1 << 40) / sizeof(float);
		return true;
	default:
		return set_outer(averaging, id, text);
	}
}

void tool_averaging_defaults(struct tool_averaging *averaging)
{
	*averaging = (struct tool_averaging){.strategies = {STRETTO_STRATEGY_DASGD}, .count = 1};
	averaging->average.tau = 4;
	averaging->average.delay = 2;
	averaging->average.own_weight = 0.25f;
	averaging->average.parameters = SIZE_MAX;
}

/* The defaults that depend on the strategy: local averages have no share of their own weights. */
static void set_dependent(const struct tool_averaging *averaging,
			  struct stretto_average_options *average)
{
	enum stretto_strategy strategy = average->strategy;
	size_t most = average->tau;

	if ((strategy == STRETTO_STRATEGY_LOCAL || strategy == STRETTO_STRATEGY_POST_LOCAL) &&
	    !averaging->own_weight_given)
		average->own_weight = 0;
	if (average->fragments == 0)
		average->fragments = average->tau % 2 == 0 ? 2 : 1;
	if (strategy == STRETTO_STRATEGY_STREAMING)
		most /= average->fragments;
	/* A delay that was not asked for is no longer than it can be; dga's has nothing to do with tau. */
	if (!averaging->delay_given && strategy != STRETTO_STRATEGY_DGA && average->delay > most)
		average->delay = most;
}

struct stretto_average_options tool_averaging_settle(const struct tool_averaging *averaging,
						     size_t i, float clip)
{
	struct stretto_average_options average = averaging->average;
	const char *problem;

	average.strategy = averaging->strategies[i];
	average.clip = clip;
	set_dependent(averaging, &average);
	problem = stretto_average_check(&average);
	if (problem)
		tool_fail("%s (--strategy %s --tau %zu --delay %zu --own-weight %g)", problem,
			  stretto_strategy_name(average.strategy), average.tau, average.delay,
			  (double)average.own_weight);
	return average;
}
