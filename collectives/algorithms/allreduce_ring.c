/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring allreduce: reduce-scatter around the ring, then allgather around the ring.
 *
 * The vector is cut into one block a rank. Three ranks with vectors a, b, c, blocks 0 1 2; each
 * rank sends to the next and receives from the one before:
 *
 *   round     rank 0                  rank 1                  rank 2
 *   reduce 0  sends a0                sends b1                sends c2
 *             OUT2 = c2 + a2          OUT0 = a0 + b0          OUT1 = b1 + c1
 *   reduce 1  sends OUT2              sends OUT0              sends OUT1
 *             OUT1 = (b1+c1) + a1     OUT2 = (c2+a2) + b2     OUT0 = (a0+b0) + c0   complete
 *   gather 0  sends OUT1, gets OUT0   sends OUT2, gets OUT1   sends OUT0, gets OUT2
 *   gather 1  sends OUT0, gets OUT2   sends OUT1, gets OUT0   sends OUT2, gets OUT1
 *
 * What is received is the sum of the ranks before us and stands on the left. Each block is reduced
 * along one path and then copied, so all ranks have the same bits. Out of place, the first sends
 * and all reductions read IN; nothing is copied first.
 *
 * Cost: 2(n-1) rounds; 2(n-1)/n of the vector sent by each rank; (n-1)/n of a vector of scratch,
 * which stays untouched where receives are fused with their reductions.
 * Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69 (2009).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* Steps back along the ring. */
static int back(const struct stretto_shape *shape, int steps)
{
	return (shape->rank + 2 * shape->size - steps) % shape->size;
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	enum stretto_buffer in = shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN;
	size_t count = shape->count;
	int size = shape->size;
	int left = back(shape, 1);
	int right = back(shape, size - 1);
	int ready = STRETTO_NO_STEP; /* the step that makes the next block to send */
	int first_send = STRETTO_NO_STEP;

	for (int s = 0; s < size - 1; s++) {
		int block = back(shape, s);
		int send = stretto_schedule_send(
			schedule, right,
			stretto_part(s == 0 ? in : STRETTO_BUF_OUT, count, size, block), ready,
			STRETTO_NO_STEP);
		if (s == 0)
			first_send = send;
		block = back(shape, s + 1);
		struct stretto_span own = stretto_part(in, count, size, block);
		struct stretto_span partial = stretto_schedule_tmp(schedule, own.count);
		int recv = stretto_schedule_recv(schedule, left, partial, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(schedule,
						stretto_part(STRETTO_BUF_OUT, count, size, block),
						partial, own, recv, STRETTO_NO_STEP);
	}
	stretto_schedule_final(schedule, ready);

	for (int s = 0; s < size - 1; s++) {
		stretto_schedule_send(
			schedule, right,
			stretto_part(STRETTO_BUF_OUT, count, size, back(shape, s + size - 1)),
			ready, STRETTO_NO_STEP);
		/*
		 * The block that comes in was sent on as a partial sum in round s of the first
		 * phase, three steps a round: it may be overwritten once that send is complete.
		 */
		bool was_sent = s > 0 || shape->in_place;
		int sent = first_send == STRETTO_NO_STEP || !was_sent ? STRETTO_NO_STEP
								      : first_send + 3 * s;
		ready = stretto_schedule_recv(
			schedule, left, stretto_part(STRETTO_BUF_OUT, count, size, back(shape, s)),
			sent, STRETTO_NO_STEP);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double block = stretto_window_bytes(bytes, window) / n;
	double flight = 2 * (n - 1) * block * group->link->per_byte;
	double reduction = (n - 1) * block * group->link->per_reduce;

	return 2 * (n - 1) * group->link->latency + flight + reduction +
	       stretto_windows_after_first(bytes, window) * stretto_greater(flight, reduction);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_ring_window(group->size, bytes, group->link->message);
}

const struct stretto_algorithm stretto_allreduce_ring = {
	.name = "ring",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
};
