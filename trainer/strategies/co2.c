/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * co2: rounds start from an outer iterate, moved by averages that are a round old. tau = 2; X Y are
 * arenas of local weights, P Q of the outer iterate, "X>X" is an average in place:
 *
 *	step  pass reads  writes  then                           next reads  in flight meanwhile
 *	1     P           X       -                              X           -
 *	2     X           X       starts X>X                     P           X>X
 *	3     P           Y       -                              Y           X>X
 *	4     Y           Y       Q = P - m(P, P, X), starts Y>Y Q           Y>Y
 *	5     Q           X       -                              X           Y>Y
 *	6     X           X       P = Q - m(Q, P, Y), starts X>X P           X>X
 *
 * The average can be in place, because the next round does not read where the last one ended.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/average.h"
#include "trainer/loop.h"

struct co2 {
	struct stretto_slicing slicing;
	float *turns[2];                /* local weights of a round */
	struct stretto_route routes[2]; /* of turns[i], in place */
	float *outer[2];                /* outer iterates */
	float *momentum;                /* m */
	size_t turn;                    /* of this round */
	size_t now;                     /* outer iterate that this round started from */
	size_t before;                  /* and the round before it; the same in the first two */
	bool flying;                    /* the average of the other turn */
	size_t origin;                  /* steps before the first round, moved by a drain */
};

static const char *check(const struct stretto_average_options *options)
{
	const char *problem = stretto_check_round(options);

	if (!problem)
		problem = stretto_check_outer(options);
	if (!problem && !(options->outer_clip >= 0.0f))
		problem = "the outer clip must be at least 0";
	return problem;
}

static double effective_steps(const struct stretto_average_options *options)
{
	double gain = (double)options->outer_rate / (1 - (double)options->outer_momentum);

	return (double)options->tau * (sqrt(1 + 4 * gain) - 1) / 2;
}

static stretto_status open_arenas(struct stretto_average *average, struct co2 *own)
{
	float **const weights[] = {&own->turns[0], &own->turns[1], &own->outer[0], &own->outer[1],
				   &own->momentum};
	size_t count = average->options.parameters;
	stretto_status status = STRETTO_OK;

	for (size_t i = 0; i < sizeof(weights) / sizeof(*weights) && status == STRETTO_OK; i++)
		status =
			stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS, count, weights[i]);
	if (status != STRETTO_OK)
		return status;
	return stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS, count,
					&average->gradients);
}

static stretto_status open_co2(struct stretto_average *average)
{
	size_t count = average->options.parameters;
	struct co2 *own = calloc(1, sizeof(*own));
	stretto_status status;

	if (!own)
		return STRETTO_NO_MEMORY;
	average->own = own;
	own->slicing.count = count;
	own->slicing.slice = stretto_average_slice(average, count, STRETTO_WEIGHTS_SLICE);
	status = open_arenas(average, own);
	for (size_t i = 0; i < 2 && status == STRETTO_OK; i++) {
		own->routes[i].log = &average->log;
		status = stretto_route_open(average->comm, &own->slicing, own->turns[i],
					    own->turns[i], &own->routes[i]);
	}
	average->weights = own->outer[0];
	return status;
}

static void close_co2(struct stretto_average *average)
{
	struct co2 *own = average->own;

	stretto_route_close(&own->routes[0]);
	stretto_route_close(&own->routes[1]);
	free(own);
}

static stretto_status ready_co2(struct stretto_average *average)
{
	struct co2 *own = average->own;
	struct stretto_route *flight = &own->routes[1 - own->turn];

	if (own->flying)
		stretto_route_look(flight, flight->count - 1);
	return STRETTO_OK;
}

/* m <- beta m + clip((before - average) / L), with 1/L = |before - average| / (that + gap). */
static void move_momentum(const struct stretto_average *average, size_t first, size_t count)
{
	const struct co2 *own = average->own;
	const float *mean = own->turns[1 - own->turn] + first;
	const float *now = own->outer[own->now] + first, *before = own->outer[own->before] + first;
	float beta = average->options.outer_momentum, clip = average->options.outer_clip;
	float most = clip > 0.0f ? clip : HUGE_VALF;
	float *m = own->momentum + first;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++) {
		float e = before[i] - mean[i], gap = fabsf(now[i] - before[i]);
		/* FLT_MIN: 0 / 0 is 0, and no branch. */
		float penalised = e * (fabsf(e) / (fabsf(e) + gap + FLT_MIN));

		penalised = penalised < most ? penalised : most;
		penalised = penalised > -most ? penalised : -most;
		m[i] = beta * m[i] + penalised;
	}
}

/* The outer step on a block: the new iterate takes the place of the one that is not `now`. */
static void step_outer(void *context, size_t first, size_t count)
{
	struct stretto_average *average = context;
	const struct co2 *own = average->own;
	const float *now = own->outer[own->now] + first, *m = own->momentum + first;
	float *next = own->outer[1 - own->now] + first;
	float rate = average->options.outer_rate;

	move_momentum(average, first, count);
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		next[i] = now[i] - rate * m[i];
}

/* The last pass of a round has been made: on to the next, from the newest outer iterate. */
static void turn_round(struct stretto_average *average, struct co2 *own, bool moved)
{
	own->before = own->now;
	if (moved)
		own->now = 1 - own->now;
	own->flying = true;
	own->turn = 1 - own->turn;
	average->weights = own->outer[own->now];
}

static stretto_status step_co2(struct stretto_average *average)
{
	struct co2 *own = average->own;
	bool ends = (average->step + 1 - own->origin) % average->options.tau == 0;
	bool moves = ends && own->flying;
	struct stretto_work work = {
		.weights = average->weights,
		.gradients = average->gradients,
		.next = own->turns[own->turn],
		.after = moves ? step_outer : NULL,
		.context = average,
	};
	stretto_status status = STRETTO_OK;

	stretto_average_clip(average);
	for (size_t k = 0; k < own->routes[0].count && status == STRETTO_OK; k++) {
		if (moves)
			status = stretto_route_finish(&own->routes[1 - own->turn], k);
		if (status != STRETTO_OK)
			break;
		stretto_average_pass(average, &work, k * own->slicing.slice,
				     stretto_slicing_length(&own->slicing, k));
		if (ends)
			status = stretto_route_start(&own->routes[own->turn], k);
	}
	average->weights = work.next;
	average->updates++;
	if (ends)
		turn_round(average, own, moves);
	return status;
}

/* Adds the outer step that the average in flight makes to the current weights. */
static stretto_status add_outer(struct stretto_average *average, struct co2 *own)
{
	struct stretto_route *flight = &own->routes[1 - own->turn];
	float rate = average->options.outer_rate;
	stretto_status status = STRETTO_OK;

	for (size_t k = 0; k < flight->count && status == STRETTO_OK; k++)
		status = stretto_route_finish(flight, k);
	own->flying = false;
	if (status != STRETTO_OK)
		return status;
	move_momentum(average, 0, average->options.parameters);
	for (size_t i = 0; i < average->options.parameters; i++)
		average->weights[i] -= rate * own->momentum[i];
	return STRETTO_OK;
}

static stretto_status drain_co2(struct stretto_average *average)
{
	struct co2 *own = average->own;
	stretto_status status = own->flying ? add_outer(average, own) : STRETTO_OK;

	if (status == STRETTO_OK)
		status = stretto_allreduce(average->comm, average->weights, own->outer[own->now],
					   average->options.parameters, STRETTO_F32, STRETTO_AVG);
	average->weights = own->outer[own->now];
	own->before = own->now;
	own->origin = average->step;
	return status;
}

/* A drain leaves the weights in an outer iterate, and no other. */
static stretto_status visit_co2(struct stretto_average *average, bool restore,
				stretto_average_visitor *visit, void *context)
{
	struct co2 *own = average->own;
	size_t bytes = average->options.parameters * sizeof(float);
	stretto_status status = visit(context, "origin", &own->origin, sizeof(own->origin));

	(void)restore;
	return status == STRETTO_OK ? visit(context, "momentum", own->momentum, bytes) : status;
}

const struct stretto_strategy_ops stretto_strategy_co2 = {
	.check = check,
	.effective_steps = effective_steps,
	.fit = stretto_fit_tau,
	.open = open_co2,
	.close = close_co2,
	.ready = ready_co2,
	.step = step_co2,
	.drain = drain_co2,
	.visit = visit_co2,
};
