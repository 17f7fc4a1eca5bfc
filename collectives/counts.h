/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.h: blocks of unequal length, as arrays of counts and displacements by rank.
 *
 * Everything about allgatherv, alltoallv and reduce_scatterv that other collectives do not have.
 * Where a call gives no counts, blocks are alike, and nothing here applies.
 *
 * Threads: pure, but for the log.
 */
#ifndef STRETTO_COLLECTIVES_COUNTS_H
#define STRETTO_COLLECTIVES_COUNTS_H

#include "collectives/schedule.h"

/* Whether the call gives counts that its collective uses. */
bool stretto_counts_given(const struct stretto_coll_args *args);

/* Clears the arrays that the collective does not use, and `count` where it uses some. */
void stretto_counts_normal(struct stretto_coll_args *args);

/* STRETTO_INVALID, logged, for arrays or buffers that no call of `rank` of `size` can have. */
stretto_status stretto_counts_check(const struct stretto_coll_args *args, int rank, int size);

/*
 * The same for blocks that overlap where they are written: once for each new form, since it sorts.
 * Also STRETTO_NO_MEMORY.
 */
stretto_status stretto_counts_check_overlap(const struct stretto_coll_args *args, bool in_place,
					    int size);

/* Whether two calls of one collective, both normal and checked, mean the same blocks. */
bool stretto_counts_match(const struct stretto_coll_args *x, const struct stretto_coll_args *y,
			  int size);

/* Where this rank's block of `in` or of `out` begins, in elements; both are checked. */
size_t stretto_counts_own_first(const struct stretto_coll_args *args, enum stretto_buffer buffer,
				int rank);

/* Elements of the operation as the cost models count them: `count`, or all blocks of a buffer. */
size_t stretto_counts_elements(const struct stretto_coll_args *args, int size);

/*
 * What a signature says of the arrays, in place of a count: the sum of all and a digest, where all
 * ranks must give the same; that there are arrays, where each has its own.
 */
uint64_t stretto_counts_sign(const struct stretto_coll_args *args, int size);
/* The count of a signature in words: "count 12", "counts of 12 in all, digest 3fa2c1". */
const char *stretto_counts_text(uint64_t count, char *text, size_t size);

/*
 * Copies the arrays of a call that gives some, with the displacements that it does not give. The
 * caller ends *counts with stretto_counts_free(). STRETTO_NO_MEMORY.
 */
stretto_status stretto_counts_new(const struct stretto_coll_args *args, int size,
				  struct stretto_counts **counts);
stretto_status stretto_counts_copy(const struct stretto_counts *from, int size,
				   struct stretto_counts **counts);
/* NULL does nothing. */
void stretto_counts_free(struct stretto_counts *counts);

/* Whether two have the same arrays, or both are NULL. */
bool stretto_counts_same(const struct stretto_counts *x, const struct stretto_counts *y, int size);

/* Points the arrays of a call to those of its copy. */
void stretto_counts_point(struct stretto_coll_args *args, const struct stretto_counts *counts);

/* Elements of a buffer of this rank, up to the end of its last block. */
size_t stretto_counts_extent(const struct stretto_coll_args *args, enum stretto_buffer buffer,
			     int rank, int size);

#endif
