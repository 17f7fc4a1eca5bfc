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
#include "collectives/request.h"
#include "tests/lib/ranks.h"
#include "tests/lib/values.h"

/* One cell of the matrix. */
struct cell {
	enum stretto_collective collective;
	const char *algorithm;
	enum stretto_type type;
	enum stretto_op op;
	size_t count;
	int root;
	bool in_place;
	bool registered;
	unsigned round;
};

static bool reduces(const struct cell *cell)
{
	return cell->collective == STRETTO_ALLREDUCE || cell->collective == STRETTO_REDUCE_SCATTER;
}

static void complain(const struct cell *cell, int rank, int size, size_t i, double want, double got)
{
	fprintf(stderr,
		"%s by %s, %s %s, count %zu, root %d, %s, %s, round %u, rank %d of %d: element %zu "
		"is %g, not %g\n",
		stretto_collective_name(cell->collective), cell->algorithm,
		stretto_type_name(cell->type), stretto_op_name(cell->op), cell->count, cell->root,
		cell->in_place ? "in place" : "out of place",
		cell->registered ? "registered" : "malloc", cell->round, rank, size, i, got, want);
	require(!"wrong result");
}

/* What element i of the output of `rank` must be. */
static double expected(const struct cell *cell, int rank, int size, size_t i)
{
	switch (cell->collective) {
	case STRETTO_ALLREDUCE:
		return value_reduced(cell->type, cell->op, size, i, cell->round);
	case STRETTO_REDUCE_SCATTER:
		return value_reduced(cell->type, cell->op, size, (size_t)rank * cell->count + i,
				     cell->round);
	case STRETTO_ALLGATHER:
		return value_input(STRETTO_SUM, (int)(i / cell->count), i % cell->count,
				   cell->round);
	default:
		return value_input(STRETTO_SUM, cell->root, i, cell->round);
	}
}

/* The buffers of one rank in one cell. */
struct buffers {
	struct guarded in, out; /* in place: only one of them is used */
	size_t in_count, out_count;
	void *in_data, *out_data; /* as passed */
};

static struct buffers make_buffers(struct stretto_comm *comm, const struct cell *cell)
{
	size_t element = stretto_type_size(cell->type);
	size_t all = cell->count * (size_t)stretto_comm_size(comm);
	size_t offset = (size_t)stretto_comm_rank(comm) * cell->count * element;
	struct stretto_comm *owner = cell->registered ? comm : NULL;
	size_t misalign = cell->count % 3 * element;
	struct buffers buffers = {
		.in_count = cell->collective == STRETTO_REDUCE_SCATTER ? all : cell->count,
		.out_count = cell->collective == STRETTO_ALLGATHER ? all : cell->count,
	};
	bool scatter = cell->collective == STRETTO_REDUCE_SCATTER;

	buffers.in = guarded_new(owner, buffers.in_count * element, misalign);
	buffers.out = guarded_new(owner, buffers.out_count * element, misalign);
	buffers.in_data = buffers.in.data;
	buffers.out_data = buffers.out.data;
	if (cell->in_place && scatter)
		buffers.out_data = (char *)buffers.in.data + offset;
	else if (cell->in_place && cell->collective == STRETTO_ALLGATHER)
		buffers.in_data = (char *)buffers.out.data + offset;
	else if (cell->in_place)
		buffers.in_data = buffers.out.data;
	return buffers;
}

static void free_buffers(struct buffers *buffers)
{
	guarded_check(&buffers->in, "input");
	guarded_check(&buffers->out, "output");
	guarded_free(&buffers->in);
	guarded_free(&buffers->out);
}

static void fill_inputs(const struct cell *cell, const struct buffers *buffers, int rank)
{
	enum stretto_op op = reduces(cell) ? cell->op : STRETTO_SUM;
	bool broadcast = cell->collective == STRETTO_BROADCAST;
	void *target = broadcast ? buffers->out_data : buffers->in_data;

	if (broadcast && rank != cell->root)
		memset(target, 0x77, buffers->out_count * stretto_type_size(cell->type));
	else
		for (size_t i = 0; i < buffers->in_count; i++)
			value_set(cell->type, target, i, value_input(op, rank, i, cell->round));
}

static void check_outputs(const struct cell *cell, const struct buffers *buffers, int rank,
			  int size)
{
	enum stretto_op op = reduces(cell) ? cell->op : STRETTO_SUM;

	for (size_t i = 0; i < buffers->out_count; i++) {
		double want = expected(cell, rank, size, i);
		double got = value_get(cell->type, buffers->out_data, i);

		if (want != got)
			complain(cell, rank, size, i, want, got);
	}
	/* Inputs stay, but for what an in-place operation writes. */
	for (size_t i = 0; i < buffers->in_count; i++) {
		bool written = cell->collective == STRETTO_BROADCAST ||
			       (cell->in_place && (cell->collective != STRETTO_REDUCE_SCATTER ||
						   i / cell->count == (size_t)rank));

		if (!written && value_get(cell->type, buffers->in_data, i) !=
					value_input(op, rank, i, cell->round))
			complain(cell, rank, size, i, -1, -1);
	}
}

static struct stretto_coll_args args_of(const struct cell *cell, const struct buffers *buffers)
{
	return (struct stretto_coll_args){
		.collective = cell->collective,
		.type = cell->type,
		.op = cell->op,
		.root = cell->root,
		.count = cell->count,
		.in = buffers->in_data,
		.out = buffers->out_data,
		.algorithm = cell->algorithm,
	};
}

/* Blocking, nonblocking and persistent runs of a cell on the same buffers, back to back. */
static void run_cell(struct stretto_comm *comm, struct cell cell)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	struct buffers buffers = make_buffers(comm, &cell);
	struct stretto_coll_args args = args_of(&cell, &buffers);
	struct stretto_request *request;

	for (unsigned round = 0; round < 3; round++) {
		cell.round = round;
		fill_inputs(&cell, &buffers, rank);
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
		check_outputs(&cell, &buffers, rank, size);
	}
	free_buffers(&buffers);
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
				    (!reduces(&cell) && op != 0))
					continue;
				run_counts(world, cell, counts);
			}
}

static void all_types_and_ops(void **state)
{
	(void)state;
	for (int size = 1; size <= 5; size++)
		run_ranks(size, NULL, types_rank, NULL);
}

/* Random floats, whose sums depend on the order: all ranks must get the same bits. */
struct bits {
	size_t count;
	int size;
	char *results; /* of all ranks: size * count * 8 bytes */
};

static void bits_cell(struct stretto_comm *world, const struct bits *bits, const char *algorithm,
		      enum stretto_type type)
{
	int rank = stretto_comm_rank(world);
	size_t bytes = bits->count * stretto_type_size(type);
	uint64_t random = test_seed() + (uint64_t)rank;
	char *mine = bits->results + (size_t)rank * bytes;
	char *in = malloc(bytes);
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = type,
		.op = STRETTO_AVG,
		.count = bits->count,
		.in = in,
		.out = mine,
		.algorithm = algorithm,
	};

	require(in);
	for (size_t i = 0; i < bits->count; i++)
		value_set(type, in, i, (double)(int64_t)next_random(&random) / 9e17);
	require(stretto_coll_run(world, &args) == STRETTO_OK);
	require(stretto_barrier(world) == STRETTO_OK);
	if (memcmp(mine, bits->results, bytes) != 0) {
		fprintf(stderr, "%s by %s on %d ranks: rank %d has other bits than rank 0\n",
			stretto_type_name(type), algorithm, bits->size, rank);
		require(!"same bits");
	}
	require(stretto_barrier(world) == STRETTO_OK);
	free(in);
}

static void bits_rank(struct stretto_comm *world, void *argument)
{
	static const enum stretto_type types[] = {STRETTO_F32, STRETTO_F64, STRETTO_F16,
						  STRETTO_BF16};

	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (size_t t = 0; t < 4; t++)
			if (stretto_algorithms[i]->collective == STRETTO_ALLREDUCE)
				bits_cell(world, argument, stretto_algorithms[i]->name, types[t]);
}

static void all_ranks_get_the_same_bits(void **state)
{
	static const int sizes[] = {2, 3, 5, 6, 7, 12, 24};

	(void)state;
	test_seed();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct bits bits = {.count = 20011, .size = sizes[i]};

		bits.results = malloc((size_t)bits.size * bits.count * 8);
		assert_non_null(bits.results);
		run_ranks(sizes[i], (const char *const[]){"STRETTO_WINDOW=16K", NULL}, bits_rank,
			  &bits);
		free(bits.results);
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
		struct stretto_coll_args args = args_of(&flight->cell, &flight->buffers);

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

static void interleave_rank(struct stretto_comm *world, void *argument)
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
			size_t which = next_random(&common) % 7;
			struct flight *flight = &flights[i];

			flight->comm = i % 2 ? other : world;
			flight->cell = (struct cell){
				.collective = stretto_algorithms[which]->collective,
				.algorithm = stretto_algorithms[which]->name,
				.type = STRETTO_I32,
				.count = next_random(&common) % 20000,
				.root = (int)(next_random(&common) % (uint64_t)size),
				.registered = next_random(&common) % 2,
				.round = (unsigned)round,
			};
			flight->buffers = make_buffers(flight->comm, &flight->cell);
			fill_inputs(&flight->cell, &flight->buffers,
				    stretto_comm_rank(flight->comm));
		}
		start_all(flights, &own);
		wait_all(flights, &own);
		for (int i = 0; i < IN_FLIGHT; i++) {
			check_outputs(&flights[i].cell, &flights[i].buffers,
				      stretto_comm_rank(flights[i].comm), size);
			free_buffers(&flights[i].buffers);
		}
	}
	stretto_comm_free(other);
}

static void random_interleavings(void **state)
{
	(void)state;
	test_seed();
	for (int size = 2; size <= 5; size++)
		run_ranks(size, NULL, interleave_rank, &(int){25});
}

/* The application only computes: nobody calls the library after the start. */
static void background_rank(struct stretto_comm *world, void *argument)
{
	size_t count = 300000;
	struct stretto_request *request;
	bool done = false;
	float *data;

	(void)argument;
	require(stretto_alloc(world, count * sizeof *data, (void **)&data) == STRETTO_OK);
	for (size_t i = 0; i < count; i++)
		data[i] = 1;
	require(stretto_iallreduce(world, data, data, count, STRETTO_F32, STRETTO_SUM, &request) ==
		STRETTO_OK);
	/* only atomic loads happen in here; 30 s is far beyond any slow moment */
	for (int tries = 0; !done && tries < 30000; tries++) {
		usleep(1000);
		require(stretto_test(request, &done) == STRETTO_OK);
	}
	require(done);
	require(stretto_wait(request) == STRETTO_OK);
	require(data[count - 1] == (float)stretto_comm_size(world));
}

static void finishes_without_further_calls(void **state)
{
	(void)state;
	run_ranks(3, NULL, background_rank, NULL);
	run_ranks(2, (const char *const[]){"STRETTO_PACE=1gbit:100us", NULL}, background_rank,
		  NULL);
}

/* A second run of the same form builds and allocates nothing new. */
static void reuse_rank(struct stretto_comm *world, void *argument)
{
	float in[100] = {0}, out[100];
	struct stretto_request *first, *second;

	(void)argument;
	require(stretto_iallreduce(world, in, out, 100, STRETTO_F32, STRETTO_SUM, &first) ==
		STRETTO_OK);
	require(stretto_wait(first) == STRETTO_OK);
	require(stretto_iallreduce(world, in, out, 100, STRETTO_F32, STRETTO_MAX, &second) ==
		STRETTO_OK);
	require(stretto_wait(second) == STRETTO_OK);
	require(first == second);
}

static void same_form_is_reused(void **state)
{
	(void)state;
	run_ranks(2, NULL, reuse_rank, NULL);
}

static void counts_rank(struct stretto_comm *world, void *argument)
{
	int size = stretto_comm_size(world);
	size_t count = 40000;
	struct stretto_request *request;
	struct stretto_exec_counts counts;
	float *in, *out;
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.op = STRETTO_SUM,
		.count = count,
		.algorithm = "ring",
	};

	(void)argument;
	require(stretto_alloc(world, count * sizeof *in, (void **)&in) == STRETTO_OK);
	require(stretto_alloc(world, count * sizeof *out, (void **)&out) == STRETTO_OK);
	args.in = in;
	args.out = out;
	require(stretto_coll_init(world, &args, &request) == STRETTO_OK);
	require(stretto_start(request) == STRETTO_OK);
	require(stretto_wait(request) == STRETTO_OK);
	counts = stretto_request_counts(request);
	require(counts.copied_bytes == 0);
	require(counts.sends == 2 * (uint64_t)(size - 1));
	require(counts.sent_bytes ==
		2 * (uint64_t)(size - 1) * count * sizeof *in / (uint64_t)size);
	/* every received partial is reduced where it lies, none is staged */
	require(counts.fused == (uint64_t)(size - 1));
	stretto_request_free(request);
}

static void ring_moves_what_it_must_and_copies_nothing(void **state)
{
	(void)state;
	run_ranks(4, (const char *const[]){"STRETTO_WINDOW=1M", NULL}, counts_rank, NULL);
}

static void invalid_rank(struct stretto_comm *world, void *argument)
{
	float in[4] = {0}, out[4];
	struct stretto_request *request = NULL;
	struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
					 .type = STRETTO_F32,
					 .count = 4,
					 .in = in,
					 .out = out,
					 .algorithm = "no-such-thing"};
	void *memory;

	(void)argument;
	require(stretto_coll_run(world, &args) == STRETTO_INVALID);
	require(stretto_allreduce(world, NULL, out, 4, STRETTO_F32, STRETTO_SUM) ==
		STRETTO_INVALID);
	require(stretto_allreduce(world, in, out, 4, (enum stretto_type)99, STRETTO_SUM) ==
		STRETTO_INVALID);
	require(stretto_allreduce(world, in, out, 4, STRETTO_F32, (enum stretto_op)99) ==
		STRETTO_INVALID);
	require(stretto_allreduce(world, in, out, SIZE_MAX / 2, STRETTO_F32, STRETTO_SUM) ==
		STRETTO_INVALID);
	require(stretto_broadcast(world, out, 4, STRETTO_F32, stretto_comm_size(world)) ==
		STRETTO_INVALID);
	require(stretto_broadcast(world, out, 4, STRETTO_F32, -1) == STRETTO_INVALID);
	require(stretto_comm_split(world, -7, 0, NULL) == STRETTO_INVALID);
	require(stretto_alloc(world, 0, &memory) == STRETTO_INVALID);
	require(stretto_free(world, in) == STRETTO_INVALID);
	require(stretto_allreduce_init(world, in, out, 4, STRETTO_F32, STRETTO_SUM, &request) ==
		STRETTO_OK);
	require(stretto_start(request) == STRETTO_OK);
	require(stretto_start(request) == STRETTO_INVALID);
	require(stretto_wait(request) == STRETTO_OK);
	stretto_request_free(request);
	/* none of it hurt the communicator */
	require(stretto_barrier(world) == STRETTO_OK);
}

static void invalid_calls_are_refused_locally(void **state)
{
	(void)state;
	run_ranks(2, (const char *const[]){"STRETTO_LOG=error", NULL}, invalid_rank, NULL);
}

static void split_rank(struct stretto_comm *world, void *argument)
{
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	struct stretto_comm *half, *none, *pair;
	int32_t sum = 0, one = 1;

	(void)argument;
	require(stretto_comm_split(world, rank % 2, rank, &half) == STRETTO_OK);
	require(stretto_comm_size(half) == (size + 1 - rank % 2) / 2);
	require(stretto_comm_rank(half) == rank / 2);
	require(stretto_allreduce(half, &one, &sum, 1, STRETTO_I32, STRETTO_SUM) == STRETTO_OK);
	require(sum == stretto_comm_size(half));
	require(stretto_comm_split(world, rank == 0 ? STRETTO_NO_COLOR : 5, 0, &none) ==
		STRETTO_OK);
	require((rank == 0) == (none == NULL));
	/* a split of a split */
	require(stretto_comm_split(half, stretto_comm_rank(half) / 2, 0, &pair) == STRETTO_OK);
	require(stretto_allreduce(pair, &one, &sum, 1, STRETTO_I32, STRETTO_SUM) == STRETTO_OK);
	require(sum == stretto_comm_size(pair));
	stretto_comm_free(pair);
	stretto_comm_free(none);
	stretto_comm_free(half);
}

static void split_makes_groups(void **state)
{
	(void)state;
	for (int size = 1; size <= 7; size++)
		run_ranks(size, NULL, split_rank, NULL);
}

static void regions_rank(struct stretto_comm *world, void *argument)
{
	int size = stretto_comm_size(world);

	(void)argument;
	/* regions come and go; peers must not read from one that is gone */
	for (int round = 0; round < 20; round++) {
		size_t count = 20000 + (size_t)round;
		float *data, *own = malloc(count * sizeof *own);

		require(own);
		require(stretto_alloc(world, count * sizeof *data, (void **)&data) == STRETTO_OK);
		require(stretto_register(world, own, count * sizeof *own) == STRETTO_OK);
		require(stretto_register(world, own + 1, sizeof *own) == STRETTO_INVALID);
		for (size_t i = 0; i < count; i++)
			data[i] = own[i] = (float)round;
		require(stretto_allreduce(world, data, data, count, STRETTO_F32, STRETTO_SUM) ==
			STRETTO_OK);
		require(stretto_allreduce(world, own, own, count, STRETTO_F32, STRETTO_SUM) ==
			STRETTO_OK);
		for (size_t i = 0; i < count; i++)
			require(data[i] == (float)(round * size) && own[i] == data[i]);
		require(stretto_free(world, data) == STRETTO_OK);
		require(stretto_deregister(world, own) == STRETTO_OK);
		free(own);
	}
}

static void regions_come_and_go(void **state)
{
	(void)state;
	run_ranks(3, (const char *const[]){"STRETTO_LOG=error", NULL}, regions_rank, NULL);
}

static void large_rank(struct stretto_comm *world, void *argument)
{
	size_t count = (1ul << 31) + 4099;
	uint8_t *data;

	(void)argument;
	require(stretto_alloc(world, count, (void **)&data) == STRETTO_OK);
	memset(data, 1 + stretto_comm_rank(world), count);
	require(stretto_allreduce(world, data, data, count, STRETTO_U8, STRETTO_SUM) == STRETTO_OK);
	for (size_t i = 0; i < count; i++)
		if (data[i] != 3)
			require(!"element beyond 2^31 bytes");
}

static void beyond_two_gib(void **state)
{
	long pages = sysconf(_SC_AVPHYS_PAGES);

	(void)state;
	if (pages < 0 || (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) < (size_t)8 << 30) {
		print_message("skipped: less than 8 GiB of free memory\n");
		skip();
	}
	run_ranks(2, NULL, large_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_makes_groups),
		cmocka_unit_test(invalid_calls_are_refused_locally),
		cmocka_unit_test(same_form_is_reused),
		cmocka_unit_test(ring_moves_what_it_must_and_copies_nothing),
		cmocka_unit_test(finishes_without_further_calls),
		cmocka_unit_test(regions_come_and_go),
		cmocka_unit_test(matrix_over_shm),
		cmocka_unit_test(matrix_in_small_windows),
		cmocka_unit_test(matrix_over_shm_without_cma),
		cmocka_unit_test(matrix_over_paced),
		cmocka_unit_test(matrix_over_two_channels),
		cmocka_unit_test(all_types_and_ops),
		cmocka_unit_test(all_ranks_get_the_same_bits),
		cmocka_unit_test(random_interleavings),
		cmocka_unit_test(beyond_two_gib),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
