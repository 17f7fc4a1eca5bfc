/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/matrix.h"

#include "collectives/algorithm.h"
#include "tests/lib/ranks.h"

/* Blocking, nonblocking and persistent runs of a cell on the same buffers, back to back. */
static void run_cell(struct stretto_comm *comm, struct cell cell)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	struct stretto_coll_args args = cell_args(&cell, &(struct buffers){0});
	struct stretto_request *request;
	struct buffers buffers;

	if (!usable(comm, &args)) { /* by another one it has a cell already */
		require(stretto_algorithm_find(cell.collective, cell.algorithm)->mapped);
		return;
	}
	buffers = cell_buffers(comm, &cell);
	args = cell_args(&cell, &buffers);
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

void matrix_counts(struct stretto_comm *comm, struct cell cell, const size_t *counts)
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

void matrix_rank(struct stretto_comm *world, void *argument)
{
	size_t n = (size_t)stretto_comm_size(world);
	const struct matrix *matrix = argument;
	size_t all[] = {0, 1, n - 1, n, n + 1, 1000, matrix->large, SIZE_MAX};
	size_t brief[] = {1, n + 1, 1000, matrix->large, SIZE_MAX};

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
			matrix_counts(world, cell, matrix->brief ? brief : all);
	}
}

/* Several operations in flight on two communicators, started and ended in random orders. */
enum { IN_FLIGHT = 6 };

struct flight {
	struct cell cell;
	struct buffers buffers;
	struct stretto_request *request;
	struct stretto_comm *comm;
};

/* The order of starts on one communicator is the same on all ranks, that between them is not. */
static void start_all(struct flight *flights, uint64_t *own)
{
	int next[2] = {0, 1};

	while (next[0] < IN_FLIGHT || next[1] < IN_FLIGHT) {
		int which = (int)(next_random(own) % 2);
		struct flight *flight;

		if (next[which] >= IN_FLIGHT)
			which = 1 - which;
		flight = &flights[next[which]];
		next[which] += 2;
		struct stretto_coll_args args = cell_args(&flight->cell, &flight->buffers);

		args.algorithm = usable(flight->comm, &args);
		require(stretto_coll_start(flight->comm, &args, &flight->request) == STRETTO_OK);
	}
}

static void wait_all(struct flight *flights, uint64_t *own)
{
	for (int left = IN_FLIGHT; left > 0;) {
		struct flight *flight = &flights[next_random(own) % IN_FLIGHT];
		bool done = false;

		if (!flight->request)
			continue;
		if (next_random(own) % 2)
			require(stretto_test(flight->request, &done) == STRETTO_OK);
		if (!done && next_random(own) % 3)
			continue;
		require(stretto_wait(flight->request) == STRETTO_OK);
		flight->request = NULL;
		left--;
	}
}

static size_t algorithm_count(void)
{
	size_t count = 0;

	while (stretto_algorithms[count])
		count++;
	return count;
}

void interleave_rank(struct stretto_comm *world, void *argument)
{
	int rounds = *(const int *)argument;
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	uint64_t common = test_seed();
	uint64_t own = test_seed() ^ (uint64_t)(rank + 1) << 32;
	struct stretto_comm *other;

	/* the second communicator has the ranks in reverse order */
	require(stretto_comm_split(world, 0, -rank, &other) == STRETTO_OK);
	require(stretto_comm_rank(other) == size - 1 - rank);
	for (int round = 0; round < rounds; round++) {
		struct flight flights[IN_FLIGHT] = {0};

		for (int i = 0; i < IN_FLIGHT; i++) {
			size_t which = next_random(&common) % algorithm_count();
			struct flight *flight = &flights[i];

			flight->comm = i % 2 ? other : world;
			flight->cell = (struct cell){
				.collective = stretto_algorithms[which]->collective,
				.algorithm = stretto_algorithms[which]->name,
				.type = STRETTO_I32,
				.count = next_random(&common) % 20000,
				.root = (int)(next_random(&common) % (uint64_t)size),
				.registered = next_random(&common) % 2,
				/* in every other round the ranks do not agree on it */
				.priority = (int)(next_random(round % 2 ? &own : &common) % 3),
				.round = (unsigned)round,
			};
			flight->buffers = cell_buffers(flight->comm, &flight->cell);
			cell_fill(&flight->cell, &flight->buffers, stretto_comm_rank(flight->comm));
		}
		start_all(flights, &own);
		wait_all(flights, &own);
		for (int i = 0; i < IN_FLIGHT; i++) {
			cell_check(&flights[i].cell, &flights[i].buffers,
				   stretto_comm_rank(flights[i].comm), size);
			cell_free(&flights[i].buffers);
		}
	}
	stretto_comm_free(other);
}
