/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/request.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/cache.h"
#include "collectives/counts.h"
#include "collectives/form.h"
#include "collectives/traits.h"
#include "collectives/types.h"
#include "runtime/board.h"
#include "runtime/log.h"

/* Requests of short operations that are at hand without a lock. */
enum { HOT_REQUESTS = 8 };

/* What the collectives keep of a communicator. */
struct coll_state {
	pthread_mutex_t lock; /* of all below: requests may be waited for in several threads */
	struct stretto_list schedules; /* struct stretto_cached_schedule */
	struct stretto_list requests;  /* unused struct stretto_request, last used first */
	size_t request_count;
	struct stretto_board *board; /* once an algorithm needs it, else NULL; owned */
	/* Of the thread that starts operations: the last short ones, by form; owned. See run_short(). */
	struct stretto_request *hot[HOT_REQUESTS];
};

static void release(struct stretto_request *request)
{
	if (!request)
		return;
	for (int i = 0; i < request->part_count; i++) {
		const struct stretto_exec_plan plan = request->parts[i]->plan;

		stretto_exec_free(request->parts[i]);
		stretto_schedule_put(plan.full);
		stretto_schedule_put(plan.rest);
		stretto_schedule_put(plan.seal);
	}
	stretto_counts_free(request->counts);
	free(request);
}

static void free_state(void *extension)
{
	struct coll_state *state = extension;

	STRETTO_LIST_FOR_SAFE (it, &state->requests)
		release(stretto_container_of(it, struct stretto_request, link));
	for (int i = 0; i < HOT_REQUESTS; i++)
		release(state->hot[i]);
	stretto_schedules_free(&state->schedules);
	stretto_board_free(state->board);
	pthread_mutex_destroy(&state->lock);
	free(state);
}

static struct coll_state *state_of(struct stretto_comm *comm)
{
	struct coll_state *state = comm->extension;

	if (state)
		return state;
	state = calloc(1, sizeof *state);
	if (!state)
		return NULL;
	pthread_mutex_init(&state->lock, NULL);
	stretto_list_init(&state->schedules);
	stretto_list_init(&state->requests);
	comm->extension = state;
	comm->extension_free = free_state;
	return state;
}

/* Whether the operation must combine in the order of the ranks. */
bool stretto_request_reproducible(const struct stretto_request *request)
{
	return request->comm->world->config.reproducible &&
	       stretto_traits_of(request->args.collective)->reduces;
}

/*
 * Whether the schedule counts ranks by their places in the topology's order, which keeps neighbours
 * close; without messages there are none. Where blocks of a buffer belong to ranks it counts as the
 * communicator does; and where the order of the ranks decides on the bits, so that these do not
 * depend on the nodes.
 */
static bool is_ordered(const struct stretto_request *request)
{
	return !stretto_request_reproducible(request) && !request->choice.algorithm->mapped &&
	       !stretto_traits_blocks(request->args.collective);
}

/* One schedule of `count` elements of the vector (or of each block) for the request. */
static stretto_status schedule_for(const struct stretto_request *request,
				   const struct stretto_algorithm *algorithm, size_t count,
				   const struct stretto_schedule **schedule)
{
	const struct stretto_comm *comm = request->comm;
	const struct stretto_topology *topology = &comm->topology;
	struct coll_state *state = comm->extension;
	struct stretto_shape shape = {
		.collective = algorithm->collective,
		.rank = comm->rank,
		.size = comm->size,
		.root = request->args.root,
		.count = count,
		.stride = request->args.count,
		.in_place = request->in_place,
		.in_mapped = request->in_mapped,
		.out_mapped = request->out_mapped,
		.scaled = request->args.scale && algorithm->collective != STRETTO_BARRIER,
		.counts = algorithm->collective != STRETTO_BARRIER ? request->counts : NULL,
	};

	if (is_ordered(request)) {
		shape.rank = topology->place[shape.rank];
		shape.root = topology->place[shape.root];
		shape.node = topology->node_at;
		shape.nodes = topology->nodes;
	}
	return stretto_schedule_get(&state->schedules, STRETTO_CACHED_SCHEDULES, algorithm, &shape,
				    schedule);
}

/* Where lost connections are made anew, all have the results once one has finished: by a barrier. */
static bool is_sealed(const struct stretto_request *request)
{
	return request->comm->world->recovery && request->comm->size > 1 &&
	       request->args.collective != STRETTO_BARRIER;
}

/* Makes the part of elements [first, first + count) on a channel. */
static stretto_status add_part(struct stretto_request *request, struct stretto_channel *channel,
			       size_t first, size_t count)
{
	const struct stretto_algorithm *algorithm = request->choice.algorithm;
	size_t window = request->choice.window < count ? request->choice.window : count;
	struct stretto_exec_plan plan = {
		.comm = request->comm,
		.ranks = is_ordered(request) ? request->comm->ordered : request->comm->ranks,
		.channel = channel,
		.first = first,
		.window = window,
		.windows = window ? (count + window - 1) / window : 1,
		.in_flight = request->comm->world->config.windows,
		.element_size = stretto_type_size(request->args.type),
		.board = request->board,
	};
	size_t rest = window ? count % window : 0;
	stretto_status status = schedule_for(request, algorithm, window, &plan.full);

	if (status == STRETTO_OK && rest > 0)
		status = schedule_for(request, algorithm, rest, &plan.rest);
	if (status == STRETTO_OK && is_sealed(request))
		status = schedule_for(request,
				      stretto_algorithm_find(STRETTO_BARRIER, "dissemination"), 0,
				      &plan.seal);
	if (status == STRETTO_OK)
		status = stretto_exec_new(&plan, &request->parts[request->part_count]);
	if (status == STRETTO_OK) {
		request->part_count++;
		return STRETTO_OK;
	}
	stretto_schedule_put(plan.full);
	stretto_schedule_put(plan.rest);
	stretto_schedule_put(plan.seal);
	return status;
}

/* Speeds of the channels as the communicator sees them: 0 where no network is between its ranks. */
static void speeds_for(const struct stretto_comm *comm, uint32_t speeds[STRETTO_STRIPES_MAX])
{
	bool network = comm->topology.nodes > 1 || !comm->world->mapped;

	for (size_t c = 0; c < comm->world->config.channels; c++)
		speeds[c] = network ? comm->world->channels[c]->speed : 0;
}

static stretto_status add_parts(struct stretto_request *request)
{
	const struct stretto_world *world = request->comm->world;
	size_t element = stretto_type_size(request->args.type);
	struct stretto_stripe stripes[STRETTO_STRIPES_MAX];
	uint32_t speeds[STRETTO_STRIPES_MAX];
	stretto_status status = STRETTO_OK;
	size_t made;

	if (request->counts) /* one window of all blocks, which no stripe cuts alike */
		return add_part(request, world->channels[0], 0, request->choice.window);
	if (request->board)
		return add_part(request, world->channels[0], 0, request->args.count);
	speeds_for(request->comm, speeds);
	made = stretto_stripes(request->args.count, element, speeds, world->config.channels,
			       stripes);
	for (size_t i = 0; i < made && status == STRETTO_OK; i++)
		status = add_part(request, world->channels[stripes[i].channel], stripes[i].first,
				  stripes[i].count);
	return status;
}

static void log_choice(const struct stretto_request *request)
{
	const struct stretto_coll_args *args = &request->args;

	stretto_info("%s of %zu x %s on %d ranks: %s, window %zu elements, %d channel(s), "
		     "estimated %.4g us (%s)",
		     stretto_collective_name(args->collective),
		     request->counts ? stretto_counts_elements(args, request->comm->size)
				     : args->count,
		     stretto_type_name(args->type), request->comm->size,
		     request->choice.algorithm->name, request->choice.window, request->part_count,
		     1e6 * request->choice.seconds, request->choice.reason);
}

/* Copies the counts of a call that gives some, which are the caller's. */
static stretto_status take_counts(struct stretto_request *request)
{
	struct stretto_coll_args *args = &request->args;
	int size = request->comm->size;
	stretto_status status;

	if (!stretto_counts_given(args))
		return STRETTO_OK;
	status = stretto_counts_check_overlap(args, request->in_place, size);
	if (status == STRETTO_OK)
		status = stretto_counts_new(args, size, &request->counts);
	if (status == STRETTO_OK)
		stretto_counts_point(args, request->counts);
	return status;
}

/* Whether the ranks can map the caller's buffer; an empty one needs no mapping. */
static bool is_mapped(struct stretto_comm *comm, const void *buffer, size_t bytes)
{
	const struct stretto_region *region =
		buffer && bytes ? stretto_memory_find(&comm->world->memory, buffer, bytes) : NULL;

	return region && region->fd >= 0;
}

/* Finds out whether buffers are mapped, where the schedule depends on it. */
static void look_at_buffers(struct stretto_request *request, const struct stretto_coll_args *args)
{
	size_t in_bytes, out_bytes;

	stretto_form_bytes(request->comm, &request->args, &in_bytes, &out_bytes);
	request->in_mapped = is_mapped(request->comm, args->in, in_bytes);
	request->out_mapped = is_mapped(request->comm, args->out, out_bytes);
}

/* The board of the communicator, made when first asked for. */
static stretto_status get_board(struct stretto_request *request)
{
	struct stretto_comm *comm = request->comm;
	struct coll_state *state = comm->extension;
	stretto_status status = STRETTO_OK;

	if (!state->board)
		status = stretto_board_new(comm, comm->world->channels[0], &state->board);
	request->board = state->board;
	if (status == STRETTO_OK && stretto_board_possible(comm))
		look_at_buffers(request, &request->args);
	return status;
}

static stretto_status make(struct stretto_comm *comm, const struct stretto_coll_args *args,
			   struct stretto_request **out)
{
	struct stretto_request *request = calloc(1, sizeof *request);
	struct stretto_link links[2];
	struct stretto_group group;
	stretto_status status;

	if (!request)
		return STRETTO_NO_MEMORY;
	stretto_list_init(&request->link);
	request->comm = comm;
	request->args = *args;
	request->in_place = stretto_form_in_place(comm, args);
	group = stretto_group_of(comm, links);
	status = take_counts(request);
	if (status == STRETTO_OK)
		status = stretto_select(&comm->world->config, &group, args, &request->choice);
	if (status == STRETTO_OK) {
		if (args->algorithm)
			request->args.algorithm = request->choice.algorithm->name;
		if (request->choice.algorithm->mapped)
			status = get_board(request);
	}
	if (status == STRETTO_OK) {
		status = add_parts(request);
	}
	if (status != STRETTO_OK) {
		release(request);
		return status;
	}
	log_choice(request);
	*out = request;
	return STRETTO_OK;
}

/* Whether the schedules of a request suit buffers: how others reach them may be built in. */
static bool suits_buffers(const struct stretto_request *request,
			  const struct stretto_coll_args *args)
{
	struct stretto_request asked = {.comm = request->comm, .args = *args};

	if (!request->board || request->parts[0]->plan.full->on_board)
		return true;
	look_at_buffers(&asked, args);
	return request->in_mapped == asked.in_mapped && request->out_mapped == asked.out_mapped;
}

static bool same_form(const struct stretto_request *request, const struct stretto_coll_args *args,
		      bool in_place)
{
	const struct stretto_coll_args *have = &request->args;

	if (have->collective != args->collective || have->type != args->type ||
	    have->root != args->root || have->count != args->count ||
	    request->in_place != in_place || !have->scale != !args->scale ||
	    !stretto_counts_match(have, args, request->comm->size) ||
	    !have->algorithm != !args->algorithm)
		return false;
	return !args->algorithm || strcmp(have->algorithm, args->algorithm) == 0;
}

/* A request of that form that is not in use; NULL if there is none. */
static struct stretto_request *reuse(struct stretto_comm *comm,
				     const struct stretto_coll_args *args)
{
	struct coll_state *state = comm->extension;
	bool in_place = stretto_form_in_place(comm, args);

	STRETTO_LIST_FOR (it, &state->requests) {
		struct stretto_request *request =
			stretto_container_of(it, struct stretto_request, link);

		if (!same_form(request, args, in_place) || !suits_buffers(request, args))
			continue;
		stretto_list_remove(it);
		state->request_count--;
		request->args.in = args->in;
		request->args.out = args->out;
		request->args.op = args->op;
		request->args.scale = args->scale;
		request->args.priority = args->priority;
		return request;
	}
	return NULL;
}

/* Keeps a request for later, and lets the one go that was not used for longest. */
void stretto_request_keep(struct stretto_request *request)
{
	struct coll_state *state = request->comm->extension;

	pthread_mutex_lock(&state->lock);
	stretto_list_append(state->requests.next, &request->link);
	if (++state->request_count > STRETTO_CACHED_REQUESTS) {
		request = stretto_container_of(state->requests.prev, struct stretto_request, link);
		stretto_list_remove(&request->link);
		state->request_count--;
		release(request);
	}
	pthread_mutex_unlock(&state->lock);
}

/* The op, with what else decides on the bits. */
static uint8_t signed_op(const struct stretto_request *request)
{
	return (uint8_t)(request->args.op |
			 (stretto_request_reproducible(request) ? STRETTO_SIGNED_REPRODUCIBLE : 0) |
			 (request->args.scale ? STRETTO_SIGNED_SCALED : 0));
}

/* The algorithm, where all ranks must take the same. */
static uint8_t signed_algorithm(const struct stretto_request *request)
{
	const struct stretto_algorithm *algorithm = request->choice.algorithm;

	return algorithm->alike ? STRETTO_SIGNED_ANY : stretto_algorithm_index(algorithm);
}

static void sign(struct stretto_request *request)
{
	const struct stretto_coll_args *args = &request->args;

	request->signature = (struct stretto_signature){
		.count = stretto_counts_sign(args, request->comm->size),
		.root = args->root,
		.collective = (uint8_t)args->collective,
		.type = (uint8_t)args->type,
		.op = signed_op(request),
		.algorithm = signed_algorithm(request),
	};
}

/* Checks the arguments and finds or makes a request for them. */
stretto_status stretto_request_get(struct stretto_comm *comm, const struct stretto_coll_args *args,
				   struct stretto_request **request)
{
	struct stretto_coll_args form;
	struct coll_state *state;
	stretto_status status;

	if (!comm || !args || !request)
		return STRETTO_INVALID;
	status = stretto_comm_state(comm);
	if (status != STRETTO_OK)
		return status;
	status = stretto_form_check(comm, args);
	if (status != STRETTO_OK)
		return status;
	state = state_of(comm);
	if (!state)
		return STRETTO_NO_MEMORY;
	form = stretto_form_normal(comm, args);
	pthread_mutex_lock(&state->lock);
	*request = reuse(comm, &form);
	if (!*request)
		status = make(comm, &form, request);
	pthread_mutex_unlock(&state->lock);
	if (status == STRETTO_OK)
		sign(*request);
	return status;
}

static struct stretto_request **hot_place(struct stretto_comm *comm,
					  const struct stretto_coll_args *args)
{
	struct coll_state *state = comm->extension;
	size_t hash = args->count + 3 * (size_t)args->type + 5 * (size_t)args->collective;

	return &state->hot[hash % HOT_REQUESTS];
}

/*
 * A request for arguments as good as those that made it, if there is one at hand. What was checked
 * then is not checked again.
 */
struct stretto_request *stretto_request_hot(struct stretto_comm *comm,
					    const struct stretto_coll_args *args)
{
	struct stretto_request *request = NULL;

	if (!comm || !args || !comm->extension)
		return NULL;
	request = *hot_place(comm, args);
	if (!request || request->args.collective != args->collective ||
	    request->args.type != args->type || request->args.count != args->count ||
	    request->args.op != args->op || request->args.root != args->root || args->algorithm ||
	    args->scale || !request->args.in != !args->in || !request->args.out != !args->out ||
	    request->in_place != stretto_form_in_place(comm, args))
		return NULL;
	request->args.in = args->in;
	request->args.out = args->out;
	return request;
}

/* Keeps a short operation at hand, and another one no longer. */
void stretto_request_keep_hot(struct stretto_request *request)
{
	struct stretto_request **place = hot_place(request->comm, &request->args);

	if (*place)
		stretto_request_keep(*place);
	*place = request;
}
