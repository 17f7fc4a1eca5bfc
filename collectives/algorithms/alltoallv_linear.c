/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linear alltoall of blocks of unequal length: every rank sends all its blocks at once.
 *
 * Three ranks, block "01" is what 0 has for 1, and may be empty:
 *
 *   0 keeps 00, sends 01 and 02, gets 10 and 20
 *   1 keeps 11, sends 12 and 10, gets 21 and 01
 *   2 keeps 22, sends 20 and 21, gets 02 and 12
 *
 * Each rank begins with the one behind it, so that they do not all begin with the same. In place,
 * the blocks that go out are copied aside first. The messages are those of alltoallv_pairwise.c, so
 * ranks need not take the same one.
 *
 * Cost: 1 round; n-1 messages sent by each rank; no scratch, or in place all blocks but the rank's
 * own.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;

	for (int k = 1; k < shape->size; k++) {
		int peer = (shape->rank + k) % shape->size;
		struct stretto_span theirs = stretto_block(shape, STRETTO_BUF_OUT, peer);
		struct stretto_span ours;
		int saved = STRETTO_NO_STEP;

		if (shape->in_place) {
			ours = stretto_schedule_tmp(schedule, theirs.count);
			saved = stretto_schedule_copy(schedule, ours, theirs, STRETTO_NO_STEP,
						      STRETTO_NO_STEP);
		} else {
			ours = stretto_block(shape, STRETTO_BUF_IN, peer);
		}
		stretto_schedule_recv(schedule, peer, theirs, saved, STRETTO_NO_STEP);
		stretto_schedule_send(schedule, peer, ours, saved, STRETTO_NO_STEP);
	}
	if (!shape->in_place)
		stretto_schedule_copy(schedule, stretto_own(shape, STRETTO_BUF_OUT),
				      stretto_own(shape, STRETTO_BUF_IN), STRETTO_NO_STEP,
				      STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)window;
	return stretto_cost_at_once(group, bytes);
}

const struct stretto_algorithm stretto_alltoallv_linear = {
	.name = "linear",
	.collective = STRETTO_ALLTOALLV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
	.alike = true,
};
