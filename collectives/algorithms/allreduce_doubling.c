/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: in each round every rank swaps its whole partial result with a partner.
 *
 * It wants a power of two of ranks. What is over folds in first: of each of the first pairs the
 * even rank gives its vector to the odd one and gets the result at the end. Three ranks a, b, c:
 *
 *   fold   0 sends a to 1           1: OUT = a + b
 *   swap   1 and 2 exchange         1: OUT = (a+b) + c      2: OUT = (a+b) + c
 *   unfold 1 sends OUT to 0
 *
 * Four ranks:
 *
 *   swap 1   0,1: OUT = a + b       2,3: OUT = c + d
 *   swap 2   0-2 and 1-3 exchange   all: OUT = (a+b) + (c+d)
 *
 * Both partners put the group of lower ranks on the left, so all ranks compute the same bits.
 *
 * Cost: floor(log2 n) rounds, 2 more if n is no power of two; one vector sent a round; two vectors
 * of scratch, used in turn so that the next receive is posted early.
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19 (2005).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

/* Where a builder stands. */
struct state {
	struct stretto_schedule *schedule;
	struct stretto_span partial;    /* our partial result: IN at first if out of place */
	struct stretto_span out;        /* where it ends */
	struct stretto_span scratch[2]; /* receives, in turn */
	int freed[2];                   /* the step after which that scratch is free */
	int round;                      /* reductions so far */
	int ready;                      /* the step that made the partial result */
};

/* Receives the peer's partial result and adds ours; `sent` is a send of ours that may still read.
 */
static void combine(struct state *state, int peer, int sent)
{
	int turn = state->round++ % 2;
	struct stretto_span theirs = state->scratch[turn];
	bool lower = peer < state->schedule->shape.rank;
	int recv = stretto_schedule_recv(state->schedule, peer, theirs, state->freed[turn],
					 STRETTO_NO_STEP);

	/* A send that reads IN does not mind OUT being written; but then OUT is our first. */
	int busy = state->partial.buffer == STRETTO_BUF_OUT ? sent : STRETTO_NO_STEP;
	state->ready = stretto_schedule_reduce(state->schedule, state->out,
					       lower ? theirs : state->partial,
					       lower ? state->partial : theirs, recv, busy);
	state->freed[turn] = state->ready;
	state->partial = state->out;
}

/* The rank that takes part number `i` of the power of two; the first `extras` are the odd ones. */
static int member(int i, int extras)
{
	return i < extras ? 2 * i + 1 : i + extras;
}

static void swap_rounds(struct state *state, int i, int extras)
{
	int members = state->schedule->shape.size - extras;

	for (int distance = 1; distance < members; distance *= 2) {
		int peer = member(i ^ distance, extras);
		int sent = stretto_schedule_send(state->schedule, peer, state->partial,
						 state->ready, STRETTO_NO_STEP);
		combine(state, peer, sent);
	}
	stretto_schedule_final(state->schedule, state->ready);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	int rank = shape->rank;
	int extras = shape->size - (1 << stretto_log2_floor(shape->size));
	bool folds = rank < 2 * extras;
	struct state state = {
		.schedule = schedule,
		.partial = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0, shape->count},
		.out = {STRETTO_BUF_OUT, 0, shape->count},
		.freed = {STRETTO_NO_STEP, STRETTO_NO_STEP},
		.ready = STRETTO_NO_STEP,
	};

	if (folds && rank % 2 == 0) {
		int sent = stretto_schedule_send(schedule, rank + 1, state.partial, STRETTO_NO_STEP,
						 STRETTO_NO_STEP);
		stretto_schedule_recv(schedule, rank + 1, state.out,
				      shape->in_place ? sent : STRETTO_NO_STEP, STRETTO_NO_STEP);
		return;
	}
	state.scratch[0] = stretto_schedule_tmp(schedule, shape->count);
	state.scratch[1] = stretto_schedule_tmp(schedule, shape->count);
	if (folds)
		combine(&state, rank - 1, STRETTO_NO_STEP);
	swap_rounds(&state, folds ? rank / 2 : rank - extras, extras);
	if (folds)
		stretto_schedule_send(schedule, rank - 1, state.out, state.ready, STRETTO_NO_STEP);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	int swaps = stretto_log2_floor(group->size);
	int folds = group->size > 1 << swaps ? 1 : 0;
	double vector = (double)bytes;
	/* All ranks of a node send at the same time. */
	double flight = vector * group->link->per_byte * (group->nodes > 1 ? group->most : 1);

	(void)window; /* every window pays the same rounds: nothing overlaps that matters */
	return (swaps + 2 * folds) * (group->link->latency + flight) +
	       (swaps + folds) * vector * group->link->per_reduce;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_allreduce_doubling = {
	.name = "doubling",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
	.canonical = true,
};
