/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dense.h: a fully connected layer, Y = X W + b. All matrices are row-major floats.
 *
 *	X  [rows, in]      W  [in, out]     b  [out]     Y  [rows, out]
 *
 * Weights and gradients are places in an arena: the products are written there by GEMM directly.
 *
 * Threads: pure, but for what OpenBLAS does inside.
 */
#ifndef STRETTO_TRAINER_LAYERS_DENSE_H
#define STRETTO_TRAINER_LAYERS_DENSE_H

#include <stddef.h>

struct stretto_dense {
	size_t in;  /* width of X */
	size_t out; /* width of Y */
};

/* y[rows, out] = x[rows, in] w[in, out] + b[out] */
void stretto_dense_forward(const struct stretto_dense *dense, size_t rows, const float *x,
			   const float *w, const float *b, float *y);

/* dw[in, out] = x^T dy (overwritten, not added to);  db[out] = sum of dy over the rows */
void stretto_dense_backward_weights(const struct stretto_dense *dense, size_t rows, const float *x,
				    const float *dy, float *dw, float *db);

/* dx[rows, in] = dy[rows, out] w^T */
void stretto_dense_backward_input(const struct stretto_dense *dense, size_t rows, const float *dy,
				  const float *w, float *dx);

#endif
