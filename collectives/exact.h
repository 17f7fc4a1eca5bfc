/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exact.h: a sum of doubles without rounding, as a vector of integers.
 *
 * A double is an integer of 53 bits times a power of two. The accumulator is one fixed-point number
 * wide enough for any sum of them, cut into digits of 32 bits that stand in 64:
 *
 *   digit         0                  1                      ...  67
 *   worth a unit  2^-1075            2^-1043                     2^1069
 *   holds         [0, 2^32)          [0, 2^32)                   the rest, with the sign
 *
 * An addition splits the mantissa over two neighbouring digits and carries nothing; there is room
 * for 1024 of them before the carries must be passed on. Accumulators of several ranks are added
 * word by word, as 64-bit integers, in any order: an allreduce adds them. The sum is then rounded
 * once.
 *
 * Sources: R. Neal, "Fast exact summation using small and large superaccumulators",
 * arXiv:1505.05571 (2015), the small one; U. Kulisch, "Computer Arithmetic and Validity" (2008), the
 * long accumulator; J. Demmel, H. D. Nguyen, "Parallel reproducible summation", IEEE Trans. Comput. 64
 * (2015), bins that travel as one reduction.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_EXACT_H
#define STRETTO_COLLECTIVES_EXACT_H

#include <stddef.h>
#include <stdint.h>

enum {
	STRETTO_EXACT_BASE_EXPONENT = -1075, /* of the lowest bit of digit 0 */
	/* 2^32 ranks with 2^64 doubles below 2^1024 each stay below 2^(1024 + 96) */
	STRETTO_EXACT_DIGITS = 68,
	STRETTO_EXACT_RANKS_MAX = INT32_MAX, /* accumulators that may be added up */
};

/* All zero is the sum of nothing. Added up word by word. */
struct stretto_exact {
	int64_t digits[STRETTO_EXACT_DIGITS]; /* lowest first */
	int64_t nans;                         /* not 0: there was one */
	int64_t infinities[2];                /* not 0: there was a positive, a negative one */
	int64_t values;                       /* not 0: there was a value */
	int64_t other_values;                 /* not 0: there was one that is not -0 */
};

enum { STRETTO_EXACT_WORDS = STRETTO_EXACT_DIGITS + 5 };
_Static_assert(sizeof(struct stretto_exact) == STRETTO_EXACT_WORDS * sizeof(int64_t),
	       "travels as a vector of int64");

/*
 * Adds n doubles. To one accumulator, before it is added to others; as often as wanted, up to 2^64
 * doubles in all.
 */
void stretto_exact_add(struct stretto_exact *sum, const double *x, size_t n);

/*
 * The double nearest to the sum of up to STRETTO_EXACT_RANKS_MAX accumulators, of two equally near
 * ones the even one, whatever the rounding mode. See stretto_sum_exact() for infinities, NaN and
 * zeros.
 */
double stretto_exact_round(const struct stretto_exact *sum);

#endif
