/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proves every algorithm with the checker for 1 to 64 ranks, and counts what it sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/algorithm.h"
#include "collectives/checker.h"
#include "collectives/traits.h"
#include "tests/lib/ranks.h"

enum { MOST_RANKS = TEST_SLOW ? 9 : TEST_SANITIZED ? 24 : 64 };

/* Which ranks operate in place. */
enum places { APART, IN_PLACE, MIXED, PLACES };

/* Builds the schedules of all ranks; free them with free_all(). */
static struct stretto_schedule *build_all(const struct stretto_algorithm *algorithm,
					  struct stretto_shape shape, enum places places)
{
	struct stretto_schedule *all = calloc((size_t)shape.size, sizeof(*all));
	assert_non_null(all);
	for (int r = 0; r < shape.size; r++) {
		shape.rank = r;
		bool elsewhere = stretto_traits_of(shape.collective)->rooted && r != shape.root;
		shape.in_place =
			!elsewhere && (places == IN_PLACE || (places == MIXED && r % 3 == 1));
		assert_int_equal(stretto_algorithm_build(algorithm, &shape, &all[r]), STRETTO_OK);
	}
	return all;
}

static void free_all(struct stretto_schedule *all, int size)
{
	for (int r = 0; r < size; r++)
		stretto_schedule_fini(&all[r]);
	free(all);
}

static void prove(const struct stretto_algorithm *algorithm, struct stretto_shape shape,
		  enum places places, int seeds)
{
	char why[512];
	struct stretto_schedule *all = build_all(algorithm, shape, places);

	for (int seed = 1; seed <= seeds; seed++)
		if (stretto_check(all, shape.size, (uint64_t)seed, why, sizeof(why)) != STRETTO_OK)
			fail_msg("%s %s, %d ranks, count %zu, stride %zu, root %d, places %d, seed "
				 "%d: %s",
				 stretto_collective_name(algorithm->collective), algorithm->name,
				 shape.size, shape.count, shape.stride, shape.root, (int)places,
				 seed, why);
	free_all(all, shape.size);
}

/* All counts, places and strides that matter to the collective; the shape lacks just these. */
static void prove_counts(const struct stretto_algorithm *algorithm, struct stretto_shape shape)
{
	int size = shape.size;
	size_t n = (size_t)size;
	const size_t counts[] = {0, 1, n - 1, n, n + 1, 1000};
	bool is_barrier = algorithm->collective == STRETTO_BARRIER;
	int places_count = size <= 16 ? PLACES : MIXED; /* mixed ones show what they can with few */
	if (is_barrier || algorithm->collective == STRETTO_BROADCAST)
		places_count = IN_PLACE;
	size_t count_count = is_barrier ? 1 : sizeof(counts) / sizeof(*counts);

	for (size_t i = 0; i < count_count; i++) {
		shape.count = counts[i];
		shape.stride =
			i % 2 == 0 ? counts[i] : counts[i] + i; /* windows of longer blocks */
		for (int places = APART; places < places_count; places++)
			prove(algorithm, shape, (enum places)places, 3);
	}
}

static void prove_shapes(const struct stretto_algorithm *algorithm, int size, int root)
{
	struct stretto_shape shape = {
		.collective = algorithm->collective, .size = size, .root = root};

	prove_counts(algorithm, shape);
}

static void prove_collective(enum stretto_collective collective)
{
	for (size_t i = 0; stretto_algorithms[i]; i++) {
		if (stretto_algorithms[i]->collective != collective)
			continue;
		for (int size = 1; size <= MOST_RANKS; size++)
			prove_shapes(stretto_algorithms[i], size, 0);
	}
}

static void every_allreduce_is_proved(void **state)
{
	(void)state;
	prove_collective(STRETTO_ALLREDUCE);
}

static void every_allgather_is_proved(void **state)
{
	(void)state;
	prove_collective(STRETTO_ALLGATHER);
}

static void every_reduce_scatter_is_proved(void **state)
{
	(void)state;
	prove_collective(STRETTO_REDUCE_SCATTER);
}

static void every_barrier_is_proved(void **state)
{
	(void)state;
	prove_collective(STRETTO_BARRIER);
}

static void every_alltoall_is_proved(void **state)
{
	(void)state;
	prove_collective(STRETTO_ALLTOALL);
}

static void blocks_that_may_vary_are_proved_alike(void **state)
{
	(void)state;
	prove_collective(STRETTO_ALLGATHERV);
	prove_collective(STRETTO_ALLTOALLV);
	prove_collective(STRETTO_REDUCE_SCATTERV);
}

static void prove_rooted(enum stretto_collective collective)
{
	for (size_t i = 0; stretto_algorithms[i]; i++) {
		if (stretto_algorithms[i]->collective != collective)
			continue;
		for (int size = 1; size <= MOST_RANKS; size++)
			for (int root = 0; root < size; root += size <= 17 ? 1 : size / 4)
				prove_shapes(stretto_algorithms[i], size, root);
	}
}

static void every_broadcast_is_proved_for_its_roots(void **state)
{
	(void)state;
	prove_rooted(STRETTO_BROADCAST);
}

static void every_reduce_is_proved_for_its_roots(void **state)
{
	(void)state;
	prove_rooted(STRETTO_REDUCE);
}

static void every_gather_is_proved_for_its_roots(void **state)
{
	(void)state;
	prove_rooted(STRETTO_GATHER);
}

static void every_scatter_is_proved_for_its_roots(void **state)
{
	(void)state;
	prove_rooted(STRETTO_SCATTER);
}

/* Elements that a rank sends, and receives that are fused with their reduction. */
static size_t elements_sent(const struct stretto_schedule *schedule)
{
	size_t sum = 0;
	for (int i = 0; i < schedule->step_count; i++)
		if (schedule->steps[i].kind == STRETTO_STEP_SEND)
			sum += schedule->steps[i].a.count;
	return sum;
}

static int fused_receives(const struct stretto_schedule *schedule)
{
	int n = 0;
	for (int i = 0; i < schedule->step_count; i++)
		n += schedule->steps[i].kind == STRETTO_STEP_RECV &&
		     schedule->steps[i].fused != STRETTO_NO_STEP;
	return n;
}

/* The send that a receive meets. */
static int find_send(const struct stretto_schedule *schedule, int peer, uint32_t ordinal)
{
	for (int i = 0; i < schedule->step_count; i++)
		if (schedule->steps[i].kind == STRETTO_STEP_SEND &&
		    schedule->steps[i].peer == peer && schedule->steps[i].ordinal == ordinal)
			return i;
	fail_msg("rank %d does not send message %u to %d", schedule->shape.rank, ordinal, peer);
	return -1;
}

/* Messages on the longest way to the end of step `i` of rank `r`. */
static int depth(const struct stretto_schedule *all, int r, int i, int **seen)
{
	const struct stretto_step *step = &all[r].steps[i];
	if (seen[r][i] >= 0)
		return seen[r][i];
	int longest = 0;
	for (int k = 0; k < 2; k++)
		if (step->after[k] != STRETTO_NO_STEP) {
			int d = depth(all, r, step->after[k], seen);
			longest = d > longest ? d : longest;
		}
	if (step->kind == STRETTO_STEP_RECV) {
		int d = 1 +
			depth(all, step->peer, find_send(&all[step->peer], r, step->ordinal), seen);
		longest = d > longest ? d : longest;
	}
	return seen[r][i] = longest;
}

static int rounds(const struct stretto_schedule *all, int size)
{
	int most = 0;
	int **seen = calloc((size_t)size, sizeof(*seen));
	assert_non_null(seen);
	for (int r = 0; r < size; r++) {
		seen[r] = malloc(((size_t)all[r].step_count + 1) * sizeof(int));
		assert_non_null(seen[r]);
		for (int i = 0; i < all[r].step_count; i++)
			seen[r][i] = -1;
	}
	for (int r = 0; r < size; r++)
		for (int i = 0; i < all[r].step_count; i++) {
			int d = depth(all, r, i, seen);
			most = d > most ? d : most;
		}
	for (int r = 0; r < size; r++)
		free(seen[r]);
	free(seen);
	return most;
}

/* What the algorithm's file promises for one size; the count is 12 elements a rank. */
struct promise {
	int rounds;       /* at most */
	size_t sent;      /* elements by a rank, at most */
	size_t tmp_count; /* scratch, at most */
	int fused;        /* receives fused by a rank that reduces, at least */
};

static void keep_promise_of(const char *name, struct stretto_shape shape, struct promise promise)
{
	const struct stretto_algorithm *algorithm = stretto_algorithm_find(shape.collective, name);
	int size = shape.size;

	assert_non_null(algorithm);
	struct stretto_schedule *all = build_all(algorithm, shape, APART);
	int most = rounds(all, size);
	if (most > promise.rounds)
		fail_msg("%s on %d ranks: %d rounds, not %d", name, size, most, promise.rounds);
	for (int r = 0; r < size; r++) {
		if (elements_sent(&all[r]) > promise.sent)
			fail_msg("%s on %d ranks: rank %d sends %zu elements, not %zu", name, size,
				 r, elements_sent(&all[r]), promise.sent);
		assert_true(all[r].tmp_count <= promise.tmp_count);
		assert_true(fused_receives(&all[r]) >= promise.fused);
	}
	free_all(all, size);
}

static void keep_promise(enum stretto_collective collective, const char *name, int size,
			 struct promise promise)
{
	bool vector = !stretto_traits_blocks(collective);
	size_t count = 12 * (vector ? (size_t)size : 1);
	struct stretto_shape shape = {
		.collective = collective, .size = size, .count = count, .stride = count};

	keep_promise_of(name, shape, promise);
}

static int log2_floor(int size)
{
	return size < 2 ? 0 : 1 + log2_floor(size / 2);
}

static void costs_are_as_promised(void **state)
{
	(void)state;
	for (int n = 2; n <= MOST_RANKS; n++) {
		size_t block = 12;
		size_t vector = block * (size_t)n;
		size_t others = vector - block;
		int low = log2_floor(n);
		int high = n > 1 << low ? low + 1 : low;
		int extra = high > low ? 2 : 0;

		keep_promise(STRETTO_ALLREDUCE, "ring", n,
			     (struct promise){2 * (n - 1), 2 * others, others, n - 1});
		keep_promise(
			STRETTO_ALLREDUCE, "doubling", n,
			(struct promise){low + extra, (size_t)(low + 1) * vector, 2 * vector, 0});
		keep_promise(STRETTO_ALLREDUCE, "tree", n,
			     (struct promise){2 * low, 2 * vector, vector, 0});
		/* each halving may round one element up, for each of two virtual ranks */
		size_t halved = vector - (vector >> high) + 2 * (size_t)high;
		keep_promise(STRETTO_ALLREDUCE, "rabenseifner", n,
			     (struct promise){2 * high, 2 * halved, halved, high - extra / 2});
		keep_promise(STRETTO_BROADCAST, "binomial", n,
			     (struct promise){2 * high, (size_t)high * vector, 0, 0});
		keep_promise(STRETTO_BROADCAST, "chain", n,
			     (struct promise){2 * (n - 1), vector, 0, 0});
		keep_promise(STRETTO_ALLGATHER, "ring", n, (struct promise){n - 1, others, 0, 0});
		keep_promise(STRETTO_ALLGATHER, "bruck", n, (struct promise){high, others, 0, 0});
		keep_promise(STRETTO_REDUCE_SCATTER, "ring", n,
			     (struct promise){n - 1, others, 2 * others - block, n - 1});
		keep_promise(STRETTO_REDUCE_SCATTER, "halving", n,
			     (struct promise){high, others, 2 * vector + (size_t)high * block,
					      high - extra / 2});
		keep_promise(STRETTO_REDUCE, "binomial", n,
			     (struct promise){high, vector, (size_t)(high + 1) * vector, 0});
		keep_promise(STRETTO_REDUCE, "chain", n,
			     (struct promise){n - 1, vector, 2 * vector, 0});
		keep_promise(STRETTO_ALLTOALL, "pairwise", n, (struct promise){1, others, 0, 0});
		keep_promise(STRETTO_ALLTOALL, "bruck", n,
			     (struct promise){high, (size_t)high * block * (size_t)(n / 2),
					      2 * (size_t)high * block * (size_t)(n / 2), 0});
		keep_promise(STRETTO_ALLGATHERV, "ring", n, (struct promise){n - 1, others, 0, 0});
		keep_promise(STRETTO_ALLGATHERV, "bruck", n,
			     (struct promise){high, others, vector, 0});
		keep_promise(STRETTO_ALLTOALLV, "pairwise", n, (struct promise){1, others, 0, 0});
		keep_promise(STRETTO_ALLTOALLV, "linear", n, (struct promise){1, others, 0, 0});
		keep_promise(STRETTO_REDUCE_SCATTERV, "ring", n,
			     (struct promise){n - 1, others, 2 * others - block, n - 1});
		keep_promise(STRETTO_REDUCE_SCATTERV, "direct", n,
			     (struct promise){1, others, vector, n / 2});
		keep_promise(STRETTO_GATHER, "linear", n, (struct promise){1, block, 0, 0});
		keep_promise(STRETTO_GATHER, "binomial", n,
			     (struct promise){high, block * (size_t)(n / 2), others, 0});
		keep_promise(STRETTO_SCATTER, "linear", n, (struct promise){2, others, 0, 0});
		keep_promise(STRETTO_SCATTER, "binomial", n,
			     (struct promise){2 * high, others, others, 0});
		keep_promise(STRETTO_BARRIER, "dissemination", n, (struct promise){high, 0, 0, 0});
	}
}

static void costs_are_sane(const struct stretto_algorithm *one, const struct stretto_group *group)
{
	/* A meeting in mapped memory is quicker than a message. */
	double least = one->mapped ? 1e-9 : group->near->latency, last = 0;

	for (size_t bytes = 0; bytes <= (size_t)1 << 32; bytes = bytes * 4 + 1024) {
		size_t window = one->window(group, bytes);
		double cost = one->cost(group, bytes, window);

		assert_true(window >= 1024);
		assert_true(cost >= least && cost < 1e4);
		assert_true(cost >= last);
		last = cost;
	}
}

/* How ranks are dealt out to nodes: node by node, in turn, or at random. */
enum dealing { BLOCKS, CYCLIC, RANDOM, DEALINGS };

/* Fills in the node of each rank for so many ranks on each node; returns the number of ranks. */
static int deal(const int *counts, int nodes, enum dealing dealing, int *node)
{
	uint64_t random = 7;
	int size = 0;

	for (int n = 0; n < nodes; n++)
		for (int i = 0; i < counts[n]; i++)
			node[size++] = n;
	for (int rank = 0, turn = 0; dealing == CYCLIC && rank < size; turn++)
		for (int n = 0; n < nodes; n++)
			if (turn < counts[n])
				node[rank++] = n;
	for (int rank = size - 1; dealing == RANDOM && rank > 0; rank--) {
		int other = (int)(next_random(&random) % (uint64_t)(rank + 1));
		int swap = node[rank];

		node[rank] = node[other];
		node[other] = swap;
	}
	return size;
}

static void hierarchical_is_proved_wherever_ranks_are(void **state)
{
	static const int placements[][6] = {
		{1},          {5},          {1, 1},       {1, 1, 1, 1, 1}, {2, 2},
		{1, 2},       {4, 1},       {2, 1, 3},    {3, 2, 2, 1},    {2, 2, 2, 2},
		{3, 3, 3, 3}, {4, 4, 4, 4}, {1, 8, 2, 1}, {7, 7},          {8, 3, 8},
	};
	const struct stretto_algorithm *algorithm =
		stretto_algorithm_find(STRETTO_ALLREDUCE, "hierarchical");
	(void)state;
	assert_non_null(algorithm);
	for (size_t i = 0; i < sizeof(placements) / sizeof(*placements); i++)
		for (int dealing = BLOCKS; dealing < DEALINGS; dealing++) {
			int node[24], nodes = 0;

			while (nodes < 6 && placements[i][nodes] > 0)
				nodes++;
			struct stretto_shape shape = {
				.collective = STRETTO_ALLREDUCE,
				.size = deal(placements[i], nodes, (enum dealing)dealing, node),
				.node = node,
				.nodes = nodes,
			};
			prove_counts(algorithm, shape);
		}
}

/* m ranks on each of N nodes, 12 elements for each rank; and what only senders and leaders do. */
static void hierarchical_keeps_its_promise(void **state)
{
	(void)state;
	for (int nodes = 1; nodes <= 4; nodes++)
		for (int m = nodes > 1 ? 1 : 2; m <= 6; m++) {
			int counts[] = {m, m, m, m}, node[24];
			size_t n = (size_t)nodes, block = 12, part = block * n;
			struct stretto_shape shape = {
				.collective = STRETTO_ALLREDUCE,
				.size = deal(counts, nodes, CYCLIC, node),
				.count = part * (size_t)m,
				.node = node,
				.nodes = nodes,
			};
			shape.stride = shape.count;
			size_t within = 2 * part * (size_t)(m - 1);
			size_t across = 2 * block * (n - 1);

			keep_promise_of("hierarchical", shape,
					(struct promise){2 * (nodes - 1) + (m > 1 ? 2 : 0),
							 within + across, within / 2 + across / 2,
							 m - 1 + nodes - 1});
		}
}

/* Elements that go to other nodes: no more from a node than its leaders' rings carry. */
static void hierarchical_sends_each_part_once_between_nodes(void **state)
{
	const int counts[] = {3, 5, 4};
	int node[12];
	struct stretto_shape shape = {
		.collective = STRETTO_ALLREDUCE,
		.size = deal(counts, 3, RANDOM, node),
		.count = 90,
		.stride = 90,
		.node = node,
		.nodes = 3,
	};
	struct stretto_schedule *all =
		build_all(stretto_algorithm_find(STRETTO_ALLREDUCE, "hierarchical"), shape, APART);
	size_t sent[3] = {0};

	(void)state;
	for (int r = 0; r < shape.size; r++)
		for (int i = 0; i < all[r].step_count; i++) {
			const struct stretto_step *step = &all[r].steps[i];

			if (step->kind == STRETTO_STEP_SEND && node[r] != node[step->peer])
				sent[node[r]] += step->a.count;
		}
	for (int n = 0; n < 3; n++)
		assert_int_equal(sent[n], 2 * 90 * 2 / 3);
	free_all(all, shape.size);
}

static void windows_and_costs_are_sane(void **state)
{
	const struct stretto_link near = {1e-6, 1 / 8e9, 1 / 10e9, 32 << 10};
	const struct stretto_link far = {3e-6, 1 / 6e9, 1 / 10e9, 128 << 10};
	(void)state;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (int size = 2; size <= 1024; size *= 2)
			for (int nodes = 1; nodes <= size; nodes *= 2) {
				struct stretto_group group = {
					.size = size,
					.nodes = nodes,
					.least = size / nodes - (size > 2 * nodes),
					.most = size / nodes,
					.link = nodes > 1 ? &far : &near,
					.near = &near,
				};
				costs_are_sane(stretto_algorithms[i], &group);
			}
}

static void names_are_found_for_their_collective(void **state)
{
	(void)state;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		assert_ptr_equal(stretto_algorithm_find(stretto_algorithms[i]->collective,
							stretto_algorithms[i]->name),
				 stretto_algorithms[i]);
	assert_null(stretto_algorithm_find(STRETTO_BARRIER, "ring"));
	assert_null(stretto_algorithm_find(STRETTO_ALLREDUCE, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allreduce_is_proved),
		cmocka_unit_test(every_broadcast_is_proved_for_its_roots),
		cmocka_unit_test(every_allgather_is_proved),
		cmocka_unit_test(every_reduce_scatter_is_proved),
		cmocka_unit_test(every_barrier_is_proved),
		cmocka_unit_test(every_reduce_is_proved_for_its_roots),
		cmocka_unit_test(every_alltoall_is_proved),
		cmocka_unit_test(blocks_that_may_vary_are_proved_alike),
		cmocka_unit_test(every_gather_is_proved_for_its_roots),
		cmocka_unit_test(every_scatter_is_proved_for_its_roots),
		cmocka_unit_test(costs_are_as_promised),
		cmocka_unit_test(hierarchical_is_proved_wherever_ranks_are),
		cmocka_unit_test(hierarchical_keeps_its_promise),
		cmocka_unit_test(hierarchical_sends_each_part_once_between_nodes),
		cmocka_unit_test(windows_and_costs_are_sane),
		cmocka_unit_test(names_are_found_for_their_collective),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
