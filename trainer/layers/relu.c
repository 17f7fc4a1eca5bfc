/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/relu.h"

void stretto_relu_forward(size_t count, float *y)
{
	for (size_t i = 0; i < count; i++)
		y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

void stretto_relu_backward(size_t count, const float *y, float *dy)
{
	for (size_t i = 0; i < count; i++)
		dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}
