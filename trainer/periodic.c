/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/periodic.h"

#include <stdlib.h>

#include "trainer/loop.h"

void stretto_merge_overwrite(const struct stretto_merge *merge)
{
	float own = merge->options->own_weight, other = 1.0f - own;
	const float *average = merge->average;
	float *next = merge->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < merge->count; i++)
		next[i] = own * next[i] + other * average[i];
}

/* Whether an average goes to another arena than its source. */
static bool out_of_place(const struct stretto_average *average,
			 const struct stretto_periodic_options *options)
{
	return options->delay > 0 || options->anchored || average->options.own_weight > 0.0f;
}

static stretto_status allocate(struct stretto_average *average, float **arena)
{
	return stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS, average->options.parameters,
					arena);
}

static stretto_status open_arenas(struct stretto_average *average,
				  struct stretto_periodic *periodic)
{
	const struct stretto_periodic_options *options = &periodic->options;
	stretto_status status = allocate(average, &periodic->turns[0]);

	periodic->average = periodic->turns[0];
	if (status == STRETTO_OK && options->delay > 0)
		status = allocate(average, &periodic->turns[1]);
	if (status == STRETTO_OK && out_of_place(average, options))
		status = allocate(average, &periodic->average);
	if (status == STRETTO_OK && options->anchored)
		status = allocate(average, &periodic->anchor);
	if (status == STRETTO_OK && options->anchored)
		status = allocate(average, &periodic->velocity);
	average->weights = options->anchored ? periodic->anchor : periodic->turns[0];
	if (status != STRETTO_OK)
		return status;
	return stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS,
					average->options.parameters, &average->gradients);
}

/* Where fragment f begins: at a whole cache line, where there are enough of them. */
static size_t fragment_first(const struct stretto_average *average, size_t f, size_t fragments)
{
	const size_t line = 16;
	size_t count = average->options.parameters;
	size_t unit = count / fragments >= 4 * line ? line : 1;

	return f == fragments ? count : count / unit * f / fragments * unit;
}

static stretto_status open_fragment(struct stretto_average *average,
				    struct stretto_periodic *periodic, size_t f)
{
	struct stretto_fragment *fragment = &periodic->fragments[f];
	size_t fragments = periodic->options.fragments, tau = average->options.tau;
	size_t first = fragment_first(average, f, fragments);
	size_t count = fragment_first(average, f + 1, fragments) - first;
	stretto_status status = STRETTO_OK;

	fragment->first = first;
	fragment->offset = (f + 1) * (tau / fragments) % tau;
	fragment->slicing.count = count;
	fragment->slicing.slice = stretto_average_slice(average, count, STRETTO_WEIGHTS_SLICE);
	for (size_t i = 0; i < 2 && periodic->turns[i] && status == STRETTO_OK; i++) {
		fragment->routes[i].log = &average->log;
		status = stretto_route_open(average->comm, &fragment->slicing,
					    periodic->turns[i] + first, periodic->average + first,
					    &fragment->routes[i]);
	}
	return status;
}

stretto_status stretto_periodic_open(struct stretto_average *average,
				     const struct stretto_periodic_options *options,
				     struct stretto_periodic *periodic)
{
	stretto_status status;

	*periodic = (struct stretto_periodic){.options = *options};
	periodic->fragments = calloc(options->fragments, sizeof(*periodic->fragments));
	if (!periodic->fragments)
		return STRETTO_NO_MEMORY;
	status = open_arenas(average, periodic);
	for (size_t f = 0; f < options->fragments && status == STRETTO_OK; f++)
		status = open_fragment(average, periodic, f);
	return status;
}

void stretto_periodic_close(struct stretto_periodic *periodic)
{
	for (size_t f = 0; periodic->fragments && f < periodic->options.fragments; f++) {
		stretto_route_close(&periodic->fragments[f].routes[0]);
		stretto_route_close(&periodic->fragments[f].routes[1]);
	}
	free(periodic->fragments);
	periodic->fragments = NULL;
}

/* What a merge needs to know beside the place. */
struct merging {
	const struct stretto_average *average;
	const struct stretto_periodic *periodic;
	const float *snapshot; /* arena */
	float *next;           /* arena */
};

static void merge_block(void *context, size_t first, size_t count)
{
	const struct merging *merging = context;
	const struct stretto_periodic *periodic = merging->periodic;
	struct stretto_merge merge = {
		.options = &merging->average->options,
		.next = merging->next + first,
		.average = periodic->average + first,
		.snapshot = merging->snapshot + first,
		.anchor = periodic->anchor ? periodic->anchor + first : NULL,
		.velocity = periodic->velocity ? periodic->velocity + first : NULL,
		.count = count,
	};

	periodic->options.rule(&merge);
}

/* Where the weights go: in place, unless that is a snapshot in flight, or the first anchor. */
static float *next_arena(const struct stretto_periodic *periodic, float *current)
{
	if (current == periodic->anchor)
		return periodic->turns[0];
	for (size_t f = 0; f < periodic->options.fragments; f++) {
		const struct stretto_fragment *fragment = &periodic->fragments[f];
		size_t source = fragment->flight == &fragment->routes[1];

		if (fragment->flight && current == periodic->turns[source])
			return periodic->turns[1 - source];
	}
	return current;
}

static stretto_status step_fragment(struct stretto_average *average,
				    struct stretto_periodic *periodic,
				    struct stretto_fragment *fragment, float *next)
{
	size_t n = average->step + 1 - periodic->options.origin, slices;
	bool merges = fragment->flight && fragment->merge_step == n;
	bool starts = n % average->options.tau == fragment->offset;
	struct stretto_route *start = &fragment->routes[next == periodic->turns[1]];
	struct stretto_route *flight = fragment->flight;
	struct merging merging = {average, periodic, NULL, next};
	struct stretto_work work = {
		.weights = average->weights,
		.gradients = average->gradients,
		.next = next,
		.after = merges ? merge_block : NULL,
		.context = &merging,
	};
	stretto_status status = STRETTO_OK;

	if (merges)
		merging.snapshot = periodic->turns[flight - fragment->routes];
	slices = stretto_slicing_slices(&fragment->slicing);
	for (size_t k = 0; k < slices && status == STRETTO_OK; k++) {
		if (merges)
			status = stretto_route_finish(flight, k);
		if (status != STRETTO_OK)
			break;
		stretto_average_pass(average, &work, fragment->first + k * fragment->slicing.slice,
				     stretto_slicing_length(&fragment->slicing, k));
		if (starts)
			status = stretto_route_start(start, k);
	}
	if (merges || starts)
		fragment->flight = starts ? start : NULL;
	fragment->merge_step = starts ? n + periodic->options.delay : fragment->merge_step;
	return status;
}

/* Waits for the average in flight and merges it into the current weights, in place. */
static stretto_status merge_now(struct stretto_average *average, struct stretto_periodic *periodic,
				struct stretto_fragment *fragment)
{
	struct stretto_route *flight = fragment->flight;
	struct merging merging = {average, periodic, NULL, average->weights};
	bool merges = out_of_place(average, &periodic->options);
	stretto_status status = STRETTO_OK;

	if (!flight)
		return STRETTO_OK;
	merging.snapshot = periodic->turns[flight - fragment->routes];
	for (size_t k = 0; k < flight->count && status == STRETTO_OK; k++) {
		status = stretto_route_finish(flight, k);
		if (status == STRETTO_OK && merges)
			merge_block(&merging, fragment->first + k * fragment->slicing.slice,
				    stretto_slicing_length(&fragment->slicing, k));
	}
	fragment->flight = NULL;
	return status;
}

static stretto_status merge_all(struct stretto_average *average, struct stretto_periodic *periodic)
{
	stretto_status status = STRETTO_OK;

	for (size_t f = 0; f < periodic->options.fragments && status == STRETTO_OK; f++)
		status = merge_now(average, periodic, &periodic->fragments[f]);
	return status;
}

stretto_status stretto_periodic_step(struct stretto_average *average,
				     struct stretto_periodic *periodic)
{
	float *next = next_arena(periodic, average->weights);
	stretto_status status = STRETTO_OK;

	stretto_average_clip(average);
	for (size_t f = 0; f < periodic->options.fragments && status == STRETTO_OK; f++)
		status = step_fragment(average, periodic, &periodic->fragments[f], next);
	average->weights = next;
	average->updates++;
	if (status == STRETTO_OK && periodic->options.delay == 0)
		status = merge_all(average, periodic);
	return status;
}

stretto_status stretto_periodic_drain(struct stretto_average *average,
				      struct stretto_periodic *periodic)
{
	stretto_status status = merge_all(average, periodic);

	if (status != STRETTO_OK)
		return status;
	/* Before the first step the weights are where an anchor is, and the same on all ranks. */
	return stretto_allreduce(average->comm, average->weights, average->weights,
				 average->options.parameters, STRETTO_F32, STRETTO_AVG);
}

stretto_status stretto_periodic_visit(struct stretto_average *average,
				      const struct stretto_periodic *periodic, bool restore,
				      stretto_average_visitor *visit, void *context)
{
	size_t bytes = average->options.parameters * sizeof(float);
	stretto_status status = STRETTO_OK;

	if (!periodic->anchor)
		return STRETTO_OK;
	/* Past the first step, the weights are apart from the anchor. */
	if (restore && average->step > 0)
		average->weights = periodic->turns[0];
	status = visit(context, "anchor", periodic->anchor, bytes);
	return status == STRETTO_OK ? visit(context, "velocity", periodic->velocity, bytes)
				    : status;
}

stretto_status stretto_periodic_own_open(struct stretto_average *average,
					 const struct stretto_periodic_options *options)
{
	average->own = calloc(1, sizeof(struct stretto_periodic));
	if (!average->own)
		return STRETTO_NO_MEMORY;
	return stretto_periodic_open(average, options, average->own);
}

void stretto_periodic_own_close(struct stretto_average *average)
{
	stretto_periodic_close(average->own);
	free(average->own);
}

stretto_status stretto_periodic_own_ready(struct stretto_average *average)
{
	struct stretto_periodic *periodic = average->own;

	for (size_t f = 0; f < periodic->options.fragments; f++) {
		struct stretto_route *flight = periodic->fragments[f].flight;

		if (flight)
			stretto_route_look(flight, flight->count - 1);
	}
	return STRETTO_OK;
}

stretto_status stretto_periodic_own_step(struct stretto_average *average)
{
	return stretto_periodic_step(average, average->own);
}

stretto_status stretto_periodic_own_drain(struct stretto_average *average)
{
	return stretto_periodic_drain(average, average->own);
}

stretto_status stretto_periodic_own_visit(struct stretto_average *average, bool restore,
					  stretto_average_visitor *visit, void *context)
{
	return stretto_periodic_visit(average, average->own, restore, visit, context);
}
