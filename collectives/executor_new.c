/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a part: all that running it needs, so that a run allocates nothing. */
#include "collectives/executor.h"

#include <stdlib.h>

#include "runtime/comm.h"

static bool add_peer(struct stretto_exec *exec, int peer)
{
	for (int i = 0; i < exec->peer_count; i++)
		if (exec->peers[i] == peer)
			return true;
	if (exec->peer_count == exec->plan.comm->size)
		return false;
	exec->peers[exec->peer_count++] = peer;
	return true;
}

static stretto_status list_peers(struct stretto_exec *exec)
{
	const struct stretto_schedule *schedules[] = {exec->plan.full, exec->plan.rest,
						      exec->plan.seal};

	exec->peers = calloc((size_t)exec->plan.comm->size, sizeof *exec->peers);
	if (!exec->peers)
		return STRETTO_NO_MEMORY;
	for (int s = 0; s < 3; s++)
		for (int i = 0; schedules[s] && i < schedules[s]->step_count; i++)
			if (schedules[s]->steps[i].peer >= 0 &&
			    !add_peer(exec, schedules[s]->steps[i].peer))
				return STRETTO_INTERNAL;
	return STRETTO_OK;
}

/* Bytes of TMP that one window needs, in whole cache lines. */
static size_t tmp_bytes(const struct stretto_exec_plan *plan)
{
	size_t count = plan->full->tmp_count;

	if (plan->rest && plan->rest->tmp_count > count)
		count = plan->rest->tmp_count;
	return (count * plan->element_size + 63) / 64 * 64;
}

/* Allocates TMP for `windows` at a time. */
static stretto_status allocate_tmp(struct stretto_exec *exec, size_t windows)
{
	struct stretto_comm *comm = exec->plan.comm;
	size_t bytes = tmp_bytes(&exec->plan) * windows;
	stretto_status status;
	void *base;

	if (bytes == 0)
		return STRETTO_OK;
	status = stretto_alloc(comm, bytes, &base);
	if (status != STRETTO_OK)
		return status;
	exec->tmp = base;
	exec->region[STRETTO_BUF_TMP] = stretto_memory_find(&comm->world->memory, base, 1);
	return STRETTO_OK;
}

static stretto_status allocate_slots(struct stretto_exec *exec)
{
	const struct stretto_exec_plan *plan = &exec->plan;
	int steps = plan->full->step_count;
	stretto_status status;

	if (plan->rest && plan->rest->step_count > steps)
		steps = plan->rest->step_count;
	if (plan->seal && plan->seal->step_count > steps)
		steps = plan->seal->step_count;
	exec->step_capacity = steps + 1;
	exec->slot_count = plan->windows < plan->in_flight ? plan->windows : plan->in_flight;
	exec->slots = calloc(exec->slot_count, sizeof *exec->slots);
	if (!exec->slots)
		return STRETTO_NO_MEMORY;
	status = allocate_tmp(exec, exec->slot_count);
	if (status != STRETTO_OK)
		return status;
	for (size_t i = 0; i < exec->slot_count; i++) {
		struct stretto_exec_slot *slot = &exec->slots[i];

		slot->exec = exec;
		slot->tmp = exec->tmp + i * tmp_bytes(plan);
		slot->steps = calloc((size_t)steps + 1, sizeof *slot->steps);
		slot->ready = calloc((size_t)steps + 1, sizeof *slot->ready);
		if (!slot->steps || !slot->ready)
			return STRETTO_NO_MEMORY;
	}
	return STRETTO_OK;
}

static stretto_status allocate(struct stretto_exec *exec)
{
	stretto_status status = list_peers(exec);

	return status == STRETTO_OK ? allocate_slots(exec) : status;
}

/* The same for schedules without messages. */
static stretto_status allocate_mapped(struct stretto_exec *exec)
{
	stretto_status status = stretto_mapped_new(exec);

	if (status == STRETTO_OK && !exec->plan.full->on_board)
		status = allocate_tmp(exec, 1);
	return status;
}

stretto_status stretto_exec_new(const struct stretto_exec_plan *plan, struct stretto_exec **out)
{
	struct stretto_exec *exec = calloc(1, sizeof *exec);
	stretto_status status;

	if (!exec)
		return STRETTO_NO_MEMORY;
	exec->plan = *plan;
	exec->work.ops = plan->full->mapped ? &stretto_mapped_ops : &stretto_exec_ops;
	exec->work.comm = plan->comm;
	stretto_list_init(&exec->work.link);
	stretto_list_init(&exec->work.queue);
	status = plan->full->mapped ? allocate_mapped(exec) : allocate(exec);
	if (status != STRETTO_OK) {
		stretto_exec_free(exec);
		return status;
	}
	*out = exec;
	return STRETTO_OK;
}

void stretto_exec_free(struct stretto_exec *exec)
{
	if (!exec)
		return;
	for (size_t i = 0; exec->slots && i < exec->slot_count; i++) {
		free(exec->slots[i].steps);
		free(exec->slots[i].ready);
	}
	free(exec->slots);
	free(exec->peers);
	stretto_mapped_free(exec);
	if (exec->tmp)
		stretto_free(exec->plan.comm, exec->tmp);
	free(exec);
}
