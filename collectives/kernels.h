/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h: elementwise reductions, dst[i] = a[i] op b[i].
 *
 * Of -0 and +0, min and max give a, so callers keep rank order. A NaN result is always the positive
 * quiet NaN without payload. dst may be a or b exactly; partial overlap is not allowed. Any
 * alignment of the element type. 16-bit floats are widened to 32 bits, combined, and rounded to
 * nearest even.
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_H
#define STRETTO_COLLECTIVES_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/stretto_coll.h"

typedef void (*stretto_reduce_fn)(void *dst, const void *a, const void *b, size_t count);

/* The function for a type and op; STRETTO_AVG gives that of STRETTO_SUM. NULL if the type lacks it. */
stretto_reduce_fn stretto_kernel(enum stretto_type type, enum stretto_op op);

/* dst[i] = (a[i] + b[i]) / ranks in one pass: the final step of STRETTO_AVG. */
void stretto_kernel_sum_divide(enum stretto_type type, void *dst, const void *a, const void *b,
			       size_t count, int ranks);

/* dst[i] = a[i] / ranks. dst may be a. */
void stretto_kernel_divide(enum stretto_type type, void *dst, const void *a, size_t count,
			   int ranks);

/*
 * dst[i] = a[i] * *factor, an element of the type, as the op STRETTO_PROD multiplies; divided by
 * `ranks` then, unless that is 0. In one pass. dst may be a.
 */
void stretto_kernel_scale(enum stretto_type type, void *dst, const void *a, size_t count,
			  const void *factor, int ranks);

/* A sum whose operands are scaled before. */
struct stretto_scaled_sum {
	enum stretto_type type;
	const void *factor; /* an element of the type */
	bool scaled[2];     /* which of the two operands are multiplied by it */
	int ranks;          /* the divisor of an average, or 0 */
};

/* dst = a + b in one pass, each operand scaled and rounded first where the sum says so. */
void stretto_kernel_scaled_sum(const struct stretto_scaled_sum *sum, void *dst, const void *a,
			       const void *b, size_t count);

/* The most sources of stretto_kernel_many(). */
enum { STRETTO_KERNEL_SOURCES = 1024 };

/*
 * dst[0 .. dsts)[i] = src[0][i] op ... op src[srcs - 1][i], 1 <= srcs <= STRETTO_KERNEL_SOURCES, 1
 * <= dsts; STRETTO_AVG divides by `ranks` with the last addition (as stretto_kernel_sum_divide, or
 * stretto_kernel_divide of one source). Any dst[k] may be any src[j] exactly. The bits are those of
 * stretto_kernel() in this order: of n sources, the first n - 2^floor(log2 n) pairs (2j, 2j + 1)
 * are combined first, then neighbours at distance 1, 2, 4, ..., lower ones on the left.
 *
 * `streaming`: sums and averages of floats, and sums of integers, are stored past the caches where
 * the processor can and the destinations are aligned alike (modulo 64): for vectors larger than the
 * last level. They are ordered before all later stores of this thread.
 *
 * Cost: one pass over memory: each source is read once and each destination written once; partial
 * results stay in registers (2, 3, 4 and 8 sources of a sum) or the first-level cache.
 */
void stretto_kernel_many(enum stretto_type type, enum stretto_op op, void *const dst[], int dsts,
			 const void *const src[], int srcs, size_t count, int ranks,
			 bool streaming);

/* Conversions of one value, round to nearest even; also for tests and tools. */
float stretto_f16_to_f32(uint16_t bits);
uint16_t stretto_f32_to_f16(float value);
float stretto_bf16_to_f32(uint16_t bits);
uint16_t stretto_f32_to_bf16(float value);

#endif
