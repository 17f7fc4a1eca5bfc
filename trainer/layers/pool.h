/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h: the greatest or the mean of windows of side x side positions that do not overlap.
 *
 *	X [rows, height, width, channels]     Y [rows, height / side, width / side, channels]
 *
 * Positions beyond the last whole window are left out, and have no gradient.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_POOL_H
#define STRETTO_TRAINER_LAYERS_POOL_H

#include <stddef.h>
#include <stdint.h>

/* The greatest side of a window of the greatest: its positions are numbered by a byte. */
enum { STRETTO_POOL_SIDE = 16 };

struct stretto_pool {
	size_t height;   /* of X */
	size_t width;    /* of X */
	size_t channels; /* of X and Y */
	size_t side;     /* of a window, 1 to height and width */
};

/* y = the greatest of each window, NaN if one is there; from[size of y] is where it was. */
void stretto_pool_max_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			      float *y, uint8_t *from);

/* dx: overwritten; from as the forward left it. side <= STRETTO_POOL_SIDE for both. */
void stretto_pool_max_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
			       const uint8_t *from, float *dx);

/* y = the mean of each window. */
void stretto_pool_mean_forward(const struct stretto_pool *pool, size_t rows, const float *x,
			       float *y);

/* dx: overwritten. */
void stretto_pool_mean_backward(const struct stretto_pool *pool, size_t rows, const float *dy,
				float *dx);

#endif
