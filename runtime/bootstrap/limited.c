/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/limited.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* What a thread is to call: owned by the thread. */
struct order {
	int (*call)(void);
};

static void *run(void *argument)
{
	struct order order = *(struct order *)argument;

	free(argument);
	return (void *)(intptr_t)order.call();
}

static int start(pthread_t *thread, int (*call)(void))
{
	struct order *order = malloc(sizeof *order);
	sigset_t all, before;
	int error;

	if (!order)
		return ENOMEM;
	order->call = call;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, order);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		free(order);
	return error;
}

enum stretto_limited stretto_limited_call(int (*call)(void), double seconds, int *result)
{
	struct timespec until;
	pthread_t thread;
	void *returned;
	long nanoseconds;

	errno = start(&thread, call);
	if (errno)
		return STRETTO_LIMITED_NO_THREAD;
	clock_gettime(CLOCK_REALTIME, &until);
	nanoseconds = until.tv_nsec + (long)((seconds - (double)(time_t)seconds) * 1e9);
	until.tv_sec += (time_t)seconds + nanoseconds / 1000000000;
	until.tv_nsec = nanoseconds % 1000000000;
	if (pthread_timedjoin_np(thread, &returned, &until) != 0) {
		pthread_detach(thread);
		return STRETTO_LIMITED_LATE;
	}
	*result = (int)(intptr_t)returned;
	return STRETTO_LIMITED_DONE;
}
