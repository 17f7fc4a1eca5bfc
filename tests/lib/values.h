/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * values.h: data for testing collectives, whose results are known exactly in every type.
 *
 * Values are small whole numbers that depend on rank, element and round, chosen so that no sum or
 * product over up to 42 ranks is rounded or wraps in any type: a result is right or wrong, never
 * close. Complex numbers are real here.
 */
#ifndef STRETTO_TESTS_LIB_VALUES_H
#define STRETTO_TESTS_LIB_VALUES_H

#include "collectives/stretto_coll.h"

/* Writes or reads element i of an array of a type, as a double. */
void value_set(enum stretto_type type, void *array, size_t i, double value);
double value_get(enum stretto_type type, const void *array, size_t i);

/* What rank r contributes as element i (of its input) in a round. */
double value_input(enum stretto_op op, int rank, size_t i, unsigned round);

/* The reduction of element i over ranks 0 .. size-1, as it must come out in the type. */
double value_reduced(enum stretto_type type, enum stretto_op op, int size, size_t i,
		     unsigned round);

/* Memory with guard bytes around `bytes` bytes; checked by guarded_check(). */
struct guarded {
	unsigned char *all;
	void *data;
	size_t bytes;
	struct stretto_comm *comm; /* it came from stretto_alloc(), or NULL */
};
/* `misalign` bytes are added to the alignment of 64 (a multiple of the element size). */
struct guarded guarded_new(struct stretto_comm *comm, size_t bytes, size_t misalign);
/* Fails the test if a guard byte was changed; `what` says of which buffer. */
void guarded_check(const struct guarded *memory, const char *what);
void guarded_free(struct guarded *memory);

#endif
