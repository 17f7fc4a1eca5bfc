/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shard.h: which samples a rank trains on in an epoch.
 *
 * All ranks draw the same permutation of all samples, from seed and epoch alone, and cut it into
 * steps of ranks * batch samples; in each step rank r takes the r-th batch. So every rank has the
 * same number of steps, no sample is used twice in an epoch, and what is left over (less than a
 * step) is another part of the data in every epoch.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_DATA_SHARD_H
#define STRETTO_TRAINER_DATA_SHARD_H

#include "runtime/stretto.h"

struct stretto_shard {
	uint32_t *order; /* permutation of the samples, owned */
	size_t samples;  /* of the whole data set, <= 2^32 - 1 */
	size_t batch;    /* of a rank, in a step */
	size_t rank;
	size_t ranks;
	uint64_t seed;
};

/* The fields but order are set by the caller; makes order. STRETTO_NO_MEMORY. */
stretto_status stretto_shard_init(struct stretto_shard *shard);
void stretto_shard_fini(struct stretto_shard *shard);

/* Steps of an epoch, the same on all ranks; 0 if there are fewer samples than one step needs. */
size_t stretto_shard_steps(const struct stretto_shard *shard);

/* Shuffles for an epoch (from 0). */
void stretto_shard_shuffle(struct stretto_shard *shard, size_t epoch);

/* The `batch` samples of this rank in a step (from 0) of the epoch; valid until the next shuffle.
 */
const uint32_t *stretto_shard_step(const struct stretto_shard *shard, size_t step);

#endif
