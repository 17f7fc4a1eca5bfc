/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_wakes.c: what an idle channel costs, and how often the progress thread is woken. Context
 * switches and wake-ups are counted, nothing is timed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/stage.h"

/* Reads a field of a thread of this process; 0 if the thread has ended. */
static unsigned long status_of(const char *thread, const char *field)
{
	char path[64], line[128];
	unsigned long value = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%.16s/status", thread);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, field, strlen(field)) == 0)
			value = strtoul(line + strlen(field), NULL, 10);
	if (file)
		fclose(file);
	return value;
}

static bool is_progress_thread(const char *thread)
{
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", thread);
	file = fopen(path, "r");
	if (file && !fgets(name, sizeof name, file))
		name[0] = '\0';
	if (file)
		fclose(file);
	return strcmp(name, "stretto\n") == 0;
}

/* Context switches of all progress threads of this process. */
static unsigned long switches(int *threads)
{
	DIR *directory = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned long sum = 0;

	require(directory);
	*threads = 0;
	while ((entry = readdir(directory))) {
		if (!is_progress_thread(entry->d_name))
			continue;
		++*threads;
		sum += status_of(entry->d_name, "voluntary_ctxt_switches:");
		sum += status_of(entry->d_name, "nonvoluntary_ctxt_switches:");
	}
	closedir(directory);
	return sum;
}

/* Until all threads have slept for a while: what they had to do is over. */
static unsigned long settle(void)
{
	unsigned long before, now;
	int threads;

	now = switches(&threads);
	require(threads == RANKS);
	do {
		before = now;
		usleep(100000);
		now = switches(&threads);
	} while (now != before);
	return now;
}

static void idle_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	float *data = ones(world, 64 * WINDOW);
	int threads;

	for (int kind = 0; kind < 2; kind++) {
		struct stretto_request *request = start(world, data, 64 * WINDOW, 0);

		/* once by the progress thread to its end, once by this one */
		while (kind == 0 && !is_done(request))
			usleep(1000);
		require(stretto_wait(request) == STRETTO_OK);
		meet(stage);
		if (stretto_comm_rank(world) == 0) {
			unsigned long before = settle();

			usleep(300000);
			require(switches(&threads) == before);
		}
		meet(stage);
	}
}

static void idle_costs_nothing(void **state)
{
	(void)state;
	on_stage((const char *const[]){QUIET, DEADLINE, NULL}, idle_rank);
}

/* What it took to wake threads of this rank so far. */
static unsigned long long woken(struct stretto_comm *world)
{
	return atomic_load(&channel_of(world)->wakes) + atomic_load(&channel_of(world)->signals);
}

static void wait_until(const atomic_uint *word, unsigned value)
{
	for (int tries = 0; atomic_load(word) != value; tries++) {
		require(tries < 20000);
		usleep(1000);
	}
}

/* Long operations, so that a wake-up per window would show. */
enum { LONG = 256 * WINDOW, ROUNDS = 50 };

static void waking_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	struct stretto_channel *channel = channel_of(world);
	float *data = ones(world, LONG);
	unsigned long long before;

	require(stretto_allreduce(world, data, data, LONG, STRETTO_F32, STRETTO_MAX) == STRETTO_OK);
	/* who waits at once needs nobody else */
	wait_until(&channel->parked, 1);
	before = woken(world);
	for (int round = 0; round < ROUNDS; round++)
		require(stretto_allreduce(world, data, data, LONG, STRETTO_F32, STRETTO_MAX) ==
			STRETTO_OK);
	require(woken(world) == before);
	require(atomic_load(&channel->parked) == 1);
	/* one that ends in the background: once */
	for (int round = 0; round < ROUNDS; round++) {
		struct stretto_request *request;

		wait_until(&channel->parked, 1);
		meet(stage);
		before = woken(world);
		request = start(world, data, LONG, 0);
		while (!is_done(request))
			usleep(1000);
		require(woken(world) == before + 1);
		require(stretto_wait(request) == STRETTO_OK);
	}
}

/* An operation waits for a peer in the background, while this thread runs others to their end. */
static void waking_beside_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	struct stretto_channel *channel = channel_of(world);
	bool early = stretto_comm_rank(world) == 0;
	float *data = ones(world, LONG), *beside = ones(world, 1);
	struct stretto_request *request = NULL;
	struct stretto_comm *other;
	unsigned long long before;

	require(stretto_comm_split(world, 0, 0, &other) == STRETTO_OK);
	/* the first one makes the form, and memory for it */
	require(stretto_allreduce(world, data, data, LONG, STRETTO_F32, STRETTO_MAX) == STRETTO_OK);
	wait_until(&channel->parked, 1);
	if (early) {
		request = start(other, beside, 1, 0);
		wait_until(&channel->dozing, 1);
	}
	meet(stage);
	before = woken(world);
	for (int round = 0; round < ROUNDS; round++)
		require(stretto_allreduce(world, data, data, LONG, STRETTO_F32, STRETTO_MAX) ==
			STRETTO_OK);
	require(woken(world) <= before + (early ? ROUNDS : 0));
	if (!early)
		request = start(other, beside, 1, 0);
	require(stretto_wait(request) == STRETTO_OK);
	check_sum(world, beside, 1);
	stretto_comm_free(other);
}

/* Starts all while the progress thread cannot come to look: it is woken once, if it sleeps. */
static void start_burst(struct stretto_comm *world, struct stretto_request **requests, bool sleeps)
{
	struct stretto_channel *channel = channel_of(world);
	unsigned long long before;

	stretto_channel_take_baton(channel);
	before = woken(world);
	for (int i = 0; i < MANY; i++)
		require(stretto_start(requests[i]) == STRETTO_OK);
	require(woken(world) <= before + 1 && woken(world) >= before + sleeps);
	stretto_channel_leave_baton(channel);
}

/* Finds it parked the first time, and asleep beside an operation under way the second time. */
static void burst_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	struct stretto_channel *channel = channel_of(world);
	float *data = ones(world, MANY), *beside = ones(world, 1);
	struct stretto_request *requests[MANY], *request = NULL;

	require(stretto_barrier(world) == STRETTO_OK);
	for (int i = 0; i < MANY; i++) {
		struct stretto_coll_args args = sum_of(data + i, 1, 0);

		require(stretto_coll_init(world, &args, &requests[i]) == STRETTO_OK);
	}
	for (int kind = 0; kind < 2; kind++) {
		wait_until(&channel->parked, 1);
		meet(stage);
		if (stretto_comm_rank(world) == 0) {
			if (kind == 1)
				request = start(world, beside, 1, 0);
			wait_until(&channel->dozing, (unsigned)kind);
			start_burst(world, requests, true);
		}
		meet(stage);
		if (stretto_comm_rank(world) == 1) {
			if (kind == 1)
				request = start(world, beside, 1, 0);
			start_burst(world, requests, false);
		}
		require(stretto_wait(request) == STRETTO_OK);
		for (int i = 0; i < MANY; i++)
			require(stretto_wait(requests[i]) == STRETTO_OK);
	}
	check_sum(world, beside, 1);
	for (int i = 0; i < MANY; i++)
		stretto_request_free(requests[i]);
}

static void the_progress_thread_is_woken_once_per_operation(void **state)
{
	static const char *const settings[] = {QUIET, DEADLINE, SMALL, NULL};
	static const char *const asleep[] = {QUIET, DEADLINE, SMALL, "STRETTO_SPIN_SECONDS=0",
					     NULL};

	(void)state;
	on_stage(settings, waking_rank);
	on_stage(asleep, waking_rank);
	on_stage(settings, waking_beside_rank);
	on_stage(asleep, waking_beside_rank);
	on_stage(settings, burst_rank);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_costs_nothing),
		cmocka_unit_test(the_progress_thread_is_woken_once_per_operation),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
