/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_collectives.c: the matrix. Every collective and algorithm over the transports, on 1 to 9,
 * 16, 17 and 24 ranks (threads), awkward counts, all types and operations, in place and not,
 * registered memory and not, with guard bytes and rounds of changing data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/algorithm.h"
#include "tests/lib/matrix.h"
#include "tests/lib/ranks.h"

/* On up to 24 ranks by the default way; by another one on every second of these numbers. */
static void run_matrix(const char *const *settings, size_t large)
{
	static const int sizes[] = {1, 4, 2, 6, 3, 7, 5, 16, 8, 17, 9, 24};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += settings[0] ? 2 : 1) {
		struct matrix matrix = {.large = sizes[i] > 9 ? large / 8 : large};

		if (TEST_SANITIZED && sizes[i] > 3 && (sizes[i] != 8 || settings[0]))
			continue;
		if (TEST_SLOW && sizes[i] < 3)
			continue;
		run_ranks(sizes[i], settings, matrix_rank, &matrix);
	}
}

static void matrix_over_shm(void **state)
{
	(void)state;
	run_matrix((const char *const[]){NULL}, 30011);
}

static void matrix_in_small_windows(void **state)
{
	(void)state;
	run_matrix((const char *const[]){"STRETTO_WINDOW=1K", "STRETTO_WINDOWS=4", NULL}, 3001);
}

static void matrix_over_shm_without_cma(void **state)
{
	(void)state;
	run_matrix((const char *const[]){"STRETTO_SHM_CMA=no", "STRETTO_SHM_EAGER=100", NULL},
		   30011);
}

static void matrix_over_paced(void **state)
{
	(void)state;
	run_matrix((const char *const[]){"STRETTO_PACE=40gbit:2us", NULL}, 3001);
}

static void matrix_over_two_channels(void **state)
{
	(void)state;
	run_ranks(3, (const char *const[]){"STRETTO_CHANNELS=2", NULL}, matrix_rank,
		  &(struct matrix){.large = 300007});
}

/*
 * Every type with every operation it has goes through the ring on 3 ranks; other algorithms and
 * sizes take a sixth of them in turn, so that each meets all classes of types. (Under sanitizers all
 * take a part in 12 or 24.)
 */
static bool takes(const struct cell *cell, size_t algorithm, int size)
{
	const size_t stride = TEST_SLOW ? 24 : TEST_SANITIZED ? 12 : 6;

	if (!stretto_type_has_op(cell->type, cell->op))
		return false;
	if (!TEST_SANITIZED && cell->collective == STRETTO_ALLREDUCE && size == 3 &&
	    strcmp(cell->algorithm, "ring") == 0)
		return true;
	return ((size_t)cell->type + (size_t)cell->op + algorithm + (size_t)size) % stride == 0;
}

static void types_rank(struct stretto_comm *world, void *argument)
{
	static const size_t counts[] = {1, 67, 5003, SIZE_MAX};

	(void)argument;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (int type = 0; type < STRETTO_TYPE_COUNT; type++)
			for (int op = 0; op < STRETTO_OP_COUNT; op++) {
				struct cell cell = {
					.collective = stretto_algorithms[i]->collective,
					.algorithm = stretto_algorithms[i]->name,
					.type = (enum stretto_type)type,
					.op = (enum stretto_op)op,
				};

				if (cell.collective == STRETTO_BARRIER ||
				    (!cell_reduces(&cell) && op != 0) ||
				    !takes(&cell, i, stretto_comm_size(world)))
					continue;
				matrix_counts(world, cell, counts);
			}
}

static void all_types_and_ops(void **state)
{
	(void)state;
	for (int size = TEST_SLOW ? 3 : 1; size <= (TEST_SLOW ? 3 : 5); size++)
		run_ranks(size, NULL, types_rank, NULL);
}

/* Random floats, whose sums depend on the order: all ranks must get the same bits. */
static void bits_cell(struct stretto_comm *world, size_t count, const char *algorithm,
		      enum stretto_type type)
{
	int rank = stretto_comm_rank(world);
	size_t bytes = count * stretto_type_size(type);
	uint64_t random = test_seed() + (uint64_t)rank;
	char *in = malloc(bytes), *mine = malloc(bytes), *first = malloc(bytes);
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = type,
		.op = STRETTO_AVG,
		.count = count,
		.in = in,
		.out = mine,
		.algorithm = algorithm,
	};

	require(in && mine && first);
	for (size_t i = 0; i < count; i++)
		value_set(type, in, i, (double)(int64_t)next_random(&random) / 9e17);
	args.algorithm = usable(world, &args);
	require(stretto_coll_run(world, &args) == STRETTO_OK);
	memcpy(first, mine, bytes);
	require(stretto_broadcast(world, first, bytes, STRETTO_U8, 0) == STRETTO_OK);
	if (memcmp(mine, first, bytes) != 0) {
		fprintf(stderr, "%s by %s on %d ranks: rank %d has other bits than rank 0\n",
			stretto_type_name(type), algorithm, stretto_comm_size(world), rank);
		test_failed("same bits");
	}
	free(in);
	free(mine);
	free(first);
}

static void bits_rank(struct stretto_comm *world, void *argument)
{
	static const enum stretto_type types[] = {STRETTO_F32, STRETTO_F64, STRETTO_F16,
						  STRETTO_BF16};

	(void)argument;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (size_t t = 0; t < 4; t++)
			if (stretto_algorithms[i]->collective == STRETTO_ALLREDUCE)
				bits_cell(world, 20011, stretto_algorithms[i]->name, types[t]);
}

static void all_ranks_get_the_same_bits(void **state)
{
	static const int sizes[] = {2, 3, 5, 6, 7, 12, 24};

	(void)state;
	test_seed();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += 1 + 2 * TEST_SLOW)
		run_ranks(sizes[i], (const char *const[]){"STRETTO_WINDOW=16K", NULL}, bits_rank,
			  NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matrix_over_shm),
		cmocka_unit_test(matrix_in_small_windows),
		cmocka_unit_test(matrix_over_shm_without_cma),
		cmocka_unit_test(matrix_over_paced),
		cmocka_unit_test(matrix_over_two_channels),
		cmocka_unit_test(all_types_and_ops),
		cmocka_unit_test(all_ranks_get_the_same_bits),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
