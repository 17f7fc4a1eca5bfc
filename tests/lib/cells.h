/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.h: one collective with its buffers, filled and checked; shared by the tests of collectives.
 */
#ifndef STRETTO_TESTS_LIB_CELLS_H
#define STRETTO_TESTS_LIB_CELLS_H

#include "tests/lib/values.h"

/* One cell of the matrix. */
struct cell {
	enum stretto_collective collective;
	const char *algorithm;
	enum stretto_type type;
	enum stretto_op op;
	size_t count;
	int root;
	bool in_place;
	bool registered;
	int priority;
	unsigned round;
};

/* The buffers of one rank in one cell. */
struct buffers {
	struct guarded in, out; /* in place: only one of them is used */
	size_t in_count, out_count;
	void *in_data, *out_data; /* as passed */
	bool in_place;            /* on this rank: of rooted collectives, only the root can be */
};

bool cell_reduces(const struct cell *cell);
/* Allocates both buffers of this rank, guarded; in place only one of them is used. */
struct buffers cell_buffers(struct stretto_comm *comm, const struct cell *cell);
/* Checks the guards and frees. */
void cell_free(struct buffers *buffers);
/* Writes this rank's input of the cell's round. */
void cell_fill(const struct cell *cell, const struct buffers *buffers, int rank);
/* Fails the test if an element of the output is wrong, or one of the input was changed. */
void cell_check(const struct cell *cell, const struct buffers *buffers, int rank, int size);
/* The call. */
struct stretto_coll_args cell_args(const struct cell *cell, const struct buffers *buffers);

/* The algorithm that the arguments name, NULL if they cannot take it on that communicator. */
const char *usable(const struct stretto_comm *comm, const struct stretto_coll_args *args);

#endif
