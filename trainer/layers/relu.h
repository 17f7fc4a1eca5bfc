/* SPDX-License-Identifier: BSD-3-Clause */
/* relu.h: y = max(x, 0), in place on `count` floats. Threads: pure. */
#ifndef STRETTO_TRAINER_LAYERS_RELU_H
#define STRETTO_TRAINER_LAYERS_RELU_H

#include <stddef.h>

/* y[count] = max(y, 0); a NaN stays a NaN. */
void stretto_relu_forward(size_t count, float *y);

/* dy[count] = y > 0 ? dy : 0, with y as the forward left it. */
void stretto_relu_backward(size_t count, const float *y, float *dy);

#endif
