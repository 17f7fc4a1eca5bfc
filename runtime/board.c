/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/board.h"

#include <stdlib.h>

bool stretto_board_possible(const struct stretto_comm *comm)
{
	const struct stretto_config *config = &comm->world->config;

	return comm->size > 1 && comm->topology.nodes == 1 && comm->world->mapped &&
	       !comm->world->recovery && /* it has its own account of what is under way */
	       config->pace.bytes_per_second <= 0 && config->pace.latency_seconds <= 0;
}

stretto_status stretto_board_new(struct stretto_comm *comm, struct stretto_channel *channel,
				 struct stretto_board **out)
{
	struct stretto_board *board = calloc(1, sizeof *board);
	size_t size = (size_t)comm->size;
	stretto_status status = STRETTO_NO_MEMORY;

	if (!board)
		return STRETTO_NO_MEMORY;
	board->comm = comm;
	board->channel = channel;
	board->below = BOARD_SLOTS;
	board->blocks = calloc(size, sizeof(struct board_block *));
	board->endpoints = calloc(size, sizeof(struct stretto_endpoint *));
	board->done = calloc(size, sizeof *board->done);
	if (board->blocks && board->endpoints && board->done)
		status = stretto_memory_alloc(&comm->world->memory, sizeof(struct board_block),
					      &board->region);
	if (status != STRETTO_OK) {
		stretto_board_free(board);
		return status;
	}
	/* The same on all ranks, so that they find it without being told its id. */
	board->region->tag = comm->id + 1;
	board->mine = (struct board_block *)(void *)board->region->base;
	board->blocks[comm->rank] = board->mine;
	*out = board;
	return STRETTO_OK;
}

void stretto_board_free(struct stretto_board *board)
{
	if (!board)
		return;
	if (board->region) {
		struct stretto_world *world = board->comm->world;

		stretto_memory_remove(&world->memory, board->region->base);
		stretto_channels_drop_region(world, board->region);
		stretto_region_free(board->region);
	}
	free(board->blocks);
	free(board->endpoints);
	free(board->done);
	free(board);
}

/* Maps the block of one rank, and lets it map ours. */
static stretto_status connect_to(struct stretto_board *board, int rank)
{
	struct stretto_endpoint *endpoint;
	size_t bytes = 0;
	stretto_status status =
		stretto_channel_endpoint(board->channel, board->comm->ranks[rank], &endpoint);

	if (status != STRETTO_OK)
		return status;
	if (!endpoint->transport->share)
		return STRETTO_INTERNAL;
	board->endpoints[rank] = endpoint;
	status = endpoint->transport->share(endpoint, board->region);
	if (status != STRETTO_OK)
		return status;
	board->blocks[rank] = (struct board_block *)(void *)endpoint->transport->map(
		endpoint, 0, board->region->tag, &bytes);
	return board->blocks[rank] && bytes >= sizeof(struct board_block) ? STRETTO_OK
									  : STRETTO_AGAIN;
}

stretto_status stretto_board_connect(struct stretto_board *board)
{
	bool all = true;

	if (stretto_board_ready(board))
		return STRETTO_OK;
	for (int rank = 0; rank < board->comm->size; rank++) {
		stretto_status status;

		if (board->blocks[rank])
			continue;
		status = connect_to(board, rank);
		if (status == STRETTO_AGAIN)
			all = false; /* the others need ours all the same */
		else if (status != STRETTO_OK)
			return status;
	}
	if (!all)
		return STRETTO_AGAIN;
	board->connected = board->comm->size;
	return STRETTO_OK;
}

bool stretto_board_free_line(struct stretto_board *board, uint64_t index)
{
	uint64_t least = UINT64_MAX;

	if (index < board->below)
		return true;
	for (int rank = 0; rank < board->comm->size; rank++) {
		/* acquire: their reads of our line; partner is stretto_board_done() */
		if (board->done[rank] + BOARD_SLOTS <= index)
			board->done[rank] = atomic_load_explicit(&board->blocks[rank]->done,
								 memory_order_acquire);
		if (board->done[rank] < least)
			least = board->done[rank];
	}
	board->below = least + BOARD_SLOTS;
	return index < board->below;
}

void stretto_board_wake(struct stretto_board *board)
{
	if (!board->wake)
		return;
	board->wake = false;
	/* seq_cst between what was signalled and the look at who sleeps; partner is arm() */
	atomic_thread_fence(memory_order_seq_cst);
	for (int rank = 0; rank < board->comm->size; rank++)
		if (board->endpoints[rank])
			board->endpoints[rank]->transport->wake(board->endpoints[rank]);
}

bool stretto_board_write_begin(struct stretto_board *board, uint64_t index)
{
	/* seq_cst, before the looks; partner is stretto_board_revoke() */
	atomic_store(&board->mine->writing, index + 1);
	for (int rank = 0; rank < board->comm->size; rank++)
		if (atomic_load(&board->blocks[rank]->revoked) > index)
			return false;
	return true;
}

void stretto_board_write_end(struct stretto_board *board)
{
	/* release: the writes; partner is stretto_board_revoke() */
	atomic_store_explicit(&board->mine->writing, 0, memory_order_release);
}

bool stretto_board_revoke(struct stretto_board *board, uint64_t index)
{
	bool settled = true;

	if (!stretto_board_ready(board))
		return true;
	/* seq_cst, before the looks; partner is stretto_board_write_begin() */
	atomic_store(&board->mine->revoked, index + 1);
	for (int rank = 0; rank < board->comm->size; rank++) {
		uint64_t writing = atomic_load(&board->blocks[rank]->writing);
		struct stretto_endpoint *endpoint = board->endpoints[rank];

		/* A process that has ended writes no more, whatever it said last. */
		if (endpoint && writing && writing <= index + 1 &&
		    endpoint->transport->share(endpoint, board->region) != STRETTO_PEER_FAILED)
			settled = false;
	}
	return settled;
}
