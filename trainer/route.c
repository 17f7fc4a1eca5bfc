/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/route.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

size_t stretto_slicing_slices(const struct stretto_slicing *slicing)
{
	return (slicing->count + slicing->slice - 1) / slicing->slice;
}

size_t stretto_slicing_length(const struct stretto_slicing *slicing, size_t k)
{
	size_t rest = slicing->count - k * slicing->slice;

	return rest < slicing->slice ? rest : slicing->slice;
}

static double seconds(void)
{
	return (double)stretto_now() * 1e-9;
}

/* The operation of slice k, from the arenas' beginnings and the collective. */
typedef struct stretto_coll_args make_slice(const struct stretto_comm *comm,
					    const struct stretto_slicing *slicing, size_t k,
					    struct stretto_coll_args args);

static struct stretto_coll_args make_average(const struct stretto_comm *comm,
					     const struct stretto_slicing *slicing, size_t k,
					     struct stretto_coll_args args)
{
	size_t first = k * slicing->slice;

	(void)comm;
	args.collective = STRETTO_ALLREDUCE;
	args.in = (const float *)args.in + first;
	args.out = (float *)args.out + first;
	args.count = stretto_slicing_length(slicing, k);
	return args;
}

static struct stretto_coll_args make_scatter(const struct stretto_comm *comm,
					     const struct stretto_slicing *slicing, size_t k,
					     struct stretto_coll_args args)
{
	args.collective = STRETTO_REDUCE_SCATTER;
	args.count = slicing->slice / (size_t)stretto_comm_size(comm);
	args.in = (const float *)args.in + k * slicing->slice;
	args.out = (float *)args.out + k * args.count;
	return args;
}

static struct stretto_coll_args make_gather(const struct stretto_comm *comm,
					    const struct stretto_slicing *slicing, size_t k,
					    struct stretto_coll_args args)
{
	args.collective = STRETTO_ALLGATHER;
	args.count = slicing->slice / (size_t)stretto_comm_size(comm);
	args.out = (float *)args.out + k * slicing->slice;
	args.in = (float *)args.out + (size_t)stretto_comm_rank(comm) * args.count;
	return args;
}

static stretto_status open_route(struct stretto_comm *comm, const struct stretto_slicing *slicing,
				 make_slice *make, const struct stretto_coll_args *arenas,
				 struct stretto_route *route)
{
	stretto_status status = STRETTO_OK;
	size_t slices = stretto_slicing_slices(slicing);

	*route = (struct stretto_route){.log = route->log, .bytes = slicing->count * sizeof(float)};
	route->slices = calloc(slices, sizeof(*route->slices));
	if (!route->slices)
		return STRETTO_NO_MEMORY;
	while (route->count < slices && status == STRETTO_OK) {
		size_t k = route->count;
		struct stretto_coll_args args = make(comm, slicing, k, *arenas);

		status = stretto_coll_init(comm, &args, &route->slices[k].request);
		route->count += status == STRETTO_OK;
	}
	if (status != STRETTO_OK)
		stretto_route_close(route);
	return status;
}

stretto_status stretto_route_open(struct stretto_comm *comm, const struct stretto_slicing *slicing,
				  const float *in, float *out, struct stretto_route *route)
{
	const struct stretto_coll_args arenas = {
		.in = in, .out = out, .type = STRETTO_F32, .op = STRETTO_AVG};

	return open_route(comm, slicing, make_average, &arenas, route);
}

stretto_status stretto_route_open_scatter(struct stretto_comm *comm,
					  const struct stretto_slicing *slicing, const float *in,
					  float *out, struct stretto_route *route)
{
	const struct stretto_coll_args arenas = {
		.in = in, .out = out, .type = STRETTO_F32, .op = STRETTO_AVG};

	return open_route(comm, slicing, make_scatter, &arenas, route);
}

stretto_status stretto_route_open_gather(struct stretto_comm *comm,
					 const struct stretto_slicing *slicing, float *arena,
					 struct stretto_route *route)
{
	const struct stretto_coll_args arenas = {.out = arena, .type = STRETTO_F32};

	return open_route(comm, slicing, make_gather, &arenas, route);
}

void stretto_route_close(struct stretto_route *route)
{
	for (size_t k = 0; k < route->count; k++) {
		if (route->slices[k].active)
			stretto_wait(route->slices[k].request);
		stretto_request_free(route->slices[k].request);
	}
	free(route->slices);
	*route = (struct stretto_route){.log = route->log};
}

stretto_status stretto_route_start(struct stretto_route *route, size_t k)
{
	stretto_status status;

	route->slices[k].start = stretto_trace_now(route->log->trace);
	if (route->started == 0) {
		route->start_time = seconds();
		route->seen_time = route->start_time;
	}
	status = stretto_start(route->slices[k].request);
	if (status == STRETTO_OK) {
		route->slices[k].active = true;
		route->started++;
	}
	return status;
}

/* Books a flight whose last slice is finished. */
static void land(struct stretto_route *route)
{
	route->log->in_flight += route->seen_time - route->start_time;
	route->log->flights++;
	route->log->bytes += route->bytes;
	route->started = 0;
	route->finished = 0;
}

stretto_status stretto_route_finish(struct stretto_route *route, size_t k)
{
	struct stretto_route_slice *slice = &route->slices[k];
	struct stretto_trace *trace = route->log->trace;
	bool done = false;
	stretto_status status;
	uint64_t wait;
	double before;

	stretto_test(slice->request, &done);
	wait = stretto_trace_now(trace);
	before = seconds();

	/* Also for what is complete: the wait is what makes it ready to be started again. */
	status = stretto_wait(slice->request);
	if (!done) {
		route->seen_time = seconds();
		route->log->exposed += route->seen_time - before;
		stretto_trace_add(trace, STRETTO_TRACE_WAIT, k, wait);
	}
	stretto_trace_add(trace, done ? STRETTO_TRACE_HIDDEN : STRETTO_TRACE_WAITED, k,
			  slice->start);
	slice->active = false;
	route->finished++;
	if (route->finished == route->count)
		land(route);
	return status;
}

bool stretto_route_done(const struct stretto_route *route, size_t k)
{
	bool done = false;

	/* An error is left for stretto_route_finish(). */
	return stretto_test(route->slices[k].request, &done) != STRETTO_OK || done;
}

void stretto_route_look(struct stretto_route *route, size_t k)
{
	bool done = false;

	if (stretto_test(route->slices[k].request, &done) == STRETTO_OK && !done)
		route->seen_time = seconds();
}
