/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/norm.h"

#include <math.h>
#include <string.h>

#include "trainer/loop.h"

static const float epsilon = 1e-5f; /* keeps a constant column finite */
static const float momentum = 0.1f; /* share of the newest statistics in the running ones */

void stretto_norm_batch_measure(const struct stretto_norm *norm, size_t rows, const float *x)
{
	const size_t width = norm->width;
	const float share = 1.0f / (float)rows;

	memset(norm->mean, 0, width * sizeof(float));
	memset(norm->inverse, 0, width * sizeof(float));
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < width; c++)
			norm->mean[c] += x[r * width + c];
	for (size_t c = 0; c < width; c++)
		norm->mean[c] *= share;
	/* A second pass: the difference of two squares would lose what a large mean hides. */
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < width; c++) {
			float off = x[r * width + c] - norm->mean[c];

			norm->inverse[c] += off * off;
		}
	for (size_t c = 0; c < width; c++)
		norm->inverse[c] = 1.0f / sqrtf(norm->inverse[c] * share + epsilon);
}

void stretto_norm_batch_move(const struct stretto_norm *norm, size_t rows, float *running)
{
	const float unbiased = rows > 1 ? (float)rows / (float)(rows - 1) : 1.0f;
	float *variance = running + norm->width;

	for (size_t c = 0; c < norm->width; c++) {
		float found = 1.0f / (norm->inverse[c] * norm->inverse[c]) - epsilon;

		running[c] += momentum * (norm->mean[c] - running[c]);
		variance[c] += momentum * (found * unbiased - variance[c]);
	}
}

void stretto_norm_batch_use(const struct stretto_norm *norm, const float *running)
{
	memcpy(norm->mean, running, norm->width * sizeof(float));
	for (size_t c = 0; c < norm->width; c++)
		norm->inverse[c] = 1.0f / sqrtf(running[norm->width + c] + epsilon);
}

void stretto_norm_batch_forward(const struct stretto_norm *norm, size_t rows, const float *x,
				const float *scale, const float *shift, float *y)
{
	const size_t width = norm->width;

	for (size_t r = 0; r < rows; r++, x += width, y += width)
		LOOP_INDEPENDENT
	for (size_t c = 0; c < width; c++)
		y[c] = (x[c] - norm->mean[c]) * norm->inverse[c] * scale[c] + shift[c];
}

void stretto_norm_batch_backward_weights(const struct stretto_norm *norm, size_t rows,
					 const float *x, const float *dy, float *dscale,
					 float *dshift)
{
	const size_t width = norm->width;

	memset(dscale, 0, width * sizeof(float));
	memset(dshift, 0, width * sizeof(float));
	for (size_t r = 0; r < rows; r++, x += width, dy += width)
		LOOP_INDEPENDENT
	for (size_t c = 0; c < width; c++) {
		dscale[c] += dy[c] * (x[c] - norm->mean[c]) * norm->inverse[c];
		dshift[c] += dy[c];
	}
}

void stretto_norm_batch_backward_input(const struct stretto_norm *norm, size_t rows, const float *x,
				       const float *dy, const float *scale,
				       const struct stretto_norm_gradients *gradients, float *dx)
{
	const size_t width = norm->width;
	const float share = 1.0f / (float)rows;

	for (size_t r = 0; r < rows; r++, x += width, dy += width, dx += width)
		LOOP_INDEPENDENT
	for (size_t c = 0; c < width; c++) {
		float normal = (x[c] - norm->mean[c]) * norm->inverse[c];
		float common = gradients->dshift[c] + normal * gradients->dscale[c];

		dx[c] = scale[c] * norm->inverse[c] * (dy[c] - share * common);
	}
}

/* Mean and inverse of one row. */
static void measure_row(const struct stretto_norm *norm, size_t r, const float *x)
{
	const float share = 1.0f / (float)norm->width;
	float sum = 0, squares = 0;

	for (size_t c = 0; c < norm->width; c++)
		sum += x[c];
	norm->mean[r] = sum * share;
	for (size_t c = 0; c < norm->width; c++)
		squares += (x[c] - norm->mean[r]) * (x[c] - norm->mean[r]);
	norm->inverse[r] = 1.0f / sqrtf(squares * share + epsilon);
}

void stretto_norm_layer_forward(const struct stretto_norm *norm, size_t rows, const float *x,
				const float *scale, const float *shift, float *y)
{
	const size_t width = norm->width;

	for (size_t r = 0; r < rows; r++, x += width, y += width) {
		measure_row(norm, r, x);
		LOOP_INDEPENDENT
		for (size_t c = 0; c < width; c++)
			y[c] = (x[c] - norm->mean[r]) * norm->inverse[r] * scale[c] + shift[c];
	}
}

void stretto_norm_layer_backward_weights(const struct stretto_norm *norm, size_t rows,
					 const float *x, const float *dy, float *dscale,
					 float *dshift)
{
	const size_t width = norm->width;

	memset(dscale, 0, width * sizeof(float));
	memset(dshift, 0, width * sizeof(float));
	for (size_t r = 0; r < rows; r++, x += width, dy += width)
		LOOP_INDEPENDENT
	for (size_t c = 0; c < width; c++) {
		dscale[c] += dy[c] * (x[c] - norm->mean[r]) * norm->inverse[r];
		dshift[c] += dy[c];
	}
}

void stretto_norm_layer_backward_input(const struct stretto_norm *norm, size_t rows, const float *x,
				       const float *dy, const float *scale, float *dx)
{
	const size_t width = norm->width;
	const float share = 1.0f / (float)width;

	for (size_t r = 0; r < rows; r++, x += width, dy += width, dx += width) {
		float inverse = norm->inverse[r], sum = 0, along = 0;

		for (size_t c = 0; c < width; c++) {
			float g = dy[c] * scale[c];

			sum += g;
			along += g * (x[c] - norm->mean[r]) * inverse;
		}
		LOOP_INDEPENDENT
		for (size_t c = 0; c < width; c++) {
			float normal = (x[c] - norm->mean[r]) * inverse;

			dx[c] = inverse * (dy[c] * scale[c] - share * (sum + normal * along));
		}
	}
}
