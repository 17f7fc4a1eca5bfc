/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/embedding.h"

#include <string.h>

#include "trainer/loop.h"

static void add(size_t count, const float *from, float *to)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

void stretto_embedding_forward(const struct stretto_embedding *embedding, size_t rows,
			       const float *x, const float *w, const float *p, float *y)
{
	const size_t width = embedding->width, length = embedding->length;

	for (size_t i = 0; i < rows * length; i++, y += width) {
		memcpy(y, w + (size_t)x[i] * width, width * sizeof(*y));
		add(width, p + i % length * width, y);
	}
}

void stretto_embedding_backward(const struct stretto_embedding *embedding, size_t rows,
				const float *x, const float *dy, float *dw, float *dp)
{
	const size_t width = embedding->width, length = embedding->length;

	memset(dw, 0, embedding->vocabulary * width * sizeof(*dw));
	memset(dp, 0, length * width * sizeof(*dp));
	for (size_t i = 0; i < rows * length; i++, dy += width) {
		add(width, dy, dw + (size_t)x[i] * width);
		add(width, dy, dp + i % length * width);
	}
}
