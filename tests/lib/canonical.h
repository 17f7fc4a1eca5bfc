/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * canonical.h: reductions whose bits depend on the order of additions, and what they are in the
 * canonical order (collectives/algorithm.h), computed by its definition.
 */
#ifndef STRETTO_TESTS_LIB_CANONICAL_H
#define STRETTO_TESTS_LIB_CANONICAL_H

#include <stdbool.h>

#include "collectives/stretto_coll.h"

/* One reduction. */
struct canonical {
	enum stretto_collective collective; /* a reduction; a reduce goes to the middle rank */
	enum stretto_type type;
	enum stretto_op op;
	size_t count;          /* elements of each rank's result */
	const char *algorithm; /* by call; NULL for the library's */
	bool in_place;
};

/* Runs it and returns how many elements of this rank have other bits than the canonical ones. */
size_t canonical_differing(struct stretto_comm *comm, const struct canonical *canonical);

/*
 * For run_ranks(): all float types, rounded operations and canonical algorithms (and the library's
 * choice) with some counts, the last of them *argument (size_t). Fails if a bit differs.
 */
void canonical_rank(struct stretto_comm *world, void *argument);

#endif
