/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/progress.h"

int stretto_comm_rank(const struct stretto_comm *comm)
{
	return comm->rank;
}

int stretto_comm_size(const struct stretto_comm *comm)
{
	return comm->size;
}

int stretto_comm_rank_of(const struct stretto_comm *comm, int world_rank)
{
	for (int rank = 0; rank < comm->size; rank++)
		if (comm->ranks[rank] == world_rank)
			return rank;
	return -1;
}

stretto_status stretto_comm_status(const struct stretto_comm *comm)
{
	return stretto_comm_state(comm);
}

const char *stretto_comm_error(const struct stretto_comm *comm)
{
	return stretto_comm_state(comm) == STRETTO_OK ? "" : comm->error;
}

/* Called with world.lock held; false if the communicator was broken before. */
static bool break_locked(struct stretto_comm *comm, stretto_status status,
			 const struct stretto_notice *notice, const char *error)
{
	struct stretto_world *world = comm->world;

	if (stretto_comm_state(comm) != STRETTO_OK)
		return false;
	snprintf(comm->error, sizeof comm->error, "%s", error);
	comm->notice = *notice;
	comm->notice.comm = comm->id;
	comm->notice.status = (uint8_t)status;
	/* release: publishes error and notice; partner is stretto_comm_state() */
	atomic_store_explicit(&comm->status, (int)status, memory_order_release);
	/* relaxed: a hint for stretto_channel_check() */
	atomic_fetch_add(&world->broken, 1);
	for (size_t c = 0; c < world->config.channels; c++) {
		/* seq_cst: partners are stretto_channel_turn() and the look before parking */
		atomic_store(&world->channels[c]->broken, true);
		stretto_channel_kick(world->channels[c]);
	}
	return true;
}

void stretto_comm_break(struct stretto_comm *comm, stretto_status status,
			const struct stretto_notice *notice, const char *format, ...)
{
	char error[sizeof comm->error];
	bool first;
	va_list args;

	va_start(args, format);
	vsnprintf(error, sizeof error, format, args);
	va_end(args);
	pthread_mutex_lock(&comm->world->lock);
	first = break_locked(comm, status, notice, error);
	pthread_mutex_unlock(&comm->world->lock);
	if (first)
		stretto_error("communicator %u is broken: %s", comm->number, error);
}

void stretto_world_break(struct stretto_world *world, int world_rank, stretto_status status,
			 const char *error)
{
	struct stretto_notice notice = {.origin = world->rank, .other = world_rank};

	pthread_mutex_lock(&world->lock);
	STRETTO_LIST_FOR (it, &world->comms) {
		struct stretto_comm *comm = stretto_container_of(it, struct stretto_comm, link);

		if (world_rank < 0 || stretto_comm_rank_of(comm, world_rank) >= 0)
			break_locked(comm, status, &notice, error);
	}
	pthread_mutex_unlock(&world->lock);
}

struct stretto_comm *stretto_world_find(struct stretto_world *world, uint64_t id)
{
	struct stretto_comm *found = NULL;

	pthread_mutex_lock(&world->lock);
	STRETTO_LIST_FOR (it, &world->comms) {
		struct stretto_comm *comm = stretto_container_of(it, struct stretto_comm, link);

		if (comm->id == id)
			found = comm;
	}
	pthread_mutex_unlock(&world->lock);
	return found;
}

void stretto_comm_abort(struct stretto_comm *comm)
{
	struct stretto_notice notice = {.origin = comm->world->rank, .other = -1};

	stretto_comm_break(comm, STRETTO_ABORTED, &notice, "rank %d aborted it", comm->rank);
}

void stretto_world_keep_notice(struct stretto_world *world, const struct stretto_notice *notice)
{
	pthread_mutex_lock(&world->lock);
	world->early[world->early_next++ % STRETTO_EARLY_NOTICES] = *notice;
	pthread_mutex_unlock(&world->lock);
}

/* Breaks a communicator that another rank broke before this rank made it. world.lock is held. */
static void break_early(struct stretto_comm *comm)
{
	for (int i = 0; i < STRETTO_EARLY_NOTICES; i++) {
		const struct stretto_notice *notice = &comm->world->early[i];
		char error[160];

		if (notice->status == STRETTO_OK || notice->comm != comm->id)
			continue;
		snprintf(error, sizeof error,
			 "rank %d (of the world) reported before it was made: %s", notice->origin,
			 stretto_status_text((stretto_status)notice->status));
		if (break_locked(comm, (stretto_status)notice->status, notice, error))
			stretto_error("communicator %u is broken: %s", comm->number, error);
	}
}

static void free_comm(struct stretto_comm *comm)
{
	stretto_topology_fini(&comm->topology);
	free(comm->ordered);
	free(comm->ranks);
	free(comm);
}

/* Fills in who is in it and where, of world ranks. */
static stretto_status set_ranks(struct stretto_comm *comm, const int *ranks)
{
	size_t size = (size_t)comm->size;
	int *nodes = calloc(size, sizeof *nodes);
	stretto_status status = STRETTO_NO_MEMORY;

	comm->ranks = calloc(size, sizeof *comm->ranks);
	comm->ordered = calloc(size, sizeof *comm->ordered);
	if (nodes && comm->ranks && comm->ordered) {
		memcpy(comm->ranks, ranks, size * sizeof *ranks);
		for (int i = 0; i < comm->size; i++)
			nodes[i] = comm->world->node[ranks[i]];
		status = stretto_topology_init(&comm->topology, nodes, comm->size,
					       comm->world->size);
	}
	for (int i = 0; status == STRETTO_OK && i < comm->size; i++)
		comm->ordered[i] = ranks[comm->topology.order[i]];
	free(nodes);
	return status;
}

stretto_status stretto_comm_make(struct stretto_world *world, const int *ranks, int size, int rank,
				 uint64_t id, struct stretto_comm **out)
{
	struct stretto_comm *comm = aligned_alloc(alignof(struct stretto_comm), sizeof *comm);
	stretto_status status;

	if (!comm)
		return STRETTO_NO_MEMORY;
	memset(comm, 0, sizeof *comm);
	comm->world = world;
	comm->id = id;
	comm->rank = rank;
	comm->size = size;
	comm->next_sequence = 1;
	stretto_list_init(&comm->operations);
	status = set_ranks(comm, ranks);
	if (status != STRETTO_OK) {
		free_comm(comm);
		return status;
	}
	pthread_mutex_lock(&world->lock);
	stretto_list_append(&world->comms, &comm->link);
	comm->number = world->next_number++;
	break_early(comm);
	pthread_mutex_unlock(&world->lock);
	*out = comm;
	return STRETTO_OK;
}

void stretto_comm_free(struct stretto_comm *comm)
{
	struct stretto_world *world;

	if (!comm)
		return;
	world = comm->world;
	/* With all batons held no channel is looking at it. */
	for (size_t c = 0; c < world->config.channels; c++)
		stretto_channel_take_baton(world->channels[c]);
	pthread_mutex_lock(&world->lock);
	if (stretto_comm_state(comm) != STRETTO_OK)
		atomic_fetch_sub(&world->broken, 1);
	stretto_list_remove(&comm->link);
	pthread_mutex_unlock(&world->lock);
	for (size_t c = 0; c < world->config.channels; c++)
		stretto_channel_leave_baton(world->channels[c]);
	if (comm->extension)
		comm->extension_free(comm->extension);
	free_comm(comm);
}

int stretto_compute_cores(const struct stretto_comm *comm)
{
	int cores = stretto_cores() - comm->world->reserved_cores;

	return cores > 1 ? cores : 1;
}

stretto_status stretto_alloc(struct stretto_comm *comm, size_t bytes, void **ptr)
{
	struct stretto_world *world = comm->world;
	struct stretto_region *region;
	stretto_status status = stretto_memory_alloc(&world->memory, bytes, &region);

	if (status != STRETTO_OK)
		return status;
	status = stretto_channels_add_region(world, region);
	if (status != STRETTO_OK) {
		stretto_region_free(stretto_memory_remove(&world->memory, region->base));
		return status;
	}
	*ptr = region->base;
	return STRETTO_OK;
}

/* Ends a region that starts at ptr and is of the wanted kind. */
static stretto_status end_region(struct stretto_world *world, void *ptr, bool ours)
{
	struct stretto_region *region = stretto_memory_find(&world->memory, ptr, 0);

	if (!region || region->base != ptr || (region->mapped > 0) != ours) {
		stretto_error("%s: %p did not come from %s",
			      ours ? "stretto_free" : "stretto_deregister", ptr,
			      ours ? "stretto_alloc" : "stretto_register");
		return STRETTO_INVALID;
	}
	stretto_memory_remove(&world->memory, ptr);
	stretto_channels_drop_region(world, region);
	stretto_region_free(region);
	return STRETTO_OK;
}

stretto_status stretto_free(struct stretto_comm *comm, void *ptr)
{
	return ptr ? end_region(comm->world, ptr, true) : STRETTO_OK;
}

stretto_status stretto_register(struct stretto_comm *comm, void *ptr, size_t bytes)
{
	struct stretto_world *world = comm->world;
	struct stretto_region *region;
	stretto_status status = stretto_memory_add(&world->memory, ptr, bytes, &region);

	if (status != STRETTO_OK)
		return status;
	status = stretto_channels_add_region(world, region);
	if (status != STRETTO_OK)
		stretto_region_free(stretto_memory_remove(&world->memory, ptr));
	return status;
}

stretto_status stretto_deregister(struct stretto_comm *comm, void *ptr)
{
	return end_region(comm->world, ptr, false);
}
