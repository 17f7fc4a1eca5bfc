/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c: stretto_comm_split(), an allgather of (color, key) over the old communicator.
 *
 * The new id is a hash of the old one's id and of the number of the split among its operations: the
 * same on all ranks, and different for all splits. Groups of different colors share it, and have no
 * rank in common.
 */
#include <stdlib.h>

#include "collectives/stretto_coll.h"
#include "runtime/comm.h"
#include "runtime/log.h"

struct wish {
	int32_t color;
	int32_t key;
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

/* The finalizer of splitmix64: every bit of the result depends on every bit of both. */
static uint64_t child_id(uint64_t parent, uint32_t sequence)
{
	uint64_t z = parent + 0x9e3779b97f4a7c15u * ((uint64_t)sequence + 1);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static stretto_status make_group(struct stretto_comm *comm, struct wish *wishes, uint64_t id,
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
	uint64_t id;

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
	id = child_id(comm->id, comm->next_sequence);
	status = stretto_allgather(comm, &mine, wishes, sizeof mine, STRETTO_U8);
	if (status == STRETTO_OK && color != STRETTO_NO_COLOR)
		status = make_group(comm, wishes, id, &made);
	free(wishes);
	if (status == STRETTO_OK)
		*out = made;
	return status;
}
