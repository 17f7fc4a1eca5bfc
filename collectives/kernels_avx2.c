/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/kernels_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "collectives/kernels_ops.h"

#define LOOPS_TARGET __attribute__((target("avx2,f16c")))
#define LOOPS_TABLE  static const struct stretto_kernel_table kernels_avx2
#define LOOPS_NAME   "avx2"
#define LOOPS_OWN_HALVES

/* Eight halves to f32 and back; back, every NaN becomes the one NaN. */
LOOPS_TARGET static inline __m256 load_f16(const void *half)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(half));
}

LOOPS_TARGET static inline __m128i narrow_f16(__m256 value)
{
	const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
	__m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);

	value = _mm256_or_ps(_mm256_andnot_ps(is_nan, value), _mm256_and_ps(is_nan, nan));
	return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
}

LOOPS_TARGET static inline __m256 load_bf16(const void *half)
{
	__m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(half));

	return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* bf16 in the low halves of the lanes. */
LOOPS_TARGET static inline __m256i bf16_bits(__m256 value)
{
	const __m256i nan = _mm256_set1_epi32(0x7fc0), below_half = _mm256_set1_epi32(0x7fff);
	__m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
	__m256i bits = _mm256_castps_si256(value);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

	bits = _mm256_add_epi32(bits, _mm256_add_epi32(below_half, odd));
	return _mm256_blendv_epi8(_mm256_srli_epi32(bits, 16), nan, is_nan);
}

LOOPS_TARGET static inline __m128i narrow_bf16(__m256 value)
{
	__m256i bits = bf16_bits(value);

	return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}

/* To the precision of the halves and back. */
LOOPS_TARGET static inline __m256 round_f16(__m256 value)
{
	return _mm256_cvtph_ps(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

LOOPS_TARGET static inline __m256 round_bf16(__m256 value)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(value), 16));
}

/* The instructions give their second operand on a tie; a mask of all ones is a NaN. */
LOOPS_TARGET static inline __m256 wide_min(__m256 a, __m256 b)
{
	return _mm256_or_ps(_mm256_min_ps(b, a), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

LOOPS_TARGET static inline __m256 wide_max(__m256 a, __m256 b)
{
	return _mm256_or_ps(_mm256_max_ps(b, a), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

#define HALF_LANES 8
#define HALF_WIDE  __m256
LOOPS_TARGET static inline void store_halves(void *to, __m128i halves)
{
	_mm_storeu_si128(to, halves);
}

LOOPS_TARGET static inline void stream_halves(void *to, __m128i halves)
{
	_mm_stream_si128(to, halves);
}

#include "collectives/kernels_halves.h"

#define SUMS_BYTES              32
#define SUMS_STREAM(to, vector) _mm256_stream_si256((__m256i *)(to), (__m256i)(vector))
#include "collectives/kernels_sums.h"

#define LOOPS_MANY
#include "collectives/kernels_loops.h"

const struct stretto_kernel_table *stretto_kernels_avx2(void)
{
	unsigned a, b, c, d;

	/* clang's __builtin_cpu_supports lacks f16c; avx2 there covers the operating system's part
	 */
	if (!__builtin_cpu_supports("avx2") || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
		return NULL;
	return &kernels_avx2;
}

#else

const struct stretto_kernel_table *stretto_kernels_avx2(void)
{
	return NULL;
}

#endif
