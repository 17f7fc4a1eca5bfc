/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/layers/softmax.h"

#include <math.h>

static size_t greatest(size_t classes, const float *scores)
{
	size_t best = 0;

	for (size_t j = 1; j < classes; j++)
		if (scores[j] > scores[best])
			best = j;
	return best;
}

/* One row: its loss; the scores become their gradient times `rows`, divided by it. */
static double row_loss(size_t rows, size_t classes, uint8_t label, float *scores)
{
	float top = scores[greatest(classes, scores)];
	float own = scores[label] - top;
	float sum = 0.0f, scale;

	for (size_t j = 0; j < classes; j++) {
		scores[j] = expf(scores[j] - top);
		sum += scores[j];
	}
	scale = 1.0f / (sum * (float)rows);
	for (size_t j = 0; j < classes; j++)
		scores[j] *= scale;
	scores[label] -= 1.0f / (float)rows;
	return log((double)sum) - (double)own;
}

double stretto_softmax_loss(size_t rows, size_t classes, const uint8_t *labels, float *scores)
{
	double loss = 0;

	for (size_t r = 0; r < rows; r++)
		loss += row_loss(rows, classes, labels[r], scores + r * classes);
	return loss / (double)rows;
}

size_t stretto_softmax_hits(size_t rows, size_t classes, const uint8_t *labels, const float *scores)
{
	size_t hits = 0;

	for (size_t r = 0; r < rows; r++)
		hits += greatest(classes, scores + r * classes) == labels[r];
	return hits;
}
