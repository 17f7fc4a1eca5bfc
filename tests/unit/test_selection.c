/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "collectives/selection.h"

/* A call and the configuration it meets. */
struct setup {
	struct stretto_config config;
	struct stretto_coll_args args;
	struct stretto_choice choice;
};

static struct setup make(enum stretto_collective collective, size_t count)
{
	struct setup setup = {
		.args = {.collective = collective, .type = STRETTO_F32, .count = count}};
	return setup;
}

static stretto_status choose(struct setup *setup, const char *setting, int size)
{
	snprintf(setup->config.algorithm, sizeof(setup->config.algorithm), "%s", setting);
	struct stretto_group group = stretto_group_on_node(size);
	group.board = false; /* those by messages */
	return stretto_select(&setup->config, &group, &setup->args, &setup->choice);
}

static const char *chosen(struct setup *setup, const char *setting, int size)
{
	assert_int_equal(choose(setup, setting, size), STRETTO_OK);
	return setup->choice.algorithm->name;
}

static void the_call_comes_before_the_setting_and_that_before_the_cost(void **state)
{
	struct setup setup = make(STRETTO_ALLREDUCE, 10);
	(void)state;
	assert_string_equal(chosen(&setup, "", 8), "doubling");
	assert_string_equal(chosen(&setup, "broadcast=chain,allreduce=ring", 8), "ring");
	assert_non_null(strstr(setup.choice.reason, "STRETTO_ALGORITHM"));
	setup.args.algorithm = "tree";
	assert_string_equal(chosen(&setup, "allreduce=ring", 8), "tree");
	assert_non_null(strstr(setup.choice.reason, "call"));
}

static void a_setting_for_others_changes_nothing(void **state)
{
	struct setup setup = make(STRETTO_BARRIER, 0);
	(void)state;
	assert_string_equal(chosen(&setup, "allreduce=ring,broadcast=chain", 8), "dissemination");
}

static void unknown_names_are_refused(void **state)
{
	static const char *const bad[] = {
		"ring",
		"allreduce",
		"allreduce=",
		"allreduce=chain",
		"reduce=ring",
		"allreduce=ring,x",
		"broadcast=chain;barrier",
		"=ring",
	};
	struct setup setup = make(STRETTO_ALLREDUCE, 10);
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(choose(&setup, bad[i], 4), STRETTO_INVALID);
		assert_null(setup.choice.algorithm); /* untouched */
	}
	setup.args.algorithm = "binomial"; /* of another collective */
	assert_int_equal(choose(&setup, "", 4), STRETTO_INVALID);
	setup.args.algorithm = "ring"; /* a bad setting is seen all the same */
	assert_int_equal(choose(&setup, "allreduce=rinf", 4), STRETTO_INVALID);
}

static void long_vectors_take_algorithms_that_share_the_load(void **state)
{
	const size_t million = 1000000;
	struct setup setup = make(STRETTO_ALLREDUCE, 25 * million);
	(void)state;
	assert_string_equal(chosen(&setup, "", 8), "ring");
	assert_memory_equal(setup.choice.reason, "model: least of ring ", 21);
	assert_non_null(strstr(setup.choice.reason, ", doubling "));
	assert_non_null(strstr(setup.choice.reason, ", tree "));
	setup = make(STRETTO_BROADCAST, 25 * million);
	assert_string_equal(chosen(&setup, "", 8), "chain");
	setup = make(STRETTO_BROADCAST, 10);
	assert_string_equal(chosen(&setup, "", 8), "binomial");
}

/* The reason names the cost of each, and the chosen one has the least. */
static void the_choice_has_the_least_cost(void **state)
{
	(void)state;
	for (int size = 1; size <= 256; size *= 2)
		for (size_t count = 1; count < (size_t)1 << 28; count *= 8) {
			struct setup setup = make(STRETTO_ALLREDUCE, count);
			chosen(&setup, "", size);
			const struct stretto_algorithm *best = setup.choice.algorithm;
			size_t bytes = 4 * count;
			struct stretto_group group = stretto_group_on_node(size);
			double least = best->cost(&group, bytes, best->window(&group, bytes));
			for (size_t i = 0; stretto_algorithms[i]; i++) {
				const struct stretto_algorithm *one = stretto_algorithms[i];
				if (one->collective == STRETTO_ALLREDUCE && !one->suits)
					assert_true(least <= one->cost(&group, bytes,
								       one->window(&group, bytes)));
			}
		}
}

static const char *chosen_on(struct setup *setup, const struct stretto_group *group)
{
	assert_int_equal(stretto_select(&setup->config, group, &setup->args, &setup->choice),
			 STRETTO_OK);
	return setup->choice.algorithm->name;
}

static void several_nodes_of_several_ranks_are_a_hierarchy(void **state)
{
	const size_t million = 1000000;
	struct setup setup = make(STRETTO_ALLREDUCE, 25 * million);
	struct stretto_group group = {8, 4, 2, 2, &stretto_link_network, &stretto_link_shm, false};
	(void)state;
	assert_string_equal(chosen_on(&setup, &group), "hierarchical");
	setup = make(STRETTO_ALLREDUCE, 1); /* too many rounds for a short one */
	assert_string_equal(chosen_on(&setup, &group), "doubling");
	assert_non_null(strstr(setup.choice.reason, "hierarchical"));

	/* It is not even considered on one node, of one rank a node, and without common memory. */
	const struct stretto_group others[] = {
		{8, 1, 8, 8, &stretto_link_shm, &stretto_link_shm, false},
		{8, 8, 1, 1, &stretto_link_network, &stretto_link_shm, false},
		{8, 4, 2, 2, &stretto_link_network, &stretto_link_network, false},
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		setup = make(STRETTO_ALLREDUCE, 25 * million);
		assert_string_equal(chosen_on(&setup, &others[i]), "ring");
		assert_null(strstr(setup.choice.reason, "hierarchical"));
	}
	setup = make(STRETTO_ALLREDUCE, 10); /* unless it is asked for */
	assert_string_equal(chosen(&setup, "allreduce=hierarchical", 8), "hierarchical");
}

static void reproducible_reductions_take_canonical_algorithms_only(void **state)
{
	static const enum stretto_collective collectives[] = {STRETTO_ALLREDUCE,
							      STRETTO_REDUCE_SCATTER};
	struct stretto_group hierarchy = {8,    4, 2, 2, &stretto_link_network, &stretto_link_shm,
					  false};
	(void)state;
	for (size_t c = 0; c < 2; c++)
		for (size_t count = 1; count < (size_t)1 << 28; count *= 8) {
			struct setup setup = make(collectives[c], count);
			setup.config.reproducible = true;
			chosen(&setup, "", 8);
			assert_true(setup.choice.algorithm->canonical);
			assert_null(strstr(setup.choice.reason, "ring"));
			chosen_on(&setup, &hierarchy);
			assert_true(setup.choice.algorithm->canonical);
		}
	struct setup setup = make(STRETTO_ALLREDUCE, 25000000);
	setup.config.reproducible = true;
	assert_string_equal(chosen(&setup, "", 8), "rabenseifner");
	assert_string_equal(chosen(&setup, "allreduce=doubling", 8), "doubling");
	setup = make(STRETTO_ALLGATHER, 10); /* nothing is added: any will do */
	setup.config.reproducible = true;
	assert_string_equal(chosen(&setup, "allgather=ring", 8), "ring");
}

static void other_algorithms_are_refused_where_sums_are_reproducible(void **state)
{
	static const char *const barred[] = {"ring", "tree", "hierarchical"};
	(void)state;
	for (size_t i = 0; i < sizeof(barred) / sizeof(*barred); i++) {
		char setting[64];
		struct setup setup = make(STRETTO_ALLREDUCE, 10);
		setup.config.reproducible = true;
		snprintf(setting, sizeof(setting), "allreduce=%s", barred[i]);
		assert_int_equal(choose(&setup, setting, 4), STRETTO_INVALID);
		setup.args.algorithm = barred[i];
		assert_int_equal(choose(&setup, "", 4), STRETTO_INVALID);
		assert_null(setup.choice.algorithm); /* untouched */
		setup.config.reproducible = false;
		assert_string_equal(chosen(&setup, "", 4), barred[i]);
	}
	struct setup setup = make(STRETTO_REDUCE_SCATTER, 10);
	setup.config.reproducible = true;
	assert_int_equal(choose(&setup, "reduce_scatter=ring", 4), STRETTO_INVALID);
	assert_string_equal(chosen(&setup, "allreduce=ring", 4), "halving"); /* for others */
}

/*
 * Walks through all sizes: the estimate of what is chosen never falls, whichever algorithm and window
 * more bytes take. Exact: these are the model's own numbers, and nothing is measured.
 */
static void assert_monotone(enum stretto_collective collective, const struct stretto_group *group)
{
	struct setup setup = make(collective, 0);
	const char *last = "";
	double before = 0;

	setup.args.type = STRETTO_U8;
	for (size_t bytes = 1; bytes < (size_t)1 << 30; bytes += 1 + bytes / 16) {
		setup.args.count = bytes;
		chosen_on(&setup, group);
		if (setup.choice.seconds < before)
			fail_msg("%s on %d ranks of %d nodes, latency %g, %zu bytes: %s takes %g "
				 "s, less than %s with %g s of fewer bytes",
				 stretto_collective_name(collective), group->size, group->nodes,
				 group->link->latency, bytes, setup.choice.algorithm->name,
				 setup.choice.seconds, last, before);
		before = setup.choice.seconds;
		last = setup.choice.algorithm->name;
	}
}

/* Nodes as ranks fill them, and links that a tuning file may describe. */
static void estimates_never_fall_by_a_change_of_algorithm(void **state)
{
	static const struct stretto_link links[] = {
		{1e-6, 1 / 8e9, 1 / 10e9, 32 << 10},    /* built in */
		{3e-6, 1 / 6e9, 1 / 10e9, 128 << 10},   /* built in, network */
		{2e-7, 1 / 6e10, 1 / 1e11, 64 << 10},   /* all in the caches */
		{5e-5, 1 / 1.25e8, 1 / 10e9, 32 << 10}, /* 1 Gbit/s Ethernet */
		{5e-6, 1 / 6e10, 1 / 1e10, 2 << 20},    /* as measured on a busy machine */
		{1e-9, 1e-3, 1e-14, 1},                 /* the ends of the ranges */
	};
	static const int nodes[][4] = {{2, 1, 2, 2}, {7, 1, 7, 7},   {2, 2, 1, 1}, {8, 4, 2, 2},
				       {7, 2, 3, 4}, {16, 16, 1, 1}, {64, 8, 8, 8}};
	(void)state;
	for (int c = 0; c < STRETTO_COLLECTIVE_COUNT; c++)
		for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++)
			for (size_t l = 0; l < sizeof(links) / sizeof(*links); l++)
				for (size_t near = 0; near < 2; near++) {
					const struct stretto_group group = {
						nodes[n][0],
						nodes[n][1],
						nodes[n][2],
						nodes[n][3],
						&links[l],
						near ? &links[l] : &links[0],
						nodes[n][1] == 1 && near};

					assert_monotone((enum stretto_collective)c, &group);
				}
}

/* Where the ranks have a board: short vectors are on it, long ones are read where they are. */
static void ranks_that_map_their_memory_need_no_messages(void **state)
{
	const struct stretto_group group = stretto_group_on_node(2);
	struct setup setup = make(STRETTO_ALLREDUCE, 1);
	const float factor = 2;
	(void)state;
	assert_string_equal(chosen_on(&setup, &group), "flat");
	setup.args.count = 1 << 20;
	assert_string_equal(chosen_on(&setup, &group), "direct");
	setup.args.scale = &factor;
	chosen_on(&setup, &group);
	assert_false(setup.choice.algorithm->mapped);
	setup = make(STRETTO_BARRIER, 0);
	assert_string_equal(chosen_on(&setup, &group), "flat");
	assert_string_equal(chosen(&setup, "", 2), "dissemination"); /* without a board */
}

/* A hint for what cannot be is refused; a setting is for the calls that it fits. */
static void what_an_algorithm_cannot_do_is_not_asked_of_it(void **state)
{
	const struct stretto_group group = stretto_group_on_node(4);
	const size_t most = 8192 / sizeof(float);
	struct setup setup = make(STRETTO_ALLREDUCE, most);
	const float factor = 2;
	(void)state;
	setup.args.algorithm = "flat";
	assert_string_equal(chosen_on(&setup, &group), "flat");
	assert_int_equal(choose(&setup, "", 4), STRETTO_INVALID); /* without a board */
	setup.args.scale = &factor;
	assert_int_equal(stretto_select(&setup.config, &group, &setup.args, &setup.choice),
			 STRETTO_INVALID);
	setup.args.scale = NULL;
	setup.args.count = most + 1;
	assert_int_equal(stretto_select(&setup.config, &group, &setup.args, &setup.choice),
			 STRETTO_INVALID);
	setup.args.algorithm = NULL;
	snprintf(setup.config.algorithm, sizeof(setup.config.algorithm), "allreduce=flat");
	assert_string_not_equal(chosen_on(&setup, &group), "flat");
	setup.args.count = most;
	assert_string_equal(chosen_on(&setup, &group), "flat");
	assert_non_null(strstr(setup.choice.reason, "STRETTO_ALGORITHM"));
	setup.config.window_bytes = 64; /* a payload of the board is one window */
	assert_string_equal(chosen_on(&setup, &group), "flat");
	assert_int_equal(setup.choice.window, most);
}

static void windows_are_in_elements(void **state)
{
	struct setup setup = make(STRETTO_ALLREDUCE, 1 << 20);
	(void)state;
	setup.config.window_bytes = 65536;
	chosen(&setup, "", 4);
	assert_int_equal(setup.choice.window, 65536 / 4);

	setup.args.collective = STRETTO_ALLGATHER; /* bytes of all blocks together */
	chosen(&setup, "", 4);
	assert_int_equal(setup.choice.window, 65536 / 4 / 4);

	setup.config.window_bytes = 1; /* at least one element */
	chosen(&setup, "", 4);
	assert_int_equal(setup.choice.window, 1);

	setup = make(STRETTO_ALLREDUCE, 100); /* at most all */
	chosen(&setup, "allreduce=doubling", 4);
	assert_int_equal(setup.choice.window, 100);

	setup = make(STRETTO_ALLREDUCE, 0);
	chosen(&setup, "", 4);
	assert_int_equal(setup.choice.window, 1);
}

static void long_rings_have_several_windows(void **state)
{
	struct setup setup = make(STRETTO_ALLREDUCE, 1 << 20); /* 4 MiB */
	(void)state;
	chosen(&setup, "allreduce=ring", 4);
	assert_in_range((1 << 20) / setup.choice.window, 2, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_call_comes_before_the_setting_and_that_before_the_cost),
		cmocka_unit_test(a_setting_for_others_changes_nothing),
		cmocka_unit_test(unknown_names_are_refused),
		cmocka_unit_test(long_vectors_take_algorithms_that_share_the_load),
		cmocka_unit_test(the_choice_has_the_least_cost),
		cmocka_unit_test(several_nodes_of_several_ranks_are_a_hierarchy),
		cmocka_unit_test(reproducible_reductions_take_canonical_algorithms_only),
		cmocka_unit_test(other_algorithms_are_refused_where_sums_are_reproducible),
		cmocka_unit_test(estimates_never_fall_by_a_change_of_algorithm),
		cmocka_unit_test(ranks_that_map_their_memory_need_no_messages),
		cmocka_unit_test(what_an_algorithm_cannot_do_is_not_asked_of_it),
		cmocka_unit_test(windows_are_in_elements),
		cmocka_unit_test(long_rings_have_several_windows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
