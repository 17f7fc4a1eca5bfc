/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/executor.h"

#include <string.h>

#include "collectives/combine.h"
#include "collectives/describe.h"
#include "runtime/comm.h"
#include "runtime/log.h"

static const struct stretto_step *step_of(const struct stretto_exec_step *state)
{
	return &state->slot->schedule->steps[state->index];
}

/* The memory of a span: IN and OUT slide with the window, TMP does not. */
static char *address_of(const struct stretto_exec_slot *slot, const struct stretto_span *span)
{
	const struct stretto_exec *exec = slot->exec;
	size_t first = span->first;

	if (span->buffer == STRETTO_BUF_TMP)
		return slot->tmp + first * exec->plan.element_size;
	first += slot->window * exec->plan.window;
	return exec->base[span->buffer] + first * exec->plan.element_size;
}

/* The endpoint of a rank, as the schedule counts them. */
static struct stretto_endpoint *endpoint_of(const struct stretto_exec *exec, int peer)
{
	return exec->plan.channel->endpoints[exec->plan.ranks[peer]];
}

/* Whether the endpoint's transport hands over payload where it lies. */
static bool has_sink(const struct stretto_exec *exec, const struct stretto_step *step)
{
	return endpoint_of(exec, step->peer)->transport->limits.sinks;
}

static void queue_ready(struct stretto_exec_slot *slot, int index)
{
	slot->ready[(slot->ready_first + slot->ready_count) % slot->exec->step_capacity] = index;
	slot->ready_count++;
	stretto_work_ready(&slot->exec->work);
}

static int take_ready(struct stretto_exec_slot *slot)
{
	int index = slot->ready[slot->ready_first];

	slot->ready_first = (slot->ready_first + 1) % slot->exec->step_capacity;
	slot->ready_count--;
	return index;
}

/* Whether the step is run as one with its partner, in this window. */
static bool is_fused(const struct stretto_exec_slot *slot, int index)
{
	const struct stretto_step *step = &slot->schedule->steps[index];

	if (step->fused == STRETTO_NO_STEP)
		return false;
	if (step->kind == STRETTO_STEP_REDUCE)
		step = &slot->schedule->steps[step->fused];
	return has_sink(slot->exec, step);
}

/* A step whose waiting reached 0: queues it, or its fused pair when both can start. */
static void unblocked(struct stretto_exec_slot *slot, int index)
{
	const struct stretto_step *step = &slot->schedule->steps[index];

	if (!is_fused(slot, index)) {
		queue_ready(slot, index);
		return;
	}
	if (slot->steps[step->fused].waiting > 0)
		return;
	queue_ready(slot, step->kind == STRETTO_STEP_RECV ? index : step->fused);
}

static void complete(struct stretto_exec_slot *slot, int index)
{
	const struct stretto_schedule *schedule = slot->schedule;
	const struct stretto_step *step = &schedule->steps[index];

	slot->remaining--;
	stretto_work_ready(&slot->exec->work);
	if (step->kind == STRETTO_STEP_RECV && is_fused(slot, index)) {
		complete(slot, step->fused); /* its only follower, done by the sink */
		return;
	}
	for (int i = 0; i < step->successor_count; i++) {
		int follower = schedule->followers[step->successors + i];

		if (--slot->steps[follower].waiting == 0)
			unblocked(slot, follower);
	}
}

/* A transport reports an error for one message: the whole communicator is lost. */
static void message_failed(struct stretto_exec_step *state, stretto_status status)
{
	struct stretto_exec *exec = state->slot->exec;
	int other = exec->plan.ranks[step_of(state)->peer];
	int peer = stretto_comm_rank_of(exec->plan.comm, other);
	bool sends = step_of(state)->kind == STRETTO_STEP_SEND;
	int sender = sends ? exec->plan.comm->rank : peer;
	int receiver = sends ? peer : exec->plan.comm->rank;
	struct stretto_notice notice = {
		.sequence = exec->work.sequence,
		.origin = exec->plan.comm->world->rank,
		.other = other,
	};

	/* Where the signatures differ that was said already, by who compared them. */
	if (status == STRETTO_MISMATCH) {
		notice.signature = exec->work.signature;
		notice.other_signature = exec->work.signature;
		if (exec->work.signature.collective == STRETTO_ALLTOALLV &&
		    exec->plan.full->shape.counts) {
			stretto_comm_break(exec->plan.comm, status, &notice,
					   "operation %u: alltoallv: what rank %d has for rank %d "
					   "is not as long as rank %d says; the in_counts of a "
					   "rank must be the out_counts of the others",
					   exec->work.sequence, sender, receiver, receiver);
			return;
		}
		stretto_comm_break(
			exec->plan.comm, status, &notice,
			"operation %u: a message from rank %d has another length than the "
			"schedule of rank %d says; STRETTO_WINDOW and STRETTO_CHANNELS must "
			"be the same on all ranks",
			exec->work.sequence, peer, exec->plan.comm->rank);
		return;
	}
	stretto_comm_break(exec->plan.comm, status, &notice, "operation %u: message %s rank %d: %s",
			   exec->work.sequence, sends ? "to" : "from", peer,
			   stretto_status_text(status));
}

static void send_done(struct stretto_send *send, stretto_status status)
{
	struct stretto_exec_step *state =
		stretto_container_of(send, struct stretto_exec_step, send);

	if (status == STRETTO_OK)
		complete(state->slot, state->index);
	else
		message_failed(state, status);
}

static void recv_done(struct stretto_recv *recv, stretto_status status)
{
	struct stretto_exec_step *state =
		stretto_container_of(recv, struct stretto_exec_step, recv);

	if (status == STRETTO_OK)
		complete(state->slot, state->index);
	else
		message_failed(state, status);
}

/* Takes a piece of payload into the fused reduction. */
static void sink(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes)
{
	struct stretto_exec_step *state =
		stretto_container_of(recv, struct stretto_exec_step, recv);
	const struct stretto_exec_slot *slot = state->slot;
	const struct stretto_step *receive = step_of(state);
	const struct stretto_step *step = &slot->schedule->steps[receive->fused];
	bool left = step->a.buffer == receive->dst.buffer && step->a.first == receive->dst.first;
	const char *other = address_of(slot, left ? &step->b : &step->a) + offset;
	const char *operands[2] = {left ? source : other, left ? other : source};

	stretto_combine(slot->exec, step, address_of(slot, &step->dst) + offset, operands,
			bytes / slot->exec->plan.element_size);
}

static struct stretto_key key_of(const struct stretto_exec_slot *slot,
				 const struct stretto_step *step)
{
	return (struct stretto_key){
		.comm = slot->exec->plan.comm->id,
		.sequence = slot->exec->work.sequence,
		.ordinal = (uint32_t)(slot->window & 0xffff) << 16 | (step->ordinal & 0xffff),
	};
}

static stretto_status start_send(struct stretto_exec_step *state, const struct stretto_step *step,
				 struct stretto_endpoint *endpoint)
{
	struct stretto_exec *exec = state->slot->exec;
	stretto_status status;

	state->send = (struct stretto_send){
		.key = key_of(state->slot, step),
		.signature = exec->work.signature,
		.data = address_of(state->slot, &step->a),
		.bytes = step->a.count * exec->plan.element_size,
		.region = exec->region[step->a.buffer],
		.done = send_done,
	};
	stretto_list_init(&state->send.link);
	status = endpoint->transport->post_send(endpoint, &state->send);
	if (status == STRETTO_OK) {
		exec->counts.sends++;
		exec->counts.sent_bytes += step->a.count * exec->plan.element_size;
	}
	return status;
}

static stretto_status start_recv(struct stretto_exec_step *state, const struct stretto_step *step,
				 struct stretto_endpoint *endpoint)
{
	struct stretto_exec *exec = state->slot->exec;
	bool fused = is_fused(state->slot, state->index);

	state->recv = (struct stretto_recv){
		.key = key_of(state->slot, step),
		.signature = exec->work.signature,
		.data = address_of(state->slot, &step->dst),
		.bytes = step->dst.count * exec->plan.element_size,
		.region = exec->region[step->dst.buffer],
		.sink = fused ? sink : NULL,
		.done = recv_done,
	};
	stretto_list_init(&state->recv.link);
	exec->counts.fused += fused;
	return endpoint->transport->post_recv(endpoint, &state->recv);
}

static void run_reduce(struct stretto_exec_slot *slot, const struct stretto_step *step)
{
	const char *operands[2] = {address_of(slot, &step->a), address_of(slot, &step->b)};

	stretto_combine(slot->exec, step, address_of(slot, &step->dst), operands, step->dst.count);
}

static void run_copy(struct stretto_exec_slot *slot, const struct stretto_step *step)
{
	struct stretto_exec *exec = slot->exec;
	size_t bytes = step->dst.count * exec->plan.element_size;
	char *dst = address_of(slot, &step->dst);
	const char *source = address_of(slot, &step->a);

	if (bytes == 0)
		return;
	exec->counts.copied_bytes += bytes;
	stretto_combine_copy(exec, step, dst, source, step->dst.count);
}

/* STRETTO_AGAIN: nothing was started. */
static stretto_status start_step(struct stretto_exec_slot *slot, int index)
{
	struct stretto_exec_step *state = &slot->steps[index];
	const struct stretto_step *step = &slot->schedule->steps[index];
	const struct stretto_exec *exec = slot->exec;

	switch (step->kind) {
	case STRETTO_STEP_SEND:
		return start_send(state, step, endpoint_of(exec, step->peer));
	case STRETTO_STEP_RECV:
		return start_recv(state, step, endpoint_of(exec, step->peer));
	case STRETTO_STEP_REDUCE:
		run_reduce(slot, step);
		break;
	case STRETTO_STEP_COPY:
		run_copy(slot, step);
		break;
	default: /* runs in mapped.c */
		return STRETTO_INTERNAL;
	}
	complete(slot, index);
	return STRETTO_OK;
}

/* Puts the next window into a slot. */
static void fill_slot(struct stretto_exec_slot *slot)
{
	struct stretto_exec *exec = slot->exec;
	const struct stretto_schedule *schedule = exec->plan.full;

	slot->window = exec->next_window++;
	if (exec->plan.rest && slot->window == exec->plan.windows - 1)
		schedule = exec->plan.rest;
	else if (slot->window == exec->plan.windows)
		schedule = exec->plan.seal;
	slot->schedule = schedule;
	slot->ready_first = 0;
	slot->ready_count = 0;
	slot->remaining = schedule->step_count;
	for (int i = 0; i < schedule->step_count; i++) {
		const struct stretto_step *step = &schedule->steps[i];
		struct stretto_exec_step *state = &slot->steps[i];

		state->slot = slot;
		state->index = i;
		state->waiting =
			(step->after[0] != STRETTO_NO_STEP) + (step->after[1] != STRETTO_NO_STEP);
		/* The REDUCE of a fused pair does not wait for its RECV. */
		if (step->kind == STRETTO_STEP_REDUCE && is_fused(slot, i))
			state->waiting--;
	}
	for (int i = 0; i < schedule->step_count; i++) {
		const struct stretto_step *step = &schedule->steps[i];

		/* Of a fused pair, the RECV speaks for both. */
		if (slot->steps[i].waiting == 0 &&
		    !(step->kind == STRETTO_STEP_REDUCE && is_fused(slot, i)))
			unblocked(slot, i);
	}
}

/* Whether the seal is the next to begin: it says that all windows are complete here. */
static bool may_seal(const struct stretto_exec *exec)
{
	return exec->plan.seal && exec->windows_left == 1 &&
	       exec->next_window == exec->plan.windows;
}

/* Begins the next window in an empty slot, if there is one and it is allowed now. */
static size_t begin_window(struct stretto_exec_slot *slot)
{
	struct stretto_work *work = &slot->exec->work;

	if (slot->exec->next_window >= slot->exec->plan.windows && !may_seal(slot->exec))
		return 0;
	work->ready = true; /* also for a window of no steps, or one that is held */
	work->held = work->under_way >= work->allowed;
	if (work->held)
		return 0;
	work->under_way++;
	fill_slot(slot);
	return 1;
}

/* Starts what is ready in a slot; returns how much was started. */
static size_t advance_slot(struct stretto_exec_slot *slot)
{
	struct stretto_exec *exec = slot->exec;
	size_t count = 0;

	/* Completions within posts queue more; what gets AGAIN is queued again, for the next turn.
	 */
	for (int tries = slot->ready_count; tries > 0; tries--) {
		int index = take_ready(slot);
		stretto_status status = start_step(slot, index);

		if (status == STRETTO_OK) {
			count++;
			continue;
		}
		if (status != STRETTO_AGAIN) {
			message_failed(&slot->steps[index], status);
			return count + 1;
		}
		exec->counts.again++;
		queue_ready(slot, index);
	}
	return count;
}

/* Makes the endpoints that the schedules need. */
static stretto_status begin(struct stretto_exec *exec)
{
	for (int i = 0; i < exec->peer_count; i++) {
		struct stretto_endpoint *endpoint;
		stretto_status status = stretto_channel_endpoint(
			exec->plan.channel, exec->plan.ranks[exec->peers[i]], &endpoint);

		if (status != STRETTO_OK)
			return status;
	}
	exec->started = true;
	return STRETTO_OK;
}

static void begin_failed(struct stretto_exec *exec, stretto_status status)
{
	struct stretto_notice notice = {
		.sequence = exec->work.sequence,
		.origin = exec->plan.comm->world->rank,
		.other = -1,
	};

	stretto_comm_break(exec->plan.comm, status, &notice, "operation %u cannot start: %s",
			   exec->work.sequence, stretto_status_text(status));
}

static size_t advance(struct stretto_work *work)
{
	struct stretto_exec *exec = stretto_container_of(work, struct stretto_exec, work);
	size_t count = 0;

	/* What came in last may be no message any more: the faults of this turn end the work. */
	if (stretto_comm_state(work->comm) != STRETTO_OK)
		return 0;
	work->ready = false;
	work->held = false;
	if (!exec->started) {
		stretto_status status = begin(exec);

		if (status != STRETTO_OK) {
			begin_failed(exec, status);
			return 1;
		}
	}
	for (size_t i = 0; i < exec->slot_count; i++) {
		struct stretto_exec_slot *slot = &exec->slots[i];

		if (!slot->schedule)
			count += begin_window(slot);
		if (!slot->schedule)
			continue;
		count += advance_slot(slot);
		if (slot->remaining > 0)
			continue;
		slot->schedule = NULL;
		exec->windows_left--;
		work->under_way--;
		count += 1 + begin_window(slot); /* now: what is left would go to later work */
	}
	if (exec->windows_left == 0 && stretto_work_may_finish(work))
		stretto_work_finish(work, STRETTO_OK);
	return count;
}

static bool fail(struct stretto_work *work, stretto_status status)
{
	struct stretto_exec *exec = stretto_container_of(work, struct stretto_exec, work);
	bool settled = true;

	for (int i = 0; i < exec->peer_count; i++) {
		struct stretto_endpoint *endpoint = endpoint_of(exec, exec->peers[i]);

		if (endpoint)
			settled &= stretto_work_cancel(work, endpoint);
	}
	if (!settled)
		return false;
	/* who has finished it had word from all ranks that they have the results */
	if (status == STRETTO_OK && exec->plan.seal && exec->windows_left > 1)
		status = STRETTO_INTERNAL;
	for (size_t i = 0; i < exec->slot_count; i++)
		exec->slots[i].schedule = NULL;
	stretto_work_finish(work, status);
	return true;
}

void stretto_exec_finished(struct stretto_exec *exec, stretto_status status)
{
	exec->status = status;
	/* release: the results; partners are the acquire loads of those who wait or test */
	atomic_store_explicit(&exec->done, 1, memory_order_release);
}

static void finished(struct stretto_work *work, stretto_status status)
{
	stretto_exec_finished(stretto_container_of(work, struct stretto_exec, work), status);
}

const struct stretto_work_ops stretto_exec_ops = {
	.advance = advance,
	.fail = fail,
	.describe = stretto_describe,
	.finished = finished,
};

void stretto_exec_prepare(struct stretto_exec *exec, const struct stretto_exec_call *call)
{
	const struct stretto_exec_plan *plan = &exec->plan;
	size_t shift = plan->first * plan->element_size;

	exec->call = *call;
	exec->reduce = stretto_kernel(call->type, call->op);
	/* The executor writes IN only where the schedule of an in-place reduce_scatter does. */
	exec->base[STRETTO_BUF_IN] = call->in ? (char *)(uintptr_t)call->in + shift : NULL;
	exec->base[STRETTO_BUF_OUT] = call->out ? call->out + shift : NULL;
	exec->region[STRETTO_BUF_IN] = call->in_region;
	exec->region[STRETTO_BUF_OUT] = call->out_region;
	exec->next_window = 0;
	exec->windows_left = plan->windows + (plan->seal != NULL);
	exec->started = false;
	exec->counts = (struct stretto_exec_counts){0};
	exec->work.sequence = call->operation->sequence;
	exec->work.operation = call->operation->parts > 0 ? call->operation : NULL;
	exec->work.signature = call->signature;
	exec->work.deadline = call->deadline;
	exec->work.priority = call->priority;
	exec->work.attended = call->attended;
	/* relaxed: the submission publishes it */
	atomic_store_explicit(&exec->done, 0, memory_order_relaxed);
	if (plan->full->mapped)
		stretto_mapped_start(exec);
}

void stretto_exec_submit(struct stretto_exec *exec)
{
	if (exec->plan.board)
		/* relaxed: looked at by this thread, which sees its own additions */
		atomic_fetch_add_explicit(&exec->plan.board->works, 1, memory_order_relaxed);
	stretto_channel_submit(exec->plan.channel, &exec->work);
}
