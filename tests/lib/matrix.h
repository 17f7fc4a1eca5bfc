/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matrix.h: what every transport must carry: all collectives by all algorithms, and many at a time.
 *
 * The functions are what one rank does, for run_ranks() or in a process of its own.
 */
#ifndef STRETTO_TESTS_LIB_MATRIX_H
#define STRETTO_TESTS_LIB_MATRIX_H

#include "tests/lib/cells.h"

struct matrix {
	size_t large; /* the largest count of elements */
	bool brief;   /* fewer counts */
};

/* A cell with each of the counts (SIZE_MAX at the end), in place and not, registered and not. */
void matrix_counts(struct stretto_comm *comm, struct cell cell, const size_t *counts);
/* Every collective and algorithm. The argument is a struct matrix. */
void matrix_rank(struct stretto_comm *world, void *argument);
/*
 * Operations in flight on two communicators, started and ended in random orders. The argument is
 * the number of rounds, an int.
 */
void interleave_rank(struct stretto_comm *world, void *argument);

#endif
