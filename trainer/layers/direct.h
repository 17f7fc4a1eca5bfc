/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.h: convolutions of stride 1 straight from the image, a vector of output channels at a time.
 *
 *	X [height, width, channels]     W [kernel, kernel, channels, out]     b [out]
 *	Y [high, wide, out]             high = height - kernel + 1, wide = width - kernel + 1
 *
 * All of one image, without padding: who needs some puts zeros around X. Where `out` is a multiple of
 * a vector, eight positions of Y are summed in registers while the weights pass by: no patches are
 * gathered, and W is read once for eight positions. GEMM over gathered patches has as many operations,
 * but loses a third to three quarters of the time with so few output channels (conv.h has that way).
 *
 * Threads: any; nothing is kept.
 */
#ifndef STRETTO_TRAINER_LAYERS_DIRECT_H
#define STRETTO_TRAINER_LAYERS_DIRECT_H

#include <stddef.h>

struct stretto_direct_shape {
	size_t height, width; /* of X, >= kernel */
	size_t channels;      /* of X, >= 1 */
	size_t out;           /* of Y, a multiple of the lanes */
	size_t kernel;        /* >= 1 */
};

/* What an instruction set has. */
struct stretto_direct {
	size_t lanes; /* floats of a vector */

	/* y = x convolved with w, plus b at each position. */
	void (*forward)(const struct stretto_direct_shape *shape, const float *x, const float *w,
			const float *b, float *y);
	/* Adds the gradients of one image to dw and db. */
	void (*weights)(const struct stretto_direct_shape *shape, const float *x, const float *dy,
			float *dw, float *db);
};

/* Of 4 lanes, on any processor. */
extern const struct stretto_direct stretto_direct_portable;

/* The functions with that many lanes: 4, 8 (AVX2) or 16 (AVX-512). NULL: not on this processor. */
const struct stretto_direct *stretto_direct_of(size_t lanes);

/*
 * The widest for so many output channels. NULL: there are none, or only narrower ones than those of
 * the processor.
 */
const struct stretto_direct *stretto_direct_for(size_t out);

#endif
