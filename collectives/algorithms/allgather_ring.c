/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring allgather: every block travels once around the ring.
 *
 * Three ranks with blocks a, b, c; each rank sends to the next:
 *
 *   round    rank 0             rank 1             rank 2
 *   copy     OUT0 = a           OUT1 = b           OUT2 = c          (not in place)
 *   0        sends a, gets c    sends b, gets a    sends c, gets b
 *   1        sends c, gets b    sends a, gets c    sends b, gets a
 *
 * Every block arrives in its place in OUT and is sent on from there.
 *
 * Cost: n-1 rounds; n-1 blocks sent by each rank; no scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	size_t rank = (size_t)shape->rank;
	struct stretto_span own = {STRETTO_BUF_OUT, rank * shape->stride, shape->count};
	int got = STRETTO_NO_STEP;

	if (!shape->in_place) {
		struct stretto_span place = own;
		own = (struct stretto_span){STRETTO_BUF_IN, 0, shape->count};
		stretto_schedule_copy(schedule, place, own, STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
	for (int s = 0; s < size - 1; s++) {
		size_t block = (size_t)((shape->rank + size - s - 1) % size);
		stretto_schedule_send(schedule, (shape->rank + 1) % size, own, got,
				      STRETTO_NO_STEP);
		own = (struct stretto_span){STRETTO_BUF_OUT, block * shape->stride, shape->count};
		got = stretto_schedule_recv(schedule, (shape->rank + size - 1) % size, own,
					    STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double flight = (n - 1) / n * stretto_window_bytes(bytes, window) * group->link->per_byte;

	return (n - 1) * group->link->latency + flight +
	       stretto_windows_after_first(bytes, window) * flight;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_ring_window(group->size, bytes, group->link->message);
}

const struct stretto_algorithm stretto_allgather_ring = {
	.name = "ring",
	.collective = STRETTO_ALLGATHER,
	.build = build,
	.cost = cost,
	.window = window,
};
