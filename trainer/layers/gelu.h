/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gelu.h: y = x * P(a standard normal number is less than x), by the usual approximation with tanh
 * (Hendrycks & Gimpel 2016, "Gaussian Error Linear Units"). Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_GELU_H
#define STRETTO_TRAINER_LAYERS_GELU_H

#include <stddef.h>

/* y[count] of x[count]. */
void stretto_gelu_forward(size_t count, const float *x, float *y);

/* dy[count] becomes dx, in place; x as for the forward. */
void stretto_gelu_backward(size_t count, const float *x, float *dy);

#endif
