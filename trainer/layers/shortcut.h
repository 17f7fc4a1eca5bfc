/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shortcut.h: the other way around a residual block, Y += X. Where the block has a stride or more
 * channels, X is subsampled and the new channels get nothing: no weights (option A of He et al.
 * 2016, "Deep Residual Learning for Image Recognition").
 *
 *	X [rows, high * stride, wide * stride, channels]     Y [rows, high, wide, out]
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_SHORTCUT_H
#define STRETTO_TRAINER_LAYERS_SHORTCUT_H

#include <stddef.h>

struct stretto_shortcut {
	size_t height;   /* of X */
	size_t width;    /* of X */
	size_t channels; /* of X */
	size_t stride;   /* Y has ceil(height / stride) rows, and so columns */
	size_t out;      /* channels of Y, >= channels */
};

/* y += x, subsampled. */
void stretto_shortcut_forward(const struct stretto_shortcut *shortcut, size_t rows, const float *x,
			      float *y);

/* dx: added to. */
void stretto_shortcut_backward(const struct stretto_shortcut *shortcut, size_t rows,
			       const float *dy, float *dx);

#endif
