/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropout.h: sets a share of the values to zero while training, and scales the others up so that
 * their expectation stays (Srivastava et al. 2014, "Dropout"). When tested, the layer is left out.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_DROPOUT_H
#define STRETTO_TRAINER_LAYERS_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/rng.h"

/* y[count] = x or 0, x = y allowed; kept[count] is 1 or 0. share: of zeros, 0 <= share < 1. */
void stretto_dropout_forward(struct stretto_rng *rng, float share, size_t count, const float *x,
			     float *y, uint8_t *kept);

/* dy[count], in place, with what the forward kept. */
void stretto_dropout_backward(float share, size_t count, const uint8_t *kept, float *dy);

#endif
