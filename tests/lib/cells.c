/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/cells.h"

#include <stdio.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/selection.h"
#include "collectives/traits.h"
#include "tests/lib/ranks.h"

bool cell_reduces(const struct cell *cell)
{
	return stretto_traits_of(cell->collective)->reduces;
}

static void complain(const struct cell *cell, int rank, int size, size_t i, double want, double got)
{
	fprintf(stderr,
		"%s by %s, %s %s, count %zu, root %d, %s, %s, round %u, rank %d of %d: element %zu "
		"is %g, not %g\n",
		stretto_collective_name(cell->collective), cell->algorithm,
		stretto_type_name(cell->type), stretto_op_name(cell->op), cell->count, cell->root,
		cell->in_place ? "in place" : "out of place",
		cell->registered ? "registered" : "malloc", cell->round, rank, size, i, got, want);
	test_failed("wrong result");
}

/* What element i of the output of `rank` must be. */
static double expected(const struct cell *cell, int rank, int size, size_t i)
{
	switch (cell->collective) {
	case STRETTO_ALLREDUCE:
	case STRETTO_REDUCE:
		return value_reduced(cell->type, cell->op, size, i, cell->round);
	case STRETTO_REDUCE_SCATTER:
	case STRETTO_REDUCE_SCATTERV:
		return value_reduced(cell->type, cell->op, size, (size_t)rank * cell->count + i,
				     cell->round);
	case STRETTO_ALLGATHER:
	case STRETTO_ALLGATHERV:
	case STRETTO_GATHER:
		return value_input(STRETTO_SUM, (int)(i / cell->count), i % cell->count,
				   cell->round);
	case STRETTO_ALLTOALL:
	case STRETTO_ALLTOALLV:
		return value_input(STRETTO_SUM, (int)(i / cell->count),
				   (size_t)rank * cell->count + i % cell->count, cell->round);
	case STRETTO_SCATTER:
		return value_input(STRETTO_SUM, cell->root, (size_t)rank * cell->count + i,
				   cell->round);
	default:
		return value_input(STRETTO_SUM, cell->root, i, cell->round);
	}
}

/* Elements of a buffer of an extent. */
static size_t elements(const struct cell *cell, enum stretto_extent extent, int size)
{
	return extent == STRETTO_NOTHING  ? 0
	       : extent == STRETTO_BLOCKS ? cell->count * (size_t)size
					  : cell->count;
}

struct buffers cell_buffers(struct stretto_comm *comm, const struct cell *cell)
{
	size_t element = stretto_type_size(cell->type);
	int size = stretto_comm_size(comm);
	bool root = stretto_comm_rank(comm) == cell->root;
	const struct stretto_traits *traits = stretto_traits_of(cell->collective);
	size_t offset = (size_t)stretto_comm_rank(comm) * cell->count * element;
	struct stretto_comm *owner = cell->registered ? comm : NULL;
	size_t misalign = cell->count % 3 * element;
	struct buffers buffers = {
		.in_count = elements(cell, stretto_traits_in(cell->collective, root), size),
		.out_count = elements(cell, stretto_traits_out(cell->collective, root), size),
		.in_place = cell->in_place && (root || !traits->rooted),
	};

	buffers.in = guarded_new(owner, buffers.in_count * element, misalign);
	buffers.out = guarded_new(owner, buffers.out_count * element, misalign);
	buffers.in_data = buffers.in.data;
	buffers.out_data = buffers.out.data;
	if (buffers.in_place && stretto_traits_into_block(cell->collective))
		buffers.out_data = (char *)buffers.in.data + offset;
	else if (buffers.in_place && traits->in != traits->out && traits->out == STRETTO_BLOCKS)
		buffers.in_data = (char *)buffers.out.data + offset;
	else if (buffers.in_place)
		buffers.in_data = buffers.out.data;
	return buffers;
}

void cell_free(struct buffers *buffers)
{
	guarded_check(&buffers->in, "input");
	guarded_check(&buffers->out, "output");
	guarded_free(&buffers->in);
	guarded_free(&buffers->out);
}

void cell_fill(const struct cell *cell, const struct buffers *buffers, int rank)
{
	enum stretto_op op = cell_reduces(cell) ? cell->op : STRETTO_SUM;
	bool broadcast = cell->collective == STRETTO_BROADCAST;
	void *target = broadcast ? buffers->out_data : buffers->in_data;

	size_t count = broadcast ? buffers->out_count : buffers->in_count;

	if (broadcast && rank != cell->root)
		memset(target, 0x77, count * stretto_type_size(cell->type));
	else
		for (size_t i = 0; i < count; i++)
			value_set(cell->type, target, i, value_input(op, rank, i, cell->round));
}

void cell_check(const struct cell *cell, const struct buffers *buffers, int rank, int size)
{
	enum stretto_op op = cell_reduces(cell) ? cell->op : STRETTO_SUM;

	for (size_t i = 0; i < buffers->out_count; i++) {
		double want = expected(cell, rank, size, i);
		double got = value_get(cell->type, buffers->out_data, i);

		if (want != got)
			complain(cell, rank, size, i, want, got);
	}
	/* Inputs stay, but for what an in-place operation writes. */
	for (size_t i = 0; i < buffers->in_count; i++) {
		bool written = buffers->in_place && (!stretto_traits_into_block(cell->collective) ||
						     i / cell->count == (size_t)rank);

		if (!written && value_get(cell->type, buffers->in_data, i) !=
					value_input(op, rank, i, cell->round))
			complain(cell, rank, size, i, -1, -1);
	}
}

struct stretto_coll_args cell_args(const struct cell *cell, const struct buffers *buffers)
{
	return (struct stretto_coll_args){
		.collective = cell->collective,
		.type = cell->type,
		.op = cell->op,
		.root = cell->root,
		.count = cell->count,
		.in = buffers->in_data,
		.out = buffers->out_data,
		.algorithm = cell->algorithm,
		.priority = cell->priority,
	};
}

const char *usable(const struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	const struct stretto_algorithm *algorithm =
		args->algorithm ? stretto_algorithm_find(args->collective, args->algorithm) : NULL;

	return algorithm && stretto_algorithm_can(comm, algorithm, args) ? args->algorithm : NULL;
}
