/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_mapped.c: algorithms without messages. How often they pass over memory, exactly; what becomes
 * of buffers that are given back while others write into them; deaths in the middle; ranks of which
 * some use messages and some do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/request.h"
#include "runtime/clock.h"
#include "tests/lib/ranks.h"

#define QUIET "STRETTO_LOG=error"
/* Longer than anything here may take: what ends with it was lost. */
#define DEADLINE "STRETTO_TIMEOUT_SECONDS=20"
enum { LONG_TIME = 100 };

struct passes {
	const char *algorithm;
	size_t count;
	bool in_place;
	bool registered;
};

static float *take_floats(struct stretto_comm *world, bool registered, size_t count)
{
	void *memory = NULL;

	if (registered)
		require(stretto_alloc(world, count * sizeof(float), &memory) == STRETTO_OK);
	else
		memory = calloc(count, sizeof(float));
	require(memory);
	return memory;
}

static void give_floats(struct stretto_comm *world, bool registered, float *memory)
{
	if (registered)
		require(stretto_free(world, memory) == STRETTO_OK);
	else
		free(memory);
}

/* Elements of the share of a rank: whole units of 64, the first ranks have one more. */
static uint64_t share_of(size_t count, int size, int rank)
{
	size_t units = (count + 63) / 64, n = (size_t)size, r = (size_t)rank, longer = units % n;
	size_t first = (r * (units / n) + (r < longer ? r : longer)) * 64;
	size_t end = first + (units / n + (r < longer)) * 64;

	first = first < count ? first : count;
	return (end < count ? end : count) - first;
}

/* What a rank reads, writes and copies of a vector, in elements. */
static struct stretto_exec_counts wanted_counts(const struct passes *passes, int size, int rank)
{
	uint64_t n = (uint64_t)size, count = passes->count, share = share_of(count, size, rank);
	struct stretto_exec_counts wanted = {0};

	if (strcmp(passes->algorithm, "flat") == 0) {
		wanted.copied_bytes = count;
		wanted.read_bytes = count + n * count;
		wanted.written_bytes = count + count;
		return wanted;
	}
	/* both ways what others have: in before they look, out after they wrote */
	wanted.copied_bytes = passes->registered ? 0 : 2 * (count - share);
	wanted.read_bytes = n * share + wanted.copied_bytes;
	wanted.written_bytes = n * share + wanted.copied_bytes;
	return wanted;
}

static void passes_rank(struct stretto_comm *world, void *argument)
{
	const struct passes *passes = argument;
	int size = stretto_comm_size(world), rank = stretto_comm_rank(world);
	float *in = take_floats(world, passes->registered, passes->count);
	float *out = passes->in_place ? in : take_floats(world, passes->registered, passes->count);
	const struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.op = STRETTO_SUM,
		.count = passes->count,
		.in = in,
		.out = out,
		.algorithm = passes->algorithm,
	};
	struct stretto_exec_counts counts, wanted = wanted_counts(passes, size, rank);
	struct stretto_request *request;

	for (size_t i = 0; i < passes->count; i++)
		in[i] = (float)(rank + 1);
	require(stretto_coll_init(world, &args, &request) == STRETTO_OK);
	require(stretto_start(request) == STRETTO_OK);
	require(stretto_wait(request) == STRETTO_OK);
	for (size_t i = 0; i < passes->count; i++)
		require(out[i] == (float)(size * (size + 1) / 2));
	counts = stretto_request_counts(request);
	require(counts.sends == 0 && counts.sent_bytes == 0);
	require(counts.copied_bytes == wanted.copied_bytes * sizeof(float));
	require(counts.read_bytes == wanted.read_bytes * sizeof(float));
	require(counts.written_bytes == wanted.written_bytes * sizeof(float));
	stretto_request_free(request);
	if (!passes->in_place)
		give_floats(world, passes->registered, out);
	give_floats(world, passes->registered, in);
}

static void memory_is_passed_over_as_often_as_it_must_be(void **state)
{
	static const struct passes cases[] = {
		{"direct", 1, true, true},
		{"direct", 64 * 1024, true, true},
		{"direct", 64 * 1024, false, true},
		{"direct", 70001, false, true},
		{"direct", 70001, true, false},
		{"direct", 70001, false, false},
		{"flat", 1, true, true},
		{"flat", 2048, false, false},
		{"flat", 1000, true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (int size = 2; size <= 5; size++) {
			struct passes passes = cases[i];

			run_ranks(size, (const char *const[]){DEADLINE, NULL}, passes_rank,
				  &passes);
		}
}

/* A direct vector of many windows: each passes once, on one line of the board. */
static void windows_add_no_passes(void **state)
{
	(void)state;
	struct passes passes = {"direct", 3 * 16384, true, true};

	run_ranks(2, (const char *const[]){DEADLINE, "STRETTO_WINDOW=64K", NULL}, passes_rank,
		  &passes);
}

/*
 * Rank 0 aborts at a random moment, has its buffers back and overwrites them, while rank 1 reads
 * them and writes into them. Nobody writes into them any more; and rank 1 gets an error or the sum.
 */
struct giving_back {
	bool registered;
	bool in_place;
	size_t count;
	int rounds;
};

static void give_up(struct stretto_comm *comm, struct stretto_request *request, uint64_t *random)
{
	uint64_t until = stretto_now() + next_random(random) % 200000;

	while (stretto_now() < until)
		;
	stretto_comm_abort(comm);
	stretto_wait(request);
}

static void fill(float *out, size_t count, float value)
{
	for (size_t i = 0; i < count; i++)
		out[i] = value;
}

static void require_all(const float *out, size_t count, float value)
{
	for (size_t i = 0; i < count; i++)
		require(out[i] == value);
}

static void giving_back_round(struct stretto_comm *world, const struct giving_back *giving,
			      float *in, float *out, uint64_t *random)
{
	int rank = stretto_comm_rank(world);
	struct stretto_request *request = NULL;
	struct stretto_comm *comm;

	require(stretto_comm_split(world, 0, rank, &comm) == STRETTO_OK);
	fill(in, giving->count, 1);
	if (!giving->in_place)
		fill(out, giving->count, 0);
	require(stretto_barrier(world) == STRETTO_OK);
	if (stretto_iallreduce(comm, in, out, giving->count, STRETTO_F32, STRETTO_SUM, &request) !=
	    STRETTO_OK)
		request = NULL; /* rank 0 was quick */
	if (rank == 0 && request) {
		give_up(comm, request, random);
		fill(in, giving->count, 9);
		fill(out, giving->count, 9);
	} else if (request && stretto_wait(request) == STRETTO_OK) {
		require_all(out, giving->count, (float)stretto_comm_size(world));
	}
	require(stretto_barrier(world) == STRETTO_OK);
	if (rank == 0 && request) {
		require_all(in, giving->count, 9);
		require_all(out, giving->count, 9);
	}
	stretto_comm_free(comm);
}

static void giving_back_rank(struct stretto_comm *world, void *argument)
{
	const struct giving_back *giving = argument;
	uint64_t random = test_seed() + (uint64_t)stretto_comm_rank(world);
	float *in = take_floats(world, giving->registered, giving->count);
	float *out = giving->in_place ? in : take_floats(world, giving->registered, giving->count);

	for (int round = 0; round < giving->rounds / (TEST_SLOW ? 10 : 1); round++)
		giving_back_round(world, giving, in, out, &random);
	if (!giving->in_place)
		give_floats(world, giving->registered, out);
	give_floats(world, giving->registered, in);
}

static void nobody_writes_into_what_was_given_back(void **state)
{
	static const struct giving_back cases[] = {
		{true, true, 64 * 1024, 100},
		{true, false, 64 * 1024, 100},
		{true, true, 1 << 20, 20},
		{false, false, 64 * 1024, 50},
	};

	(void)state;
	test_seed();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct giving_back giving = cases[i];

		assert_int_equal(run_processes(2 + (int)i % 2,
					       (const char *const[]){
						       QUIET, DEADLINE, "STRETTO_WINDOW=64K",
						       "STRETTO_ALGORITHM=allreduce=direct", NULL},
					       giving_back_rank, &giving, LONG_TIME),
				 0);
	}
}

/* The last rank is killed among operations that follow each other closely. */
static void dying_rank(struct stretto_comm *world, void *argument)
{
	size_t count = *(const size_t *)argument;
	int rank = stretto_comm_rank(world), last = stretto_comm_size(world) - 1;
	float *buffer = take_floats(world, true, count);
	stretto_status status = STRETTO_OK;
	uint64_t random = test_seed();
	int end = 10 + (int)(next_random(&random) % 200);

	for (int i = 0; status == STRETTO_OK; i++) {
		if (rank == last && i == end)
			raise(SIGKILL);
		status = stretto_allreduce(world, buffer, buffer, count, STRETTO_F32, STRETTO_SUM);
	}
	require(status == STRETTO_PEER_FAILED);
}

static void a_death_is_told_to_all(void **state)
{
	static const char *const algorithms[] = {"STRETTO_ALGORITHM=allreduce=flat",
						 "STRETTO_ALGORITHM=allreduce=direct"};
	static size_t counts[] = {100, 100000};

	(void)state;
	test_seed();
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			run_processes(3,
				      (const char *const[]){QUIET, DEADLINE, algorithms[i], NULL},
				      dying_rank, &counts[i], LONG_TIME),
			1); /* the one that was killed */
}

/* Rank `odd` takes another way than the rest: they never meet, and are told so by name. */
struct apart {
	const char *algorithm, *other;
	int odd;
};

static void apart_rank(struct stretto_comm *world, void *argument)
{
	const struct apart *apart = argument;
	float value = 1;
	const struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.op = STRETTO_SUM,
		.count = 1,
		.in = &value,
		.out = &value,
		.algorithm =
			stretto_comm_rank(world) == apart->odd ? apart->other : apart->algorithm,
	};

	require(stretto_coll_run(world, &args) == STRETTO_MISMATCH);
	require(strstr(stretto_comm_error(world), apart->algorithm));
	require(strstr(stretto_comm_error(world), apart->other));
}

static void with_and_without_messages_do_not_mix(void **state)
{
	(void)state;
	for (int size = 2; size <= 4; size++)
		for (int odd = 0; odd < size; odd++) {
			struct apart flat = {"flat", "ring", odd};
			struct apart direct = {"doubling", "direct", odd};

			run_ranks(size, (const char *const[]){QUIET, DEADLINE, NULL}, apart_rank,
				  &flat);
			run_ranks(size, (const char *const[]){QUIET, DEADLINE, NULL}, apart_rank,
				  &direct);
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_passed_over_as_often_as_it_must_be),
		cmocka_unit_test(windows_add_no_passes),
		cmocka_unit_test(nobody_writes_into_what_was_given_back),
		cmocka_unit_test(a_death_is_told_to_all),
		cmocka_unit_test(with_and_without_messages_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
