/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/attention.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

/* The extents of one head as GEMM wants them. */
struct head {
	blasint length;
	blasint width; /* of one head */
	blasint qkv;   /* floats from a position to the next in QKV */
	blasint y;     /* the same in Y */
	float scale;   /* 1 / sqrt(width) */
};

static struct head head_of(const struct stretto_attention *attention)
{
	size_t width = attention->width / attention->heads;

	return (struct head){
		.length = (blasint)attention->length,
		.width = (blasint)width,
		.qkv = (blasint)(3 * attention->width),
		.y = (blasint)attention->width,
		.scale = 1.0f / sqrtf((float)width),
	};
}

/* Where the queries and the result of head `at` (counted over all rows) begin. */
static size_t qkv_place(const struct stretto_attention *attention, size_t at)
{
	size_t row = at / attention->heads, head = at % attention->heads;

	return row * attention->length * 3 * attention->width +
	       head * (attention->width / attention->heads);
}

static size_t y_place(const struct stretto_attention *attention, size_t at)
{
	size_t row = at / attention->heads, head = at % attention->heads;

	return row * attention->length * attention->width +
	       head * (attention->width / attention->heads);
}

/* Row i of p[length, length]: softmax of its first i + 1 scores; those of the future are zero. */
static void softmax_past(size_t length, size_t i, float *p)
{
	float top = p[0], sum = 0;

	for (size_t j = 1; j <= i; j++)
		top = p[j] > top ? p[j] : top;
	for (size_t j = 0; j <= i; j++) {
		p[j] = expf(p[j] - top);
		sum += p[j];
	}
	for (size_t j = 0; j <= i; j++)
		p[j] /= sum;
	memset(p + i + 1, 0, (length - i - 1) * sizeof(*p));
}

void stretto_attention_forward(const struct stretto_attention *attention, size_t rows,
			       const float *qkv, float *p, float *y)
{
	const struct head head = head_of(attention);
	const blasint t = head.length, d = head.width;

	for (size_t at = 0; at < rows * attention->heads; at++) {
		const float *q = qkv + qkv_place(attention, at);
		const float *k = q + attention->width, *v = k + attention->width;

		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, d, head.scale, q,
			    head.qkv, k, head.qkv, 0.0f, p, t);
		for (size_t i = 0; i < attention->length; i++)
			softmax_past(attention->length, i, p + i * attention->length);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, d, t, 1.0f, p, t, v,
			    head.qkv, 0.0f, y + y_place(attention, at), head.y);
		p += attention->length * attention->length;
	}
}

/* ds[length, length], the gradient of the scores, from dp and p: ds = p (dp - sum of dp p). */
static void softmax_backward(size_t length, const float *p, float *dp)
{
	for (size_t i = 0; i < length; i++, p += length, dp += length) {
		float sum = 0;

		for (size_t j = 0; j < length; j++)
			sum += dp[j] * p[j];
		for (size_t j = 0; j < length; j++)
			dp[j] = p[j] * (dp[j] - sum);
	}
}

void stretto_attention_backward(const struct stretto_attention *attention, size_t rows,
				const struct stretto_attention_backward *args)
{
	const struct head head = head_of(attention);
	const blasint t = head.length, d = head.width, ld = head.qkv;
	const size_t width = attention->width;

	for (size_t at = 0; at < rows * attention->heads; at++) {
		const float *p = args->p + at * attention->length * attention->length;
		const float *q = args->qkv + qkv_place(attention, at);
		const float *k = q + width, *v = k + width;
		const float *dy = args->dy + y_place(attention, at);
		float *dq = args->dqkv + qkv_place(attention, at), *ds = args->score;

		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, d, t, 1.0f, p, t, dy,
			    head.y, 0.0f, dq + 2 * width, ld);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, d, 1.0f, dy, head.y, v,
			    ld, 0.0f, ds, t);
		softmax_backward(attention->length, p, ds);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, d, t, head.scale, ds, t,
			    k, ld, 0.0f, dq, ld);
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, d, t, head.scale, ds, t, q,
			    ld, 0.0f, dq + width, ld);
	}
}
