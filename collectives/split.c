/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c: stretto_comm_split(), an allgather of (color, key, next free id) over the old
 * communicator.
 *
 * The new id is the largest next free id of all ranks that take part: no rank of the new
 * communicator has used it, and every one of them gives larger ones from then on. So two ranks
 * never have two communicators with one id in common.
 */
#include <stdlib.h>

#include "collectives/stretto_coll.h"
#include "runtime/comm.h"
#include "runtime/log.h"

struct wish {
	int32_t color;
	int32_t key;
	uint32_t next_id;
	int32_t rank; /* in the old communicator */
};

static int compare_wishes(const void *left, const void *right)
{
	const struct wish *a = left, *b = right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank < b->rank ? -1 : 1;
}

/* Moves the wishes of one color to the front, in order; returns their number. */
static int select_color(struct wish *wishes, int size, int color)
{
	int count = 0;

	for (int i = 0; i < size; i++)
		if (wishes[i].color == color)
			wishes[count++] = wishes[i];
	qsort(wishes, (size_t)count, sizeof *wishes, compare_wishes);
	return count;
}

/* Every rank uses the new id up, whether it is in the new communicator or not. */
static uint32_t agree_on_id(struct stretto_world *world, const struct wish *wishes, int size)
{
	uint32_t id = 0;

	for (int i = 0; i < size; i++)
		if (wishes[i].next_id > id)
			id = wishes[i].next_id;
	pthread_mutex_lock(&world->lock);
	if (world->next_comm <= id)
		world->next_comm = id + 1;
	pthread_mutex_unlock(&world->lock);
	return id;
}

static stretto_status make_group(struct stretto_comm *comm, struct wish *wishes, uint32_t id,
				 struct stretto_comm **out)
{
	int color = wishes[comm->rank].color;
	int size = select_color(wishes, comm->size, color);
	int *ranks = malloc((size_t)size * sizeof *ranks);
	int rank = 0;
	stretto_status status;

	if (!ranks)
		return STRETTO_NO_MEMORY;
	for (int i = 0; i < size; i++) {
		ranks[i] = comm->ranks[wishes[i].rank];
		if (wishes[i].rank == comm->rank)
			rank = i;
	}
	status = stretto_comm_make(comm->world, ranks, size, rank, id, out);
	free(ranks);
	return status;
}

stretto_status stretto_comm_split(struct stretto_comm *comm, int color, int key,
				  struct stretto_comm **out)
{
	struct wish mine = {.color = color, .key = key};
	struct stretto_comm *made = NULL;
	struct wish *wishes;
	stretto_status status;
	uint32_t id;

	if (!comm || !out)
		return STRETTO_INVALID;
	if (color < 0 && color != STRETTO_NO_COLOR) {
		stretto_error("stretto_comm_split: color %d must be >= 0 or STRETTO_NO_COLOR",
			      color);
		return STRETTO_INVALID;
	}
	wishes = calloc((size_t)comm->size, sizeof *wishes);
	if (!wishes)
		return STRETTO_NO_MEMORY;
	mine.rank = comm->rank;
	pthread_mutex_lock(&comm->world->lock);
	mine.next_id = comm->world->next_comm;
	pthread_mutex_unlock(&comm->world->lock);
	status = stretto_allgather(comm, &mine, wishes, sizeof mine, STRETTO_U8);
	if (status == STRETTO_OK) {
		id = agree_on_id(comm->world, wishes, comm->size);
		if (color != STRETTO_NO_COLOR)
			status = make_group(comm, wishes, id, &made);
	}
	free(wishes);
	if (status == STRETTO_OK)
		*out = made;
	return status;
}
