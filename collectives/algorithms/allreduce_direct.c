/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct allreduce: every rank reduces its share straight out of all ranks' buffers, and writes the
 * result straight into all of them.
 *
 * Three ranks on one node with vectors a, b, c, cut into the shares 0, 1, 2; rank 1:
 *
 *   SIGNAL 1, AWAIT 1 of the others     my buffers are ready, and so are theirs
 *   REDUCE OUT1 of all = (a1 + b1) + c1
 *   SIGNAL 2, AWAIT 2 of the others     all my OUT is written, nobody reads my IN any more
 *
 * In place it works as it stands: share 1 of everyone is read by rank 1 alone, before it is written.
 * A rank whose buffers cannot be mapped publishes a copy instead: it copies what others read before
 * the first signal, and what others wrote after the second; that is its own affair, the others see
 * no difference.
 *
 * Shares begin at multiples of 64 elements, so that no two ranks write one cache line.
 *
 * Cost: two flights of a cache line; each vector is read once and each result written once, by the
 * rank that has the share: 2 passes of n * count / n elements a rank. Unmapped buffers cost up to
 * two passes more over (n - 1) / n of the vector.
 * Source: the "reduce own share, write to all" scheme of XPMEM collectives: N. Jain et al.,
 * "Framework for scalable intra-node collective operations using shared memory", SC 2018.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* What is left and right of a rank's share: what others read, or write. */
static void copy_others(struct stretto_schedule *schedule, struct stretto_span share,
			struct stretto_span to, struct stretto_span from)
{
	size_t end = share.first + share.count, count = schedule->shape.count;

	for (int side = 0; side < 2; side++) {
		size_t first = side ? end : 0, stop = side ? count : share.first;
		struct stretto_span dst = {to.buffer, to.first + first, stop - first};
		struct stretto_span a = {from.buffer, from.first + first, stop - first};

		if (stop > first)
			stretto_schedule_copy(schedule, dst, a, STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span in = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0,
				  shape->count};
	struct stretto_span out = {STRETTO_BUF_OUT, 0, shape->count};
	struct stretto_span share =
		stretto_aligned_part(STRETTO_BUF_OUT, shape->count, shape->size, shape->rank);
	struct stretto_span theirs = {STRETTO_BUF_IN, share.first, share.count};
	struct stretto_span own = {in.buffer, share.first, share.count};
	struct stretto_span shown_in = in, shown_out = out;
	bool in_mapped = shape->in_place ? shape->out_mapped : shape->in_mapped;

	if (!shape->out_mapped)
		shown_out = stretto_schedule_tmp(schedule, shape->count);
	if (!in_mapped)
		shown_in = shape->out_mapped ? stretto_schedule_tmp(schedule, shape->count)
					     : shown_out; /* as in place: read, then written */
	stretto_schedule_publish(schedule, shown_in, shown_out);
	if (!in_mapped)
		copy_others(schedule, share, shown_in, in);
	stretto_schedule_meet(schedule, 1);
	stretto_schedule_final(schedule, stretto_schedule_reduce_all(schedule, share, theirs, own,
								     STRETTO_STEP_TO_ALL));
	stretto_schedule_meet(schedule, 2);
	if (!shape->out_mapped)
		copy_others(schedule, share, out, shown_out);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)window;
	return stretto_direct_cost(group, 2, 2 * (double)bytes);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return STRETTO_DIRECT_WINDOW;
}

const struct stretto_algorithm stretto_allreduce_direct = {
	.name = "direct",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
	.suits = stretto_group_has_board,
	.mapped = true,
	.canonical = true,
};
