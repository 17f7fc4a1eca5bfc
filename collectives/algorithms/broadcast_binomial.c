/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binomial broadcast: in each round every rank that has the data gives it to one that has not.
 *
 * Ranks count from the root on; v is that number. The parent of v is v without its lowest set bit.
 * Four ranks, root 0:
 *
 *   down 1  0 -> 2
 *   down 2  0 -> 1, 2 -> 3
 *   up      3 confirms to 2, then 2 to 0; 1 confirms to 0
 *
 * The confirmations carry nothing. With them the root is done only when all ranks have entered, so
 * that it sees a rank that is missing or called with other arguments.
 *
 * Cost: ceil(log2 n) rounds down and as many up; up to ceil(log2 n) vectors sent by a rank; no
 * scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	const struct stretto_span nothing = {STRETTO_BUF_OUT, 0, 0};
	struct stretto_span data = {STRETTO_BUF_OUT, 0, shape->count};
	int size = shape->size;
	int v = (shape->rank - shape->root + size) % size;
	int bit = v == 0 ? 1 << stretto_log2_ceil(size) : v & -v; /* children are v + lower bits */
	int parent = (v - bit + shape->root + size) % size;       /* used if v > 0 */
	int got = STRETTO_NO_STEP;
	int confirmed = STRETTO_NO_STEP;

	if (v > 0)
		got = stretto_schedule_recv(schedule, parent, data, STRETTO_NO_STEP,
					    STRETTO_NO_STEP);
	for (int k = bit / 2; k > 0; k /= 2) /* the largest subtree first */
		if (v + k < size)
			stretto_schedule_send(schedule, (v + k + shape->root) % size, data, got,
					      STRETTO_NO_STEP);
	for (int k = 1; k < bit; k *= 2) /* the smallest subtree is ready first */
		if (v + k < size)
			confirmed = stretto_schedule_recv(schedule, (v + k + shape->root) % size,
							  nothing, confirmed, STRETTO_NO_STEP);
	if (v > 0)
		stretto_schedule_send(schedule, parent, nothing, got, confirmed);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)window; /* every window takes all rounds through the root's link */
	return stretto_log2_ceil(group->size) *
	       (2 * group->link->latency + (double)bytes * group->link->per_byte);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_broadcast_binomial = {
	.name = "binomial",
	.collective = STRETTO_BROADCAST,
	.build = build,
	.cost = cost,
	.window = window,
};
