/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chain broadcast: each rank gets the data from the rank before it and gives it to the next.
 *
 * Four ranks, root 1:
 *
 *   down  1 -> 2 -> 3 -> 0
 *   up    0 confirms to 3, 3 to 2, 2 to 1; the confirmations carry nothing
 *
 * A window takes as long as it has hops, but the next one follows right behind it: a long vector
 * goes at the speed of the link, whatever the number of ranks. The confirmations tell the root that
 * all ranks have entered with the same arguments.
 *
 * Cost: n-1 rounds down and as many up; one vector sent by each rank; no scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	const struct stretto_span nothing = {STRETTO_BUF_OUT, 0, 0};
	struct stretto_span data = {STRETTO_BUF_OUT, 0, shape->count};
	int size = shape->size;
	int next = (shape->rank + 1) % size;
	int previous = (shape->rank + size - 1) % size;
	int got = STRETTO_NO_STEP;
	int confirmed = STRETTO_NO_STEP;

	if (shape->rank != shape->root)
		got = stretto_schedule_recv(schedule, previous, data, STRETTO_NO_STEP,
					    STRETTO_NO_STEP);
	if (next != shape->root) {
		stretto_schedule_send(schedule, next, data, got, STRETTO_NO_STEP);
		confirmed = stretto_schedule_recv(schedule, next, nothing, STRETTO_NO_STEP,
						  STRETTO_NO_STEP);
	}
	if (shape->rank != shape->root)
		stretto_schedule_send(schedule, previous, nothing, got, confirmed);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double hops = group->size - 1;
	double flight = stretto_window_bytes(bytes, window) * group->link->per_byte;

	return hops * (2 * group->link->latency + flight) +
	       stretto_windows_after_first(bytes, window) * flight;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_pipeline_window(group->size - 1, group->link->latency, group->link->per_byte,
				       bytes);
}

const struct stretto_algorithm stretto_broadcast_chain = {
	.name = "chain",
	.collective = STRETTO_BROADCAST,
	.build = build,
	.cost = cost,
	.window = window,
};
