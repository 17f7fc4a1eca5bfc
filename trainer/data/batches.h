/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batches.h: the batch of a rank in a step of the training: which samples, augmented, as floats.
 *
 * A batch follows from the step and what is in the struct, so that it can be made ahead of its step,
 * by another thread (prefetch.h), and after a training was resumed.
 *
 * Threads: one at a time for each struct.
 */
#ifndef STRETTO_TRAINER_DATA_BATCHES_H
#define STRETTO_TRAINER_DATA_BATCHES_H

#include "trainer/data/dataset.h"
#include "trainer/data/shard.h"

struct stretto_batches {
	const struct stretto_dataset *dataset; /* borrowed */
	struct stretto_augment augment;        /* of images; all zero: as they are */
	struct stretto_shard shard; /* all but order as of the training; order is owned */
	size_t epoch;               /* that it is shuffled for; SIZE_MAX: none yet */
	uint8_t *image;             /* an augmented one, owned; NULL: they are not */
};

/* The first three fields are set by the caller; makes the others. STRETTO_NO_MEMORY. */
stretto_status stretto_batches_init(struct stretto_batches *batches);
/* Also of one that is zeroed. */
void stretto_batches_fini(struct stretto_batches *batches);

/*
 * Makes the batch of a step (from 0, over all epochs): x[batch, features], and labels[batch] or of a text
 * labels[batch, features]. A stretto_prefetch_fill: context is a struct stretto_batches. STRETTO_OK.
 */
stretto_status stretto_batches_fill(void *context, size_t step, float *x, uint8_t *labels);

#endif
