/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical allreduce: reduce within the node, ring between the nodes, give within the node.
 *
 * The vector is cut into P parts, P being the least number of ranks on any node. On each node the
 * first P ranks are leaders, one of each part. Four ranks on two nodes, a b | c d, with parts 0 1
 * and blocks 0.0 0.1 | 1.0 1.1 of these:
 *
 *   round  rank 0                       rank 1 (2 and 3 likewise)
 *   1      sends a1, OUT0 = b0 + a0     sends b0, OUT1 = a1 + b1           within the node
 *   2      sends OUT0.0 to rank 2       sends OUT1.0 to rank 3             a ring of the leaders of
 *          OUT0.1 = (d+c)0.1 + OUT0.1   OUT1.1 = (c+d)1.1 + OUT1.1         each part, as in
 *   3      sends OUT0.1, gets OUT0.0    sends OUT1.1, gets OUT1.0          allreduce_ring.c
 *   4      sends OUT0 to rank 1         sends OUT1 to rank 0               within the node
 *
 * A leader takes the vectors of its node in a fixed order, beginning behind itself, so that the
 * leaders do not all read from the same rank. It gives each block away as soon as it has it. Ranks
 * that are no leaders, on nodes with more than P ranks, only send in the first round and get in the
 * last. Each element is reduced along one path and then copied, so all ranks have the same bits.
 *
 * Cost, on N nodes with at most m ranks: 2N rounds, 2(N-1) of them between nodes; a rank sends at
 * most 1 + (m-1)/P + 2(N-1)/(NP) vectors, 2(N-1)/(NP) of it between nodes; m/P vectors of scratch,
 * which stays untouched where receives are fused with their reductions.
 * Source: the reduce-scatter, inter-node and allgather phases of J. L. Traeff, S. Hunold, "Decomposing MPI
 * collectives for exploiting multi-lane communication", IEEE CLUSTER 2020.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* A rank among the others. */
struct view {
	const struct stretto_shape *shape;
	int nodes;              /* number of them */
	int node;               /* ours */
	int locals;             /* ranks on it */
	int index;              /* ours among them; leader of the part of that number */
	int parts;              /* leaders on each node */
	enum stretto_buffer in; /* where the vector of this rank is */
};

static int node_of(const struct stretto_shape *shape, int rank)
{
	return shape->node ? shape->node[rank] : 0;
}

/* Ranks of a node below `end`. */
static int count_on(const struct stretto_shape *shape, int node, int end)
{
	int count = 0;

	for (int rank = 0; rank < end; rank++)
		count += node_of(shape, rank) == node;
	return count;
}

static struct view view_of(const struct stretto_shape *shape)
{
	struct view view = {
		.shape = shape,
		.nodes = shape->node ? shape->nodes : 1,
		.node = node_of(shape, shape->rank),
		.parts = shape->size,
		.in = shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN,
	};

	view.locals = count_on(shape, view.node, shape->size);
	view.index = count_on(shape, view.node, shape->rank);
	for (int node = 0; node < view.nodes; node++) {
		int count = count_on(shape, node, shape->size);

		if (count < view.parts)
			view.parts = count;
	}
	return view;
}

/* The rank with an index on a node; both count around. */
static int rank_at(const struct view *view, int node, int index)
{
	int left = index;

	for (int rank = 0; rank < view->shape->size; rank++)
		if (node_of(view->shape, rank) == node && left-- == 0)
			return rank;
	return -1; /* there is none: sealing finds it */
}

static int local_behind(const struct view *view, int steps)
{
	return rank_at(view, view->node, (view->index + steps) % view->locals);
}

/* The leader of our part, so many nodes back along the ring. */
static int leader_back(const struct view *view, int steps)
{
	return rank_at(view, (view->node + view->nodes - steps) % view->nodes, view->index);
}

static struct stretto_span part(const struct view *view, enum stretto_buffer buffer, int p)
{
	return stretto_part(buffer, view->shape->count, view->parts, p);
}

/* The block of part `p` that stands so many steps back along the ring of the nodes. */
static struct stretto_span block_back(const struct view *view, enum stretto_buffer buffer, int p,
				      int steps)
{
	int b = (view->node + 2 * view->nodes - steps) % view->nodes;
	struct stretto_span whole = part(view, buffer, p);
	struct stretto_span block = stretto_part(buffer, whole.count, view->nodes, b);

	block.first += whole.first;
	return block;
}

/* Sends each other leader of the node its part; returns the first of these steps. */
static int send_parts(struct stretto_schedule *schedule, const struct view *view)
{
	int first = STRETTO_NO_STEP;

	for (int p = 0; p < view->parts; p++) {
		if (p == view->index)
			continue;
		int send = stretto_schedule_send(schedule, rank_at(view, view->node, p),
						 part(view, view->in, p), STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		if (first == STRETTO_NO_STEP)
			first = send;
	}
	return first;
}

/* Reduces our part over the node; returns the last of these steps, or none on a node of one. */
static int reduce_part(struct stretto_schedule *schedule, const struct view *view)
{
	struct stretto_span sum = part(view, STRETTO_BUF_OUT, view->index);
	struct stretto_span so_far = part(view, view->in, view->index);
	int ready = STRETTO_NO_STEP;

	for (int k = 1; k < view->locals; k++) {
		struct stretto_span theirs = stretto_schedule_tmp(schedule, sum.count);
		int recv = stretto_schedule_recv(schedule, local_behind(view, k), theirs,
						 STRETTO_NO_STEP, STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(schedule, sum, theirs, so_far, recv, ready);
		so_far = sum;
	}
	return ready;
}

/* Reduces our part over the nodes, after `ready`; *first_send is the first of the sends, three
 * steps apart. Returns the last reduction, which completes the block behind ours. */
static int reduce_across(struct stretto_schedule *schedule, const struct view *view, int ready,
			 int *first_send)
{
	int nodes = view->nodes;
	enum stretto_buffer own = view->locals > 1 ? STRETTO_BUF_OUT : view->in;
	int of_node = ready;

	for (int s = 0; s < nodes - 1; s++) {
		struct stretto_span out =
			block_back(view, s == 0 ? own : STRETTO_BUF_OUT, view->index, s);
		int send = stretto_schedule_send(schedule, leader_back(view, nodes - 1), out, ready,
						 STRETTO_NO_STEP);
		if (s == 0)
			*first_send = send;
		struct stretto_span ours = block_back(view, own, view->index, s + 1);
		struct stretto_span theirs = stretto_schedule_tmp(schedule, ours.count);
		int recv = stretto_schedule_recv(schedule, leader_back(view, 1), theirs,
						 STRETTO_NO_STEP, STRETTO_NO_STEP);
		ready = stretto_schedule_reduce(
			schedule, block_back(view, STRETTO_BUF_OUT, view->index, s + 1), theirs,
			ours, recv, of_node);
	}
	return ready;
}

/* Sends a finished block of our part to all others of the node. */
static void give(struct stretto_schedule *schedule, const struct view *view, int steps, int ready)
{
	struct stretto_span block = block_back(view, STRETTO_BUF_OUT, view->index, steps);

	for (int k = 1; k < view->locals; k++)
		stretto_schedule_send(schedule, local_behind(view, k), block, ready,
				      STRETTO_NO_STEP);
}

/* What a leader does from the first reduction on. */
static void lead(struct stretto_schedule *schedule, const struct view *view)
{
	bool in_out = view->locals > 1 || view->shape->in_place; /* OUT has our node's vector */
	int nodes = view->nodes;
	int first_send = STRETTO_NO_STEP;
	int ready = reduce_part(schedule, view);

	ready = reduce_across(schedule, view, ready, &first_send);
	stretto_schedule_final(schedule, ready);
	give(schedule, view, nodes - 1, ready);
	for (int s = 0; s < nodes - 1; s++) {
		stretto_schedule_send(schedule, leader_back(view, nodes - 1),
				      block_back(view, STRETTO_BUF_OUT, view->index, s + nodes - 1),
				      ready, STRETTO_NO_STEP);
		/* What comes in replaces what was sent on in round s of the reduction. */
		bool was_sent = first_send != STRETTO_NO_STEP && (s > 0 || in_out);
		ready = stretto_schedule_recv(schedule, leader_back(view, 1),
					      block_back(view, STRETTO_BUF_OUT, view->index, s),
					      was_sent ? first_send + 3 * s : STRETTO_NO_STEP,
					      STRETTO_NO_STEP);
		give(schedule, view, s, ready);
	}
}

/* Receives the parts of the other leaders, block by block as they give them. */
static void get_parts(struct stretto_schedule *schedule, const struct view *view, int first_send)
{
	int next_send = first_send;

	for (int p = 0; p < view->parts; p++) {
		if (p == view->index)
			continue;
		/* In place, it was sent to its leader from where the result goes. */
		int sent = view->shape->in_place ? next_send : STRETTO_NO_STEP;
		for (int i = 0; i < view->nodes; i++)
			stretto_schedule_recv(
				schedule, rank_at(view, view->node, p),
				block_back(view, STRETTO_BUF_OUT, p, i + view->nodes - 1), sent,
				STRETTO_NO_STEP);
		next_send += next_send != STRETTO_NO_STEP;
	}
}

static void build(struct stretto_schedule *schedule)
{
	struct view view = view_of(&schedule->shape);
	int first_send = send_parts(schedule, &view);

	if (view.index < view.parts)
		lead(schedule, &view);
	get_parts(schedule, &view, first_send);
}

/*
 * The leaders of a node share its way to the others. What a node gives to its ranks overlaps what
 * comes in, all but the last block; and while one window is between nodes, another is within them.
 */
static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	const struct stretto_link *near = group->near;
	double vector = stretto_window_bytes(bytes, window);
	double nodes = group->nodes;
	double part = vector / group->least;
	double first = (group->most - 1) * part * (near->per_byte + near->per_reduce);
	double across = 2 * (nodes - 1) / nodes * vector * group->link->per_byte;
	double reduction = (nodes - 1) / nodes * part * near->per_reduce;
	double last = (vector - (group->most == group->least ? part : 0)) * near->per_byte;

	return 2 * near->latency + 2 * (nodes - 1) * group->link->latency + first + across +
	       reduction + last / nodes +
	       stretto_windows_after_first(bytes, window) *
		       stretto_greater(first + reduction + last, across);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_ring_window(group->least * group->nodes, bytes, group->link->message);
}

static bool suits(const struct stretto_group *group)
{
	return group->nodes > 1 && group->most > 1 && group->near != group->link;
}

const struct stretto_algorithm stretto_allreduce_hierarchical = {
	.name = "hierarchical",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
	.suits = suits,
};
