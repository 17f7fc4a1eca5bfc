/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * average.h: the averaging strategies as a table. Their interface is in stretto_train.h, with the
 * equations; average.c follows this table and has no other case distinction by strategy.
 *
 * Threads: constant data.
 */
#ifndef STRETTO_TRAINER_AVERAGE_H
#define STRETTO_TRAINER_AVERAGE_H

#include "trainer/stretto_train.h"

/* What is averaged over the ranks. */
enum stretto_averaged {
	STRETTO_AVERAGED_NOTHING,
	STRETTO_AVERAGED_GRADIENTS, /* of every step, merged by replacing them */
	STRETTO_AVERAGED_WEIGHTS,   /* of every tau-th step */
};

/* One row. */
struct stretto_strategy_row {
	const char *name; /* the word the tools use */
	enum stretto_averaged averaged;
	bool delayed; /* merged `delay` steps after the start; else at once */
	bool delta;   /* merged by rule B (delta); else by rule A (overwrite) */
};

/* The row of a strategy. */
const struct stretto_strategy_row *stretto_strategy_row(enum stretto_strategy strategy);

#endif
