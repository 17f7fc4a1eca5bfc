/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairwise alltoall of blocks of unequal length: any two ranks exchange theirs directly.
 *
 * In turn k the ranks i and j with i + j = k (mod n) are partners. Three ranks, block "01" is what
 * 0 has for 1, and may be empty:
 *
 *   turn 0   0 keeps 00          1 and 2 exchange 12, 21
 *   turn 1   0 and 1: 01, 10     2 keeps 22
 *   turn 2   0 and 2: 02, 20     1 keeps 11
 *
 * Receives are all posted at once; the sends go out one after the other, so that a rank is not
 * overrun by all others. In place, the block that goes out is copied aside first. The messages are
 * those of alltoallv_linear.c: one from each rank to each, so ranks need not take the same one.
 *
 * Cost: n-1 messages sent by each rank, one after the other; no scratch, or in place all blocks but
 * the rank's own.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* Exchanges blocks with the peer once the send `before` is complete; returns our send. */
static int exchange(struct stretto_schedule *schedule, int peer, int before)
{
	const struct stretto_shape *shape = &schedule->shape;
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
	return stretto_schedule_send(schedule, peer, ours, saved, before);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int sent = STRETTO_NO_STEP;

	if (!shape->in_place)
		stretto_schedule_copy(schedule, stretto_own(shape, STRETTO_BUF_OUT),
				      stretto_own(shape, STRETTO_BUF_IN), STRETTO_NO_STEP,
				      STRETTO_NO_STEP);
	for (int k = 0; k < shape->size; k++) {
		int peer = (k - shape->rank + shape->size) % shape->size;

		if (peer != shape->rank)
			sent = exchange(schedule, peer, sent);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double share = group->nodes > 1 ? group->most : 1; /* of a node's way to the others */

	(void)window;
	return (n - 1) * (group->link->latency + (double)bytes / n * group->link->per_byte * share);
}

const struct stretto_algorithm stretto_alltoallv_pairwise = {
	.name = "pairwise",
	.collective = STRETTO_ALLTOALLV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
	.alike = true,
};
