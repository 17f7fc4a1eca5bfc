/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat allreduce: every rank puts its vector on the board, and reduces the vectors of all.
 *
 * Three ranks a, b, c on one node, all alike:
 *
 *   COPY   its own vector to its payload on the board
 *   SIGNAL 1, AWAIT 1 of the others
 *   REDUCE OUT = (a + b) + c, in the order of allreduce_doubling.c
 *
 * Nobody waits for anything after its reduction: the board has other lines for the operations that
 * come next.
 *
 * Cost: one flight of a cache line; a rank reads n vectors and writes two, so it is for short ones.
 * Source: the flat shared memory reduction of R. L. Graham, G. Shipman, "MPI support for multi-core
 * architectures: optimized shared memory collectives", EuroPVM/MPI 2008.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0,
				   shape->count};
	struct stretto_span shown = stretto_schedule_on_board(schedule, shape->count);

	if (shape->count > 0)
		stretto_schedule_copy(schedule, shown, own, STRETTO_NO_STEP, STRETTO_NO_STEP);
	stretto_schedule_meet(schedule, 1);
	int reduce = stretto_schedule_reduce_all(
		schedule, (struct stretto_span){STRETTO_BUF_OUT, 0, shape->count},
		(struct stretto_span){STRETTO_BUF_IN, 0, shape->count}, own, 0);
	stretto_schedule_final(schedule, reduce);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)window;
	return stretto_flat_cost(group, (double)bytes, (double)group->size * (double)bytes);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_allreduce_flat = {
	.name = "flat",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
	.suits = stretto_group_has_board,
	.most = STRETTO_FLAT_BYTES,
	.mapped = true,
	.canonical = true,
};
