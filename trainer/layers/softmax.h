/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * softmax.h: softmax and cross-entropy in one, the loss of a classifier.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_LAYERS_SOFTMAX_H
#define STRETTO_TRAINER_LAYERS_SOFTMAX_H

#include <stddef.h>
#include <stdint.h>

/*
 * For scores[rows, classes] and labels[rows] (each < classes) returns the mean over the rows of
 * -log softmax(scores)[label], and replaces the scores by its gradient with respect to them,
 * (softmax - onehot(label)) / rows. The greatest score of a row is subtracted first, so that exp
 * never overflows. NaN if a score is one.
 */
double stretto_softmax_loss(size_t rows, size_t classes, const uint8_t *labels, float *scores);

/* How many rows have their greatest score (the first of equals) at their label. */
size_t stretto_softmax_hits(size_t rows, size_t classes, const uint8_t *labels,
			    const float *scores);

#endif
