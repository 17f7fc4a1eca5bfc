/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of an application: they start requests, test them, and wait for their end. */
#include <string.h>

#include "collectives/form.h"
#include "collectives/mapped.h"
#include "collectives/request.h"
#include "collectives/types.h"
#include "runtime/board.h"
#include "runtime/clock.h"
#include "runtime/log.h"

static struct stretto_exec_call make_call(struct stretto_request *request)
{
	struct stretto_comm *comm = request->comm;
	struct stretto_memory *memory = &comm->world->memory;
	const struct stretto_coll_args *args = &request->args;
	size_t in_bytes, out_bytes;
	struct stretto_exec_call call = {
		.in = args->in,
		.out = args->out,
		.type = args->type,
		.op = args->op,
		.priority = args->priority,
		.operation = &request->operation,
		.signature = request->signature,
	};

	if (args->scale)
		memcpy(call.scale, args->scale, stretto_type_size(args->type));
	if (request->parts[0]->plan.full->on_board)
		return call; /* no matter where the buffers are */
	stretto_form_bytes(comm, args, &in_bytes, &out_bytes);
	if (args->in && in_bytes)
		call.in_region = stretto_memory_find(memory, args->in, in_bytes);
	if (args->out && out_bytes)
		call.out_region = stretto_memory_find(memory, args->out, out_bytes);
	return call;
}

static uint64_t deadline_from_now(const struct stretto_comm *comm)
{
	double timeout = comm->world->config.timeout_seconds;

	return timeout > 0 ? stretto_after(stretto_now(), timeout) : STRETTO_NEVER;
}

/* Sets all parts up for one more operation of the communicator. */
static stretto_status prepare(struct stretto_request *request)
{
	stretto_status status =
		stretto_comm_enter(request->comm, &request->operation, request->part_count);
	struct stretto_exec_call call;

	if (status != STRETTO_OK)
		return status;
	call = make_call(request);
	for (int i = 0; i < request->part_count; i++)
		stretto_exec_prepare(request->parts[i], &call);
	return STRETTO_OK;
}

/* Hands prepared parts to their channels. */
static void submit(struct stretto_request *request, bool waits)
{
	uint64_t deadline = deadline_from_now(request->comm);

	if (waits)
		stretto_channel_enter(request->parts[0]->plan.channel);
	for (int i = 0; i < request->part_count; i++) {
		request->parts[i]->work.deadline = deadline;
		request->parts[i]->work.attended = waits && i == 0;
		stretto_exec_submit(request->parts[i]);
	}
}

/* Starts a request; `waits` says that this thread will wait for it at once. */
static stretto_status start(struct stretto_request *request, bool waits)
{
	stretto_status status = stretto_comm_state(request->comm);

	if (status != STRETTO_OK)
		return status;
	if (request->active)
		return stretto_form_bad(&request->args,
					"stretto_start of a request that is active");
	status = prepare(request);
	if (status != STRETTO_OK)
		return status;
	request->active = true;
	submit(request, waits);
	return STRETTO_OK;
}

/* The first error among the parts, which have all ended. */
static stretto_status outcome(const struct stretto_request *request)
{
	for (int i = 0; i < request->part_count; i++)
		if (request->parts[i]->status != STRETTO_OK)
			return request->parts[i]->status;
	return STRETTO_OK;
}

/* Waits for the parts; the first one's channel was entered already if `entered`. */
static stretto_status finish(struct stretto_request *request, bool entered)
{
	for (int i = 0; i < request->part_count; i++) {
		struct stretto_exec *part = request->parts[i];

		/* acquire: the results; partner is the executor's release */
		if (!entered && atomic_load_explicit(&part->done, memory_order_acquire))
			continue;
		if (!entered)
			stretto_channel_enter(part->plan.channel);
		stretto_channel_wait(part->plan.channel, &part->done);
		entered = false;
	}
	request->active = false;
	return outcome(request);
}

stretto_status stretto_coll_init(struct stretto_comm *comm, const struct stretto_coll_args *args,
				 struct stretto_request **request)
{
	stretto_status status = stretto_request_get(comm, args, request);

	if (status == STRETTO_OK)
		(*request)->persistent = true;
	return status;
}

stretto_status stretto_start(struct stretto_request *request)
{
	return request ? start(request, false) : STRETTO_INVALID;
}

stretto_status stretto_test(struct stretto_request *request, bool *done)
{
	if (!request || !done)
		return STRETTO_INVALID;
	*done = false;
	for (int i = 0; request->active && i < request->part_count; i++)
		/* acquire: the results; partner is the executor's release */
		if (!atomic_load_explicit(&request->parts[i]->done, memory_order_acquire))
			return STRETTO_OK;
	*done = true;
	return request->active ? outcome(request) : STRETTO_OK;
}

stretto_status stretto_wait(struct stretto_request *request)
{
	stretto_status status = STRETTO_OK;

	if (!request)
		return STRETTO_OK;
	if (request->active)
		status = finish(request, false);
	if (!request->persistent)
		stretto_request_keep(request);
	return status;
}

void stretto_request_free(struct stretto_request *request)
{
	if (!request)
		return;
	if (request->active) {
		stretto_error("stretto_request_free: the request is active; wait for it first");
		return;
	}
	request->persistent = false;
	stretto_request_keep(request);
}

/* Whether the calling thread may run a part on the board itself. */
static bool may_run(const struct stretto_request *request)
{
	const struct stretto_board *board = request->board;

	/* acquire: the state of the board; partner is who finished work on it */
	return board && request->parts[0]->plan.full->on_board && stretto_board_ready(board) &&
	       atomic_load_explicit(&board->works, memory_order_acquire) == 0 &&
	       stretto_comm_state(request->comm) == STRETTO_OK;
}

/* Runs an operation that the caller waits for. */
static stretto_status run(struct stretto_request *request)
{
	stretto_status status;

	if (may_run(request)) {
		status = prepare(request);
		if (status != STRETTO_OK)
			return status;
		if (stretto_mapped_run(request->parts[0]))
			return STRETTO_OK;
		request->active = true;
		submit(request, true);
		return finish(request, true);
	}
	status = start(request, true);
	return status == STRETTO_OK ? finish(request, true) : status;
}

/* Whether an operation is so short that finding its request would take longer. */
static bool is_short(const struct stretto_request *request)
{
	return request->board && !request->args.algorithm && request->parts[0]->plan.full->on_board;
}

stretto_status stretto_coll_run(struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	struct stretto_request *request = stretto_request_hot(comm, args);
	stretto_status status;

	if (request)
		return run(request);
	status = stretto_request_get(comm, args, &request);
	if (status != STRETTO_OK)
		return status;
	status = run(request);
	if (is_short(request))
		stretto_request_keep_hot(request);
	else
		stretto_request_keep(request);
	return status;
}

stretto_status stretto_coll_start(struct stretto_comm *comm, const struct stretto_coll_args *args,
				  struct stretto_request **request)
{
	struct stretto_request *made = NULL;
	stretto_status status = request ? stretto_request_get(comm, args, &made) : STRETTO_INVALID;

	if (status != STRETTO_OK)
		return status;
	status = start(made, false);
	if (status != STRETTO_OK) {
		stretto_request_keep(made);
		return status;
	}
	*request = made;
	return STRETTO_OK;
}

struct stretto_exec_counts stretto_request_counts(const struct stretto_request *request)
{
	struct stretto_exec_counts sum = {0};

	for (int i = 0; i < request->part_count; i++) {
		const struct stretto_exec_counts *counts = &request->parts[i]->counts;

		sum.sends += counts->sends;
		sum.sent_bytes += counts->sent_bytes;
		sum.fused += counts->fused;
		sum.copied_bytes += counts->copied_bytes;
		sum.again += counts->again;
		sum.read_bytes += counts->read_bytes;
		sum.written_bytes += counts->written_bytes;
	}
	return sum;
}
