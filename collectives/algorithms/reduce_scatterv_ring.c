/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring reduce_scatter of blocks of unequal length: the partial sum of block b starts at rank b+1 and
 * ends at rank b.
 *
 * Three ranks with vectors a, b, c of blocks 0 1 2, each of its own length and maybe empty; each
 * rank sends to the next:
 *
 *   round  rank 0                  rank 1                  rank 2
 *   0      sends a2                sends b0                sends c1
 *          t0 = c1 + a1            t1 = a2 + b2            t2 = b0 + c0
 *   1      sends t0                sends t1                sends t2
 *          OUT = (b0+c0) + a0      OUT = (c1+a1) + b1      OUT = (a2+b2) + c2
 *
 * Partial sums stay in TMP, so IN is only read; in place, the last reduction writes the rank's own
 * block of IN. What is received is the sum of the ranks before us and stands on the left.
 *
 * Cost: n-1 rounds, each as long as its longest block; all blocks but one sent by each rank; scratch
 * for two vectors at most, of which half is received into and stays untouched where receives are
 * fused with their reductions.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	int left = (shape->rank + size - 1) % size;
	int right = (shape->rank + 1) % size;
	struct stretto_span partial = stretto_block(shape, STRETTO_BUF_IN, left); /* sent next */
	int ready = STRETTO_NO_STEP; /* the step that made it */

	for (int s = 0; s < size - 1; s++) {
		bool last = s == size - 2;
		struct stretto_span own = stretto_block(shape, STRETTO_BUF_IN,
							(shape->rank + 2 * size - s - 2) % size);
		struct stretto_span theirs = stretto_schedule_tmp(schedule, own.count);
		struct stretto_span sum = own;

		if (!last)
			sum = stretto_schedule_tmp(schedule, own.count);
		else if (!shape->in_place)
			sum = stretto_own(shape, STRETTO_BUF_OUT);
		stretto_schedule_send(schedule, right, partial, ready, STRETTO_NO_STEP);
		int recv = stretto_schedule_recv(schedule, left, theirs, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(schedule, sum, theirs, own, recv, STRETTO_NO_STEP);
		partial = sum;
	}
	stretto_schedule_final(schedule, ready);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double sent = (n - 1) / n * (double)bytes;

	(void)window;
	return (n - 1) * group->link->latency + sent * group->link->per_byte +
	       sent * group->link->per_reduce;
}

const struct stretto_algorithm stretto_reduce_scatterv_ring = {
	.name = "ring",
	.collective = STRETTO_REDUCE_SCATTERV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
};
