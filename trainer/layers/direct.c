/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/direct.h"

#include "trainer/layers/direct_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DIRECT(name)  avx2_##name
#define DIRECT_TARGET __attribute__((target("avx2,fma")))
#define DIRECT_TABLE  static const struct stretto_direct avx2
#define VECTOR        __m256
#define LANES         8
#define LOAD(from)    _mm256_loadu_ps(from)
#define STORE(to, v)  _mm256_storeu_ps(to, v)
#define SPLAT(value)  _mm256_set1_ps(value)
#define MADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "trainer/layers/direct_loops.h"

#define DIRECT(name)  avx512_##name
#define DIRECT_TARGET __attribute__((target("avx512f")))
#define DIRECT_TABLE  static const struct stretto_direct avx512
#define VECTOR        __m512
#define LANES         16
#define LOAD(from)    _mm512_loadu_ps(from)
#define STORE(to, v)  _mm512_storeu_ps(to, v)
#define SPLAT(value)  _mm512_set1_ps(value)
#define MADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "trainer/layers/direct_loops.h"
#endif

const struct stretto_direct *stretto_direct_of(size_t lanes)
{
#if defined(__x86_64__)
	if (lanes == 16 && __builtin_cpu_supports("avx512f"))
		return &avx512;
	if (lanes == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &avx2;
#endif
	return lanes == 4 ? &stretto_direct_portable : NULL;
}

const struct stretto_direct *stretto_direct_for(size_t out)
{
	for (size_t lanes = 16; lanes >= 4; lanes /= 2) {
		const struct stretto_direct *direct = stretto_direct_of(lanes);

		if (out % lanes == 0 && direct)
			return direct;
		if (lanes == 8 && direct)
			break; /* GEMM has vectors of 8 or more, too */
	}
	return NULL;
}
