/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/pool.h"

#include <string.h>

#include "trainer/loop.h"

/* Channels at a time: their greatest values and where those were stay in registers. */
enum { LANES = 8 };

/* Windows next to each other, and lines of them in `rows` images. */
static size_t windows_wide(const struct stretto_pool *pool)
{
	return pool->width / pool->side;
}

static size_t lines(const struct stretto_pool *pool, size_t rows)
{
	return rows * (pool->height / pool->side);
}

/* Floats of X before a line of windows, counted over all images. */
static size_t line_start(const struct stretto_pool *pool, size_t line)
{
	size_t high = pool->height / pool->side;
	size_t row = line / high * pool->height + line % high * pool->side;

	return row * pool->width * pool->channels;
}

/* Floats of X from the first position of a window to another one. */
static size_t place(const struct stretto_pool *pool, size_t ky, size_t kx)
{
	return (ky * pool->width + kx) * pool->channels;
}

static size_t floats_in(const struct stretto_pool *pool, size_t rows)
{
	return rows * pool->height * pool->width * pool->channels;
}

/* The greatest of `count` channels of a window, at most LANES. */
static inline void greatest(const struct stretto_pool *pool, const float *x, float *y,
			    uint8_t *from, size_t count)
{
	float best[LANES];
	int32_t at[LANES] = {0}, k = 0;

	for (size_t c = 0; c < count; c++)
		best[c] = x[c];
	for (size_t ky = 0; ky < pool->side; ky++)
		for (size_t kx = 0; kx < pool->side; kx++, k++) {
			const float *next = x + place(pool, ky, kx);

			for (size_t c = 0; c < count; c++) {
				/* so that a NaN of X wins, and one that is there stays */
				int greater = !(next[c] <= best[c]) & (best[c] == best[c]);

				best[c] = greater ? next[c] : best[c];
				at[c] = greater ? k : at[c];
			}
		}
	for (size_t c = 0; c < count; c++) {
		y[c] = best[c];
		from[c] = (uint8_t)at[c];
	}
}

void stretto_pool_max_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			      float *y, uint8_t *from)
{
	const size_t channels = pool->channels, whole = channels / LANES * LANES;

	for (size_t line = 0; line < lines(pool, rows); line++) {
		const float *window = x + line_start(pool, line);

		for (size_t ox = 0; ox < windows_wide(pool); ox++) {
			for (size_t c = 0; c < whole; c += LANES)
				greatest(pool, window + c, y + c, from + c, LANES);
			if (whole < channels)
				greatest(pool, window + whole, y + whole, from + whole,
					 channels - whole);
			window += pool->side * channels;
			y += channels;
			from += channels;
		}
	}
}

/* The gradients of `count` channels of a window, at most LANES. */
static inline void spread(const struct stretto_pool *pool, const float *dy, const uint8_t *from,
			  float *dx, size_t count)
{
	float gradient[LANES];
	int32_t at[LANES], k = 0;

	for (size_t c = 0; c < count; c++) {
		gradient[c] = dy[c];
		at[c] = from[c];
	}
	for (size_t ky = 0; ky < pool->side; ky++)
		for (size_t kx = 0; kx < pool->side; kx++, k++) {
			float *to = dx + place(pool, ky, kx);

			for (size_t c = 0; c < count; c++)
				to[c] = at[c] == k ? gradient[c] : 0.0f;
		}
}

/* Positions beyond the last whole window are in none. */
static void clear_rest(const struct stretto_pool *pool, size_t rows, float *dx)
{
	if (pool->height % pool->side > 0 || pool->width % pool->side > 0)
		memset(dx, 0, floats_in(pool, rows) * sizeof(*dx));
}

void stretto_pool_max_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
			       const uint8_t *from, float *dx)
{
	const size_t channels = pool->channels, whole = channels / LANES * LANES;

	clear_rest(pool, rows, dx);
	for (size_t line = 0; line < lines(pool, rows); line++) {
		float *window = dx + line_start(pool, line);

		for (size_t ox = 0; ox < windows_wide(pool); ox++) {
			for (size_t c = 0; c < whole; c += LANES)
				spread(pool, dy + c, from + c, window + c, LANES);
			if (whole < channels)
				spread(pool, dy + whole, from + whole, window + whole,
				       channels - whole);
			window += pool->side * channels;
			dy += channels;
			from += channels;
		}
	}
}

/* to += share * from */
static void add_share(size_t count, float share, const float *from, float *to)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		to[i] += share * from[i];
}

void stretto_pool_mean_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			       float *y)
{
	const size_t channels = pool->channels, side = pool->side;
	const float share = 1.0f / (float)(side * side);

	for (size_t line = 0; line < lines(pool, rows); line++) {
		const float *window = x + line_start(pool, line);

		for (size_t ox = 0; ox < windows_wide(pool); ox++) {
			memset(y, 0, channels * sizeof(*y));
			for (size_t ky = 0; ky < side; ky++)
				for (size_t kx = 0; kx < side; kx++)
					add_share(channels, share, window + place(pool, ky, kx), y);
			window += side * channels;
			y += channels;
		}
	}
}

/* to = share * from */
static void give_share(size_t count, float share, const float *from, float *to)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		to[i] = share * from[i];
}

void stretto_pool_mean_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
				float *dx)
{
	const size_t channels = pool->channels, side = pool->side;
	const float share = 1.0f / (float)(side * side);

	clear_rest(pool, rows, dx);
	for (size_t line = 0; line < lines(pool, rows); line++) {
		float *window = dx + line_start(pool, line);

		for (size_t ox = 0; ox < windows_wide(pool); ox++) {
			for (size_t ky = 0; ky < side; ky++)
				for (size_t kx = 0; kx < side; kx++)
					give_share(channels, share, dy,
						   window + place(pool, ky, kx));
			window += side * channels;
			dy += channels;
		}
	}
}
