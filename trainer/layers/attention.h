/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attention.h: causal self-attention with several heads, between its two linear maps.
 *
 *	QKV [rows, length, 3 width]     queries, keys and values, a third each, head by head
 *	P   [rows, heads, length, length]     softmax(Q K^T / sqrt(width / heads)) of the past
 *	Y   [rows, length, width] = P V
 *
 * A position sees itself and those before it. The maps X -> QKV and Y -> output are dense layers.
 * Source: Vaswani et al. 2017, "Attention Is All You Need".
 *
 * Threads: pure, but for what OpenBLAS does inside.
 */
#ifndef STRETTO_TRAINER_LAYERS_ATTENTION_H
#define STRETTO_TRAINER_LAYERS_ATTENTION_H

#include <stddef.h>

struct stretto_attention {
	size_t length; /* positions of a row */
	size_t width;  /* of Y, a multiple of heads */
	size_t heads;
};

/* y and p of qkv. */
void stretto_attention_forward(const struct stretto_attention *attention, size_t rows,
			       const float *qkv, float *p, float *y);

/* dqkv: overwritten; p as the forward left it; score[length * length]: scratch. */
struct stretto_attention_backward {
	const float *qkv;
	const float *dy;
	const float *p;
	float *score;
	float *dqkv;
};
void stretto_attention_backward(const struct stretto_attention *attention, size_t rows,
				const struct stretto_attention_backward *args);

#endif
