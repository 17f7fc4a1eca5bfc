/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_requests.c: what requests promise: background progress, interleaving, reuse, exact counts, invalid
 * calls, communicators made by splitting, regions that come and go, sizes beyond 2^31.
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
#include "tests/lib/matrix.h"
#include "tests/lib/ranks.h"

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
	require(stretto_allreduce(world, in, out, 4, STRETTO_F32, STRETTO_BAND) == STRETTO_INVALID);
	require(stretto_allreduce(world, in, out, 2, STRETTO_C64, STRETTO_MAX) == STRETTO_INVALID);
	require(stretto_allreduce(world, in, out, SIZE_MAX / 2, STRETTO_F32, STRETTO_SUM) ==
		STRETTO_INVALID);
	require(stretto_broadcast(world, out, 4, STRETTO_F32, stretto_comm_size(world)) ==
		STRETTO_INVALID);
	require(stretto_broadcast(world, out, 4, STRETTO_F32, -1) == STRETTO_INVALID);
	require(stretto_reduce(world, in, out, 4, STRETTO_F32, STRETTO_SUM, 2) == STRETTO_INVALID);
	require(stretto_reduce(world, NULL, out, 4, STRETTO_F32, STRETTO_SUM, 0) ==
		STRETTO_INVALID);
	require(stretto_reduce(world, in, out, 4, STRETTO_F32, STRETTO_OP_COUNT, 0) ==
		STRETTO_INVALID);
	require(stretto_alltoall(world, in, NULL, 4, STRETTO_F32) == STRETTO_INVALID);
	require(stretto_gather(world, in, out, 4, STRETTO_F32, -1) == STRETTO_INVALID);
	require(stretto_scatter(world, in, NULL, 4, STRETTO_F32, 0) == STRETTO_INVALID);
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

#ifndef __SANITIZE_THREAD__ /* its shadow of 8 GiB does not fit */
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
			test_failed("element beyond 2^31 bytes");
}

/* Bytes that can be had without swapping; 0 if the kernel does not say. */
static size_t available_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return (size_t)kib * 1024;
}

static void beyond_two_gib(void **state)
{
	(void)state;
	if (available_memory() < (size_t)8 << 30) {
		print_message("skipped: less than 8 GiB of available memory\n");
		skip();
	}
	run_ranks(2, NULL, large_rank, NULL);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_makes_groups),
		cmocka_unit_test(invalid_calls_are_refused_locally),
		cmocka_unit_test(same_form_is_reused),
		cmocka_unit_test(ring_moves_what_it_must_and_copies_nothing),
		cmocka_unit_test(finishes_without_further_calls),
		cmocka_unit_test(regions_come_and_go),
		cmocka_unit_test(random_interleavings),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(beyond_two_gib),
#endif
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
