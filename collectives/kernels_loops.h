/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_loops.h: the loops of all kernels and the table of them; source text that is included
 * once per instruction set, by a file that defines
 *
 *   LOOPS_TARGET  attribute of the functions, such as __attribute__((target("avx2")))
 *   LOOPS_TABLE   name of the table that is defined here
 *   LOOPS_NAME    text for the table's name
 *   LOOPS_F16C    1 if the target has the F16C instructions
 *
 * The loops are plain so that the compiler makes vector code of them; iterations are independent
 * also when dst is a or b, which LOOPS_INDEPENDENT tells it.
 */
#include "collectives/kernels_internal.h"

#if LOOPS_F16C
#include <immintrin.h>
#endif

#if defined(__clang__)
#define LOOPS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOOPS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define LOOPS_INDEPENDENT
#endif

/* Every NaN result becomes this one; kernels_internal.h says why. */
#define ONE_NAN(r)        ((r) != (r) ? (__typeof__(r))__builtin_nanf("") : (r))
#define EITHER_NAN(x, y)  (((x) != (x)) | ((y) != (y)))
#define FLOAT_MIN(x, y)   (EITHER_NAN(x, y) ? (__typeof__(x))__builtin_nanf("") : (y) < (x) ? (y) : (x))
#define FLOAT_MAX(x, y)   (EITHER_NAN(x, y) ? (__typeof__(x))__builtin_nanf("") : (y) > (x) ? (y) : (x))
#define FLOAT_SUM(x, y)   ONE_NAN((x) + (y))
#define FLOAT_PROD(x, y)  ONE_NAN((x) * (y))
#define WHOLE_MIN(x, y)   ((y) < (x) ? (y) : (x))
#define WHOLE_MAX(x, y)   ((y) > (x) ? (y) : (x))
#define WHOLE_SUM(x, y)   ((x) + (y))
#define WHOLE_PROD(x, y)  ((x) * (y))
#define SAME(x)           (x)

/* dst[i] = narrow(op(widen(a[i]), widen(b[i]))) */
#define REDUCE_LOOP(name, type, op, widen, narrow)                                                 \
	LOOPS_TARGET static void name(void *dst, const void *left, const void *right,              \
				      size_t count)                                                \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left, *b = right;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = (type)narrow(op(widen(a[i]), widen(b[i])));                         \
	}

/* The two divisions; `sum` is the wrapping or rounding sum, `divisor` the type of the quotient. */
#define DIVIDE_LOOPS(suffix, type, divisor, sum, quotient, widen, narrow)                          \
	LOOPS_TARGET static void sum_divide_##suffix(void *dst, const void *left,                  \
						     const void *right, size_t count, int ranks)   \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left, *b = right;                                                  \
		const divisor n = (divisor)ranks;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = (type)narrow(                                                       \
				quotient((divisor)(type##_sum)sum(widen(a[i]), widen(b[i])), n));  \
	}                                                                                          \
	LOOPS_TARGET static void divide_##suffix(void *dst, const void *left, size_t count,        \
						 int ranks)                                        \
	{                                                                                          \
		type *d = dst;                                                                     \
		const type *a = left;                                                              \
		const divisor n = (divisor)ranks;                                                  \
                                                                                                   \
		LOOPS_INDEPENDENT                                                                  \
		for (size_t i = 0; i < count; i++)                                                 \
			d[i] = (type)narrow(quotient((divisor)widen(a[i]), n));                    \
	}
