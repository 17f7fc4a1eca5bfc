/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halves.h: the 16-bit float formats by their definition; nothing is shared with the kernels.
 *
 * A format is its number of mantissa bits and its bias: 10 and 15 for f16, 7 and 127 for bf16.
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_TESTS_LIB_HALVES_H
#define STRETTO_TESTS_LIB_HALVES_H

#include <stdint.h>

/* The value of an element; NaN for every NaN. */
double half_value(uint16_t bits, int mantissa_bits, int bias);
/* The element nearest to a value, ties to even; the positive quiet NaN for NaN. */
uint16_t half_bits(double value, int mantissa_bits, int bias);

#endif
