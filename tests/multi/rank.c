/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c: what one rank of a job does in tests of whole jobs: tests/rdma and tests/cluster start it.
 *
 *   rank matrix LARGE          every collective and algorithm, up to LARGE elements
 *   rank interleave ROUNDS     many operations at a time
 *   rank steady SECONDS BYTES  allreduce again and again until the time is over, all results checked;
 *                              "rank R: again, operation N" if it was to be called again
 *   rank fork ROUNDS           forks while an allreduce goes on; the child writes to its copy
 *   rank idle SECONDS          waits in the background for a rank that comes late
 *
 * Prints "rank R: ok ..." and exits 0; or "rank R: STATUS after S s, N operations: why" and exits 3, S being
 * the time since the last success. "rank R: started PID" after the first success of steady.
 *
 * STRETTO_TEST_SLOW=R: the port of rank R's second channel says a third of its speed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "runtime/clock.h"
#ifdef STRETTO_HAVE_VERBS
#include "runtime/transports/verbs.h"
#endif
#include "tests/lib/matrix.h"
#include "tests/lib/ranks.h"

enum { USAGE = 2, FAILED = 3 };

#ifdef STRETTO_HAVE_VERBS
bool __real_verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
			 char *why, size_t size);
bool __wrap_verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
			 char *why, size_t size);

bool __wrap_verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
			 char *why, size_t size)
{
	const char *slow = getenv("STRETTO_TEST_SLOW"), *rank = getenv("STRETTO_RANK");
	bool found = __real_verbs_choose(config, channel, port, why, size);

	if (found && channel == 1 && slow && rank && strcmp(slow, rank) == 0)
		port->speed /= 3;
	return found;
}
#endif

static void fill(int32_t *data, size_t count, int32_t round)
{
	for (size_t i = 0; i < count; i++)
		data[i] = round + (int32_t)(i % 1000);
}

static void check(const int32_t *data, size_t count, int32_t round, int size)
{
	for (size_t i = 1; i < count; i++)
		if (data[i] != size * (round + (int32_t)(i % 1000)))
			test_failed("wrong result of an allreduce");
}

static int failed(struct stretto_comm *world, stretto_status status, double seconds, int operations)
{
	printf("rank %d: %s after %.2f s, %d operations: %s\n", stretto_comm_rank(world),
	       stretto_status_name(status), seconds, operations, stretto_comm_error(world));
	return FAILED;
}

/* Element 0 counts the ranks whose time is over, so that all of them end with the same operation. */
static int steady(struct stretto_comm *world, double seconds, size_t bytes)
{
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world), round = 0;
	size_t count = bytes / sizeof(int32_t) + 1;
	uint64_t last = stretto_now(), end = stretto_after(last, seconds);
	int32_t *data;

	if (stretto_alloc(world, count * sizeof *data, (void **)&data) != STRETTO_OK)
		return FAILED;
	do {
		stretto_status status;

		fill(data, count, round);
		data[0] = stretto_now() > end;
		status = stretto_allreduce(world, data, data, count, STRETTO_I32, STRETTO_SUM);
		if (status == STRETTO_RETRY) {
			printf("rank %d: again, operation %d\n", rank, round);
			data[0] = 0;
			continue;
		}
		if (status != STRETTO_OK)
			return failed(world, status, (double)(stretto_now() - last) / 1e9, round);
		check(data, count, round, size);
		last = stretto_now();
		if (round++ == 0)
			printf("rank %d: started %d\n", rank, (int)getpid());
	} while (data[0] == 0);
	printf("rank %d: ok, %d operations\n", rank, round);
	return 0;
}

static int fork_in_the_middle(struct stretto_comm *world, int rounds)
{
	size_t count = 300000;
	int32_t *data =
		malloc(count * sizeof *data); /* stretto_alloc() gives what a child shares */

	require(data);
	require(stretto_register(world, data, count * sizeof *data) == STRETTO_OK);
	for (int round = 0; round < rounds; round++) {
		struct stretto_request *request;
		pid_t child;
		int status;

		fill(data, count, round);
		require(stretto_iallreduce(world, data, data, count, STRETTO_I32, STRETTO_SUM,
					   &request) == STRETTO_OK);
		child = fork();
		require(child >= 0);
		if (child == 0) {
			memset(data, 0x55, count * sizeof *data);
			_exit(0);
		}
		require(stretto_wait(request) == STRETTO_OK);
		require(waitpid(child, &status, 0) == child && status == 0);
		check(data, count, round, stretto_comm_size(world));
	}
	require(stretto_deregister(world, data) == STRETTO_OK);
	free(data);
	printf("rank %d: ok, %d forks\n", stretto_comm_rank(world), rounds);
	return 0;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Rank 0 comes `seconds` late; the others wait for it, and say how much of a core that took. */
static int idle(struct stretto_comm *world, double seconds)
{
	int32_t one = 1;
	double before;

	require(stretto_barrier(world) == STRETTO_OK);
	before = cpu_seconds();
	if (stretto_comm_rank(world) == 0)
		usleep((useconds_t)(seconds * 1e6));
	require(stretto_allreduce(world, &one, &one, 1, STRETTO_I32, STRETTO_SUM) == STRETTO_OK);
	printf("rank %d: ok, %.2f percent of a core\n", stretto_comm_rank(world),
	       100 * (cpu_seconds() - before) / seconds);
	return 0;
}

static int run(struct stretto_comm *world, char **words, double number)
{
	int whole = (int)number;

	if (strcmp(words[1], "matrix") == 0)
		matrix_rank(world, &(struct matrix){.large = (size_t)whole, .brief = true});
	else if (strcmp(words[1], "interleave") == 0)
		interleave_rank(world, &whole);
	else if (strcmp(words[1], "steady") == 0 && words[3])
		return steady(world, number, strtoul(words[3], NULL, 10));
	else if (strcmp(words[1], "fork") == 0)
		return fork_in_the_middle(world, whole);
	else if (strcmp(words[1], "idle") == 0)
		return idle(world, number);
	else
		return USAGE;
	printf("rank %d: ok\n", stretto_comm_rank(world));
	return 0;
}

int main(int argc, char **argv)
{
	struct stretto_comm *world;
	stretto_status status;
	int code;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3)
		return USAGE;
	status = stretto_init(NULL, &world);
	if (status != STRETTO_OK) {
		printf("rank ?: %s in stretto_init\n", stretto_status_name(status));
		return FAILED;
	}
	code = run(world, argv, strtod(argv[2], NULL));
	stretto_finalize(world);
	return code;
}
