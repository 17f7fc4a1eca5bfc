/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binomial scatter: blocks go down a binomial tree, those of a subtree in one message.
 *
 * The tree is that of the binomial gather. Five ranks, the root 0 has blocks a to e:
 *
 *   0 -> 4: OUT = e     0 -> 2: TMP = c d
 *   0 -> 1: OUT = b     2 -> 3: OUT = d      2: OUT = c
 *
 * The root sends single blocks from their places, and packs longer messages first. Confirmations
 * without payload come back up the tree: the root is done when all have entered.
 *
 * Cost: ceil(log2 n) rounds down and as many up; the root sends n-1 blocks, others those of their
 * subtree but one; as many blocks of scratch.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

/* The root's message for the subtree of v; *packed is the step that makes it. */
static struct stretto_span pack(struct stretto_schedule *schedule, int v, int *packed)
{
	const struct stretto_shape *shape = &schedule->shape;
	int blocks = stretto_subtree(v, shape->size);

	*packed = STRETTO_NO_STEP;
	if (blocks == 1)
		return stretto_block(shape, STRETTO_BUF_IN, (v + shape->root) % shape->size);
	struct stretto_span all = stretto_schedule_tmp(schedule, (size_t)blocks * shape->count);
	for (int i = 0; i < blocks; i++) {
		struct stretto_span place = {STRETTO_BUF_TMP, all.first + (size_t)i * shape->count,
					     shape->count};

		*packed = stretto_schedule_copy(
			schedule, place,
			stretto_block(shape, STRETTO_BUF_IN, (v + i + shape->root) % shape->size),
			*packed, STRETTO_NO_STEP);
	}
	return all;
}

/* The part of our message, which begins with our own block, that is for the subtree of v + k. */
static struct stretto_span part_of(const struct stretto_shape *shape, struct stretto_span all,
				   int v, int k)
{
	size_t blocks = (size_t)stretto_subtree(v + k, shape->size);

	return (struct stretto_span){STRETTO_BUF_TMP, all.first + (size_t)k * shape->count,
				     blocks * shape->count};
}

/* Sends the children of v their parts, the largest subtree first; returns the last confirmation. */
static int send_down(struct stretto_schedule *schedule, int v, struct stretto_span all, int got)
{
	const struct stretto_shape *shape = &schedule->shape;
	int bit = v == 0 ? 1 << stretto_log2_ceil(shape->size) : v & -v;
	int confirmed = STRETTO_NO_STEP;

	for (int k = bit / 2; k > 0; k /= 2) {
		int ready = got;

		if (v + k >= shape->size)
			continue;
		struct stretto_span part =
			v == 0 ? pack(schedule, k, &ready) : part_of(shape, all, v, k);
		stretto_schedule_send(schedule, (v + k + shape->root) % shape->size, part, ready,
				      STRETTO_NO_STEP);
	}
	for (int k = 1; k < bit && v + k < shape->size; k *= 2) /* the smallest is ready first */
		confirmed = stretto_schedule_recv(schedule, (v + k + shape->root) % shape->size,
						  nothing, confirmed, STRETTO_NO_STEP);
	return confirmed;
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int v = (shape->rank - shape->root + shape->size) % shape->size;
	int parent = ((v & (v - 1)) + shape->root) % shape->size; /* used if v > 0 */
	int blocks = stretto_subtree(v, shape->size);
	struct stretto_span out = {STRETTO_BUF_OUT, 0, shape->count};
	struct stretto_span all = out;
	struct stretto_span own = stretto_block(shape, STRETTO_BUF_IN, shape->rank);
	int got = STRETTO_NO_STEP;

	if (v > 0) {
		if (blocks > 1)
			all = stretto_schedule_tmp(schedule, (size_t)blocks * shape->count);
		got = stretto_schedule_recv(schedule, parent, all, STRETTO_NO_STEP,
					    STRETTO_NO_STEP);
		own = (struct stretto_span){STRETTO_BUF_TMP, all.first, shape->count};
	}
	int confirmed = send_down(schedule, v, all, got);
	if (blocks > 1 && !shape->in_place)
		stretto_schedule_copy(schedule, out, own, got, STRETTO_NO_STEP);
	if (v > 0)
		stretto_schedule_send(schedule, parent, nothing, got, confirmed);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double all =
		(n - 1) / n * (double)bytes; /* out of the root, the longest half by two hops */

	(void)window; /* every window takes all rounds */
	return 2 * stretto_log2_ceil(group->size) * group->link->latency +
	       2 * all * group->link->per_byte;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_scatter_binomial = {
	.name = "binomial",
	.collective = STRETTO_SCATTER,
	.build = build,
	.cost = cost,
	.window = window,
};
