/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_internal.h: the builds of the reduction kernels, for kernels.c and its test.
 *
 * kernels_loops.h is compiled once per instruction set; each time it gives one table of functions.
 * All tables give the same bits: no expression can be contracted to a fused multiply-add, a NaN
 * result is always the one positive quiet NaN without payload (an add may return either operand's,
 * as the compiler likes), and the 16-bit conversions are exact integer code or the instruction that
 * equals it.
 *
 * Threads: constant tables, pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_INTERNAL_H
#define STRETTO_COLLECTIVES_KERNELS_INTERNAL_H

#include <string.h>

#include "collectives/kernels.h"

/* The ops that have loops of their own; STRETTO_AVG is a sum and a division. */
enum { STRETTO_KERNEL_OPS = STRETTO_AVG };

typedef void (*stretto_sum_divide_fn)(void *dst, const void *a, const void *b, size_t count,
				      int ranks);
typedef void (*stretto_divide_fn)(void *dst, const void *a, size_t count, int ranks);

struct stretto_kernel_table {
	const char *name; /* of the instruction set */
	stretto_reduce_fn reduce[STRETTO_TYPE_COUNT][STRETTO_KERNEL_OPS];
	stretto_sum_divide_fn sum_divide[STRETTO_TYPE_COUNT];
	stretto_divide_fn divide[STRETTO_TYPE_COUNT];
};

/* Plain C for whatever the compiler targets. */
extern const struct stretto_kernel_table stretto_kernels_portable;
/* AVX2 and F16C; NULL where this processor or build has none. */
const struct stretto_kernel_table *stretto_kernels_avx2(void);
/* The table that stretto_kernel() uses. */
const struct stretto_kernel_table *stretto_kernels_chosen(void);

static inline float stretto_bits_to_f32(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t stretto_f32_to_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/*
 * The conversions as expressions without branches, so that loops over them become vector code. Both
 * ways a NaN keeps its sign and upper payload and becomes quiet, as F16C does it.
 */
static inline float stretto_widen_f16(uint16_t half)
{
	const uint32_t rebias = (127 - 15) << 23;
	const uint32_t least_normal = (127 - 14) << 23;
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
	/* a subnormal is the mantissa of 2^-14 with that 2^-14 taken off again */
	uint32_t subnormal =
		stretto_f32_to_bits(stretto_bits_to_f32(magnitude + least_normal) -
				    stretto_bits_to_f32(least_normal));
	uint32_t bits = magnitude + rebias;

	bits = magnitude < (1u << 23) ? subnormal : bits;
	bits = magnitude >= (0x7c00u << 13) ? magnitude | 0x7f800000u : bits;
	bits = magnitude > (0x7c00u << 13) ? bits | 0x00400000u : bits;
	return stretto_bits_to_f32(sign | bits);
}

static inline uint16_t stretto_narrow_f16(float value)
{
	uint32_t all = stretto_f32_to_bits(value);
	uint32_t sign = (all >> 16) & 0x8000u;
	uint32_t magnitude = all & 0x7fffffffu;
	uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
	/* the unit in the last place of 0.5f is that of a subnormal half: the add does the rounding
	 */
	uint32_t subnormal =
		stretto_f32_to_bits(stretto_bits_to_f32(magnitude) + 0.5f) - 0x3f000000u;
	uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
	uint32_t bits = magnitude < (113u << 23) ? subnormal : normal;

	bits = magnitude >= 0x477ff000u ? 0x7c00u : bits; /* 65520, the tie that rounds to 65536 */
	bits = magnitude > 0x7f800000u ? nan : bits;
	return (uint16_t)(sign | bits);
}

static inline float stretto_widen_bf16(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;

	bits = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x00400000u : bits;
	return stretto_bits_to_f32(bits);
}

static inline uint16_t stretto_narrow_bf16(float value)
{
	uint32_t bits = stretto_f32_to_bits(value);
	uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

#endif
