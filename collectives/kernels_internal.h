/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_internal.h: the builds of the reduction kernels, for kernels.c and its test.
 *
 * kernels_loops.h is compiled once per instruction set; each time it gives one table of functions.
 * All tables give the same bits: no expression can be contracted to a fused multiply-add, a NaN
 * result is always the one positive quiet NaN without payload (an add may return either operand's,
 * as the compiler likes), and the 16-bit conversions are exact integer code or the instruction that
 * equals it.
 *
 * Threads: constant tables, pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_INTERNAL_H
#define STRETTO_COLLECTIVES_KERNELS_INTERNAL_H

#include "collectives/kernels.h"

/* The ops that have loops of their own; STRETTO_AVG is a sum and a division. */
enum { STRETTO_KERNEL_OPS = STRETTO_AVG };

typedef void (*stretto_sum_divide_fn)(void *dst, const void *a, const void *b, size_t count,
				      int ranks);
typedef void (*stretto_divide_fn)(void *dst, const void *a, size_t count, int ranks);

/* A sum of several sources to several destinations: arguments of stretto_kernel_many(). */
struct stretto_many {
	void *const *dst;
	int dsts;
	const void *const *src;
	int srcs;
	int ranks;      /* the divisor of an average, or 0 */
	bool streaming; /* results go past the caches; stretto_sum_many_fn: to multiples of 64 */
};

/*
 * Sums `count` elements, from byte `from` of the sources to byte `to` of the destinations, in
 * registers. Returns how many it did: whole vectors; none where there is no loop for call->srcs.
 */
typedef size_t (*stretto_sum_many_fn)(const struct stretto_many *call, size_t from, size_t to,
				      size_t count);

struct stretto_kernel_table {
	const char *name; /* of the instruction set */
	stretto_reduce_fn reduce[STRETTO_TYPE_COUNT][STRETTO_KERNEL_OPS];
	stretto_sum_divide_fn sum_divide[STRETTO_TYPE_COUNT];
	stretto_divide_fn divide[STRETTO_TYPE_COUNT];
	stretto_sum_many_fn sum_many[STRETTO_TYPE_COUNT]; /* NULL where there is none */
};

/* Plain C for whatever the compiler targets. */
extern const struct stretto_kernel_table stretto_kernels_portable;
/* AVX2 and F16C; NULL where this processor or build has none. */
const struct stretto_kernel_table *stretto_kernels_avx2(void);
/* AVX-512 F, BW, VL and DQ; NULL where this processor or build has none. */
const struct stretto_kernel_table *stretto_kernels_avx512(void);
/* The table that stretto_kernel() uses. */
const struct stretto_kernel_table *stretto_kernels_chosen(void);

/* stretto_kernel_scale() and stretto_kernel_scaled_sum() with a given table. */
void stretto_kernel_scale_with(const struct stretto_kernel_table *table, enum stretto_type type,
			       void *dst, const void *a, size_t count, const void *factor,
			       int ranks);
void stretto_kernel_scaled_sum_with(const struct stretto_kernel_table *table,
				    const struct stretto_scaled_sum *sum, void *dst, const void *a,
				    const void *b, size_t count);

/* stretto_kernel_many() with a given table. */
void stretto_kernel_many_with(const struct stretto_kernel_table *table, enum stretto_type type,
			      enum stretto_op op, const struct stretto_many *call, size_t count);

#endif
