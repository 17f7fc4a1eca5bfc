/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binomial reduce: partial results of growing groups go up a tree to the root.
 *
 * The groups are those of recursive doubling (allreduce_doubling.c): with n = 2^k + e ranks the
 * first e pairs are folded first, so that 2^k members are left; then neighbours at distance 1, 2,
 * 4, ... are combined, the group of lower ranks on the left. The side that the root is on gets the
 * sum. Three ranks a, b, c:
 *
 *   root 2   fold  0 sends a to 1            1: TMP = a + b
 *            1     1 sends a + b to 2        2: OUT = (a+b) + c
 *   root 0   fold  1 sends b to 0            0: OUT = a + b
 *            1     2 sends c to 0            0: OUT = (a+b) + c
 *
 * So the result has the same bits for every root, and those of the allreduce. A message without
 * payload goes down the tree meanwhile: nobody is done before the root has entered.
 *
 * Cost: ceil(log2 n) rounds; at most one vector sent by each rank; ceil(log2 n) vectors of scratch
 * for what is received, which stay untouched where receives are fused, and one for the partial sum.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* Where a builder stands. */
struct state {
	struct stretto_schedule *schedule;
	struct stretto_span partial; /* our partial result */
	struct stretto_span sum;     /* where it goes once there is something to add; none yet */
	int extras;                  /* pairs that are folded */
	int ready;                   /* the step that made the partial result */
	int entered;                 /* RECV of the word that the root has entered */
};

static const struct stretto_span nothing = {STRETTO_BUF_TMP, 0, 0};

/* The member that a rank is, or is folded into. */
static int member_of(int rank, int extras)
{
	return rank < 2 * extras ? rank / 2 : rank - extras;
}

/* The rank that is a member: of a pair the second one, unless the first is the root. */
static int rank_of(const struct state *state, int member)
{
	if (member >= state->extras)
		return member + state->extras;
	return state->schedule->shape.root == 2 * member ? 2 * member : 2 * member + 1;
}

/* The root's sum goes to OUT, that of the others to scratch. */
static void make_sum(struct state *state)
{
	const struct stretto_shape *shape = &state->schedule->shape;

	if (shape->rank == shape->root)
		state->sum = (struct stretto_span){STRETTO_BUF_OUT, 0, shape->count};
	else
		state->sum = stretto_schedule_tmp(state->schedule, shape->count);
}

/* Adds what the peer has; `sums` tells whether ours is a sum already. */
static void add(struct state *state, int peer, bool sums)
{
	const struct stretto_shape *shape = &state->schedule->shape;
	struct stretto_span theirs = stretto_schedule_tmp(state->schedule, shape->count);
	bool lower = peer < shape->rank;

	if (!sums)
		make_sum(state);
	stretto_schedule_send(state->schedule, peer, nothing, state->entered, STRETTO_NO_STEP);
	int recv = stretto_schedule_recv(state->schedule, peer, theirs, STRETTO_NO_STEP,
					 STRETTO_NO_STEP);
	state->ready = stretto_schedule_reduce(state->schedule, state->sum,
					       lower ? theirs : state->partial,
					       lower ? state->partial : theirs, recv, state->ready);
	state->partial = state->sum;
}

/* Gives our partial result to the peer, from which the root's word comes. */
static void give(struct state *state, int peer)
{
	stretto_schedule_send(state->schedule, peer, state->partial, state->ready, STRETTO_NO_STEP);
}

/* The rank that ours goes to; -1 for the root. */
static int parent_of(const struct state *state)
{
	const struct stretto_shape *shape = &state->schedule->shape;
	int own = member_of(shape->rank, state->extras);
	int way = own ^ member_of(shape->root, state->extras);

	if (shape->rank == shape->root)
		return -1;
	return rank_of(state, own) != shape->rank ? rank_of(state, own)
						  : rank_of(state, own ^ (way & -way));
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int members = 1 << stretto_log2_floor(shape->size);
	struct state state = {
		.schedule = schedule,
		.partial = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0, shape->count},
		.extras = shape->size - members,
		.ready = STRETTO_NO_STEP,
		.entered = STRETTO_NO_STEP,
	};
	int own = member_of(shape->rank, state.extras);
	int way = own ^ member_of(shape->root, state.extras);
	int parent = parent_of(&state);
	bool folded = rank_of(&state, own) != shape->rank;
	bool sums = false;

	if (parent >= 0)
		state.entered = stretto_schedule_recv(schedule, parent, nothing, STRETTO_NO_STEP,
						      STRETTO_NO_STEP);
	if (!folded && own < state.extras) {
		add(&state, shape->rank ^ 1, sums);
		sums = true;
	}
	for (int k = 1; !folded && k < members && !(way & k); k *= 2) {
		add(&state, rank_of(&state, own ^ k), sums);
		sums = true;
	}
	if (parent >= 0)
		give(&state, parent);
	else
		stretto_schedule_final(schedule, state.ready);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double vector = (double)bytes;

	(void)window; /* every window takes all rounds through the root's link */
	return stretto_log2_ceil(group->size) *
	       (group->link->latency + vector * (group->link->per_byte + group->link->per_reduce));
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_reduce_binomial = {
	.name = "binomial",
	.canonical = true,
	.collective = STRETTO_REDUCE,
	.build = build,
	.cost = cost,
	.window = window,
};
