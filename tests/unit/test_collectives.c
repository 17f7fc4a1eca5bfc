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
#include "tests/lib/cells.h"
#include "tests/lib/ranks.h"

/* Blocking, nonblocking and persistent runs of a cell on the same buffers, back to back. */
static void run_cell(struct stretto_comm *comm, struct cell cell)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	struct buffers buffers = cell_buffers(comm, &cell);
	struct stretto_coll_args args = cell_args(&cell, &buffers);
	struct stretto_request *request;

	for (unsigned round = 0; round < 3; round++) {
		cell.round = round;
		cell_fill(&cell, &buffers, rank);
		if (round == 0) {
			require(stretto_coll_run(comm, &args) == STRETTO_OK);
		} else if (round == 1) {
			require(stretto_coll_start(comm, &args, &request) == STRETTO_OK);
			require(stretto_wait(request) == STRETTO_OK);
		} else {
			require(stretto_coll_init(comm, &args, &request) == STRETTO_OK);
			require(stretto_start(request) == STRETTO_OK);
			require(stretto_wait(request) == STRETTO_OK);
			stretto_request_free(request);
		}
		cell_check(&cell, &buffers, rank, size);
	}
	cell_free(&buffers);
}

static void run_counts(struct stretto_comm *comm, struct cell cell, const size_t *counts)
{
	int size = stretto_comm_size(comm);

	for (; *counts != SIZE_MAX; counts++) {
		cell.count = *counts;
		/* rotates over the counts, so that each is seen often and the matrix stays small */
		for (int variant = 0; variant < 4; variant++) {
			cell.in_place = variant & 1;
			cell.registered = variant & 2;
			cell.root = (int)((*counts + (size_t)variant) % (size_t)size);
			run_cell(comm, cell);
		}
	}
}

static void matrix_rank(struct stretto_comm *world, void *argument)
{
	size_t n = (size_t)stretto_comm_size(world);
	const size_t *large = argument;
	size_t counts[] = {0, 1, n - 1, n, n + 1, 1000, *large, SIZE_MAX};

	for (size_t i = 0; stretto_algorithms[i]; i++) {
		struct cell cell = {
			.collective = stretto_algorithms[i]->collective,
			.algorithm = stretto_algorithms[i]->name,
			.type = STRETTO_F32,
			.op = STRETTO_SUM,
		};

		if (cell.collective == STRETTO_BARRIER)
			require(stretto_barrier(world) == STRETTO_OK);
		else
			run_counts(world, cell, counts);
	}
}

static void run_matrix(const char *const *settings, size_t large)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 24};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t count = sizes[i] > 9 ? large / 8 : large;

		if (TEST_SLOW && sizes[i] != 3 && sizes[i] != 8)
			continue;
		run_ranks(sizes[i], settings, matrix_rank, &count);
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
		  &(size_t){300007});
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
				    (!cell_reduces(&cell) && op != 0))
					continue;
				run_counts(world, cell, counts);
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
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
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
