/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct_loops.h: the loops of direct.h, and the table of them. Source text that is included once per
 * instruction set, by a file that first defines
 *
 *   DIRECT(name)               the name of a function of that set
 *   DIRECT_TARGET              attribute of the functions
 *   DIRECT_TABLE               declaration of the table that is defined here
 *   VECTOR, LANES              its type and its floats
 *   LOAD, STORE, SPLAT, MADD   (from), (to, v), (float), (a, b, c) = a * b + c
 *
 * or nothing, for the portable table.
 */
#include "trainer/layers/direct.h"

#ifndef DIRECT
typedef float portable_vector __attribute__((vector_size(16), aligned(4), may_alias));
#define DIRECT(name) portable_##name
#define DIRECT_TARGET
#define DIRECT_TABLE  const struct stretto_direct stretto_direct_portable
#define VECTOR        portable_vector
#define LANES         4
#define LOAD(from)    (*(const portable_vector *)(from))
#define STORE(to, v)  (*(portable_vector *)(to) = (v))
#define SPLAT(value)  ((portable_vector){value, value, value, value})
#define MADD(a, b, c) ((a) * (b) + (c))
#endif

/* Sums that stay in registers: enough to hide the latency of MADD on two ports. */
#define SUMS 8

/* `count` positions next to each other, a constant up to SUMS, of LANES output channels. */
DIRECT_TARGET static inline __attribute__((always_inline)) void
DIRECT(positions)(const struct stretto_direct_shape *shape, const float *x, const float *w,
		  const float *b, float *y, const size_t count)
{
	const size_t row = shape->kernel * shape->channels;
	VECTOR sums[SUMS];

	for (size_t p = 0; p < count; p++)
		sums[p] = LOAD(b);
	for (size_t ky = 0; ky < shape->kernel; ky++) {
		const float *from = x + ky * shape->width * shape->channels;

		for (size_t k = 0; k < row; k++, w += shape->out) {
			VECTOR weights = LOAD(w);

			for (size_t p = 0; p < count; p++)
				sums[p] = MADD(weights, SPLAT(from[k + p * shape->channels]),
					       sums[p]);
		}
	}
	for (size_t p = 0; p < count; p++)
		STORE(y + p * shape->out, sums[p]);
}

/* One row of Y, LANES output channels of it. */
DIRECT_TARGET static void DIRECT(row)(const struct stretto_direct_shape *shape, const float *x,
				      const float *w, const float *b, float *y)
{
	size_t left = shape->width - shape->kernel + 1;

	for (; left >= SUMS; left -= SUMS, x += SUMS * shape->channels, y += SUMS * shape->out)
		DIRECT(positions)(shape, x, w, b, y, SUMS);
	for (; left >= SUMS / 2;
	     left -= SUMS / 2, x += SUMS / 2 * shape->channels, y += SUMS / 2 * shape->out)
		DIRECT(positions)(shape, x, w, b, y, SUMS / 2);
	for (; left > 0; left--, x += shape->channels, y += shape->out)
		DIRECT(positions)(shape, x, w, b, y, 1);
}

static void DIRECT(forward)(const struct stretto_direct_shape *shape, const float *x,
			    const float *w, const float *b, float *y)
{
	const size_t high = shape->height - shape->kernel + 1;
	const size_t wide = shape->width - shape->kernel + 1;

	for (size_t j = 0; j < shape->out; j += LANES)
		for (size_t oy = 0; oy < high; oy++)
			DIRECT(row)
	(shape, x + oy * shape->width * shape->channels, w + j, b + j,
	 y + oy * wide * shape->out + j);
}

/* Adds to the gradients of `count` weights next to each other in a row, a constant up to SUMS. */
DIRECT_TARGET static inline __attribute__((always_inline)) void
DIRECT(products)(const struct stretto_direct_shape *shape, const float *x, const float *dy,
		 float *dw, const size_t count)
{
	const size_t high = shape->height - shape->kernel + 1;
	const size_t wide = shape->width - shape->kernel + 1;
	VECTOR sums[SUMS];

	for (size_t i = 0; i < count; i++)
		sums[i] = LOAD(dw + i * shape->out);
	for (size_t oy = 0; oy < high; oy++) {
		const float *from = x + oy * shape->width * shape->channels;

		for (size_t ox = 0; ox < wide; ox++, from += shape->channels, dy += shape->out) {
			VECTOR d = LOAD(dy);

			for (size_t i = 0; i < count; i++)
				sums[i] = MADD(d, SPLAT(from[i]), sums[i]);
		}
	}
	for (size_t i = 0; i < count; i++)
		STORE(dw + i * shape->out, sums[i]);
}

/* The same for any number up to SUMS. */
DIRECT_TARGET static void DIRECT(some)(const struct stretto_direct_shape *shape, const float *x,
				       const float *dy, float *dw, size_t count)
{
	switch (count) {
	case 8:
		DIRECT(products)(shape, x, dy, dw, 8);
		break;
	case 7:
		DIRECT(products)(shape, x, dy, dw, 7);
		break;
	case 6:
		DIRECT(products)(shape, x, dy, dw, 6);
		break;
	case 5:
		DIRECT(products)(shape, x, dy, dw, 5);
		break;
	case 4:
		DIRECT(products)(shape, x, dy, dw, 4);
		break;
	case 3:
		DIRECT(products)(shape, x, dy, dw, 3);
		break;
	case 2:
		DIRECT(products)(shape, x, dy, dw, 2);
		break;
	default:
		DIRECT(products)(shape, x, dy, dw, 1);
	}
}

/* Adds the sum over all positions to LANES of db. */
DIRECT_TARGET static void DIRECT(bias)(const struct stretto_direct_shape *shape, const float *dy,
				       float *db)
{
	const size_t positions =
		(shape->height - shape->kernel + 1) * (shape->width - shape->kernel + 1);
	VECTOR sum = LOAD(db);

	for (size_t p = 0; p < positions; p++)
		sum = MADD(LOAD(dy + p * shape->out), SPLAT(1.0f), sum);
	STORE(db, sum);
}

static void DIRECT(weights)(const struct stretto_direct_shape *shape, const float *x,
			    const float *dy, float *dw, float *db)
{
	const size_t row = shape->kernel * shape->channels;

	for (size_t j = 0; j < shape->out; j += LANES) {
		for (size_t ky = 0; ky < shape->kernel; ky++)
			for (size_t k = 0; k < row; k += SUMS)
				DIRECT(some)
		(shape, x + ky * shape->width * shape->channels + k, dy + j,
		 dw + (ky * row + k) * shape->out + j, row - k < SUMS ? row - k : SUMS);
		DIRECT(bias)(shape, dy + j, db + j);
	}
}

DIRECT_TABLE = {LANES, DIRECT(forward), DIRECT(weights)};

#undef SUMS
#undef DIRECT
#undef DIRECT_TARGET
#undef DIRECT_TABLE
#undef VECTOR
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef MADD
