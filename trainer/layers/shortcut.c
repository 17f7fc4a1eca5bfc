/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/shortcut.h"

#include "trainer/loop.h"

/* Positions of Y in `rows` images. */
static size_t positions(const struct stretto_shortcut *shortcut, size_t rows)
{
	size_t high = (shortcut->height + shortcut->stride - 1) / shortcut->stride;
	size_t wide = (shortcut->width + shortcut->stride - 1) / shortcut->stride;

	return rows * high * wide;
}

/* Floats of X before the position that position `at` of Y takes. */
static size_t place(const struct stretto_shortcut *shortcut, size_t at)
{
	size_t high = (shortcut->height + shortcut->stride - 1) / shortcut->stride;
	size_t wide = (shortcut->width + shortcut->stride - 1) / shortcut->stride;
	size_t row = at / wide % high * shortcut->stride;
	size_t column = at % wide * shortcut->stride;
	size_t image = at / (wide * high);

	return ((image * shortcut->height + row) * shortcut->width + column) * shortcut->channels;
}

static void add(size_t count, const float *from, float *to)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

void stretto_shortcut_forward(const struct stretto_shortcut *shortcut, size_t rows, const float *x,
			      float *y)
{
	for (size_t at = 0; at < positions(shortcut, rows); at++, y += shortcut->out)
		add(shortcut->channels, x + place(shortcut, at), y);
}

void stretto_shortcut_backward(const struct stretto_shortcut *shortcut, size_t rows,
			       const float *dy, float *dx)
{
	for (size_t at = 0; at < positions(shortcut, rows); at++, dy += shortcut->out)
		add(shortcut->channels, dy, dx + place(shortcut, at));
}
