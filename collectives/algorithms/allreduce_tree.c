/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Double binary tree: two trees, each reduces one half of the vector up and broadcasts it down.
 *
 * The nodes of a tree are numbered 1..n in order, so that the left subtree of a node holds lower
 * numbers and the right one higher; odd numbers are leaves. Rank r is number r+1 in the first tree
 * and number r+2 (n+1 is 1) in the second, so no rank has children in both, and the work is spread
 * evenly. Four ranks a, b, c, d:
 *
 *   first half:      number 4 = rank 3          second half:     number 4 = rank 2
 *                    number 2 = rank 1                           number 2 = rank 0
 *                   1 = rank 0, 3 = rank 2                      1 = rank 3, 3 = rank 1
 *
 *   first half, up:    1 <- 0: OUT = a + b;  1 <- 2: OUT = (a+b) + c;  3 <- 1: ((a+b)+c) + d
 *   first half, down:  3 -> 1: OUT;  1 -> 0 and 1 -> 2: OUT
 *   second half, up:   0 <- 3: OUT = d + a;  0 <- 1: OUT = (d+a) + b;  2 <- 0: ((d+a)+b) + c
 *   second half, down: 2 -> 0: OUT;  0 -> 3 and 0 -> 1: OUT
 *
 * What comes from the left child stands on the left. A half is reduced to its end at one rank and
 * then copied, so all ranks have the same bits.
 *
 * Cost: 2 floor(log2 n) rounds; at most two vectors sent by each rank; at most one vector of
 * scratch. Long vectors are pipelined by windows.
 * Source: P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast,
 * reduction and scan", Parallel Computing 35 (2009).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* A node's neighbours as ranks; -1 where there is none. */
struct node {
	int parent;
	int left;
	int right;
};

/* The lowest set bit: twice the distance from a node to its left child. */
static int low_bit(int number)
{
	return number & -number;
}

/* The rank that has this number in tree 0 or 1; -1 for number 0, which stands for none. */
static int rank_of(int number, int size, int tree)
{
	return number == 0 ? -1 : (number - 1 + size - tree) % size;
}

/* The right child: the root of the in-order tree of the numbers above, as far as there are any. */
static int right_child(int number, int size)
{
	int step = low_bit(number) / 2;
	while (step > 0 && number + step > size)
		step /= 2;
	return step > 0 ? number + step : 0;
}

/* The parent: the nearest higher level, past numbers that do not exist. */
static int parent_of(int number, int size)
{
	if (number == 1 << stretto_log2_floor(size)) /* the root */
		return 0;
	do
		number = (number - low_bit(number)) | (2 * low_bit(number));
	while (number > size);
	return number;
}

static struct node find_node(const struct stretto_shape *shape, int tree)
{
	int number = (shape->rank + tree) % shape->size + 1;
	struct node node = {
		.parent = rank_of(parent_of(number, shape->size), shape->size, tree),
		.left = rank_of(number - low_bit(number) / 2, shape->size, tree),
		.right = rank_of(right_child(number, shape->size), shape->size, tree),
	};
	if (low_bit(number) == 1)
		node.left = -1;
	return node;
}

/* One half of the vector through one of the trees. */
static void build_half(struct stretto_schedule *schedule, int tree)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct node node = find_node(shape, tree);
	struct stretto_span out = stretto_part(STRETTO_BUF_OUT, shape->count, 2, tree);
	struct stretto_span partial = out;
	int children[2] = {node.left, node.right};
	int ready = STRETTO_NO_STEP; /* the step that makes the partial result, then the result */

	if (!shape->in_place)
		partial.buffer = STRETTO_BUF_IN;
	for (int k = 0; k < 2; k++) {
		if (children[k] < 0)
			continue;
		struct stretto_span theirs = stretto_schedule_tmp(schedule, out.count);
		int recv = stretto_schedule_recv(schedule, children[k], theirs, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(schedule, out, k == 0 ? theirs : partial,
						k == 0 ? partial : theirs, recv, ready);
		partial = out;
	}
	if (node.parent < 0) {
		stretto_schedule_final(schedule, ready);
	} else {
		int sent = stretto_schedule_send(schedule, node.parent, partial, ready,
						 STRETTO_NO_STEP);
		ready = stretto_schedule_recv(schedule, node.parent, out,
					      partial.buffer == STRETTO_BUF_OUT ? sent
										: STRETTO_NO_STEP,
					      STRETTO_NO_STEP);
	}
	for (int k = 0; k < 2; k++)
		if (children[k] >= 0)
			stretto_schedule_send(schedule, children[k], out, ready, STRETTO_NO_STEP);
}

static void build(struct stretto_schedule *schedule)
{
	build_half(schedule, 0);
	build_half(schedule, 1);
}

/*
 * Each hop up brings two children's halves in turn, each hop down takes two away. In the steady
 * state a rank sends and receives up to two vectors a window and reduces one.
 */
static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double depth = stretto_log2_floor(group->size);
	double vector = stretto_window_bytes(bytes, window);
	double flight = 2 * vector * group->link->per_byte;
	double reduction = vector * group->link->per_reduce;

	return depth * (2 * group->link->latency + flight + reduction) +
	       stretto_windows_after_first(bytes, window) * stretto_greater(flight, reduction);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_pipeline_window(2 * stretto_log2_floor(group->size), group->link->latency,
				       2 * group->link->per_byte, bytes);
}

const struct stretto_algorithm stretto_allreduce_tree = {
	.name = "tree",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
};
