/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * norm.h: batch normalisation and layer normalisation of a matrix X [rows, width],
 *
 *	Y = scale * (X - mean) / sqrt(variance + 1e-5) + shift
 *
 * Mean and variance are those of each column (batch: a column is a channel, a row a position of an
 * image) or of each row (layer). Sources: Ioffe & Szegedy 2015, "Batch Normalization"; Ba, Kiros &
 * Hinton 2016, "Layer Normalization".
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_NORM_H
#define STRETTO_TRAINER_LAYERS_NORM_H

#include <stddef.h>

/* A normalisation, and what its forward pass leaves for the backward pass. */
struct stretto_norm {
	size_t width;   /* of X */
	float *mean;    /* of each column (batch) or row (layer), the caller's */
	float *inverse; /* 1 / sqrt(variance + 1e-5), as many, the caller's */
};

/* Batch: mean and inverse of the columns of x[rows, width]; then stretto_norm_batch_forward(). */
void stretto_norm_batch_measure(const struct stretto_norm *norm, size_t rows, const float *x);

/*
 * Moves the running statistics, mean[width] and then variance[width], a tenth of the way to those
 * measured on `rows` rows (the variance without bias).
 */
void stretto_norm_batch_move(const struct stretto_norm *norm, size_t rows, float *running);

/* Batch: mean and inverse of the running statistics, to test with. */
void stretto_norm_batch_use(const struct stretto_norm *norm, const float *running);

/* y[rows, width] of x with scale[width] and shift[width]. */
void stretto_norm_batch_forward(const struct stretto_norm *norm, size_t rows, const float *x,
				const float *scale, const float *shift, float *y);
void stretto_norm_layer_forward(const struct stretto_norm *norm, size_t rows, const float *x,
				const float *scale, const float *shift, float *y);

/* dscale and dshift: overwritten, not added to. x as for the forward, which came just before. */
void stretto_norm_batch_backward_weights(const struct stretto_norm *norm, size_t rows,
					 const float *x, const float *dy, float *dscale,
					 float *dshift);
void stretto_norm_layer_backward_weights(const struct stretto_norm *norm, size_t rows,
					 const float *x, const float *dy, float *dscale,
					 float *dshift);

/* dx, which may be dy, with the weight `scale`; batch: and with what backward_weights() found. */
struct stretto_norm_gradients {
	const float *dscale;
	const float *dshift;
};
void stretto_norm_batch_backward_input(const struct stretto_norm *norm, size_t rows, const float *x,
				       const float *dy, const float *scale,
				       const struct stretto_norm_gradients *gradients, float *dx);
void stretto_norm_layer_backward_input(const struct stretto_norm *norm, size_t rows, const float *x,
				       const float *dy, const float *scale, float *dx);

#endif
