/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linear gather: each rank sends its block straight to the root.
 *
 * Three ranks with blocks a, b, c, root 1:
 *
 *   1: OUT1 = b    0 -> 1: OUT0 = a    2 -> 1: OUT2 = c
 *   1 -> 0 and 1 -> 2, without payload: nobody is done before the root has entered
 *
 * The root posts all receives at once: its link is full from the start, and no block travels twice.
 *
 * Cost: 1 round; n-1 messages into the root, one block sent by each other rank; no scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

static void build_root(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_IN, 0, shape->count};

	for (int k = 1; k < shape->size; k++) {
		int peer = (shape->rank + k) % shape->size;

		stretto_schedule_recv(schedule, peer, stretto_block(shape, STRETTO_BUF_OUT, peer),
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
		stretto_schedule_send(schedule, peer, nothing, STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
	if (!shape->in_place)
		stretto_schedule_copy(schedule, stretto_block(shape, STRETTO_BUF_OUT, shape->rank),
				      own, STRETTO_NO_STEP, STRETTO_NO_STEP);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_IN, 0, shape->count};

	if (shape->rank == shape->root) {
		build_root(schedule);
		return;
	}
	stretto_schedule_send(schedule, shape->root, own, STRETTO_NO_STEP, STRETTO_NO_STEP);
	stretto_schedule_recv(schedule, shape->root, nothing, STRETTO_NO_STEP, STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double windows = 1 + stretto_windows_after_first(bytes, window);

	/* every message takes the root's time in turn, a fraction of a latency each */
	return group->link->latency * (1 + (n - 1) * windows / 4) +
	       (n - 1) / n * (double)bytes * group->link->per_byte;
}

/* All ranks send at once whatever the window is: one that needs few messages. */
static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)bytes;
	return (size_t)group->size << 20;
}

const struct stretto_algorithm stretto_gather_linear = {
	.name = "linear",
	.collective = STRETTO_GATHER,
	.build = build,
	.cost = cost,
	.window = window,
};
