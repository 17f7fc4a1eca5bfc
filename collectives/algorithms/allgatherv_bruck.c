/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck's allgather of blocks of unequal length: what a rank has doubles in every round.
 *
 * In round k a rank sends all it has to the rank 2^k before it, and gets as much from the rank 2^k
 * behind it; in the last round only what is missing. Four ranks with blocks a, b, c, d, and TMP of
 * each, in which blocks lie from the rank's own on:
 *
 *   round    rank 0           rank 1           rank 2           rank 3
 *   copy     a                b                c                d
 *   0        gets b from 1    gets c from 2    gets d from 3    gets a from 0
 *            a b              b c              c d              d a
 *   1        gets cd from 2   gets da from 3   gets ab from 0   gets bc from 1
 *            a b c d          b c d a          c d a b          d a b c
 *   copy     OUT0 = a, OUT1 = b, OUT2 = c, OUT3 = d
 *
 * Every rank knows all lengths, and so where each block lies in TMP of each rank; but not in OUT,
 * where each rank has displacements of its own. That is why blocks are packed: many short ones are
 * one message.
 *
 * Cost: ceil(log2 n) rounds of one message; all blocks but one sent by each rank; scratch for all
 * blocks, which are copied out of it.
 * Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8 (1997).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* Elements of `blocks` blocks from that of rank `first` on, around the end. */
static size_t length(const struct stretto_shape *shape, int first, int blocks)
{
	size_t sum = 0;

	for (int k = 0; k < blocks; k++)
		sum += stretto_block(shape, STRETTO_BUF_OUT, (first + k) % shape->size).count;
	return sum;
}

/* An empty step that ends two others: a send waits for receives of many rounds. */
static int join(struct stretto_schedule *schedule, int one, int other)
{
	struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

	return stretto_schedule_copy(schedule, nothing, nothing, one, other);
}

/* Copies `blocks` blocks, of which the k-th is that of our rank + k, out of `packed`. */
static void unpack(struct stretto_schedule *schedule, struct stretto_span packed, int k, int blocks,
		   int ready)
{
	const struct stretto_shape *shape = &schedule->shape;

	for (int b = k; b < k + blocks; b++) {
		struct stretto_span place =
			stretto_block(shape, STRETTO_BUF_OUT, (shape->rank + b) % shape->size);

		packed.count = place.count;
		if (place.count > 0)
			stretto_schedule_copy(schedule, place, packed, ready, STRETTO_NO_STEP);
		packed.first += place.count;
	}
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	struct stretto_span own =
		stretto_own(shape, shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN);
	struct stretto_span packed =
		stretto_schedule_tmp(schedule, length(shape, shape->rank, size));
	struct stretto_span place = {packed.buffer, packed.first, own.count};
	int ready = stretto_schedule_copy(schedule, place, own, STRETTO_NO_STEP, STRETTO_NO_STEP);

	if (!shape->in_place)
		stretto_schedule_copy(schedule, stretto_own(shape, STRETTO_BUF_OUT), own,
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
	for (int have = 1; have < size; have *= 2) {
		int blocks = have < size - have ? have : size - have;
		int from = (shape->rank + have) % size;
		struct stretto_span out = packed, in = packed;

		out.count = length(shape, shape->rank, blocks);
		in.first += length(shape, shape->rank, have);
		in.count = length(shape, from, blocks);
		stretto_schedule_send(schedule, (shape->rank + size - have) % size, out, ready,
				      STRETTO_NO_STEP);
		int recv =
			stretto_schedule_recv(schedule, from, in, STRETTO_NO_STEP, STRETTO_NO_STEP);
		unpack(schedule, in, have, blocks, recv);
		ready = join(schedule, ready, recv);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double share = (n - 1) / n * (double)bytes;

	(void)window;
	return stretto_log2_ceil(group->size) * group->link->latency +
	       share * group->link->per_byte + share * group->near->per_byte; /* the copy */
}

const struct stretto_algorithm stretto_allgatherv_bruck = {
	.name = "bruck",
	.collective = STRETTO_ALLGATHERV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
};
