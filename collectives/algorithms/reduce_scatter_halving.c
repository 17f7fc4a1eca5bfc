/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce_scatter by recursive halving: in each round a rank gives its partner at distance 1, 2, 4
 * ... the blocks that end on the partner's side, and adds what it gets to those that stay.
 *
 * Four ranks with vectors a, b, c, d of blocks 0 1 2 3:
 *
 *   round  rank 0                  rank 1                  rank 2                  rank 3
 *   1      sends a1 a3 to 1        sends b0 b2 to 0        sends c1 c3 to 3        sends d0 d2 to 2
 *          0, 2 = a + b            1, 3 = a + b            0, 2 = c + d            1, 3 = c + d
 *   2      sends 2 to 2            sends 3 to 3            sends 0 to 0            sends 1 to 1
 *          OUT = (a+b)+(c+d)       likewise                likewise                likewise
 *
 * Other numbers of ranks play a power of two (virtual.h); the block of a rank that plays two ends
 * with one of them, the first and the second in turn. Every block is added in the order of recursive
 * doubling. Blocks that stay together do not lie together, so each is a message of its own; the
 * steps of a block come one behind the other.
 *
 * Partial sums stay in TMP, so IN is only read; in place, the rank's own block of IN is its sum.
 *
 * Cost, for V virtual ranks (the next power of two): log2 V rounds; n-1 blocks sent by each rank;
 * less than 2n + log2 V blocks of scratch, of which those that are received stay untouched where receives
 * are fused with their reductions.
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
 * MPICH", IJHPCA 19 (2005), with distances in ascending order.
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/virtual.h"

/* The way of one block through the rounds of one virtual rank. */
struct passage {
	struct stretto_schedule *schedule;
	struct stretto_virtual ranks;
	int player;                  /* virtual rank, ours */
	int end;                     /* virtual rank where the block ends */
	struct stretto_span partial; /* our partial sum */
	struct stretto_span sum;     /* where it goes */
	int ready;                   /* the step that made it */
};

/* Where block b ends: with the rank of that number, both its players in turn. */
static int end_of(struct stretto_virtual ranks, int b)
{
	int players = stretto_virtual_count(ranks, b);

	return stretto_virtual_first(ranks, b) + b % players;
}

/* Receives the peer's partial sum of the block and adds ours. */
static void combine(struct passage *passage, int peer)
{
	struct stretto_schedule *schedule = passage->schedule;
	struct stretto_span theirs = stretto_schedule_tmp(schedule, passage->partial.count);
	bool lower = peer < schedule->shape.rank;
	int recv = stretto_schedule_recv(schedule, peer, theirs, STRETTO_NO_STEP, STRETTO_NO_STEP);

	if (passage->ready == STRETTO_NO_STEP && passage->sum.buffer == STRETTO_BUF_TMP)
		passage->sum = stretto_schedule_tmp(schedule, passage->partial.count);
	passage->ready =
		stretto_schedule_reduce(schedule, passage->sum, lower ? theirs : passage->partial,
					lower ? passage->partial : theirs, recv, passage->ready);
	passage->partial = passage->sum;
}

/* Adds up the block at our player until it is given away, or ends here. */
static void pass(struct passage *passage)
{
	struct stretto_schedule *schedule = passage->schedule;
	int side = passage->player ^ passage->end;

	for (int level = 0; level < passage->ranks.levels; level++) {
		int peer = stretto_virtual_player(passage->ranks, passage->player ^ (1 << level));
		bool gives = (side >> level) & 1;

		if (gives && peer != schedule->shape.rank)
			stretto_schedule_send(schedule, peer, passage->partial, passage->ready,
					      STRETTO_NO_STEP);
		if (gives)
			return;
		if (peer != schedule->shape.rank)
			combine(passage, peer);
	}
	stretto_schedule_final(schedule, passage->ready);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct stretto_virtual ranks = stretto_virtual_of(shape->size);
	int first = stretto_virtual_first(ranks, shape->rank);
	int count = stretto_virtual_count(ranks, shape->rank);

	for (int b = 0; b < shape->size; b++) {
		struct stretto_span in = {STRETTO_BUF_IN, (size_t)b * shape->stride, shape->count};
		struct stretto_span sum = {STRETTO_BUF_TMP, 0, shape->count};

		if (b == shape->rank)
			sum = shape->in_place
				      ? in
				      : (struct stretto_span){STRETTO_BUF_OUT, 0, shape->count};
		for (int player = first; player < first + count; player++)
			pass(&(struct passage){.schedule = schedule,
					       .ranks = ranks,
					       .player = player,
					       .end = end_of(ranks, b),
					       .partial = in,
					       .sum = sum,
					       .ready = STRETTO_NO_STEP});
	}
}

/* Each of the n - 1 messages costs its ends something, taken as a quarter of the latency. */
static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	int levels = stretto_log2_ceil(group->size);
	double vector = stretto_window_bytes(bytes, window);
	double sent = stretto_halved(levels) * vector;
	double flight = stretto_halving_flight(group, vector);
	double reduction = sent * group->link->per_reduce;

	return (levels + (group->size - 1) / 4.0) * group->link->latency + flight + reduction +
	       stretto_windows_after_first(bytes, window) * (flight + reduction);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_ring_window(group->size, bytes, group->link->message);
}

const struct stretto_algorithm stretto_reduce_scatter_halving = {
	.name = "halving",
	.collective = STRETTO_REDUCE_SCATTER,
	.build = build,
	.cost = cost,
	.window = window,
	.canonical = true,
};
