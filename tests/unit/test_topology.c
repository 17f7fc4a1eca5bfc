/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_topology.c: who is on which node, and what follows from it: the order of the ranks, which
 * transport takes a peer, the collectives over several nodes. The nodes of the second half are
 * this machine under several names (STRETTO_NODE), with shm within and UCX between them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "runtime/comm.h"
#include "tests/lib/canonical.h"
#include "tests/lib/matrix.h"
#include "tests/lib/ranks.h"

static struct stretto_node_id identify(const char *node)
{
	struct stretto_config config = {0};
	struct stretto_node_id id;

	snprintf(config.node, sizeof config.node, "%s", node);
	assert_int_equal(stretto_node_identify(&config, &id), STRETTO_OK);
	return id;
}

static void a_node_is_a_kernel_a_network_and_a_word(void **state)
{
	const struct stretto_node_id here = identify("");
	struct stretto_node_id again = identify(""), other = identify("a");

	(void)state;
	assert_true(stretto_node_same(&here, &again));
	assert_false(stretto_node_same(&here, &other));
	again = identify("a");
	assert_true(stretto_node_same(&other, &again));
	again = identify("b");
	assert_false(stretto_node_same(&other, &again));

	other = here;
	other.boot[15]++;
	assert_false(stretto_node_same(&here, &other));
	other = here;
	other.net_inode++;
	assert_false(stretto_node_same(&here, &other));
}

/* One placement and what comes of it. */
struct placing {
	int size, limit;
	int nodes[8]; /* any numbers below limit */
	int count, least, most;
	int node[8], order[8], local_rank[8];
};

static void placings_are_ordered(void **state)
{
	static const struct placing placings[] = {
		{1, 9, {8}, 1, 1, 1, {0}, {0}, {0}},
		{4, 1, {0, 0, 0, 0}, 1, 4, 4, {0, 0, 0, 0}, {0, 1, 2, 3}, {0, 1, 2, 3}},
		{4, 9, {5, 5, 2, 2}, 2, 2, 2, {0, 0, 1, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}},
		{4, 9, {5, 2, 5, 2}, 2, 2, 2, {0, 1, 0, 1}, {0, 2, 1, 3}, {0, 0, 1, 1}},
		{6,
		 9,
		 {3, 0, 7, 7, 0, 7},
		 3,
		 1,
		 3,
		 {0, 1, 2, 2, 1, 2},
		 {0, 1, 4, 2, 3, 5},
		 {0, 0, 0, 1, 1, 2}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof placings / sizeof *placings; i++) {
		const struct placing *want = &placings[i];
		size_t bytes = (size_t)want->size * sizeof(int);
		struct stretto_topology got;

		assert_int_equal(stretto_topology_init(&got, want->nodes, want->size, want->limit),
				 STRETTO_OK);
		assert_int_equal(got.nodes, want->count);
		assert_int_equal(got.least, want->least);
		assert_int_equal(got.most, want->most);
		assert_memory_equal(got.node, want->node, bytes);
		assert_memory_equal(got.order, want->order, bytes);
		assert_memory_equal(got.local_rank, want->local_rank, bytes);
		for (int place = 0; place < want->size; place++) {
			assert_int_equal(got.place[got.order[place]], place);
			assert_int_equal(got.node_at[place], got.node[got.order[place]]);
		}
		stretto_topology_fini(&got);
	}
}

#ifdef STRETTO_HAVE_UCX

static const char *const settings[] = {"STRETTO_TRANSPORTS=self,shm,ucx", NULL};
static const char *const windows[] = {"STRETTO_TRANSPORTS=self,shm,ucx", "STRETTO_WINDOW=16K",
				      NULL};

/* A communicator says of its ranks what is true of them. */
static void check_topology(const struct stretto_comm *comm, const int *nodes)
{
	const struct stretto_topology *topology = &comm->topology;

	require(topology->size == comm->size);
	for (int a = 0; a < comm->size; a++)
		for (int b = 0; b < comm->size; b++)
			require((topology->node[a] == topology->node[b]) ==
				(nodes[comm->ranks[a]] == nodes[comm->ranks[b]]));
	for (int place = 0; place < comm->size; place++)
		require(comm->ordered[place] == comm->ranks[topology->order[place]]);
}

static void communicators_know_where_ranks_are(struct stretto_comm *world, void *argument)
{
	const int *nodes = argument;
	int rank = stretto_comm_rank(world), here = 0;
	struct stretto_comm *backwards, *node;

	check_topology(world, nodes);
	require(world->topology.nodes == 3);
	require(world->topology.least == 1 && world->topology.most == 3);
	for (int peer = 0; peer < world->size; peer++)
		here += nodes[peer] == nodes[rank];
	require(world->world->local_size == here);
	require(world->world->mapped);

	require(stretto_comm_split(world, 0, -rank, &backwards) == STRETTO_OK);
	check_topology(backwards, nodes);
	require(stretto_comm_split(world, nodes[rank], 0, &node) == STRETTO_OK);
	check_topology(node, nodes);
	require(node->topology.nodes == 1 && node->topology.least == here);
	stretto_comm_free(node);
	stretto_comm_free(backwards);
}

static void ranks_learn_where_the_others_are(void **state)
{
	static int nodes[] = {7, 3, 3, 5, 7, 3};

	(void)state;
	run_ranks_on(nodes, 6, settings, communicators_know_where_ranks_are, nodes);
}

/* Ranks 0 2 on one node, 1 3 on the other: the ring is 0 2 1 3, the order of the rank's number no
 * ring at all. */
static void ring_rank(struct stretto_comm *world, void *argument)
{
	static const int neighbours[4][2] = {{2, 3}, {2, 3}, {0, 1}, {1, 0}};
	const struct stretto_channel *channel = world->world->channels[0];
	int rank = stretto_comm_rank(world);
	float x = 1;
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.count = 1,
		.in = &x,
		.out = &x,
		.algorithm = "ring",
	};

	(void)argument;
	require(stretto_coll_run(world, &args) == STRETTO_OK);
	require(x == 4);
	for (int peer = 0; peer < 4; peer++) {
		const struct stretto_endpoint *endpoint = channel->endpoints[peer];
		bool is_neighbour = peer == neighbours[rank][0] || peer == neighbours[rank][1];

		require((endpoint != NULL) == is_neighbour);
		if (endpoint)
			require(strcmp(endpoint->transport->name,
				       peer % 2 == rank % 2 ? "shm" : "ucx") == 0);
	}
}

static void rings_go_from_node_to_node_once(void **state)
{
	static const int nodes[] = {0, 1, 0, 1};

	(void)state;
	run_ranks_on(nodes, 4, settings, ring_rank, NULL);
}

/* With many leaders, few, and one; in one window and several. */
static void matrix_over_nodes(void **state)
{
	static const int cyclic[] = {0, 1, 0, 1}, uneven[] = {2, 0, 1, 0, 0, 2};
	static const int apart[] = {0, 1, 2};
	struct matrix matrix = {.large = 30011, .brief = true};

	(void)state;
	run_ranks_on(cyclic, 4, settings, matrix_rank, &matrix);
	if (TEST_SLOW)
		return;
	run_ranks_on(uneven, 6, windows, matrix_rank, &matrix);
	run_ranks_on(apart, 3, settings, matrix_rank, &matrix);
}

static void many_at_a_time_over_nodes(void **state)
{
	static const int nodes[] = {1, 0, 1, 1};
	int rounds = 10;

	(void)state;
	run_ranks_on(nodes, 4, settings, interleave_rank, &rounds);
}

/* Sums that depend on the order: all ranks get the bits of rank 0, and the same every time. */
static void bits_rank(struct stretto_comm *world, void *argument)
{
	enum { COUNT = 20011 };
	float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out),
	      *first = malloc(COUNT * sizeof *first);
	uint64_t random = test_seed() + (uint64_t)stretto_comm_rank(world);
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.op = STRETTO_AVG,
		.count = COUNT,
		.in = in,
		.out = out,
		.algorithm = "hierarchical",
	};

	(void)argument;
	require(in && out && first);
	for (int i = 0; i < COUNT; i++)
		in[i] = (float)(int64_t)next_random(&random);
	for (int round = 0; round < 5; round++) {
		require(stretto_coll_run(world, &args) == STRETTO_OK);
		if (round == 0) {
			memcpy(first, out, COUNT * sizeof *out);
			require(stretto_broadcast(world, first, COUNT, STRETTO_F32, 0) ==
				STRETTO_OK);
		}
		require(memcmp(first, out, COUNT * sizeof *out) == 0);
	}
	free(in);
	free(out);
	free(first);
}

static void all_ranks_get_the_same_bits(void **state)
{
	static const int nodes[] = {0, 1, 1, 0, 0, 1, 0};

	(void)state;
	test_seed();
	run_ranks_on(nodes, 7, windows, bits_rank, NULL);
}

/* By recursive doubling, which is canonical only for ranks that count as the communicator does. */
static void ordered_rank(struct stretto_comm *world, void *argument)
{
	struct canonical canonical = {.collective = STRETTO_ALLREDUCE,
				      .type = STRETTO_F32,
				      .count = 1009,
				      .algorithm = "doubling"};

	(void)argument;
	require(canonical_differing(world, &canonical) > 100);
}

static void reproducible_sums_do_not_depend_on_nodes(void **state)
{
	static const int cyclic[] = {0, 1, 0, 1}, mixed[] = {0, 1, 1, 0, 0, 1, 0};
	static const char *const reproducible[] = {"STRETTO_TRANSPORTS=self,shm,ucx",
						   "STRETTO_REPRODUCIBLE=1", NULL};
	static const char *const by_ucx[] = {"STRETTO_TRANSPORTS=self,ucx",
					     "STRETTO_REPRODUCIBLE=1", NULL};
	size_t large = 20011;

	(void)state;
	run_ranks_on(cyclic, 4, settings, ordered_rank, NULL);
	run_ranks_on(cyclic, 4, reproducible, canonical_rank, &large);
	if (TEST_SLOW)
		return;
	run_ranks_on(mixed, 7, reproducible, canonical_rank, &large);
	run_ranks(3, by_ucx, canonical_rank, &large);
}

/* Nothing within the node could be mapped: ranks of a node are still known, but bring no gain. */
static void unmapped_rank(struct stretto_comm *world, void *argument)
{
	(void)argument;
	require(world->topology.nodes == 1);
	require(!world->world->mapped);
}

static void without_shm_memory_is_not_common(void **state)
{
	(void)state;
	run_ranks(2, (const char *const[]){"STRETTO_TRANSPORTS=self,ucx", NULL}, unmapped_rank,
		  NULL);
}

#endif

int main(int count, char **arguments)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_a_kernel_a_network_and_a_word),
		cmocka_unit_test(placings_are_ordered),
#ifdef STRETTO_HAVE_UCX
		cmocka_unit_test(ranks_learn_where_the_others_are),
		cmocka_unit_test(rings_go_from_node_to_node_once),
		cmocka_unit_test(matrix_over_nodes),
		cmocka_unit_test(many_at_a_time_over_nodes),
		cmocka_unit_test(all_ranks_get_the_same_bits),
		cmocka_unit_test(reproducible_sums_do_not_depend_on_nodes),
		cmocka_unit_test(without_shm_memory_is_not_common),
#endif
	};

	(void)count;
	use_ucx_over_tcp(arguments);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
