/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_ops.h: the operations on one element that the kernels' loops are made of.
 *
 * All are without branches, so that loops over them become vector code, and inlined into functions
 * of any instruction set.
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_COLLECTIVES_KERNELS_OPS_H
#define STRETTO_COLLECTIVES_KERNELS_OPS_H

#include <stdint.h>
#include <string.h>

#define STRETTO_INLINE static inline __attribute__((always_inline))

/*
 * Integers of a type, the unsigned type they wrap in, and one that holds their values and a divisor;
 * the quotient truncates toward zero.
 */
#define STRETTO_WHOLE_OPS(name, type, wrapping, wide)                                              \
	STRETTO_INLINE type name##_sum(type a, type b)                                             \
	{                                                                                          \
		return (type)((wrapping)a + (wrapping)b);                                          \
	}                                                                                          \
	STRETTO_INLINE type name##_prod(type a, type b)                                            \
	{                                                                                          \
		return (type)((wrapping)a * (wrapping)b);                                          \
	}                                                                                          \
	STRETTO_INLINE type name##_min(type a, type b)                                             \
	{                                                                                          \
		return b < a ? b : a;                                                              \
	}                                                                                          \
	STRETTO_INLINE type name##_max(type a, type b)                                             \
	{                                                                                          \
		return b > a ? b : a;                                                              \
	}                                                                                          \
	STRETTO_INLINE type name##_band(type a, type b)                                            \
	{                                                                                          \
		return (type)(a & b);                                                              \
	}                                                                                          \
	STRETTO_INLINE type name##_bor(type a, type b)                                             \
	{                                                                                          \
		return (type)(a | b);                                                              \
	}                                                                                          \
	STRETTO_INLINE type name##_bxor(type a, type b)                                            \
	{                                                                                          \
		return (type)(a ^ b);                                                              \
	}                                                                                          \
	STRETTO_INLINE type name##_land(type a, type b)                                            \
	{                                                                                          \
		return (type)((a != 0) & (b != 0));                                                \
	}                                                                                          \
	STRETTO_INLINE type name##_lor(type a, type b)                                             \
	{                                                                                          \
		return (type)((a | b) != 0);                                                       \
	}                                                                                          \
	STRETTO_INLINE type name##_lxor(type a, type b)                                            \
	{                                                                                          \
		return (type)((a != 0) ^ (b != 0));                                                \
	}                                                                                          \
	STRETTO_INLINE type name##_quotient(type a, int ranks)                                     \
	{                                                                                          \
		return (type)((wide)a / (wide)ranks);                                              \
	}

/* Of -0 and +0, min and max give the first. Each NaN result is the one NaN. */
#define STRETTO_FLOAT_OPS(name, type)                                                              \
	STRETTO_INLINE type name##_one_nan(type a)                                                 \
	{                                                                                          \
		return a != a ? (type)__builtin_nanf("") : a;                                      \
	}                                                                                          \
	STRETTO_INLINE type name##_sum(type a, type b)                                             \
	{                                                                                          \
		return name##_one_nan(a + b);                                                      \
	}                                                                                          \
	STRETTO_INLINE type name##_prod(type a, type b)                                            \
	{                                                                                          \
		return name##_one_nan(a * b);                                                      \
	}                                                                                          \
	STRETTO_INLINE type name##_min(type a, type b)                                             \
	{                                                                                          \
		type least = b < a ? b : a;                                                        \
                                                                                                   \
		return ((a != a) | (b != b)) ? (type)__builtin_nanf("") : least;                   \
	}                                                                                          \
	STRETTO_INLINE type name##_max(type a, type b)                                             \
	{                                                                                          \
		type greatest = b > a ? b : a;                                                     \
                                                                                                   \
		return ((a != a) | (b != b)) ? (type)__builtin_nanf("") : greatest;                \
	}                                                                                          \
	STRETTO_INLINE type name##_quotient(type a, int ranks)                                     \
	{                                                                                          \
		return name##_one_nan(a / (type)ranks);                                            \
	}

STRETTO_WHOLE_OPS(stretto_i8, int8_t, unsigned, int)
STRETTO_WHOLE_OPS(stretto_u8, uint8_t, unsigned, int)
STRETTO_WHOLE_OPS(stretto_i16, int16_t, unsigned, int)
STRETTO_WHOLE_OPS(stretto_u16, uint16_t, unsigned, int)
STRETTO_WHOLE_OPS(stretto_i32, int32_t, uint32_t, int)
STRETTO_WHOLE_OPS(stretto_u32, uint32_t, uint32_t, uint32_t)
STRETTO_WHOLE_OPS(stretto_i64, int64_t, uint64_t, int64_t)
STRETTO_WHOLE_OPS(stretto_u64, uint64_t, uint64_t, uint64_t)
STRETTO_FLOAT_OPS(stretto_f32, float)
STRETTO_FLOAT_OPS(stretto_f64, double)

STRETTO_INLINE float stretto_bits_to_f32(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

STRETTO_INLINE uint32_t stretto_f32_to_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* condition ? yes : no, of which the compiler makes no branch around the float operation in `yes`.
 */
STRETTO_INLINE int32_t stretto_pick(int32_t condition, int32_t yes, int32_t no)
{
	return (yes & -condition) | (no & (condition - 1));
}

/*
 * 16-bit floats to f32. Exact; a NaN keeps its sign and payload, signalling or not. Comparisons are
 * of signed integers because SSE2 has no others.
 */
STRETTO_INLINE float stretto_widen_bf16(uint16_t half)
{
	return stretto_bits_to_f32((uint32_t)half << 16);
}

STRETTO_INLINE float stretto_widen_f16(uint16_t half)
{
	const int32_t rebias = (127 - 15) << 23;
	const int32_t least_normal = (127 - 14) << 23;
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	int32_t magnitude = (half & 0x7fff) << 13;
	/* a subnormal is the mantissa of 2^-14 with that 2^-14 taken off again */
	float subnormal = stretto_bits_to_f32((uint32_t)(magnitude + least_normal)) -
			  stretto_bits_to_f32((uint32_t)least_normal);
	int32_t bits = magnitude + rebias;

	bits = stretto_pick(magnitude < (1 << 23), (int32_t)stretto_f32_to_bits(subnormal), bits);
	bits = stretto_pick(magnitude >= (0x7c00 << 13), magnitude + 2 * rebias, bits);
	return stretto_bits_to_f32(sign | (uint32_t)bits);
}

/* f32 to 16 bits, to nearest even; every NaN becomes the one NaN. */
STRETTO_INLINE uint16_t stretto_narrow_bf16(float value)
{
	uint32_t bits = stretto_f32_to_bits(value);
	int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
	int32_t rounded = (int32_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);

	return (uint16_t)stretto_pick(magnitude > 0x7f800000, 0x7fc0, rounded);
}

STRETTO_INLINE uint16_t stretto_narrow_f16(float value)
{
	uint32_t all = stretto_f32_to_bits(value);
	int32_t sign = (int32_t)((all >> 16) & 0x8000u);
	int32_t magnitude = (int32_t)(all & 0x7fffffffu);
	int32_t normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
	/* the last place of 0.5f is that of a subnormal half: the addition does the rounding */
	float shifted = stretto_bits_to_f32((uint32_t)magnitude) + 0.5f;
	int32_t subnormal = (int32_t)stretto_f32_to_bits(shifted) - 0x3f000000;
	int32_t bits = stretto_pick(magnitude < (113 << 23), subnormal, normal);

	/* from 65520 on, the tie that rounds to 65536 */
	bits = stretto_pick(magnitude >= 0x477ff000, 0x7c00, bits);
	return (uint16_t)stretto_pick(magnitude > 0x7f800000, 0x7e00, sign | bits);
}

/*
 * The operations on widened halves, which leave it to the narrowing to make all NaNs one. A select
 * of a NaN here would be threaded through the narrowing by compilers, and cost the vector code.
 */
STRETTO_INLINE float stretto_half_sum(float a, float b)
{
	return a + b;
}

STRETTO_INLINE float stretto_half_prod(float a, float b)
{
	return a * b;
}

/* All bits set, which is a NaN, if a or b is one; else those of r. */
STRETTO_INLINE float stretto_half_unless_nan(float a, float b, float r)
{
	return stretto_bits_to_f32(stretto_f32_to_bits(r) | (0u - (uint32_t)((a != a) | (b != b))));
}

STRETTO_INLINE float stretto_half_min(float a, float b)
{
	return stretto_half_unless_nan(a, b, b < a ? b : a);
}

STRETTO_INLINE float stretto_half_max(float a, float b)
{
	return stretto_half_unless_nan(a, b, b > a ? b : a);
}

STRETTO_INLINE float stretto_half_quotient(float a, int ranks)
{
	return a / (float)ranks;
}

#endif
