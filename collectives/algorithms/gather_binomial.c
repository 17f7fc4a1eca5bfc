/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binomial gather: blocks go up a binomial tree, those of a subtree in one message.
 *
 * Ranks count from the root: v = rank - root (mod n). The subtree of v is v and the ranks after it,
 * as many as its lowest bit is worth. Five ranks, root 0, blocks a to e:
 *
 *   1 -> 0: OUT1 = b    3 -> 2: TMP = c d
 *   2 -> 0: c d         4 -> 0: OUT4 = e
 *
 * The root takes single blocks straight to their places and copies those of longer messages there.
 * A message without payload goes down the tree meanwhile: nobody is done before the root has
 * entered.
 *
 * Cost: ceil(log2 n) rounds; a rank sends the blocks of its subtree, at most n/2; as many blocks of
 * scratch, n-1 at most at the root.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

/* The root's place for a message: that of a single block, else scratch. */
static struct stretto_span place_of(struct stretto_schedule *schedule, int v, int blocks)
{
	const struct stretto_shape *shape = &schedule->shape;

	if (blocks == 1)
		return stretto_block(shape, STRETTO_BUF_OUT, (v + shape->root) % shape->size);
	return stretto_schedule_tmp(schedule, (size_t)blocks * shape->count);
}

/* Copies the blocks of v and those after it to their places, once `got` has brought them. */
static void spread(struct stretto_schedule *schedule, struct stretto_span from, int v, int got)
{
	const struct stretto_shape *shape = &schedule->shape;
	int blocks = stretto_subtree(v, shape->size);

	from.count = shape->count;
	for (int i = 0; blocks > 1 && i < blocks; i++, from.first += shape->count)
		stretto_schedule_copy(
			schedule,
			stretto_block(shape, STRETTO_BUF_OUT, (v + i + shape->root) % shape->size),
			from, got, STRETTO_NO_STEP);
}

static void build_root(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_IN, 0, shape->count};

	for (int v = 1; v < shape->size; v *= 2) {
		int peer = (v + shape->root) % shape->size;
		struct stretto_span place = place_of(schedule, v, stretto_subtree(v, shape->size));

		stretto_schedule_send(schedule, peer, nothing, STRETTO_NO_STEP, STRETTO_NO_STEP);
		int got = stretto_schedule_recv(schedule, peer, place, STRETTO_NO_STEP,
						STRETTO_NO_STEP);
		spread(schedule, place, v, got);
	}
	if (!shape->in_place)
		stretto_schedule_copy(schedule, stretto_block(shape, STRETTO_BUF_OUT, shape->rank),
				      own, STRETTO_NO_STEP, STRETTO_NO_STEP);
}

/* Collects the subtree of v in scratch; returns the last of its steps, which waits for all. */
static int collect(struct stretto_schedule *schedule, int v, int entered, struct stretto_span all)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = {STRETTO_BUF_IN, 0, shape->count};
	struct stretto_span part = {STRETTO_BUF_TMP, all.first, shape->count};
	int last = stretto_schedule_copy(schedule, part, own, STRETTO_NO_STEP, STRETTO_NO_STEP);

	for (int k = 1; k < (v & -v) && v + k < shape->size; k *= 2) {
		int peer = (v + k + shape->root) % shape->size;

		part.first = all.first + (size_t)k * shape->count;
		part.count = (size_t)stretto_subtree(v + k, shape->size) * shape->count;
		stretto_schedule_send(schedule, peer, nothing, entered, STRETTO_NO_STEP);
		last = stretto_schedule_recv(schedule, peer, part, last, STRETTO_NO_STEP);
	}
	return last;
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int v = (shape->rank - shape->root + shape->size) % shape->size;
	int parent = ((v & (v - 1)) + shape->root) % shape->size; /* used if v > 0 */
	int blocks = stretto_subtree(v, shape->size);
	struct stretto_span all = {STRETTO_BUF_IN, 0, shape->count};
	int ready = STRETTO_NO_STEP;

	if (v == 0) {
		build_root(schedule);
		return;
	}
	int entered =
		stretto_schedule_recv(schedule, parent, nothing, STRETTO_NO_STEP, STRETTO_NO_STEP);
	if (blocks > 1) {
		all = stretto_schedule_tmp(schedule, (size_t)blocks * shape->count);
		ready = collect(schedule, v, entered, all);
	}
	stretto_schedule_send(schedule, parent, all, ready, STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;
	double all = (n - 1) / n * (double)bytes; /* into the root, the longest half by two hops */

	(void)window; /* every window takes all rounds */
	return stretto_log2_ceil(group->size) * group->link->latency +
	       2 * all * group->link->per_byte;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_gather_binomial = {
	.name = "binomial",
	.collective = STRETTO_GATHER,
	.build = build,
	.cost = cost,
	.window = window,
};
