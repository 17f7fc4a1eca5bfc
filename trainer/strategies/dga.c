/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dga: gradients are averaged d steps late. Slots, each a pair of arenas, take turns; d = 2:
 *
 *	step  backward writes  in flight meanwhile  the pass corrects by  and starts
 *	1     slot 0           -                    -                     0
 *	2     slot 1           0                    -                     1
 *	3     slot 2           0 1                  0                     2
 *	4     slot 0           1 2                  1                     0
 *
 * The correction is formed where the own gradient of d steps ago was, which nothing else needs any
 * more: no further arena, and no copy.
 */
#include <stdlib.h>

#include "trainer/average.h"
#include "trainer/loop.h"

struct slot {
	float *gradients;           /* own, of one step */
	float *average;             /* over the ranks */
	struct stretto_route route; /* from the one to the other */
};

struct dga {
	struct stretto_slicing slicing;
	struct slot slots[STRETTO_DGA_DELAY + 1];
	size_t count;   /* of slots, d + 1 */
	size_t current; /* that the backward pass writes */
	size_t flying;  /* flights not used yet, the oldest count - 1 steps ago */
};

static const char *check(const struct stretto_average_options *options)
{
	return options->delay < 1 || options->delay > STRETTO_DGA_DELAY
		       ? "the delay of dga must be from 1 to 20"
		       : NULL;
}

/* A delay hides latency, but an average is sent in every step: the link must keep up. */
static enum stretto_fit fit(struct stretto_average_options *options, size_t steps, size_t most)
{
	(void)most; /* tau is not an option of dga */
	options->delay = steps < STRETTO_DGA_DELAY ? steps : STRETTO_DGA_DELAY;
	if (steps > STRETTO_DGA_DELAY)
		return STRETTO_FIT_SHORT;
	return steps == 1 ? STRETTO_FIT_HIDES : STRETTO_FIT_LATENCY;
}

static stretto_status open_slot(struct stretto_average *average, struct dga *own, struct slot *slot)
{
	size_t count = average->options.parameters;
	stretto_status status =
		stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS, count, &slot->gradients);

	if (status == STRETTO_OK)
		status = stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS, count,
						  &slot->average);
	slot->route.log = &average->log;
	if (status != STRETTO_OK)
		return status;
	return stretto_route_open(average->comm, &own->slicing, slot->gradients, slot->average,
				  &slot->route);
}

static stretto_status open_dga(struct stretto_average *average)
{
	size_t count = average->options.parameters;
	struct dga *own = calloc(1, sizeof(*own));
	stretto_status status;

	if (!own)
		return STRETTO_NO_MEMORY;
	average->own = own;
	own->count = average->options.delay + 1;
	own->slicing.count = count;
	own->slicing.slice = stretto_average_slice(average, count, STRETTO_WEIGHTS_SLICE);
	status = stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS, count, &average->weights);
	for (size_t i = 0; i < own->count && status == STRETTO_OK; i++)
		status = open_slot(average, own, &own->slots[i]);
	average->gradients = own->slots[0].gradients;
	return status;
}

static void close_dga(struct stretto_average *average)
{
	struct dga *own = average->own;

	for (size_t i = 0; i < own->count; i++)
		stretto_route_close(&own->slots[i].route);
	free(own);
}

/* Of the flights under way the oldest; NULL if there is none. */
static struct slot *oldest(struct dga *own)
{
	return own->flying > 0 ? &own->slots[(own->current + own->count - own->flying) % own->count]
			       : NULL;
}

static stretto_status ready_dga(struct stretto_average *average)
{
	struct slot *old = oldest(average->own);

	if (old)
		stretto_route_look(&old->route, old->route.count - 1);
	return STRETTO_OK;
}

/* What the correction of a block needs. */
struct correction {
	const float *gradients; /* of this step */
	struct slot *old;
};

/* g(t) + (average - own), of d steps ago, into the arena of the latter. */
static void correct(void *context, size_t first, size_t count)
{
	const struct correction *correction = context;
	const float *now = correction->gradients + first;
	const float *average = correction->old->average + first;
	float *own = correction->old->gradients + first;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		own[i] = now[i] + (average[i] - own[i]);
}

static stretto_status step_dga(struct stretto_average *average)
{
	struct dga *own = average->own;
	struct slot *now = &own->slots[own->current];
	struct slot *old = own->flying == average->options.delay ? oldest(own) : NULL;
	struct correction correction = {average->gradients, old};
	struct stretto_work work = {
		.weights = average->weights,
		.gradients = average->gradients,
		.stepped = old ? old->gradients : NULL,
		.next = average->weights,
		.before = old ? correct : NULL,
		.context = &correction,
	};
	stretto_status status = STRETTO_OK;

	stretto_average_clip(average);
	for (size_t k = 0; k < now->route.count && status == STRETTO_OK; k++) {
		if (old)
			status = stretto_route_finish(&old->route, k);
		if (status != STRETTO_OK)
			break;
		stretto_average_pass(average, &work, k * own->slicing.slice,
				     stretto_slicing_length(&own->slicing, k));
		status = stretto_route_start(&now->route, k);
	}
	own->flying += old ? 0 : 1;
	own->current = (own->current + 1) % own->count;
	average->gradients = own->slots[own->current].gradients;
	average->updates++;
	return status;
}

static stretto_status drain_dga(struct stretto_average *average)
{
	struct dga *own = average->own;
	stretto_status status = STRETTO_OK;

	for (; own->flying > 0 && status == STRETTO_OK; own->flying--) {
		struct slot *old = oldest(own);

		for (size_t k = 0; k < old->route.count && status == STRETTO_OK; k++)
			status = stretto_route_finish(&old->route, k);
	}
	if (status != STRETTO_OK)
		return status;
	return stretto_allreduce(average->comm, average->weights, average->weights,
				 average->options.parameters, STRETTO_F32, STRETTO_AVG);
}

const struct stretto_strategy_ops stretto_strategy_dga = {
	.check = check,
	.fit = fit,
	.open = open_dga,
	.close = close_dga,
	.ready = ready_dga,
	.step = step_dga,
	.drain = drain_dga,
};
