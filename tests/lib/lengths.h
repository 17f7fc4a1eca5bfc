/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lengths.h: blocks of unequal length for tests, as the counts and displacements of a call.
 */
#ifndef STRETTO_TESTS_LIB_LENGTHS_H
#define STRETTO_TESTS_LIB_LENGTHS_H

#include "collectives/stretto_coll.h"

/* How long blocks are: TURNED has as many elements in all as UNEVEN, LONG several messages' worth. */
enum lengths { UNEVEN, ONE_HAS_ALL, NONE_HAS_ANY, TURNED, LONG, LENGTHS };

/* The arrays of one buffer of one rank. */
struct arrays {
	size_t *counts;
	size_t *displs;
	size_t end; /* elements up to the end of the last block, and a gap */
};

/*
 * What `rank` has for all, or with `gets` what it gets from all. Blocks lie in the order of the
 * ranks or, on odd ranks, turned round, with gaps on every third. Ended by arrays_free().
 */
struct arrays arrays_of(enum stretto_collective collective, enum lengths lengths, int rank,
			int size, bool gets);
/* The same of an alltoallv in place: lengths that both directions have. */
struct arrays arrays_symmetric(enum lengths lengths, int rank, int size);
void arrays_free(struct arrays *arrays);
/* Places the blocks one behind the other in the order of the ranks, as a call without displs does. */
void arrays_pack(struct arrays *arrays, int size);

#endif
