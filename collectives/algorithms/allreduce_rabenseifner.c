/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rabenseifner's allreduce: reduce-scatter by halving the vector with partners at distance 1, 2, 4
 * ..., then allgather on the same way back.
 *
 * Four ranks with vectors a, b, c, d of quarters 0 1 2 3:
 *
 *   round  rank 0                   rank 1                   rank 2            rank 3
 *   1      sends a23 to 1           sends b01 to 0           sends c23 to 3    sends d01 to 2
 *          01 = a + b               23 = a + b               01 = c + d        23 = c + d
 *   2      sends 1 to 2             sends 3 to 3             sends 0 to 0      sends 2 to 1
 *          0 = (a+b)+(c+d)          2 = (a+b)+(c+d)          1 likewise        3 likewise
 *   3      gets 1 from 2            gets 3 from 3            gets 0 from 0     gets 2 from 1
 *   4      gets 23 from 1           gets 01 from 0           gets 23 from 3    gets 01 from 2
 *
 * The nearest come first, so that every element is added in the order of recursive doubling,
 * whatever its place in the vector, and so that the longest messages go to the nearest. Other
 * numbers of ranks play a power of two (virtual.h). Three ranks a, b, c, where rank 2 plays 2 and 3:
 *
 *   1      0 sends a23, 1 sends b01         0: 01 = a + b        1: 23 = a + b
 *   2      0 and 2 exchange 1 and 0         0: 0 = (a+b) + c     2: 1 = (a+b) + c
 *          1 and 2 exchange 3 and 2         1: 2 = (a+b) + c     2: 3 = (a+b) + c
 *   3, 4   back
 *
 * Cost, for V virtual ranks (the next power of two): 2 log2 V rounds; 2 (V-1)/V vectors sent, of any
 * number of ranks; scratch for (V-1)/V of a vector, untouched where receives are fused with their
 * reductions.
 * Sources: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; R. Thakur, R.
 * Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19 (2005).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/virtual.h"

/* Levels of halving: as many as an int can count ranks. */
enum { MOST_LEVELS = 31 };

/* Where one virtual rank stands. */
struct player {
	int number;                            /* virtual rank */
	struct stretto_span has[MOST_LEVELS];  /* before each level, and after the last */
	struct stretto_span gave[MOST_LEVELS]; /* at each level */
	int sent[MOST_LEVELS];                 /* the step that did; none where it went to us */
	int ready;                             /* the step after which `has` is there */
};

struct state {
	struct stretto_schedule *schedule;
	struct stretto_virtual ranks;
	struct player players[2]; /* that this rank plays */
	int count;
};

/* The rank that plays the partner at a level; ourselves if that is us. */
static int partner(const struct state *state, const struct player *player, int level)
{
	return stretto_virtual_player(state->ranks, player->number ^ (1 << level));
}

/* One half of a span; its buffer becomes `buffer`. */
static struct stretto_span half(struct stretto_span span, enum stretto_buffer buffer, bool upper)
{
	struct stretto_span part = stretto_part(buffer, span.count, 2, upper);

	part.first += span.first;
	return part;
}

/* Halves what the player has: gives one half away and adds what the partner gives to the other. */
static void halve(struct state *state, struct player *player, int level)
{
	struct stretto_schedule *schedule = state->schedule;
	struct stretto_span has = player->has[level];
	int peer = partner(state, player, level);
	bool upper = (player->number >> level) & 1;
	struct stretto_span own = half(has, has.buffer, upper);
	struct stretto_span given = half(has, has.buffer, !upper);

	player->gave[level] = given;
	player->has[level + 1] = own;
	player->sent[level] = STRETTO_NO_STEP;
	if (peer == schedule->shape.rank)
		return; /* our other player goes on with what we would have given it */
	player->sent[level] =
		stretto_schedule_send(schedule, peer, given, player->ready, STRETTO_NO_STEP);
	struct stretto_span theirs = stretto_schedule_tmp(schedule, own.count);
	struct stretto_span sum = own;

	sum.buffer = STRETTO_BUF_OUT;
	int recv = stretto_schedule_recv(schedule, peer, theirs, STRETTO_NO_STEP, STRETTO_NO_STEP);
	player->ready = stretto_schedule_reduce(schedule, sum, upper ? theirs : own,
						upper ? own : theirs, recv, player->ready);
	player->has[level + 1] = sum;
}

/* The way back: gives the partner what we have, and gets what we gave it. */
static void gather(struct state *state, struct player *player, int level)
{
	struct stretto_schedule *schedule = state->schedule;
	int peer = partner(state, player, level);
	struct stretto_span lacking = player->gave[level];
	struct stretto_span has = player->has[level + 1];
	struct stretto_span nothing = {STRETTO_BUF_OUT, 0, 0};

	if (peer == schedule->shape.rank)
		return;
	has.buffer = STRETTO_BUF_OUT;
	stretto_schedule_send(schedule, peer, has, player->ready, STRETTO_NO_STEP);
	/* What was given from OUT is overwritten; what was given from IN is not. */
	int busy = lacking.buffer == STRETTO_BUF_OUT ? player->sent[level] : STRETTO_NO_STEP;
	lacking.buffer = STRETTO_BUF_OUT;
	int recv = stretto_schedule_recv(schedule, peer, lacking, busy, STRETTO_NO_STEP);
	/* The next send waits for this and all before: an empty copy joins them. */
	player->ready =
		level == 0 ? recv
			   : stretto_schedule_copy(schedule, nothing, nothing, recv, player->ready);
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	struct state state = {.schedule = schedule, .ranks = stretto_virtual_of(shape->size)};
	struct stretto_span vector = {shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN, 0,
				      shape->count};

	state.count = stretto_virtual_count(state.ranks, shape->rank);
	for (int i = 0; i < state.count; i++) {
		state.players[i].number = stretto_virtual_first(state.ranks, shape->rank) + i;
		state.players[i].has[0] = vector;
		state.players[i].ready = STRETTO_NO_STEP;
	}
	for (int level = 0; level < state.ranks.levels; level++)
		for (int i = 0; i < state.count; i++)
			halve(&state, &state.players[i], level);
	for (int i = 0; i < state.count; i++)
		stretto_schedule_final(schedule, state.players[i].ready);
	for (int level = state.ranks.levels - 1; level >= 0; level--)
		for (int i = 0; i < state.count; i++)
			gather(&state, &state.players[i], level);
}

/*
 * Partners change from round to round, so additions are not taken to overlap the flight of other
 * windows, as they do in a ring.
 */
static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	int levels = stretto_log2_ceil(group->size);
	double vector = (double)bytes;

	(void)window;
	return 2 * levels * group->link->latency + 2 * stretto_halving_flight(group, vector) +
	       stretto_halved(levels) * vector * group->link->per_reduce;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	return stretto_ring_window(1 << stretto_log2_ceil(group->size), bytes,
				   group->link->message);
}

const struct stretto_algorithm stretto_allreduce_rabenseifner = {
	.name = "rabenseifner",
	.collective = STRETTO_ALLREDUCE,
	.build = build,
	.cost = cost,
	.window = window,
	.canonical = true,
};
