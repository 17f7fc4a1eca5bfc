/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/dense.h"

#include <cblas.h>
#include <string.h>

void stretto_dense_forward(const struct stretto_dense *dense, size_t rows, const float *x,
			   const float *w, const float *b, float *y)
{
	const blasint m = (blasint)rows, n = (blasint)dense->out, k = (blasint)dense->in;

	for (size_t r = 0; r < rows; r++)
		memcpy(y + r * dense->out, b, dense->out * sizeof(*b));
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, x, k, w, n, 1.0f, y,
		    n);
}

void stretto_dense_backward_weights(const struct stretto_dense *dense, size_t rows, const float *x,
				    const float *dy, float *dw, float *db)
{
	const blasint m = (blasint)dense->in, n = (blasint)dense->out, k = (blasint)rows;

	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1.0f, x, m, dy, n, 0.0f, dw,
		    n);
	memset(db, 0, dense->out * sizeof(*db));
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < dense->out; j++)
			db[j] += dy[r * dense->out + j];
}

void stretto_dense_backward_input(const struct stretto_dense *dense, size_t rows, const float *dy,
				  const float *w, float *dx)
{
	const blasint m = (blasint)rows, n = (blasint)dense->in, k = (blasint)dense->out;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, dy, k, w, k, 0.0f, dx,
		    n);
}
