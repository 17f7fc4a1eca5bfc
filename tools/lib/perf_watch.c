/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that sleeps until the limit, and then ends the process: nothing that hangs in the main
 * thread can keep it from doing so. It takes no time before that.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/options.h"
#include "tools/lib/perf.h"

static double limit;    /* seconds; 0: none; set before the thread starts */
static double deadline; /* of perf_now() */
/* What the main thread does, for the line. Relaxed: each is shown as it is found. */
static atomic_int at_rank = -1;
static atomic_size_t at_bytes;
static _Atomic(const char *) at_name;
/* The line is printed once, by whichever thread comes first. */
static atomic_flag ended = ATOMIC_FLAG_INIT;

void perf_watch_case(int rank, const char *name, size_t bytes)
{
	atomic_store_explicit(&at_name, name, memory_order_relaxed);
	atomic_store_explicit(&at_bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&at_rank, rank, memory_order_relaxed);
}

bool perf_watch_due(void)
{
	/* ranks begin to count at different times, by a launch; not all of a short limit */
	double margin = limit < 4 ? limit / 4 : 1;

	return limit > 0 && perf_now() > deadline - margin;
}

void perf_watch_end(void)
{
	int rank = atomic_load_explicit(&at_rank, memory_order_relaxed);
	size_t bytes = atomic_load_explicit(&at_bytes, memory_order_relaxed);
	const char *name = atomic_load_explicit(&at_name, memory_order_relaxed);

	/* relaxed: only who prints is decided */
	if (atomic_flag_test_and_set_explicit(&ended, memory_order_relaxed))
		pause(); /* the other thread ends the process */
	if (rank < 0)
		fprintf(stderr, "stretto-perf: --timeout %g s passed before the ranks had met\n",
			limit);
	else
		fprintf(stderr, "stretto-perf: rank %d: --timeout %g s passed in %s of %zu bytes\n",
			rank, limit, name, bytes);
	_exit(PERF_TIMEOUT);
}

static void *sleep_until_due(void *unused)
{
	struct timespec until = {.tv_sec = (time_t)deadline};

	until.tv_nsec = (long)((deadline - (double)until.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	perf_watch_end();
	return unused;
}

void perf_watch(double seconds)
{
	pthread_t thread;
	int error;

	if (seconds <= 0)
		return;
	limit = seconds;
	deadline = perf_now() + seconds;
	error = pthread_create(&thread, NULL, sleep_until_due, NULL);
	if (error)
		tool_die(PERF_COMMUNICATION, "--timeout: no thread: %s", strerror(error));
	pthread_detach(thread);
}
