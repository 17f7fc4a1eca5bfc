/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck's allgather: what a rank has doubles in every round, on any number of ranks.
 *
 * In round k a rank sends all it has to the rank 2^k before it, and gets as much from the rank 2^k
 * behind it; in the last round only what is missing. Five ranks with blocks a, b, c, d, e:
 *
 *   round    rank 0           rank 1           rank 2           rank 3           rank 4
 *   copy     a                b                c                d                e
 *   0        gets b from 1    gets c from 2    gets d from 3    gets e from 4    gets a from 0
 *   1        gets cd from 2   gets de from 3   gets e a from 4  gets ab from 0   gets bc from 1
 *   2        gets e from 4    gets a from 0    gets b from 1    gets c from 2    gets d from 3
 *
 * Blocks lie in OUT in the order of the ranks and not, as in the paper, from the rank's own on: so
 * nothing is turned at the end, and what wraps around (e a) is two messages. Where OUT is a window
 * of longer blocks, neighbours do not touch, and each block is a message.
 *
 * Cost: ceil(log2 n) rounds; n-1 blocks sent by each rank; no scratch.
 * Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8 (1997).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* The longest span of OUT that begins at block `first` and holds at most `blocks`. */
static struct stretto_span run_of(const struct stretto_shape *shape, int first, int blocks,
				  int *taken)
{
	struct stretto_span run = stretto_block(shape, STRETTO_BUF_OUT, first);
	int straight = shape->size - first;

	*taken = shape->stride > shape->count ? 1 : blocks < straight ? blocks : straight;
	run.count *= (size_t)*taken;
	return run;
}

/* Sends `blocks` blocks from our own on, once they are there. */
static void send_blocks(struct stretto_schedule *schedule, int peer, int blocks, int ready)
{
	const struct stretto_shape *shape = &schedule->shape;
	int taken;

	for (int b = 0; b < blocks; b += taken) {
		struct stretto_span run =
			run_of(shape, (shape->rank + b) % shape->size, blocks - b, &taken);

		stretto_schedule_send(schedule, peer, run, ready, STRETTO_NO_STEP);
	}
}

/* An empty step that ends two others: a send waits for receives of many rounds. */
static int join(struct stretto_schedule *schedule, int one, int other)
{
	struct stretto_span nothing = {STRETTO_BUF_OUT, 0, 0};

	if (one == STRETTO_NO_STEP)
		return other;
	return stretto_schedule_copy(schedule, nothing, nothing, one, other);
}

/* Receives `blocks` blocks from the peer's own on; returns what is complete when they are there. */
static int recv_blocks(struct stretto_schedule *schedule, int peer, int blocks, int ready)
{
	const struct stretto_shape *shape = &schedule->shape;
	int taken;

	for (int b = 0; b < blocks; b += taken) {
		struct stretto_span run =
			run_of(shape, (peer + b) % shape->size, blocks - b, &taken);
		int recv = stretto_schedule_recv(schedule, peer, run, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);

		ready = join(schedule, ready, recv);
	}
	return ready;
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	int ready = STRETTO_NO_STEP; /* what made all blocks that the rank has */

	if (!shape->in_place)
		ready = stretto_schedule_copy(
			schedule, stretto_block(shape, STRETTO_BUF_OUT, shape->rank),
			(struct stretto_span){STRETTO_BUF_IN, 0, shape->count}, STRETTO_NO_STEP,
			STRETTO_NO_STEP);
	for (int have = 1; have < size; have *= 2) {
		int blocks = have < size - have ? have : size - have;

		send_blocks(schedule, (shape->rank + size - have) % size, blocks, ready);
		ready = recv_blocks(schedule, (shape->rank + have) % size, blocks, ready);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double share = group->nodes > 1 ? group->most : 1; /* of a node's way to the others */

	(void)window; /* every window takes all rounds */
	return stretto_log2_ceil(group->size) * group->link->latency +
	       (n - 1) / n * (double)bytes * group->link->per_byte * share;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_allgather_bruck = {
	.name = "bruck",
	.collective = STRETTO_ALLGATHER,
	.build = build,
	.cost = cost,
	.window = window,
};
