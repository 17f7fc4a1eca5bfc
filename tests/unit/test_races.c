/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_races.c: what goes wrong at an awkward moment. Ranks that give up while others read from
 * them, several threads that wait, deaths before there was a connection, limits of the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "runtime/clock.h"
#include "tests/lib/ranks.h"

#define QUIET "STRETTO_LOG=error"
/* Longer than anything here may take: what ends with it was lost. */
#define DEADLINE "STRETTO_TIMEOUT_SECONDS=20"
enum { LONG_TIME = 100 };

static double seconds_since(uint64_t start)
{
	return (double)(stretto_now() - start) / 1e9;
}

/*
 * Rank 0 aborts a broadcast at a random moment, has its buffer back, and overwrites or frees it.
 * Rank 1 gets an error, or the message; never success and something else.
 */
struct giving_up {
	bool registered;
	size_t bytes;
	int rounds;
};

static char *take_buffer(struct stretto_comm *world, const struct giving_up *giving_up)
{
	void *buffer = NULL;

	if (giving_up->registered)
		require(stretto_alloc(world, giving_up->bytes, &buffer) == STRETTO_OK);
	else
		buffer = malloc(giving_up->bytes);
	require(buffer);
	return buffer;
}

static void give_up(struct stretto_comm *comm, struct stretto_request *request, uint64_t *random)
{
	uint64_t until = stretto_now() + next_random(random) % 200000;

	while (stretto_now() < until)
		;
	stretto_comm_abort(comm);
	stretto_wait(request);
}

static void giving_up_rank(struct stretto_comm *world, void *argument)
{
	const struct giving_up *giving_up = argument;
	int rank = stretto_comm_rank(world);
	uint64_t random = test_seed() + (uint64_t)rank;

	for (int round = 0; round < giving_up->rounds; round++) {
		char *buffer = take_buffer(world, giving_up);
		struct stretto_comm *comm;
		struct stretto_request *request = NULL;

		require(stretto_comm_split(world, 0, rank, &comm) == STRETTO_OK);
		memset(buffer, rank == 0 ? 7 : 0, giving_up->bytes);
		require(stretto_barrier(world) == STRETTO_OK);
		if (stretto_ibroadcast(comm, buffer, giving_up->bytes, STRETTO_U8, 0, &request) !=
		    STRETTO_OK)
			request = NULL; /* rank 0 was quick */
		if (rank == 0 && request) {
			give_up(comm, request, &random);
			memset(buffer, 9, giving_up->bytes);
		} else if (request && stretto_wait(request) == STRETTO_OK) {
			for (size_t i = 0; i < giving_up->bytes; i++)
				require(buffer[i] == 7);
		}
		if (giving_up->registered)
			require(stretto_free(world, buffer) == STRETTO_OK);
		else
			free(buffer);
		require(stretto_barrier(world) == STRETTO_OK);
		stretto_comm_free(comm);
	}
}

static void giving_up_never_looks_like_success(void **state)
{
	static const struct giving_up cases[] = {
		{false, 256 * 1024, 600},
		{true, 256 * 1024, 600},
		{true, 8 << 20, 20},
		{false, 4096, 200},
	};

	(void)state;
	test_seed();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct giving_up giving_up = cases[i];

		assert_int_equal(
			run_processes(2,
				      (const char *const[]){QUIET, DEADLINE,
							    "STRETTO_ALGORITHM=broadcast=binomial",
							    NULL},
				      giving_up_rank, &giving_up, LONG_TIME),
			0);
	}
}

/* Several threads of a rank wait at the same time, each in a communicator of its own. */
enum { THREADS = 3 };

struct waiting {
	struct stretto_comm *comm;
	uint64_t random;
	uint64_t end;
};

static void *wait_often(void *context)
{
	struct waiting *waiting = context;
	int32_t over = 0;

	while (!over) {
		over = stretto_now() > waiting->end;
		if (next_random(&waiting->random) % 4 == 0)
			usleep((unsigned)(next_random(&waiting->random) % 300));
		require(stretto_allreduce(waiting->comm, &over, &over, 1, STRETTO_I32,
					  STRETTO_MAX) == STRETTO_OK);
	}
	return NULL;
}

static void waiting_rank(struct stretto_comm *world, void *argument)
{
	int rank = stretto_comm_rank(world);
	struct waiting waiting[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		waiting[i].random = *(const uint64_t *)argument + (uint64_t)(rank * THREADS + i);
		waiting[i].end = stretto_after(stretto_now(), 1.5);
		require(stretto_comm_split(world, 0, rank, &waiting[i].comm) == STRETTO_OK);
	}
	for (int i = 0; i < THREADS; i++)
		require(pthread_create(&threads[i], NULL, wait_often, &waiting[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		require(pthread_join(threads[i], NULL) == 0);
		stretto_comm_free(waiting[i].comm);
	}
}

static void several_threads_wait(void **state)
{
	static const char *const spins[] = {"STRETTO_SPIN_SECONDS=0", "STRETTO_SPIN_SECONDS=1e-4"};
	uint64_t seed = test_seed();

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(run_processes(2 + i,
					       (const char *const[]){DEADLINE, spins[i], NULL},
					       waiting_rank, &seed, LONG_TIME),
				 0);
}

/*
 * A rank dies before it communicated with anyone, at once or while the others knock at its door.
 * They learn it, also those whose peers in the schedule are alive.
 */
struct dying {
	int victim;
	unsigned after; /* microseconds */
};

static void dying_rank(struct stretto_comm *world, void *argument)
{
	const struct dying *dying = argument;
	uint64_t start;
	float x = 1;

	if (stretto_comm_rank(world) == dying->victim) {
		usleep(dying->after);
		raise(SIGKILL);
	}
	usleep(50000);
	start = stretto_now();
	require(stretto_allreduce(world, &x, &x, 1, STRETTO_F32, STRETTO_SUM) ==
		STRETTO_PEER_FAILED);
	require(seconds_since(start) < 10);
	/* stays, as a rank that computes does: the others must not depend on its end */
	usleep(1000000);
}

static void death_before_a_connection(void **state)
{
	static const char *const algorithms[] = {"STRETTO_ALGORITHM=allreduce=ring",
						 "STRETTO_ALGORITHM=allreduce=tree"};

	(void)state;
	for (int victim = 0; victim < 4; victim++)
		for (int i = 0; i < 2; i++) {
			struct dying dying = {victim, i == 0 ? 0 : 300000};

			assert_int_equal(run_processes(4,
						       (const char *const[]){QUIET, DEADLINE,
									     algorithms[i], NULL},
						       dying_rank, &dying, LONG_TIME),
					 1);
		}
}

/* A rank that is idle, and stays so, still tells the others that it gave up. */
static void idle_abort_rank(struct stretto_comm *world, void *argument)
{
	uint64_t start;

	(void)argument;
	require(stretto_barrier(world) == STRETTO_OK);
	if (stretto_comm_rank(world) == 0) {
		usleep(100000);
		stretto_comm_abort(world);
		usleep(1500000);
		return;
	}
	start = stretto_now();
	require(stretto_barrier(world) == STRETTO_ABORTED);
	require(seconds_since(start) < 10);
}

static void abort_of_an_idle_rank(void **state)
{
	(void)state;
	assert_int_equal(run_processes(3, (const char *const[]){QUIET, DEADLINE, NULL},
				       idle_abort_rank, NULL, LONG_TIME),
			 0);
}

/* So many messages that the answers find the rings full, and ranks that are idle afterwards. */
static void many_answers_rank(struct stretto_comm *world, void *argument)
{
	enum { MANY = 400, BYTES = 16384 };
	static struct stretto_request *requests[MANY];
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	size_t stride = (size_t)BYTES * (size_t)size;
	char *x = calloc(MANY, stride);

	(void)argument;
	require(x);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MANY; i++)
			require(stretto_iallgather(world, x + (size_t)i * stride + rank * BYTES,
						   x + (size_t)i * stride, BYTES, STRETTO_U8,
						   &requests[i]) == STRETTO_OK);
		for (int i = 0; i < MANY; i++) {
			bool done = false;

			while (!done) {
				stretto_test(requests[i], &done);
				if (!done)
					usleep(100);
			}
			require(stretto_wait(requests[i]) == STRETTO_OK);
		}
		usleep(20000);
	}
	free(x);
}

static void answers_leave_when_the_rank_is_idle(void **state)
{
	(void)state;
	assert_int_equal(run_processes(3, (const char *const[]){DEADLINE, NULL}, many_answers_rank,
				       NULL, LONG_TIME),
			 0);
}

/* No descriptor is left when a rank has to connect: the error says which limit. */
static void no_files_rank(struct stretto_comm *world, void *argument)
{
	struct rlimit limit;
	float x = 1;

	(void)argument;
	if (stretto_comm_rank(world) == 0) {
		require(getrlimit(RLIMIT_NOFILE, &limit) == 0);
		limit.rlim_cur = 3;
		require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	}
	require(stretto_broadcast(world, &x, 1, STRETTO_F32, 1) == STRETTO_PEER_FAILED);
	if (stretto_comm_rank(world) == 0)
		require(strstr(stretto_comm_error(world), "this process cannot connect"));
}

static void out_of_descriptors(void **state)
{
	(void)state;
	assert_int_equal(run_processes(2, (const char *const[]){QUIET, DEADLINE, NULL},
				       no_files_rank, NULL, LONG_TIME),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(giving_up_never_looks_like_success),
		cmocka_unit_test(several_threads_wait),
		cmocka_unit_test(death_before_a_connection),
		cmocka_unit_test(abort_of_an_idle_rank),
		cmocka_unit_test(answers_leave_when_the_rank_is_idle),
		cmocka_unit_test(out_of_descriptors),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
