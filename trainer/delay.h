/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delay.h: measures what --delay auto chooses by: short trainings of the same model on the same data,
 * one without communication and one that waits for its averages, side by side, in turns.
 *
 * Threads: one at a time for each communicator.
 */
#ifndef STRETTO_TRAINER_DELAY_H
#define STRETTO_TRAINER_DELAY_H

#include "trainer/train.h"

/* Longest tau that is chosen where the user has not given one. */
enum { STRETTO_DELAY_TAU = 64 };

/* Longest line of stretto_delay_describe(), with its end. */
enum { STRETTO_DELAY_LINE = 256 };

/*
 * The times of the training that `options` describes: the shortest step and the longest average of
 * all ranks, the same on all. Collective. Errors as of stretto_train_run().
 */
stretto_status stretto_delay_measure(struct stretto_comm *comm,
				     const struct stretto_train_options *options,
				     struct stretto_average_times *times);

/* Writes what was measured, what was chosen, and whether it hides an average, in one line. */
void stretto_delay_describe(const struct stretto_average_options *options,
			    const struct stretto_average_times *times, enum stretto_fit fit,
			    char line[STRETTO_DELAY_LINE]);

#endif
