/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_halves.h: loops over f16 and bf16 with vector instructions that compilers do not find, or
 * not as well. Source text, included by a file that first defines LOOPS_TARGET (see
 * kernels_loops.h) and
 *
 *   HALF_WIDE, HALF_LANES         a register of f32, and how many it holds
 *   load_TYPE, narrow_TYPE        memory to a register, a register to halves; every NaN to the one
 *   store_halves, stream_halves   narrowed halves to memory, and past the caches
 *   wide_min, wide_max            of registers; all bits set where one is NaN
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_HALVES_H
#define STRETTO_COLLECTIVES_KERNELS_HALVES_H

#include "collectives/kernels_ops.h"

#ifdef HALF_LANES

#define HALF_STORES(type)                                                                          \
	LOOPS_TARGET static inline void store_##type(void *to, HALF_WIDE value)                    \
	{                                                                                          \
		store_halves(to, narrow_##type(value));                                            \
	}                                                                                          \
	LOOPS_TARGET static inline void stream_##type(void *to, HALF_WIDE value)                   \
	{                                                                                          \
		stream_halves(to, narrow_##type(value));                                           \
	}

HALF_STORES(f16)
HALF_STORES(bf16)

/* d[i] = narrow(f(a[i], b[i])) with f written for a register and for one. */
#define HALF_LOOP(name, type, parameters, wide, one)                                               \
	LOOPS_TARGET static void name parameters                                                   \
	{                                                                                          \
		const uint16_t *a = left;                                                          \
		uint16_t *d = dst;                                                                 \
		size_t i = 0;                                                                      \
                                                                                                   \
		for (; i + HALF_LANES <= count; i += HALF_LANES)                                   \
			store_##type(d + i, wide);                                                 \
		for (; i < count; i++)                                                             \
			d[i] = stretto_narrow_##type(one);                                         \
	}

#define LEFT_WIDE(type)  load_##type(a + i)
#define RIGHT_WIDE(type) load_##type((const uint16_t *)right + i)
#define LEFT(type)       stretto_widen_##type(a[i])
#define RIGHT(type)      stretto_widen_##type(((const uint16_t *)right)[i])

#define HALF_REDUCE_LOOP(type, op, wide)                                                           \
	HALF_LOOP(type##_##op, type,                                                               \
		  (void *dst, const void *left, const void *right, size_t count), wide,            \
		  stretto_half_##op(LEFT(type), RIGHT(type)))

#define HALF_LOOPS(type)                                                                           \
	HALF_REDUCE_LOOP(type, sum, LEFT_WIDE(type) + RIGHT_WIDE(type))                            \
	HALF_REDUCE_LOOP(type, prod, LEFT_WIDE(type) * RIGHT_WIDE(type))                           \
	HALF_REDUCE_LOOP(type, min, wide_min(LEFT_WIDE(type), RIGHT_WIDE(type)))                   \
	HALF_REDUCE_LOOP(type, max, wide_max(LEFT_WIDE(type), RIGHT_WIDE(type)))                   \
	HALF_LOOP(type##_sum_divide, type,                                                         \
		  (void *dst, const void *left, const void *right, size_t count, int ranks),       \
		  (LEFT_WIDE(type) + RIGHT_WIDE(type)) / (float)ranks,                             \
		  stretto_half_quotient(stretto_half_sum(LEFT(type), RIGHT(type)), ranks))         \
	HALF_LOOP(type##_divide, type, (void *dst, const void *left, size_t count, int ranks),     \
		  LEFT_WIDE(type) / (float)ranks, stretto_half_quotient(LEFT(type), ranks))

HALF_LOOPS(f16)
HALF_LOOPS(bf16)

#endif
#endif
