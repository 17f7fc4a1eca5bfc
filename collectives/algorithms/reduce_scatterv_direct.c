/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct reduce_scatter of blocks of unequal length: every rank sends each block straight to its
 * rank, which adds what it gets in the canonical order of algorithm.h.
 *
 * Five ranks; the inputs for rank 2 are a, b, c, d, e, of which c is its own. One rank is too many for
 * a power of two, so the first pair is added before neighbours are:
 *
 *   gets a, b, d, e in scratch
 *   a = a + b        left are (a+b), c, d, e
 *   a = a + c        d = d + e
 *   OUT = a + d
 *
 * Cost: 1 round; n-1 messages, all blocks but one sent by each rank; scratch for n of the rank's own
 * block, of which about half stays untouched where receives are fused with their reductions.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* What is to be added. */
struct operand {
	struct stretto_span span;
	int ready; /* the step that makes it; STRETTO_NO_STEP for our input */
	bool sum;  /* in scratch, and no longer what was received */
};

static struct operand input_of(struct stretto_schedule *schedule, int rank)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_span own = stretto_own(shape, STRETTO_BUF_IN);
	struct operand input = {own, STRETTO_NO_STEP, false};

	if (rank == shape->rank)
		return input;
	input.span = stretto_schedule_tmp(schedule, own.count);
	input.ready =
		stretto_schedule_recv(schedule, rank, input.span, STRETTO_NO_STEP, STRETTO_NO_STEP);
	return input;
}

/*
 * Where a sum goes: into a sum that it replaces. Else, where one operand is our input, into scratch
 * of its own, and of two that were received, into the left one: so one receive is fused.
 */
static struct stretto_span place_of(struct stretto_schedule *schedule, const struct operand *left,
				    const struct operand *right)
{
	if (left->sum)
		return left->span;
	if (right->sum)
		return right->span;
	if (left->ready == STRETTO_NO_STEP || right->ready == STRETTO_NO_STEP)
		return stretto_schedule_tmp(schedule, left->span.count);
	return left->span;
}

static struct operand add(struct stretto_schedule *schedule, struct operand left,
			  struct operand right)
{
	struct operand sum = {place_of(schedule, &left, &right), STRETTO_NO_STEP, true};

	sum.ready = stretto_schedule_reduce(schedule, sum.span, left.span, right.span, left.ready,
					    right.ready);
	return sum;
}

/* The sum of `width` of what is left when the pairs of the ranks too many are added, from i on. */
static struct operand sum_of(struct stretto_schedule *schedule, int i, int width)
{
	int extras = schedule->shape.size - (1 << stretto_log2_floor(schedule->shape.size));
	struct operand left;

	if (width == 1 && i >= extras)
		return input_of(schedule, i + extras);
	left = width == 1 ? input_of(schedule, 2 * i) : sum_of(schedule, i, width / 2);
	return add(schedule, left,
		   width == 1 ? input_of(schedule, 2 * i + 1)
			      : sum_of(schedule, i + width / 2, width / 2));
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int half = 1 << (stretto_log2_floor(shape->size) - 1);
	struct operand left, right;

	for (int k = 1; k < shape->size; k++) {
		int peer = (shape->rank + k) % shape->size;

		stretto_schedule_send(schedule, peer, stretto_block(shape, STRETTO_BUF_IN, peer),
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
	}
	left = sum_of(schedule, 0, half);
	right = sum_of(schedule, half, half);
	stretto_schedule_final(
		schedule,
		stretto_schedule_reduce(
			schedule,
			stretto_own(shape, shape->in_place ? STRETTO_BUF_IN : STRETTO_BUF_OUT),
			left.span, right.span, left.ready, right.ready));
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double n = group->size;

	(void)window;
	return stretto_cost_at_once(group, bytes) +
	       (n - 1) / n * (double)bytes * group->link->per_reduce;
}

const struct stretto_algorithm stretto_reduce_scatterv_direct = {
	.name = "direct",
	.collective = STRETTO_REDUCE_SCATTERV,
	.build = build,
	.cost = cost,
	.window = stretto_no_window,
	.canonical = true,
};
