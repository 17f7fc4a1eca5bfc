/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/halves.h"

#include <math.h>

/* Rounds to a format of `bits` of significand with least exponent `low` and largest value `top`. */
static double round_to(double value, int bits, int low, double top)
{
	int exponent;
	double unit, rounded;

	if (isnan(value) || isinf(value) || value == 0)
		return value;
	frexp(value, &exponent);
	unit = ldexp(1, (exponent - 1 < low ? low : exponent - 1) - (bits - 1));
	rounded = nearbyint(value / unit) * unit;
	return fabs(rounded) > top ? copysign(INFINITY, value) : rounded;
}

double half_value(uint16_t bits, int mantissa_bits, int bias)
{
	int mantissa = bits & ((1 << mantissa_bits) - 1);
	int exponent = (bits & 0x7fff) >> mantissa_bits;
	double sign = bits & 0x8000 ? -1 : 1;

	if (exponent == 2 * bias + 1)
		return mantissa ? (double)NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
	return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

uint16_t half_bits(double value, int mantissa_bits, int bias)
{
	double top = ldexp((2 << mantissa_bits) - 1, bias - mantissa_bits);
	double rounded = round_to(value, mantissa_bits + 1, 1 - bias, top);
	int sign = signbit(value) ? 0x8000 : 0;
	int exponent;
	double fraction;

	if (isnan(value))
		return (uint16_t)((2 * bias + 1) << mantissa_bits | 1 << (mantissa_bits - 1));
	if (isinf(rounded))
		return (uint16_t)(sign | (2 * bias + 1) << mantissa_bits);
	fraction = frexp(fabs(rounded), &exponent);
	if (fraction == 0 || exponent - 1 < 1 - bias)
		return (uint16_t)(sign | (int)ldexp(fabs(rounded), bias - 1 + mantissa_bits));
	return (uint16_t)(sign | ((exponent - 1 + bias) << mantissa_bits) |
			  ((int)ldexp(fraction, mantissa_bits + 1) & ((1 << mantissa_bits) - 1)));
}
