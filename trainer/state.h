/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: a training's state, saved to a folder by all ranks together and found there again.
 *
 * Saved where no average is in flight: the weights and what the strategy keeps, the optimiser's state,
 * running statistics and the number of samples trained on. The sampler's position, the learning rate and all random
 * numbers follow from that number and the options. Each rank writes its own file (checkpoint.h); a
 * checkpoint counts if every rank's file is whole, so that the one before is kept until then, and the
 * two latest stay.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_STATE_H
#define STRETTO_TRAINER_STATE_H

#include "trainer/checkpoint.h"
#include "trainer/optimizer.h"
#include "trainer/stretto_train.h"

/* What is saved and restored; all borrowed. */
struct stretto_state {
	struct stretto_comm *comm;
	struct stretto_average *average;
	struct stretto_optimizer *optimizer;
	float *running;       /* statistics of the model, of this rank */
	size_t running_count; /* floats */
	const char *options;  /* text that must be the same for a training to go on */
	uint64_t samples;     /* trained on by all ranks together */
	uint64_t before;      /* samples of the checkpoint before; UINT64_MAX: none yet */
};

/* What was found. */
struct stretto_state_found {
	uint64_t samples;
	uint64_t steps; /* local steps of this number of ranks that these samples are */
	uint32_t ranks; /* that wrote it */
};

/*
 * Makes a folder for checkpoints if there is none, so that a training for which none can be written does
 * not begin. Collective. STRETTO_INVALID: a rank cannot write there (the first such rank logs why).
 */
stretto_status stretto_state_folder(struct stretto_comm *comm, const char *folder);

/*
 * Writes a checkpoint after stretto_average_drain(). Collective. *saved is false on all ranks if one could
 * not write (which logs why): the checkpoints before are untouched. Blocks until the disks have it.
 */
stretto_status stretto_state_save(struct stretto_state *state, const char *folder, bool *saved);

/*
 * Restores the latest complete checkpoint before the first step; batch is a rank's. What is damaged or
 * incomplete is named in one line and the one before is taken. Collective. STRETTO_INVALID: there is
 * none that fits (logged by one rank). A checkpoint of another number of ranks is dealt out: rank r takes what
 * rank r modulo theirs had; an optimiser state that was sharded begins at zero.
 */
stretto_status stretto_state_restore(struct stretto_state *state, const char *folder, size_t batch,
				     struct stretto_state_found *found);

#endif
