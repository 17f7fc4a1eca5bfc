/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linear scatter: the root sends each rank its block.
 *
 * Three ranks, the root 1 has blocks a, b, c:
 *
 *   1: OUT = b    1 -> 2: OUT = c    1 -> 0: OUT = a
 *   0 and 2 confirm to 1, without payload: the root is done when all have entered
 *
 * All sends are posted at once: the root's link is full from the start, and no block travels twice.
 *
 * Cost: 2 rounds, the second without payload; n-1 blocks sent by the root; no scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

static void build_root(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_OUT, 0, shape->count};

	for (int k = 1; k < shape->size; k++) {
		int peer = (shape->rank + k) % shape->size;

		stretto_schedule_send(schedule, peer, stretto_block(shape, STRETTO_BUF_IN, peer),
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
		stretto_schedule_recv(schedule, peer, nothing, STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
	if (!shape->in_place)
		stretto_schedule_copy(schedule, own,
				      stretto_block(shape, STRETTO_BUF_IN, shape->rank),
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_OUT, 0, shape->count};

	if (shape->rank == shape->root) {
		build_root(schedule);
		return;
	}
	int got =
		stretto_schedule_recv(schedule, shape->root, own, STRETTO_NO_STEP, STRETTO_NO_STEP);
	stretto_schedule_send(schedule, shape->root, nothing, got, STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double windows = 1 + stretto_windows_after_first(bytes, window);

	/* every message takes the root's time in turn, a fraction of a latency each */
	return group->link->latency * (2 + (n - 1) * windows / 4) +
	       (n - 1) / n * (double)bytes * group->link->per_byte;
}

/* All blocks are sent at once whatever the window is: one that needs few messages. */
static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)bytes;
	return (size_t)group->size << 20;
}

const struct stretto_algorithm stretto_scatter_linear = {
	.name = "linear",
	.collective = STRETTO_SCATTER,
	.build = build,
	.cost = cost,
	.window = window,
};
