/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/prefetch.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"

struct stretto_prefetch {
	struct stretto_prefetch_options options;
	float *x;        /* [ahead + 1, floats]; step s has place s % (ahead + 1) */
	uint8_t *labels; /* [ahead + 1, labels] */
	pthread_t thread;
	bool begun;   /* a batch was asked for */
	bool started; /* the thread */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t room;  /* `taken` or `stop` has changed */
	pthread_cond_t filled;
	size_t taken; /* the step that the caller has, or waits for */
	size_t made;  /* the first step that is not made yet */
	bool stop;
	stretto_status status; /* of the step `made`; not STRETTO_OK: none is made any more */
};

static size_t buffers(const struct stretto_prefetch *prefetch)
{
	return prefetch->options.ahead + 1;
}

static struct stretto_batch batch_of(const struct stretto_prefetch *prefetch, size_t step)
{
	size_t place = step % buffers(prefetch);

	return (struct stretto_batch){prefetch->x + place * prefetch->options.floats,
				      prefetch->labels + place * prefetch->options.labels};
}

static stretto_status fill(struct stretto_prefetch *prefetch, size_t step)
{
	const struct stretto_prefetch_options *options = &prefetch->options;
	size_t place = step % buffers(prefetch);

	return options->fill(options->context, step, prefetch->x + place * options->floats,
			     prefetch->labels + place * options->labels);
}

stretto_status stretto_prefetch_new(const struct stretto_prefetch_options *options,
				    struct stretto_prefetch **prefetch)
{
	struct stretto_prefetch *made = calloc(1, sizeof(*made));

	if (!made)
		return STRETTO_NO_MEMORY;
	made->options = *options;
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->room, NULL);
	pthread_cond_init(&made->filled, NULL);
	made->x = malloc(buffers(made) * options->floats * sizeof(*made->x));
	made->labels = malloc(buffers(made) * options->labels);
	if (!made->x || !made->labels) {
		stretto_prefetch_free(made);
		return STRETTO_NO_MEMORY;
	}
	*prefetch = made;
	return STRETTO_OK;
}

void stretto_prefetch_free(struct stretto_prefetch *prefetch)
{
	if (!prefetch)
		return;
	if (prefetch->started) {
		pthread_mutex_lock(&prefetch->lock);
		prefetch->stop = true;
		pthread_cond_signal(&prefetch->room);
		pthread_mutex_unlock(&prefetch->lock);
		pthread_join(prefetch->thread, NULL);
	}
	pthread_cond_destroy(&prefetch->filled);
	pthread_cond_destroy(&prefetch->room);
	pthread_mutex_destroy(&prefetch->lock);
	free(prefetch->x);
	free(prefetch->labels);
	free(prefetch);
}

/* Sleeps until there is a batch to make; false: there will be none. Under the lock. */
static bool wait_for_room(struct stretto_prefetch *prefetch)
{
	while (!prefetch->stop && prefetch->made < prefetch->options.end &&
	       prefetch->made - prefetch->taken >= buffers(prefetch))
		pthread_cond_wait(&prefetch->room, &prefetch->lock);
	return !prefetch->stop && prefetch->made < prefetch->options.end;
}

static void *run(void *argument)
{
	struct stretto_prefetch *prefetch = argument;
	const struct sched_param none = {.sched_priority = 0};

	/* Never before a thread that wakes on the same core, as those of the progress do. */
	sched_setscheduler(0, SCHED_BATCH, &none);
	pthread_mutex_lock(&prefetch->lock);
	while (prefetch->status == STRETTO_OK && wait_for_room(prefetch)) {
		stretto_status status;

		/* The buffer is this thread's until `made` says otherwise. */
		pthread_mutex_unlock(&prefetch->lock);
		status = fill(prefetch, prefetch->made);
		pthread_mutex_lock(&prefetch->lock);
		prefetch->status = status;
		prefetch->made += status == STRETTO_OK;
		pthread_cond_signal(&prefetch->filled);
	}
	pthread_mutex_unlock(&prefetch->lock);
	return NULL;
}

/* Binds the threads that `attributes` will start. */
static void bind_to(pthread_attr_t *attributes, int core)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET((unsigned)core, &cores);
	pthread_attr_setaffinity_np(attributes, sizeof(cores), &cores);
}

static void start(struct stretto_prefetch *prefetch)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attributes);
	if (prefetch->options.core >= 0)
		bind_to(&attributes, prefetch->options.core);
	/* Signals are the caller's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&prefetch->thread, &attributes, run, prefetch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	prefetch->started = error == 0;
	if (prefetch->started)
		pthread_setname_np(prefetch->thread, "stretto-batch");
	else
		stretto_warn("starting the thread that makes batches: %s; the steps make them",
			     strerror(error));
}

/* The first batch that is asked for says where to begin. */
static void begin(struct stretto_prefetch *prefetch, size_t step)
{
	prefetch->begun = true;
	prefetch->taken = step;
	prefetch->made = step;
	if (prefetch->options.ahead > 0)
		start(prefetch);
}

/* Leaves the buffers before `step` to the thread, and sleeps until it is made. */
static stretto_status await(struct stretto_prefetch *prefetch, size_t step)
{
	stretto_status status;

	pthread_mutex_lock(&prefetch->lock);
	prefetch->taken = step;
	pthread_cond_signal(&prefetch->room);
	while (prefetch->made <= step && prefetch->status == STRETTO_OK)
		pthread_cond_wait(&prefetch->filled, &prefetch->lock);
	status = prefetch->made > step ? STRETTO_OK : prefetch->status;
	pthread_mutex_unlock(&prefetch->lock);
	return status;
}

/* The same without a thread. */
static stretto_status make_now(struct stretto_prefetch *prefetch, size_t step)
{
	prefetch->taken = step;
	if (prefetch->status == STRETTO_OK)
		prefetch->status = fill(prefetch, step);
	return prefetch->status;
}

stretto_status stretto_prefetch_batch(struct stretto_prefetch *prefetch, size_t step,
				      struct stretto_batch *batch)
{
	stretto_status status;

	if (step >= prefetch->options.end || (prefetch->begun && step != prefetch->taken + 1))
		return STRETTO_INVALID;
	if (!prefetch->begun)
		begin(prefetch, step);
	if (prefetch->started)
		status = await(prefetch, step);
	else
		status = make_now(prefetch, step);
	if (status == STRETTO_OK)
		*batch = batch_of(prefetch, step);
	return status;
}
