/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chain reduce: each rank adds its vector to what the rank behind it has, and passes it on.
 *
 * Four ranks with vectors a, b, c, d, root 1; the chain ends at the root:
 *
 *   0 -> 3   3: TMP = d + a
 *   3 -> 2   2: TMP = c + (d+a)
 *   2 -> 1   1: OUT = b + (c+(d+a))
 *
 * A window takes as long as it has hops, but the next one follows right behind it: a long vector
 * goes at the speed of the link, whatever the number of ranks. A message without payload goes from
 * the root to the end of the chain meanwhile: nobody is done before the root has entered.
 *
 * Cost: n-1 rounds; one vector sent by each rank; two windows of scratch, of which the one that is
 * received stays untouched where receives are fused.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};
	struct stretto_span own = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0,
				   shape->count};
	int size = shape->size;
	int behind = (shape->rank + 1) % size;
	int ahead = (shape->rank + size - 1) % size; /* nearer to the root */
	bool is_root = shape->rank == shape->root;
	int entered = STRETTO_NO_STEP;
	int ready = STRETTO_NO_STEP;

	if (!is_root)
		entered = stretto_schedule_recv(schedule, ahead, nothing, STRETTO_NO_STEP,
						STRETTO_NO_STEP);
	if (behind != shape->root) {
		struct stretto_span theirs = stretto_schedule_tmp(schedule, shape->count);
		struct stretto_span sum = {STRETTO_BUF_OUT, 0, shape->count};

		if (!is_root)
			sum = stretto_schedule_tmp(schedule, shape->count);
		stretto_schedule_send(schedule, behind, nothing, entered, STRETTO_NO_STEP);
		int recv = stretto_schedule_recv(schedule, behind, theirs, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(schedule, sum, own, theirs, recv, STRETTO_NO_STEP);
		own = sum;
	}
	if (is_root)
		stretto_schedule_final(schedule, ready);
	else
		stretto_schedule_send(schedule, ahead, own, ready, STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double hops = group->size - 1;
	double part = stretto_window_bytes(bytes, window);
	double flight = part * group->link->per_byte;
	double reduction = part * group->link->per_reduce;

	return hops * (group->link->latency + flight + reduction) +
	       stretto_windows_after_first(bytes, window) * stretto_greater(flight, reduction);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_pipeline_window(group->size - 1, group->link->latency, group->link->per_byte,
				       bytes);
}

const struct stretto_algorithm stretto_reduce_chain = {
	.name = "chain",
	.collective = STRETTO_REDUCE,
	.build = build,
	.cost = cost,
	.window = window,
};
