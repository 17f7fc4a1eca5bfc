/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conv.h: a two-dimensional convolution (cross-correlation, as in all of the field) with bias.
 *
 *	X [rows, height, width, channels]     W [kernel, kernel, channels, out]     b [out]
 *	Y [rows, high, wide, out]             high = (height + 2 pad - kernel) / stride + 1
 *
 * Channels come last: so a kernel's row is contiguous in X, all positions of Y are rows of one
 * matrix, and the gradient of W is written where it belongs. With stride 1 and channels that fill
 * vectors (multiples of 8, or 16 with AVX-512) Y and the gradients are made straight from the images
 * (direct.h). Else by GEMM: the patches of X (im2col) are gathered for a few images at a time, so
 * that they are still in the cache when GEMM reads them; the backward pass gathers them again
 * instead of keeping them. The two differ by rounding; which is taken depends on the struct and the
 * processor alone.
 * Source: Chellapilla et al. 2006, "High Performance Convolutional Neural Networks".
 *
 * Threads: one at a time for each struct, because of its scratch.
 */
#ifndef STRETTO_TRAINER_LAYERS_CONV_H
#define STRETTO_TRAINER_LAYERS_CONV_H

#include <stddef.h>

struct stretto_conv {
	size_t height;   /* of X, >= 1 */
	size_t width;    /* of X, >= 1 */
	size_t channels; /* of X, >= 1 */
	size_t out;      /* channels of Y, >= 1 */
	size_t kernel;   /* rows and columns of W, >= 1, <= height + 2 pad and width + 2 pad */
	size_t stride;   /* >= 1 */
	size_t pad;      /* zeros around X on each side, < kernel */
	float *columns;  /* [stretto_conv_scratch()], the caller's; not read by that function */
};

/* Positions of Y along an extent of X (height or width). */
size_t stretto_conv_extent(const struct stretto_conv *conv, size_t extent);

/* Floats of the scratch `columns`. */
size_t stretto_conv_scratch(const struct stretto_conv *conv);

/* y = x convolved with w, plus b at each position. */
void stretto_conv_forward(const struct stretto_conv *conv, size_t rows, const float *x,
			  const float *w, const float *b, float *y);

/* dw and db: overwritten, not added to. */
void stretto_conv_backward_weights(const struct stretto_conv *conv, size_t rows, const float *x,
				   const float *dy, float *dw, float *db);

/* dx: overwritten. */
void stretto_conv_backward_input(const struct stretto_conv *conv, size_t rows, const float *dy,
				 const float *w, float *dx);

#endif
