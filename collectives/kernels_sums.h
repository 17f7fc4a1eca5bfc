/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_sums.h: sums of 2, 3, 4 and 8 sources in registers: each is read and each destination
 * written once. Source text, included by a file that first defines LOOPS_TARGET (see
 * kernels_loops.h) and
 *
 *   SUMS_BYTES                           of a vector register
 *   SUMS_STREAM(to, vector)              stores a register past the caches
 *   load_TYPE, store_TYPE, stream_TYPE   between f16 or bf16 in memory and a register of f32
 *   round_TYPE                           f32 in a register to the precision of f16 or bf16
 *
 * The NaNs of partial sums are left as they are: the last operation makes any the one NaN.
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_SUMS_H
#define STRETTO_COLLECTIVES_KERNELS_SUMS_H

#include <string.h>

#include "collectives/kernels_internal.h"

#ifdef SUMS_BYTES

#define SUMS_INLINE LOOPS_TARGET static inline __attribute__((always_inline))

/* A register of elements; `bits` has lanes of the same size, for the masks of comparisons. */
#define SUMS_VECTOR(name, element, bits)                                                           \
	typedef element name##_vector __attribute__((vector_size(SUMS_BYTES)));                    \
	typedef bits name##_mask __attribute__((vector_size(SUMS_BYTES)));                         \
	SUMS_INLINE name##_vector name##_load(const unsigned char *from)                           \
	{                                                                                          \
		name##_vector vector;                                                              \
                                                                                                   \
		memcpy(&vector, from, sizeof vector);                                              \
		return vector;                                                                     \
	}                                                                                          \
	SUMS_INLINE name##_vector name##_add(name##_vector a, name##_vector b)                     \
	{                                                                                          \
		return a + b;                                                                      \
	}

#define SUMS_STORES(name)                                                                          \
	SUMS_INLINE void name##_store(unsigned char *to, name##_vector value)                      \
	{                                                                                          \
		memcpy(to, &value, sizeof value);                                                  \
	}                                                                                          \
	SUMS_INLINE void name##_stream(unsigned char *to, name##_vector value)                     \
	{                                                                                          \
		SUMS_STREAM(to, value);                                                            \
	}

#define SUMS_WHOLE(name, element)                                                                  \
	SUMS_VECTOR(name, element, element)                                                        \
	SUMS_STORES(name)                                                                          \
	SUMS_INLINE name##_vector name##_result(name##_vector sum, int ranks)                      \
	{                                                                                          \
		(void)ranks; /* averages of integers have no loop here */                          \
		return sum;                                                                        \
	}

#define SUMS_FLOAT(name, element, bits, nan)                                                       \
	SUMS_VECTOR(name, element, bits)                                                           \
	SUMS_STORES(name)                                                                          \
	SUMS_INLINE name##_vector name##_result(name##_vector sum, int ranks)                      \
	{                                                                                          \
		name##_vector value = ranks ? sum / (element)ranks : sum;                          \
		name##_mask is_nan = (name##_mask)(value != value);                                \
                                                                                                   \
		return (name##_vector)((is_nan & (nan)) | (~is_nan & (name##_mask)value));         \
	}

/* Halves are added as f32; a sum that is not the last is rounded to their precision. */
#define SUMS_HALF(name, half)                                                                      \
	typedef f32_vector name##_vector;                                                          \
	SUMS_INLINE name##_vector name##_load(const unsigned char *from)                           \
	{                                                                                          \
		return load_##half(from);                                                          \
	}                                                                                          \
	SUMS_INLINE name##_vector name##_add(name##_vector a, name##_vector b)                     \
	{                                                                                          \
		return round_##half(a + b);                                                        \
	}                                                                                          \
	SUMS_INLINE void name##_store(unsigned char *to, name##_vector value)                      \
	{                                                                                          \
		store_##half(to, value);                                                           \
	}                                                                                          \
	SUMS_INLINE void name##_stream(unsigned char *to, name##_vector value)                     \
	{                                                                                          \
		stream_##half(to, value);                                                          \
	}                                                                                          \
	SUMS_INLINE name##_vector name##_result(name##_vector sum, int ranks)                      \
	{                                                                                          \
		return ranks ? sum / (float)ranks : sum;                                           \
	}

/* The tree of 2, 3, 4 or 8 registers. The last addition is not rounded. */
#define SUMS_TREE(name)                                                                            \
	SUMS_INLINE name##_vector name##_pair(const unsigned char *const src[], size_t at)         \
	{                                                                                          \
		return name##_add(name##_load(src[0] + at), name##_load(src[1] + at));             \
	}                                                                                          \
	SUMS_INLINE name##_vector name##_four(const unsigned char *const src[], size_t at)         \
	{                                                                                          \
		return name##_add(name##_pair(src, at), name##_pair(src + 2, at));                 \
	}                                                                                          \
	SUMS_INLINE name##_vector name##_tree(const unsigned char *const src[], int srcs,          \
					      size_t at)                                           \
	{                                                                                          \
		if (srcs == 2)                                                                     \
			return name##_load(src[0] + at) + name##_load(src[1] + at);                \
		if (srcs == 3)                                                                     \
			return name##_pair(src, at) + name##_load(src[2] + at);                    \
		if (srcs == 4)                                                                     \
			return name##_pair(src, at) + name##_pair(src + 2, at);                    \
		return name##_four(src, at) + name##_four(src + 4, at);                            \
	}

/* `srcs` is a constant where this is inlined; the pointers are copied so as to stay in registers.
 */
#define SUMS_LOOP(name, lanes, bytes)                                                              \
	SUMS_INLINE size_t name##_sum_of(const struct stretto_many *call, int srcs, size_t from,   \
					 size_t to, size_t count)                                  \
	{                                                                                          \
		const unsigned char *src[8];                                                       \
		int ranks = call->ranks, dsts = call->dsts;                                        \
		bool streaming = call->streaming;                                                  \
		size_t i = 0;                                                                      \
                                                                                                   \
		for (int j = 0; j < srcs; j++)                                                     \
			src[j] = (const unsigned char *)call->src[j] + from;                       \
		for (; i + (lanes) <= count; i += (lanes)) {                                       \
			name##_vector sum =                                                        \
				name##_result(name##_tree(src, srcs, i * (bytes)), ranks);         \
                                                                                                   \
			for (int k = 0; k < dsts; k++) {                                           \
				unsigned char *at =                                                \
					(unsigned char *)call->dst[k] + to + i * (bytes);          \
                                                                                                   \
				if (streaming)                                                     \
					name##_stream(at, sum);                                    \
				else                                                               \
					name##_store(at, sum);                                     \
			}                                                                          \
		}                                                                                  \
		return i;                                                                          \
	}                                                                                          \
	LOOPS_TARGET static size_t name##_sum_many(const struct stretto_many *call, size_t from,   \
						   size_t to, size_t count)                        \
	{                                                                                          \
		switch (call->srcs) {                                                              \
		case 2:                                                                            \
			return name##_sum_of(call, 2, from, to, count);                            \
		case 3:                                                                            \
			return name##_sum_of(call, 3, from, to, count);                            \
		case 4:                                                                            \
			return name##_sum_of(call, 4, from, to, count);                            \
		case 8:                                                                            \
			return name##_sum_of(call, 8, from, to, count);                            \
		default:                                                                           \
			return 0;                                                                  \
		}                                                                                  \
	}

#define SUMS_LOOPS(name, lanes, bytes)                                                             \
	SUMS_TREE(name)                                                                            \
	SUMS_LOOP(name, lanes, bytes)

/* Integers wrap, so that signed ones are added as unsigned ones. */
SUMS_WHOLE(u8, uint8_t)
SUMS_WHOLE(u16, uint16_t)
SUMS_WHOLE(u32, uint32_t)
SUMS_WHOLE(u64, uint64_t)
SUMS_FLOAT(f32, float, int32_t, 0x7fc00000)
SUMS_FLOAT(f64, double, int64_t, 0x7ff8000000000000)
SUMS_HALF(f16, f16)
SUMS_HALF(bf16, bf16)

SUMS_LOOPS(u8, SUMS_BYTES, 1)
SUMS_LOOPS(u16, SUMS_BYTES / 2, 2)
SUMS_LOOPS(u32, SUMS_BYTES / 4, 4)
SUMS_LOOPS(u64, SUMS_BYTES / 8, 8)
SUMS_LOOPS(f32, SUMS_BYTES / 4, 4)
SUMS_LOOPS(f64, SUMS_BYTES / 8, 8)
SUMS_LOOPS(f16, SUMS_BYTES / 4, 2)
SUMS_LOOPS(bf16, SUMS_BYTES / 4, 2)

#define i8_sum_many  u8_sum_many
#define i16_sum_many u16_sum_many
#define i32_sum_many u32_sum_many
#define i64_sum_many u64_sum_many

/* Complex numbers are twice as many real ones; a register holds whole ones. */
#define SUMS_COMPLEX(name, part)                                                                   \
	LOOPS_TARGET static size_t name##_sum_many(const struct stretto_many *call, size_t from,   \
						   size_t to, size_t count)                        \
	{                                                                                          \
		return part##_sum_many(call, from, to, 2 * count) / 2;                             \
	}

SUMS_COMPLEX(c64, f32)
SUMS_COMPLEX(c128, f64)

#endif
#endif
