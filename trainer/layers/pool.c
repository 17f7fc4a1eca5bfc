/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/pool.h"

#include <string.h>

#include "trainer/loop.h"

/* Windows of `rows` images. */
static size_t windows(const struct stretto_pool *pool, size_t rows)
{
	return rows * (pool->height / pool->side) * (pool->width / pool->side);
}

/* Floats of X before position `k` of window `at`, counted over all images. */
static size_t place(const struct stretto_pool *pool, size_t at, size_t k)
{
	size_t wide = pool->width / pool->side, high = pool->height / pool->side;
	size_t row = at / wide % high * pool->side + k / pool->side;
	size_t column = at % wide * pool->side + k % pool->side;

	return ((at / (wide * high) * pool->height + row) * pool->width + column) * pool->channels;
}

static size_t floats_in(const struct stretto_pool *pool, size_t rows)
{
	return rows * pool->height * pool->width * pool->channels;
}

/* Takes position `k` of a window into its maximum, channel by channel. */
static void take(size_t channels, const float *x, uint8_t k, float *y, uint8_t *from)
{
	LOOP_INDEPENDENT
	for (size_t c = 0; c < channels; c++) {
		/* so that a NaN of X wins, and one of Y stays */
		int greater = !(x[c] <= y[c]) & (y[c] == y[c]);

		y[c] = greater ? x[c] : y[c];
		from[c] = greater ? k : from[c];
	}
}

void stretto_pool_max_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			      float *y, uint8_t *from)
{
	const size_t channels = pool->channels;

	for (size_t at = 0; at < windows(pool, rows); at++, y += channels, from += channels) {
		memcpy(y, x + place(pool, at, 0), channels * sizeof(*y));
		memset(from, 0, channels);
		for (size_t k = 1; k < pool->side * pool->side; k++)
			take(channels, x + place(pool, at, k), (uint8_t)k, y, from);
	}
}

void stretto_pool_max_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
			       const uint8_t *from, float *dx)
{
	const size_t channels = pool->channels;

	memset(dx, 0, floats_in(pool, rows) * sizeof(*dx));
	for (size_t at = 0; at < windows(pool, rows); at++, dy += channels, from += channels)
		for (size_t k = 0; k < pool->side * pool->side; k++) {
			float *to = dx + place(pool, at, k);

			LOOP_INDEPENDENT
			for (size_t c = 0; c < channels; c++)
				to[c] = from[c] == k ? dy[c] : 0.0f;
		}
}

void stretto_pool_mean_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			       float *y)
{
	const size_t channels = pool->channels, count = pool->side * pool->side;
	const float share = 1.0f / (float)count;

	for (size_t at = 0; at < windows(pool, rows); at++, y += channels) {
		memset(y, 0, channels * sizeof(*y));
		for (size_t k = 0; k < count; k++) {
			const float *from = x + place(pool, at, k);

			LOOP_INDEPENDENT
			for (size_t c = 0; c < channels; c++)
				y[c] += share * from[c];
		}
	}
}

void stretto_pool_mean_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
				float *dx)
{
	const size_t channels = pool->channels, count = pool->side * pool->side;
	const float share = 1.0f / (float)count;

	memset(dx, 0, floats_in(pool, rows) * sizeof(*dx));
	for (size_t at = 0; at < windows(pool, rows); at++, dy += channels)
		for (size_t k = 0; k < count; k++) {
			float *to = dx + place(pool, at, k);

			LOOP_INDEPENDENT
			for (size_t c = 0; c < channels; c++)
				to[c] = share * dy[c];
		}
}
