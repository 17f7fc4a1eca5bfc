/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/gelu.h"

#include <math.h>

static const float root = 0.7978845608f; /* sqrt(2 / pi) */
static const float cubic = 0.044715f;

void stretto_gelu_forward(size_t count, const float *x, float *y)
{
	for (size_t i = 0; i < count; i++)
		y[i] = 0.5f * x[i] * (1.0f + tanhf(root * (x[i] + cubic * x[i] * x[i] * x[i])));
}

void stretto_gelu_backward(size_t count, const float *x, float *dy)
{
	for (size_t i = 0; i < count; i++) {
		float square = x[i] * x[i];
		float t = tanhf(root * x[i] * (1.0f + cubic * square));
		float slope = root * (1.0f + 3.0f * cubic * square);

		dy[i] *= 0.5f * (1.0f + t) + 0.5f * x[i] * (1.0f - t * t) * slope;
	}
}
