/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks, dasgd, tau = 2, d = 1, arenas X Y Z; "X>Z" is the average of X into Z in flight:
 *
 *	step  pass reads  waits  merges  writes  starts   in flight during the next step
 *	1     X           -      -       X       -        -
 *	2     X           -      -       X       X>Z      X>Z    (X is the snapshot of round 1)
 *	3     X           X>Z    Z       Y       -        -      (X was in flight when the pass
 *began) 4     Y           -      -       Y       Y>Z      Y>Z 5     Y           Y>Z    Z       X -
 *-
 *
 * With d = 2 = tau, step 4 reads Y (written by step 3, since X was in flight), merges Z of X>Z, and
 * starts Y>Z: slice by slice, so that Z is never written before its old contents were merged.
 */
#include "trainer/average.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "trainer/loop.h"
#include "trainer/route.h"

/* Arenas of weights at most: two that take turns as current and snapshot, one for the average. */
enum { TURNS = 2, AVERAGE = 2, WEIGHTS = 3 };

struct stretto_average {
	struct stretto_comm *comm;              /* borrowed */
	struct stretto_average_options options; /* with delay 0 for strategies that merge at once */
	const struct stretto_strategy_row *row; /* of the strategy; of none if there is one rank */
	struct stretto_slicing slicing;         /* of the arenas */
	float *weights[WEIGHTS];                /* registered arenas; NULL: not needed */
	float *gradients;                       /* registered arena */
	size_t current;                         /* index of the weights now */
	struct stretto_route routes[TURNS];     /* from weights[i], or [0] from the gradients */
	struct stretto_route *flight;           /* not yet merged; NULL: none */
	size_t merge_step;                      /* when it is due, in local steps */
	size_t step;                            /* local steps done */
	size_t ready;                           /* gradients [ready, parameters) are final */
	size_t slices_started;                  /* of the gradients in this step, from the end */
	struct stretto_flight_log log;          /* of all routes */
	uint64_t bytes_copied;                  /* by import and export */
};

static const struct stretto_strategy_row rows[STRETTO_STRATEGY_COUNT] = {
	[STRETTO_STRATEGY_NONE] = {"none", STRETTO_AVERAGED_NOTHING, false, false},
	[STRETTO_STRATEGY_SYNC] = {"sync", STRETTO_AVERAGED_GRADIENTS, false, false},
	[STRETTO_STRATEGY_LOCAL] = {"local", STRETTO_AVERAGED_WEIGHTS, false, false},
	[STRETTO_STRATEGY_DASGD] = {"dasgd", STRETTO_AVERAGED_WEIGHTS, true, false},
	[STRETTO_STRATEGY_DASGD_DELTA] = {"dasgd-delta", STRETTO_AVERAGED_WEIGHTS, true, true},
};

const struct stretto_strategy_row *stretto_strategy_row(enum stretto_strategy strategy)
{
	return &rows[strategy];
}

const char *stretto_strategy_name(enum stretto_strategy strategy)
{
	return (unsigned)strategy < STRETTO_STRATEGY_COUNT ? rows[strategy].name : "?";
}

bool stretto_strategy_find(const char *word, enum stretto_strategy *strategy)
{
	for (size_t i = 0; i < STRETTO_STRATEGY_COUNT; i++) {
		if (strcmp(word, rows[i].name) == 0) {
			*strategy = (enum stretto_strategy)i;
			return true;
		}
	}
	return false;
}

const char *stretto_average_check(const struct stretto_average_options *options)
{
	if ((unsigned)options->strategy >= STRETTO_STRATEGY_COUNT)
		return "no such strategy";
	if (options->parameters < 1)
		return "there must be at least one parameter";
	if (rows[options->strategy].averaged != STRETTO_AVERAGED_WEIGHTS)
		return NULL;
	if (options->tau < 1)
		return "tau must be at least 1";
	if (!(options->own_weight >= 0.0f && options->own_weight < 1.0f))
		return "the own weight must be at least 0 and less than 1";
	if (rows[options->strategy].delayed && options->delay > options->tau)
		return "the delay must not be greater than tau";
	return NULL;
}

double stretto_average_effective_steps(const struct stretto_average_options *options, int ranks)
{
	const struct stretto_strategy_row *row = &rows[options->strategy];

	if (row->averaged != STRETTO_AVERAGED_WEIGHTS)
		return 1.0;
	if (!row->delayed || row->delta || ranks == 1)
		return (double)options->tau;
	return (double)options->tau - (double)options->delay * (1.0 - (double)options->own_weight);
}

void stretto_pass_merge(const struct stretto_pass *pass)
{
	const float *average = pass->average, *snapshot = pass->snapshot;
	float own = pass->own_weight, other = 1.0f - own;
	float *next = pass->next;

	if (!average)
		return;
	if (snapshot) {
		LOOP_INDEPENDENT
		for (size_t i = 0; i < pass->count; i++)
			next[i] += other * (average[i] - snapshot[i]);
	} else {
		LOOP_INDEPENDENT
		for (size_t i = 0; i < pass->count; i++)
			next[i] = own * next[i] + other * average[i];
	}
}

/* Whether an average must go to another arena than its source. */
static bool out_of_place(const struct stretto_average *average)
{
	return average->options.delay > 0 || average->options.own_weight > 0.0f;
}

static stretto_status allocate(struct stretto_average *average, float **arena)
{
	void *memory = NULL;
	stretto_status status =
		stretto_alloc(average->comm, average->options.parameters * sizeof(float), &memory);

	if (status == STRETTO_OK)
		*arena = memory;
	return status;
}

/* Opens the routes of a strategy that averages weights, with the arenas they need. */
static stretto_status open_weights(struct stretto_average *average)
{
	size_t turns = average->options.delay > 0 ? TURNS : 1;
	size_t target = out_of_place(average) ? AVERAGE : 0;
	stretto_status status = STRETTO_OK;

	if (target == AVERAGE)
		status = allocate(average, &average->weights[AVERAGE]);
	if (status == STRETTO_OK && turns == TURNS)
		status = allocate(average, &average->weights[1]);
	for (size_t i = 0; i < turns && status == STRETTO_OK; i++)
		status = stretto_route_open(average->comm, &average->slicing, average->weights[i],
					    average->weights[target], &average->routes[i]);
	return status;
}

static stretto_status open_arenas(struct stretto_average *average)
{
	stretto_status status = allocate(average, &average->weights[0]);

	if (status == STRETTO_OK)
		status = allocate(average, &average->gradients);
	if (status != STRETTO_OK)
		return status;
	if (average->row->averaged == STRETTO_AVERAGED_GRADIENTS)
		return stretto_route_open(average->comm, &average->slicing, average->gradients,
					  average->gradients, &average->routes[0]);
	if (average->row->averaged == STRETTO_AVERAGED_WEIGHTS)
		return open_weights(average);
	return STRETTO_OK;
}

/*
 * Up to eight slices of whole cache lines. Each slice wakes the progress thread several times,
 * which on a shared core is taken from compute: weights have steps of time and travel in slices of
 * a MiB or more; gradients have only the rest of the backward pass, and take smaller ones.
 */
static size_t default_slice(const struct stretto_average *average)
{
	const size_t line = 16, most = 8;
	size_t parameters = average->options.parameters;
	size_t least = average->row->averaged == STRETTO_AVERAGED_WEIGHTS ? 262144 : 65536;
	size_t slices = parameters / least;

	if (slices > most)
		slices = most;
	return slices < 2 ? parameters : (parameters / slices + line) / line * line;
}

stretto_status stretto_average_new(struct stretto_comm *comm,
				   const struct stretto_average_options *options,
				   struct stretto_average **out)
{
	const char *problem = stretto_average_check(options);
	struct stretto_average *average;
	stretto_status status;

	if (problem) {
		stretto_error("averaging: %s", problem);
		return STRETTO_INVALID;
	}
	average = calloc(1, sizeof(*average));
	if (!average)
		return STRETTO_NO_MEMORY;
	average->comm = comm;
	average->options = *options;
	average->row = &rows[options->strategy];
	if (stretto_comm_size(comm) == 1)
		average->row = &rows[STRETTO_STRATEGY_NONE];
	if (!average->row->delayed)
		average->options.delay = 0;
	average->slicing.count = options->parameters;
	average->slicing.slice = options->slice ? options->slice : default_slice(average);
	average->ready = options->parameters;
	for (size_t i = 0; i < TURNS; i++)
		average->routes[i].log = &average->log;
	status = open_arenas(average);
	if (status != STRETTO_OK) {
		stretto_average_free(average);
		return status;
	}
	*out = average;
	return STRETTO_OK;
}

void stretto_average_free(struct stretto_average *average)
{
	if (!average)
		return;
	for (size_t i = 0; i < TURNS; i++)
		stretto_route_close(&average->routes[i]);
	for (size_t i = 0; i < WEIGHTS; i++)
		stretto_free(average->comm, average->weights[i]);
	stretto_free(average->comm, average->gradients);
	free(average);
}

float *stretto_average_weights(struct stretto_average *average)
{
	return average->weights[average->current];
}

float *stretto_average_gradients(struct stretto_average *average)
{
	return average->gradients;
}

/* Starts the slices of the gradients that are final as a whole, the last one of the arena first. */
static stretto_status start_gradients(struct stretto_average *average)
{
	size_t slices = average->routes[0].count;
	stretto_status status = STRETTO_OK;

	while (average->slices_started < slices && status == STRETTO_OK) {
		size_t k = slices - 1 - average->slices_started;

		if (k * average->slicing.slice < average->ready)
			break;
		status = stretto_route_start(&average->routes[0], k);
		average->slices_started++;
	}
	return status;
}

stretto_status stretto_average_ready(struct stretto_average *average, size_t first, size_t count)
{
	if (first > average->ready || count != average->ready - first) {
		stretto_error("averaging: gradients [%zu, %zu) are said to be ready, but the next "
			      "to be ready must end at %zu; call from the last layer to the first",
			      first, first + count, average->ready);
		return STRETTO_INVALID;
	}
	average->ready = first;
	if (average->row->averaged == STRETTO_AVERAGED_GRADIENTS)
		return start_gradients(average);
	if (average->flight)
		stretto_route_look(average->flight, average->flight->count - 1);
	return STRETTO_OK;
}

/* What a step does besides the optimiser's work. */
struct plan {
	struct stretto_route *finish; /* waited for, slice by slice; NULL: none */
	struct stretto_route *start;  /* started, slice by slice; NULL: none */
	bool merge;                   /* the average of `finish` is merged into the weights */
	bool backwards;               /* slices from the last to the first */
	size_t next;                  /* index of the arena that is written */
};

static struct plan plan_step(struct stretto_average *a)
{
	struct plan plan = {.next = a->current};

	if (a->row->averaged == STRETTO_AVERAGED_GRADIENTS) {
		plan.finish = &a->routes[0];
		plan.backwards = true;
	} else if (a->row->averaged == STRETTO_AVERAGED_WEIGHTS) {
		if (a->flight == &a->routes[a->current])
			plan.next = 1 - a->current;
		if (a->flight && a->merge_step == a->step + 1) {
			plan.finish = a->flight;
			plan.merge = true;
		}
		if ((a->step + 1) % a->options.tau == 0)
			plan.start = &a->routes[plan.next];
	}
	return plan;
}

/* Fills in what is merged into slice `pass` from the average in flight. */
static void plan_merge(const struct stretto_average *average, struct stretto_pass *pass)
{
	pass->own_weight = average->options.own_weight;
	pass->average = average->weights[AVERAGE] + pass->first;
	if (average->row->delta)
		pass->snapshot = average->weights[average->flight - average->routes] + pass->first;
}

static stretto_status step_slice(struct stretto_average *average, const struct plan *plan, size_t k,
				 stretto_update *update, void *context)
{
	size_t first = k * average->slicing.slice;
	struct stretto_pass pass = {
		.weights = average->weights[average->current] + first,
		.gradients = average->gradients + first,
		.next = average->weights[plan->next] + first,
		.first = first,
		.count = stretto_slicing_length(&average->slicing, k),
	};
	stretto_status status = STRETTO_OK;

	if (plan->finish)
		status = stretto_route_finish(plan->finish, k);
	if (status != STRETTO_OK)
		return status;
	if (plan->merge)
		plan_merge(average, &pass);
	update(context, &pass);
	return plan->start ? stretto_route_start(plan->start, k) : STRETTO_OK;
}

/* Waits for the average that has been started and merges it into the current weights, in place. */
static stretto_status merge_now(struct stretto_average *average)
{
	size_t slices = average->flight->count;
	stretto_status status = STRETTO_OK;

	for (size_t k = 0; k < slices && status == STRETTO_OK; k++) {
		struct stretto_pass pass = {
			.first = k * average->slicing.slice,
			.count = stretto_slicing_length(&average->slicing, k),
		};

		pass.next = average->weights[average->current] + pass.first;
		status = stretto_route_finish(average->flight, k);
		if (status != STRETTO_OK || !out_of_place(average))
			continue;
		plan_merge(average, &pass);
		stretto_pass_merge(&pass);
	}
	average->flight = NULL;
	return status;
}

stretto_status stretto_average_step(struct stretto_average *average, stretto_update *update,
				    void *context)
{
	size_t slices = stretto_slicing_slices(&average->slicing);
	stretto_status status = stretto_average_ready(average, 0, average->ready);
	struct plan plan = plan_step(average);

	for (size_t i = 0; i < slices && status == STRETTO_OK; i++)
		status = step_slice(average, &plan, plan.backwards ? slices - 1 - i : i, update,
				    context);
	average->step++;
	average->current = plan.next;
	average->ready = average->options.parameters;
	average->slices_started = 0;
	if (plan.merge)
		average->flight = NULL;
	if (plan.start) {
		average->flight = plan.start;
		average->merge_step = average->step + average->options.delay;
	}
	if (status == STRETTO_OK && average->flight && average->options.delay == 0)
		status = merge_now(average);
	return status;
}

stretto_status stretto_average_drain(struct stretto_average *average)
{
	stretto_status status = STRETTO_OK;
	float *weights;

	if (average->row->averaged != STRETTO_AVERAGED_WEIGHTS)
		return STRETTO_OK;
	if (average->flight)
		status = merge_now(average);
	if (status != STRETTO_OK)
		return status;
	weights = average->weights[average->current];
	return stretto_allreduce(average->comm, weights, weights, average->options.parameters,
				 STRETTO_F32, STRETTO_AVG);
}

void stretto_average_stats(const struct stretto_average *average,
			   struct stretto_average_stats *stats)
{
	*stats = (struct stretto_average_stats){
		.steps = average->step,
		.averages = average->log.flights,
		.bytes_averaged = average->log.bytes,
		.bytes_copied = average->bytes_copied,
		.exposed_seconds = average->log.exposed,
		.in_flight_seconds = average->log.in_flight,
		.gradient_arenas = 1,
	};
	for (size_t i = 0; i < WEIGHTS; i++)
		stats->weight_arenas += average->weights[i] != NULL;
}

void stretto_average_import(struct stretto_average *average, size_t first, size_t count,
			    const float *source)
{
	memcpy(stretto_average_weights(average) + first, source, count * sizeof(float));
	average->bytes_copied += count * sizeof(float);
}

void stretto_average_export(struct stretto_average *average, size_t first, size_t count,
			    float *target)
{
	memcpy(target, stretto_average_weights(average) + first, count * sizeof(float));
	average->bytes_copied += count * sizeof(float);
}
