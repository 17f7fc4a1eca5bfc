/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_loops.h: the loops of all kernels, and the table of them. Source text that is included
 * once per instruction set, by a file that first defines
 *
 *   LOOPS_TARGET      attribute of the functions, such as __attribute__((target("avx2")))
 *   LOOPS_TABLE       declaration of the table that is defined here
 *   LOOPS_NAME        the name in the table
 *   LOOPS_UNFUSED     the same without fused multiply-add, if the target has it
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

#ifndef LOOPS_UNFUSED
#define LOOPS_UNFUSED LOOPS_TARGET
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

#define WHOLE_LOOPS(name, type)                                                                    \
	ALL_LOOPS(name, type, stretto_##name, AS_IT_IS, AS_IT_IS)                                  \
	REDUCE_LOOP(name##_band, type, stretto_##name##_band, AS_IT_IS, AS_IT_IS)                  \
	REDUCE_LOOP(name##_bor, type, stretto_##name##_bor, AS_IT_IS, AS_IT_IS)                    \
	REDUCE_LOOP(name##_bxor, type, stretto_##name##_bxor, AS_IT_IS, AS_IT_IS)                  \
	REDUCE_LOOP(name##_land, type, stretto_##name##_land, AS_IT_IS, AS_IT_IS)                  \
	REDUCE_LOOP(name##_lor, type, stretto_##name##_lor, AS_IT_IS, AS_IT_IS)                    \
	REDUCE_LOOP(name##_lxor, type, stretto_##name##_lxor, AS_IT_IS, AS_IT_IS)

/*
 * Complex numbers are twice as many real ones to all but the product. Its parts are computed in
 * statements of their own, since clang contracts a product and a sum within one to a fused
 * multiply-add; and gcc 12 makes vector code of them that fuses whatever -ffp-contract says, so the
 * target must not have it.
 */
#define COMPLEX_LOOPS(name, part, type)                                                            \
	LOOPS_TARGET static void name##_sum(void *dst, const void *a, const void *b, size_t count) \
	{                                                                                          \
		part##_sum(dst, a, b, 2 * count);                                                  \
	}                                                                                          \
	LOOPS_TARGET static void name##_sum_divide(void *dst, const void *a, const void *b,        \
						   size_t count, int ranks)                        \
	{                                                                                          \
		part##_sum_divide(dst, a, b, 2 * count, ranks);                                    \
	}                                                                                          \
	LOOPS_TARGET static void name##_divide(void *dst, const void *a, size_t count, int ranks)  \
	{                                                                                          \
		part##_divide(dst, a, 2 * count, ranks);                                           \
	}                                                                                          \
	LOOPS_UNFUSED static void name##_prod(void *dst, const void *left, const void *right,      \
					      size_t count)                                        \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left, *b = right;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < 2 * count; i += 2) {                                        \
			type real = a[i] * b[i], imaginary = a[i] * b[i + 1];                      \
			type from_real = a[i + 1] * b[i + 1];                                      \
			type from_imaginary = a[i + 1] * b[i];                                     \
                                                                                                   \
			d[i] = stretto_##part##_one_nan(real - from_real);                         \
			d[i + 1] = stretto_##part##_one_nan(imaginary + from_imaginary);           \
		}                                                                                  \
	}

WHOLE_LOOPS(i8, int8_t)
WHOLE_LOOPS(u8, uint8_t)
WHOLE_LOOPS(i16, int16_t)
WHOLE_LOOPS(u16, uint16_t)
WHOLE_LOOPS(i32, int32_t)
WHOLE_LOOPS(u32, uint32_t)
WHOLE_LOOPS(i64, int64_t)
WHOLE_LOOPS(u64, uint64_t)
#ifndef LOOPS_OWN_HALVES
ALL_LOOPS(f16, uint16_t, stretto_half, stretto_widen_f16, stretto_narrow_f16)
ALL_LOOPS(bf16, uint16_t, stretto_half, stretto_widen_bf16, stretto_narrow_bf16)
#endif
ALL_LOOPS(f32, float, stretto_f32, AS_IT_IS, AS_IT_IS)
ALL_LOOPS(f64, double, stretto_f64, AS_IT_IS, AS_IT_IS)
COMPLEX_LOOPS(c64, f32, float)
COMPLEX_LOOPS(c128, f64, double)

/* The rows of the classes of types; an operation that a class lacks is NULL. */
#define COMPLEX_ROW(name) [STRETTO_SUM] = name##_sum, [STRETTO_PROD] = name##_prod
#define FLOAT_ROW(name)   COMPLEX_ROW(name), [STRETTO_MIN] = name##_min, [STRETTO_MAX] = name##_max
#define WHOLE_ROW(name)                                                                            \
	FLOAT_ROW(name), [STRETTO_BAND] = name##_band, [STRETTO_BOR] = name##_bor,                 \
			 [STRETTO_BXOR] = name##_bxor, [STRETTO_LAND] = name##_land,               \
			 [STRETTO_LOR] = name##_lor, [STRETTO_LXOR] = name##_lxor
#define TABLE_COLUMN(suffix)                                                                       \
	{                                                                                          \
		[STRETTO_I8] = i8##suffix, [STRETTO_U8] = u8##suffix, [STRETTO_I16] = i16##suffix, \
		[STRETTO_U16] = u16##suffix, [STRETTO_I32] = i32##suffix,                          \
		[STRETTO_U32] = u32##suffix, [STRETTO_I64] = i64##suffix,                          \
		[STRETTO_U64] = u64##suffix, [STRETTO_F16] = f16##suffix,                          \
		[STRETTO_BF16] = bf16##suffix, [STRETTO_F32] = f32##suffix,                        \
		[STRETTO_F64] = f64##suffix, [STRETTO_C64] = c64##suffix,                          \
		[STRETTO_C128] = c128##suffix,                                                     \
	}

LOOPS_TABLE = {
	.name = LOOPS_NAME,
	.reduce =
		{
			[STRETTO_I8] = {WHOLE_ROW(i8)},
			[STRETTO_U8] = {WHOLE_ROW(u8)},
			[STRETTO_I16] = {WHOLE_ROW(i16)},
			[STRETTO_U16] = {WHOLE_ROW(u16)},
			[STRETTO_I32] = {WHOLE_ROW(i32)},
			[STRETTO_U32] = {WHOLE_ROW(u32)},
			[STRETTO_I64] = {WHOLE_ROW(i64)},
			[STRETTO_U64] = {WHOLE_ROW(u64)},
			[STRETTO_F16] = {FLOAT_ROW(f16)},
			[STRETTO_BF16] = {FLOAT_ROW(bf16)},
			[STRETTO_F32] = {FLOAT_ROW(f32)},
			[STRETTO_F64] = {FLOAT_ROW(f64)},
			[STRETTO_C64] = {COMPLEX_ROW(c64)},
			[STRETTO_C128] = {COMPLEX_ROW(c128)},
		},
	.sum_divide = TABLE_COLUMN(_sum_divide),
	.divide = TABLE_COLUMN(_divide),
#ifdef LOOPS_MANY
	.sum_many = TABLE_COLUMN(_sum_many),
#endif
};

#endif
