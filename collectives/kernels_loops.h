/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_loops.h: the loops of all kernels, and the table of them. Source text that is included
 * once per instruction set, by a file that first defines
 *
 *   LOOPS_TARGET      attribute of the functions, such as __attribute__((target("avx2")))
 *   LOOPS_TABLE       declaration of the table that is defined here
 *   LOOPS_NAME        the name in the table
 *   LOOPS_OWN_HALVES  if it has its own f16 and bf16 functions
 *   LOOPS_MANY        if it has included kernels_sums.h
 *
 * or nothing, for the portable table.
 *
 * Iterations are independent also where dst is a or b, which LOOPS_INDEPENDENT tells the compiler;
 * restrict would be a lie.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_LOOPS_H
#define STRETTO_COLLECTIVES_KERNELS_LOOPS_H

#include "collectives/kernels_internal.h"
#include "collectives/kernels_ops.h"

#ifndef LOOPS_TARGET
#define LOOPS_TARGET
#define LOOPS_TABLE const struct stretto_kernel_table stretto_kernels_portable
#define LOOPS_NAME  "portable"
#endif

#if defined(__clang__)
#define LOOPS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOOPS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define LOOPS_INDEPENDENT
#endif

/* The widen and narrow of types that need neither. */
#define AS_IT_IS(x) (x)

#define REDUCE_LOOP(name, type, op, widen, narrow)                                                 \
	LOOPS_TARGET static void name(void *dst, const void *left, const void *right,              \
				      size_t count)                                                \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left, *b = right;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = narrow(op(widen(a[i]), widen(b[i])));                               \
	}

#define DIVIDE_LOOPS(name, type, wide, widen, narrow)                                              \
	LOOPS_TARGET static void name##_sum_divide(void *dst, const void *left, const void *right, \
						   size_t count, int ranks)                        \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left, *b = right;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = narrow(                                                             \
				wide##_quotient(wide##_sum(widen(a[i]), widen(b[i])), ranks));     \
	}                                                                                          \
	LOOPS_TARGET static void name##_divide(void *dst, const void *left, size_t count,          \
					       int ranks)                                          \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left;                                                              \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = narrow(wide##_quotient(widen(a[i]), ranks));                        \
	}

#define ALL_LOOPS(name, type, wide, widen, narrow)                                                 \
	REDUCE_LOOP(name##_sum, type, wide##_sum, widen, narrow)                                   \
	REDUCE_LOOP(name##_prod, type, wide##_prod, widen, narrow)                                 \
	REDUCE_LOOP(name##_min, type, wide##_min, widen, narrow)                                   \
	REDUCE_LOOP(name##_max, type, wide##_max, widen, narrow)                                   \
	DIVIDE_LOOPS(name, type, wide, widen, narrow)

ALL_LOOPS(u8, uint8_t, stretto_u8, AS_IT_IS, AS_IT_IS)
ALL_LOOPS(i32, int32_t, stretto_i32, AS_IT_IS, AS_IT_IS)
ALL_LOOPS(i64, int64_t, stretto_i64, AS_IT_IS, AS_IT_IS)
#ifndef LOOPS_OWN_HALVES
ALL_LOOPS(f16, uint16_t, stretto_half, stretto_widen_f16, stretto_narrow_f16)
ALL_LOOPS(bf16, uint16_t, stretto_half, stretto_widen_bf16, stretto_narrow_bf16)
#endif
ALL_LOOPS(f32, float, stretto_f32, AS_IT_IS, AS_IT_IS)
ALL_LOOPS(f64, double, stretto_f64, AS_IT_IS, AS_IT_IS)

#define REDUCE_ROW(name)                                                                           \
	{                                                                                          \
		[STRETTO_SUM] = name##_sum, [STRETTO_PROD] = name##_prod,                          \
		[STRETTO_MIN] = name##_min, [STRETTO_MAX] = name##_max,                            \
	}
#define TABLE_COLUMN(suffix)                                                                       \
	{                                                                                          \
		[STRETTO_U8] = u8##suffix, [STRETTO_I32] = i32##suffix,                            \
		[STRETTO_I64] = i64##suffix, [STRETTO_F16] = f16##suffix,                          \
		[STRETTO_BF16] = bf16##suffix, [STRETTO_F32] = f32##suffix,                        \
		[STRETTO_F64] = f64##suffix,                                                       \
	}

LOOPS_TABLE = {
	.name = LOOPS_NAME,
	.reduce =
		{
			[STRETTO_U8] = REDUCE_ROW(u8),
			[STRETTO_I32] = REDUCE_ROW(i32),
			[STRETTO_I64] = REDUCE_ROW(i64),
			[STRETTO_F16] = REDUCE_ROW(f16),
			[STRETTO_BF16] = REDUCE_ROW(bf16),
			[STRETTO_F32] = REDUCE_ROW(f32),
			[STRETTO_F64] = REDUCE_ROW(f64),
		},
	.sum_divide = TABLE_COLUMN(_sum_divide),
	.divide = TABLE_COLUMN(_divide),
#ifdef LOOPS_MANY
	.sum_many = TABLE_COLUMN(_sum_many),
#endif
};

#endif
