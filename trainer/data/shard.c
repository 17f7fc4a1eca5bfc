/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/shard.h"

#include <stdlib.h>

#include "trainer/rng.h"

stretto_status stretto_shard_init(struct stretto_shard *shard)
{
	shard->order = malloc(shard->samples * sizeof(*shard->order));
	return shard->order ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_shard_fini(struct stretto_shard *shard)
{
	free(shard->order);
	shard->order = NULL;
}

size_t stretto_shard_steps(const struct stretto_shard *shard)
{
	return shard->samples / (shard->batch * shard->ranks);
}

void stretto_shard_shuffle(struct stretto_shard *shard, size_t epoch)
{
	struct stretto_rng rng;

	/* Stream 0 is that of the initial weights. */
	stretto_rng_init(&rng, shard->seed, 1 + (uint64_t)epoch);
	for (size_t i = 0; i < shard->samples; i++)
		shard->order[i] = (uint32_t)i;
	for (size_t i = shard->samples - 1; i > 0; i--) {
		size_t j = stretto_rng_below(&rng, (uint32_t)i + 1);
		uint32_t other = shard->order[j];

		shard->order[j] = shard->order[i];
		shard->order[i] = other;
	}
}

const uint32_t *stretto_shard_step(const struct stretto_shard *shard, size_t step)
{
	return shard->order + (step * shard->ranks + shard->rank) * shard->batch;
}
