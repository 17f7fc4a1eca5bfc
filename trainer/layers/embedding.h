/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * embedding.h: a vector for each token, plus one for its place in the sequence.
 *
 *	X [rows, length] tokens, as floats     W [vocabulary, width]     P [length, width]
 *	Y [rows, length, width] = W[token] + P[place]
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_EMBEDDING_H
#define STRETTO_TRAINER_LAYERS_EMBEDDING_H

#include <stddef.h>

struct stretto_embedding {
	size_t length;     /* tokens of a row */
	size_t vocabulary; /* tokens are whole numbers from 0 to below it */
	size_t width;      /* of Y */
};

void stretto_embedding_forward(const struct stretto_embedding *embedding, size_t rows,
			       const float *x, const float *w, const float *p, float *y);

/* dw and dp: overwritten, not added to. Tokens have no gradient. */
void stretto_embedding_backward(const struct stretto_embedding *embedding, size_t rows,
				const float *x, const float *dy, float *dw, float *dp);

#endif
