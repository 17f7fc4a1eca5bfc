/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring allgather of blocks of unequal length: every block travels once around the ring.
 *
 * Three ranks with blocks a of 2, b of 0 and c of 1 elements; each rank sends to the next:
 *
 *   round    rank 0             rank 1             rank 2
 *   copy     OUT0 = a           (nothing)          OUT2 = c          (not in place)
 *   0        sends a, gets c    sends b, gets a    sends c, gets b
 *   1        sends c, gets b    sends a, gets c    sends b, gets a
 *
 * Every block arrives in its place in OUT and is sent on from there. An empty one is a message too:
 * it tells that its rank has entered.
 *
 * Cost: n-1 rounds, each as long as its longest block; all blocks but one sent by each rank; no
 * scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	struct stretto_span own = stretto_own(shape, STRETTO_BUF_OUT);
	int got = STRETTO_NO_STEP;

	if (!shape->in_place) {
		struct stretto_span place = own;

		own = stretto_own(shape, STRETTO_BUF_IN);
		stretto_schedule_copy(schedule, place, own, STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
	for (int s = 0; s < size - 1; s++) {
		int block = (shape->rank + size - s - 1) % size;

		stretto_schedule_send(schedule, (shape->rank + 1) % size, own, got,
				      STRETTO_NO_STEP);
		own = stretto_block(shape, STRETTO_BUF_OUT, block);
		got = stretto_schedule_recv(schedule, (shape->rank + size - 1) % size, own,
					    STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;

	(void)window;
	return (n - 1) * group->link->latency + (n - 1) / n * (double)bytes * group->link->per_byte;
}

const struct stretto_algorithm stretto_allgatherv_ring = {
	.name = "ring",
	.collective = STRETTO_ALLGATHERV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
};
