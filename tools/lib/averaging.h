/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * averaging.h: the command line of the averaging strategies, for tools that train.
 *
 * Threads: the main thread only.
 */
#ifndef STRETTO_TOOLS_AVERAGING_H
#define STRETTO_TOOLS_AVERAGING_H

#include "tools/lib/options.h"
#include "trainer/stretto_train.h"

/* Strategies at most in one command line. */
enum { TOOL_STRATEGIES = 8 };

enum {
	TOOL_AVERAGING_STRATEGY = TOOL_LONG_ONLY + 1000,
	TOOL_AVERAGING_TAU,
	TOOL_AVERAGING_DELAY,
	TOOL_AVERAGING_OWN_WEIGHT,
	TOOL_AVERAGING_WARMUP,
	TOOL_AVERAGING_FRAGMENTS,
	TOOL_AVERAGING_OUTER_RATE,
	TOOL_AVERAGING_OUTER_MOMENTUM,
	TOOL_AVERAGING_OUTER_CLIP,
	TOOL_AVERAGING_SLICE,
};

/* Rows of a tool's table. */
/* clang-format off */
#define TOOL_AVERAGING_ROWS \
	{"strategy", TOOL_AVERAGING_STRATEGY, "NAME", \
	 "one or several (a,b,c), side by side, of: " STRETTO_STRATEGY_WORDS "(dasgd)"}, \
	{"tau", TOOL_AVERAGING_TAU, "N", "local steps a round (4)"}, \
	{"delay", TOOL_AVERAGING_DELAY, "N", \
	 "local steps an average is in flight, at most tau; auto: measured (2)"}, \
	{"own-weight", TOOL_AVERAGING_OWN_WEIGHT, "P", \
	 "share of the own weights in a merge, 0 <= P < 1 (0.25)"}, \
	{"warmup", TOOL_AVERAGING_WARMUP, "N", "post-local: steps of sync before (half of all)"}, \
	{"fragments", TOOL_AVERAGING_FRAGMENTS, "N", "streaming: parts that are averaged in turn (2)"}, \
	{"outer-rate", TOOL_AVERAGING_OUTER_RATE, "R", "streaming, co2: learning rate of averages (1)"}, \
	{"outer-momentum", TOOL_AVERAGING_OUTER_MOMENTUM, "B", \
	 "overlap-local, streaming, co2: momentum of averages, 0 <= B < 1 (0)"}, \
	{"outer-clip", TOOL_AVERAGING_OUTER_CLIP, "C", "co2: greatest change of a parameter by an average"}, \
	{"slice", TOOL_AVERAGING_SLICE, "BYTES", \
	 "bytes of the arena sent at a time (by size, at most 8 slices)"},
/* clang-format on */

/* What was asked for; the defaults of some parts depend on the strategy. */
struct tool_averaging {
	struct stretto_average_options average; /* but for strategy and parameters */
	enum stretto_strategy strategies[TOOL_STRATEGIES];
	size_t count; /* of strategies */
	bool own_weight_given;
	bool delay_given;
	bool delay_auto; /* --delay auto */
	bool tau_given;
	bool warmup_given;
};

void tool_averaging_defaults(struct tool_averaging *averaging);

/* Takes an option; false if it is none of these. tool_fail() if its value is wrong. */
bool tool_averaging_set(struct tool_averaging *averaging, int id, const char *text);

/*
 * The options of strategy i, clipped to the norm `clip`; parameters is to be filled in. tool_fail()
 * if they do not fit together.
 */
struct stretto_average_options tool_averaging_settle(const struct tool_averaging *averaging,
						     size_t i, float clip);

#endif
