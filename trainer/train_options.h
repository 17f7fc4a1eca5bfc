/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * train_options.h: whether the options of a training fit together, and which of them a checkpoint keeps.
 *
 * Threads: pure, but for the log.
 */
#ifndef STRETTO_TRAINER_TRAIN_OPTIONS_H
#define STRETTO_TRAINER_TRAIN_OPTIONS_H

#include "trainer/train.h"

/*
 * Whether model, data, batch and augmentation fit together; steps are those of the whole training. The
 * options are the same on all ranks, so rank 0 says what is wrong, in one line. STRETTO_INVALID.
 */
stretto_status stretto_train_check(const struct stretto_train_options *options,
				   const struct stretto_comm *comm, size_t steps);

/* Longest text of the options that a checkpoint must share, its end included. */
enum { STRETTO_TRAIN_TEXT = 320 };

/*
 * What must be the same for a training to go on; what may change (epochs, schedule, batches ahead) is not
 * in it. parameters are floats of the model's arena.
 */
void stretto_train_describe(const struct stretto_train_options *options, size_t parameters,
			    char text[STRETTO_TRAIN_TEXT]);

#endif
