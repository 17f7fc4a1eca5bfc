/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat barrier: every rank signals on the board and awaits all others.
 *
 *   SIGNAL 1, AWAIT 1 of the others
 *
 * Cost: one flight of a cache line, n - 1 lines read.
 * Source: the flat scheme of J. M. Mellor-Crummey, M. L. Scott, "Algorithms for scalable
 * synchronization on shared-memory multiprocessors", ACM TOCS 9 (1991), with a line per rank.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	stretto_schedule_on_board(schedule, 0);
	stretto_schedule_meet(schedule, 1);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)bytes;
	(void)window;
	return stretto_flat_cost(group, 0, 0);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_barrier_flat = {
	.name = "flat",
	.collective = STRETTO_BARRIER,
	.build = build,
	.cost = cost,
	.window = window,
	.suits = stretto_group_has_board,
	.mapped = true,
};
