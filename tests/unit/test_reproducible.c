/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STRETTO_REPRODUCIBLE: sums that depend on the order of additions have the same bits whatever else
 * changes, and these are the bits of the canonical order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "runtime/comm.h"
#include "tests/lib/canonical.h"
#include "tests/lib/ranks.h"

#define REPRODUCIBLE  "STRETTO_REPRODUCIBLE=1"
#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void run_sizes(const char *const *settings, size_t large)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (!TEST_SANITIZED || sizes[i] == 3 || sizes[i] == 6)
			run_ranks(sizes[i], settings, canonical_rank, &large);
}

static void any_algorithm_length_and_number_of_ranks(void **state)
{
	(void)state;
	run_sizes(SETTINGS(REPRODUCIBLE), 20011);
}

static void any_window(void **state)
{
	(void)state;
	run_sizes(SETTINGS(REPRODUCIBLE, "STRETTO_WINDOW=1K", "STRETTO_WINDOWS=4"), 3001);
	run_ranks(5, SETTINGS(REPRODUCIBLE, "STRETTO_WINDOW=100000", "STRETTO_WINDOWS=1"),
		  canonical_rank, &(size_t){50021});
}

static void any_way_through_shared_memory_or_paced(void **state)
{
	size_t large = 5003;
	(void)state;
	run_ranks(6, SETTINGS(REPRODUCIBLE, "STRETTO_SHM_CMA=no", "STRETTO_SHM_EAGER=100"),
		  canonical_rank, &large);
	run_ranks(5, SETTINGS(REPRODUCIBLE, "STRETTO_PACE=40gbit:2us"), canonical_rank, &large);
	run_ranks(1, SETTINGS(REPRODUCIBLE, "STRETTO_TRANSPORTS=self"), canonical_rank, &large);
}

/* Long enough for several channels to have a share. */
static void any_number_of_channels(void **state)
{
	size_t large = 150011;
	(void)state;
	run_ranks(3, SETTINGS(REPRODUCIBLE, "STRETTO_CHANNELS=2"), canonical_rank, &large);
	run_ranks(3, SETTINGS(REPRODUCIBLE, "STRETTO_CHANNELS=3"), canonical_rank, &large);
}

static void ranks_as_processes(void **state)
{
	size_t large = 20011;
	(void)state;
	assert_int_equal(run_processes(3, SETTINGS(REPRODUCIBLE), canonical_rank, &large, 100), 0);
	assert_int_equal(run_processes(5, SETTINGS(REPRODUCIBLE, "STRETTO_WINDOW=4K"),
				       canonical_rank, &large, 100),
			 0);
}

/* A communicator of the same ranks in reverse adds in its own order. */
static void split_rank(struct stretto_comm *world, void *argument)
{
	struct stretto_comm *reversed;

	require(stretto_comm_split(world, 0, -stretto_comm_rank(world), &reversed) == STRETTO_OK);
	canonical_rank(reversed, argument);
	stretto_comm_free(reversed);
}

static void ranks_count_as_the_communicator_does(void **state)
{
	(void)state;
	run_ranks(5, SETTINGS(REPRODUCIBLE), split_rank, &(size_t){1009});
}

/* The values do depend on the order: these tests would see another one. */
static void ring_rank(struct stretto_comm *world, void *argument)
{
	static const enum stretto_type types[] = {STRETTO_F32, STRETTO_F64, STRETTO_F16,
						  STRETTO_BF16};

	(void)argument;
	for (size_t t = 0; t < 4; t++) {
		struct canonical canonical = {
			.collective = STRETTO_ALLREDUCE, .type = types[t], .count = 1009};

		canonical.algorithm = "ring";
		require(canonical_differing(world, &canonical) > 100);
		canonical.algorithm = "tree";
		require(canonical_differing(world, &canonical) > 100);
		canonical.collective = STRETTO_REDUCE_SCATTER;
		canonical.algorithm = "ring";
		require(canonical_differing(world, &canonical) > 100);
	}
}

static void other_orders_differ(void **state)
{
	(void)state;
	run_ranks(5, NULL, ring_rank, NULL);
}

static void barred_rank(struct stretto_comm *world, void *argument)
{
	float x = 1;
	struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
					 .type = STRETTO_F32,
					 .count = 1,
					 .in = &x,
					 .out = &x,
					 .algorithm = "ring"};

	(void)argument;
	require(stretto_coll_run(world, &args) == STRETTO_INVALID);
	args.algorithm = NULL; /* nothing is broken */
	require(stretto_coll_run(world, &args) == STRETTO_OK && x == 2);
}

static void another_algorithm_is_refused(void **state)
{
	(void)state;
	run_ranks(2, SETTINGS(REPRODUCIBLE), barred_rank, NULL);
}

/* Ranks that would add in different orders must not come to an end together. */
static void mismatch_rank(struct stretto_comm *world, void *argument)
{
	float x = 1;

	(void)argument;
	world->world->config.reproducible = stretto_comm_rank(world) == 0;
	require(stretto_allreduce(world, &x, &x, 1, STRETTO_F32, STRETTO_SUM) == STRETTO_MISMATCH);
	require(strstr(stretto_comm_error(world), "float, sum, reproducible)"));
	require(strstr(stretto_comm_error(world), "float, sum)"));
}

static void a_rank_without_the_setting_is_a_mismatch(void **state)
{
	(void)state;
	run_ranks(2, NULL, mismatch_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_algorithm_length_and_number_of_ranks),
		cmocka_unit_test(any_window),
		cmocka_unit_test(any_way_through_shared_memory_or_paced),
		cmocka_unit_test(any_number_of_channels),
		cmocka_unit_test(ranks_as_processes),
		cmocka_unit_test(ranks_count_as_the_communicator_does),
		cmocka_unit_test(other_orders_differ),
		cmocka_unit_test(another_algorithm_is_refused),
		cmocka_unit_test(a_rank_without_the_setting_is_a_mismatch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
