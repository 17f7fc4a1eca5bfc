/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/exact.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
	DIGIT_BITS = 32,
	MANTISSA_BITS = 52,   /* that are stored */
	SPECIAL_FIELD = 2047, /* exponent field of infinities and NaN */
	/* Neighbouring values are often alike in size; lanes keep their additions apart. */
	LANES = 4,
	/* An addition changes a digit by less than 2^52: the sum of the lanes stays below 2^63. */
	BLOCK = 1024,
};

#define DIGIT_MASK    (((uint64_t)1 << DIGIT_BITS) - 1)
#define MANTISSA_ONE  ((uint64_t)1 << MANTISSA_BITS)
#define MANTISSA_MASK (MANTISSA_ONE - 1)
#define SIGN_BIT      ((uint64_t)1 << 63)

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static unsigned field_of(uint64_t bits)
{
	return (unsigned)(bits >> MANTISSA_BITS) & SPECIAL_FIELD;
}

/* Adds a finite value to the digits. */
static inline void add_finite(int64_t *digits, uint64_t bits)
{
	unsigned field = field_of(bits);
	uint64_t is_normal = field != 0;
	unsigned exponent = field + !is_normal; /* subnormals have that of the least normal */
	uint64_t mantissa = (bits & MANTISSA_MASK) | is_normal << MANTISSA_BITS;
	int64_t sign = -(int64_t)(bits >> 63); /* -1 or 0: x ^ sign - sign is -x or x */
	int64_t *digit = &digits[exponent / DIGIT_BITS];
	unsigned shift = exponent % DIGIT_BITS;
	int64_t low = (int64_t)(mantissa << shift & DIGIT_MASK);
	int64_t high = (int64_t)(mantissa >> (DIGIT_BITS - shift));

	digit[0] += (low ^ sign) - sign;
	digit[1] += (high ^ sign) - sign;
}

static void add_special(struct stretto_exact *sum, uint64_t bits)
{
	if (bits & MANTISSA_MASK)
		sum->nans = 1;
	else
		sum->infinities[bits >> 63] = 1;
}

/* Brings all digits but the last into [0, 2^32). The last takes what is left, with the sign. */
static void carry(int64_t *digits)
{
	for (int i = 0; i + 1 < STRETTO_EXACT_DIGITS; i++) {
		int64_t rest = digits[i] & (int64_t)DIGIT_MASK;

		digits[i + 1] += (digits[i] - rest) / ((int64_t)1 << DIGIT_BITS);
		digits[i] = rest;
	}
}

/* Adds at most BLOCK values. */
static void add_block(struct stretto_exact *sum, const double *x, size_t n)
{
	int64_t lanes[LANES][STRETTO_EXACT_DIGITS] = {{0}};
	uint64_t unlike = 0; /* bits in which any value is not -0 */

	for (size_t i = 0; i < n; i++) {
		uint64_t bits = bits_of(x[i]);

		unlike |= bits ^ SIGN_BIT;
		if (__builtin_expect(field_of(bits) == SPECIAL_FIELD, 0))
			add_special(sum, bits);
		else
			add_finite(lanes[i % LANES], bits);
	}
	for (int i = 0; i < STRETTO_EXACT_DIGITS; i++)
		for (int lane = 0; lane < LANES; lane++)
			sum->digits[i] += lanes[lane][i];
	carry(sum->digits);
	sum->other_values |= unlike != 0;
}

void stretto_exact_add(struct stretto_exact *sum, const double *x, size_t n)
{
	sum->values |= n > 0;
	for (size_t i = 0; i < n; i += BLOCK)
		add_block(sum, x + i, n - i < BLOCK ? n - i : BLOCK);
}

/* Makes digits positive that were carried; returns whether they were negative. */
static bool make_positive(int64_t *digits)
{
	bool negative = digits[STRETTO_EXACT_DIGITS - 1] < 0;

	if (negative) {
		for (int i = 0; i < STRETTO_EXACT_DIGITS; i++)
			digits[i] = -digits[i];
		carry(digits);
	}
	return negative;
}

/* The 64 bits from bit `first` on, of positive digits; there are two more digits. */
static uint64_t extract(const int64_t *digits, int first)
{
	const int64_t *digit = &digits[first / DIGIT_BITS];
	int shift = first % DIGIT_BITS;
	uint64_t low = (uint64_t)digit[0] | (uint64_t)digit[1] << DIGIT_BITS;

	return shift ? low >> shift | (uint64_t)digit[2] << (64 - shift) : low;
}

/* Whether a bit below `end` is set. */
static bool any_below(const int64_t *digits, int end)
{
	for (int i = 0; i < end / DIGIT_BITS; i++)
		if (digits[i])
			return true;
	return digits[end / DIGIT_BITS] & (((int64_t)1 << end % DIGIT_BITS) - 1);
}

/* The highest bit that is set; -1 for none. */
static int top_bit(const int64_t *digits)
{
	for (int i = STRETTO_EXACT_DIGITS - 1; i >= 0; i--)
		if (digits[i])
			return i * DIGIT_BITS + 63 - __builtin_clzll((uint64_t)digits[i]);
	return -1;
}

/* The bits of the double nearest to positive digits. */
static uint64_t nearest(const int64_t *digits)
{
	int top = top_bit(digits);
	/* Bit 1 is the lowest that a double has. The lowest of ours is also its exponent field, less
	 * one for the leading bit of a normal value: that adds itself to the field. */
	int low = top - MANTISSA_BITS > 1 ? top - MANTISSA_BITS : 1;

	if (top < 0)
		return 0;
	if (low >= SPECIAL_FIELD)
		return (uint64_t)SPECIAL_FIELD << MANTISSA_BITS;
	uint64_t mantissa = extract(digits, low) & (MANTISSA_ONE | MANTISSA_MASK);
	bool half = extract(digits, low - 1) & 1;

	/* A carry out of the mantissa goes on into the field, and from the greatest to infinity. */
	mantissa += half && ((mantissa & 1) || any_below(digits, low - 1));
	return ((uint64_t)(low - 1) << MANTISSA_BITS) + mantissa;
}

double stretto_exact_round(const struct stretto_exact *sum)
{
	struct stretto_exact copy = *sum;
	uint64_t bits;
	double result;

	if (sum->nans || (sum->infinities[0] && sum->infinities[1]))
		return (double)NAN;
	if (sum->infinities[0] || sum->infinities[1])
		return sum->infinities[0] ? INFINITY : -INFINITY;
	if (sum->values && !sum->other_values)
		return -0.0;
	carry(copy.digits);
	bool negative = make_positive(copy.digits);
	bits = nearest(copy.digits) | (negative ? SIGN_BIT : 0);
	memcpy(&result, &bits, sizeof result);
	return result;
}
