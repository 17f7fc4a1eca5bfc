/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conversions to bf16 are integer code, as in AVX2: the instructions of AVX512_BF16 take
 * subnormals for zero.
 */
#include "collectives/kernels_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "collectives/kernels_ops.h"

#define LOOPS_TARGET  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define LOOPS_TABLE   static const struct stretto_kernel_table kernels_avx512
#define LOOPS_UNFUSED __attribute__((target("avx2")))
#define LOOPS_NAME    "avx512"
#define LOOPS_OWN_HALVES

/* Sixteen halves to f32 and back; back, every NaN becomes the one NaN. */
LOOPS_TARGET static inline __m512 load_f16(const void *half)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(half));
}

LOOPS_TARGET static inline __m256i narrow_f16(__m512 value)
{
	__mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);

	value = _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(__builtin_nanf("")));
	return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
}

LOOPS_TARGET static inline __m512 load_bf16(const void *half)
{
	__m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(half));

	return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* bf16 in the low halves of the lanes. */
LOOPS_TARGET static inline __m512i bf16_bits(__m512 value)
{
	__mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
	__m512i bits = _mm512_castps_si512(value);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

	bits = _mm512_add_epi32(bits, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd));
	return _mm512_mask_mov_epi32(_mm512_srli_epi32(bits, 16), is_nan,
				     _mm512_set1_epi32(0x7fc0));
}

LOOPS_TARGET static inline __m256i narrow_bf16(__m512 value)
{
	return _mm512_cvtepi32_epi16(bf16_bits(value));
}

/* To the precision of the halves and back. */
LOOPS_TARGET static inline __m512 round_f16(__m512 value)
{
	return _mm512_cvtph_ps(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

LOOPS_TARGET static inline __m512 round_bf16(__m512 value)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(bf16_bits(value), 16));
}

/* The instructions give their second operand on a tie. */
LOOPS_TARGET static inline __m512 wide_min(__m512 a, __m512 b)
{
	return _mm512_mask_mov_ps(_mm512_min_ps(b, a), _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q),
				  _mm512_castsi512_ps(_mm512_set1_epi32(-1)));
}

LOOPS_TARGET static inline __m512 wide_max(__m512 a, __m512 b)
{
	return _mm512_mask_mov_ps(_mm512_max_ps(b, a), _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q),
				  _mm512_castsi512_ps(_mm512_set1_epi32(-1)));
}

#define HALF_LANES 16
#define HALF_WIDE  __m512
LOOPS_TARGET static inline void store_halves(void *to, __m256i halves)
{
	_mm256_storeu_si256(to, halves);
}

LOOPS_TARGET static inline void stream_halves(void *to, __m256i halves)
{
	_mm256_stream_si256(to, halves);
}

#include "collectives/kernels_halves.h"

#define SUMS_BYTES              64
#define SUMS_STREAM(to, vector) _mm512_stream_si512((__m512i *)(to), (__m512i)(vector))
#include "collectives/kernels_sums.h"

#define LOOPS_MANY
#include "collectives/kernels_loops.h"

const struct stretto_kernel_table *stretto_kernels_avx512(void)
{
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
		return NULL;
	return &kernels_avx512;
}

#else

const struct stretto_kernel_table *stretto_kernels_avx512(void)
{
	return NULL;
}

#endif
