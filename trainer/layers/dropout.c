/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/dropout.h"

void stretto_dropout_forward(struct stretto_rng *rng, float share, size_t count, const float *x,
			     float *y, uint8_t *kept)
{
	const uint32_t bound = (uint32_t)(share * 65536.0f);
	const float scale = 1.0f / (1.0f - share);
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++) {
		/* 16 bits decide: four values a number */
		bits = i % 4 == 0 ? stretto_rng_next(rng) : bits >> 16;
		kept[i] = (bits & 0xffff) >= bound;
		y[i] = kept[i] ? x[i] * scale : 0.0f;
	}
}

void stretto_dropout_backward(float share, size_t count, const uint8_t *kept, float *dy)
{
	const float scale = 1.0f / (1.0f - share);

	for (size_t i = 0; i < count; i++)
		dy[i] = kept[i] ? dy[i] * scale : 0.0f;
}
