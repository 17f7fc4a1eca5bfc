/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/batches.h"

#include <stdlib.h>

stretto_status stretto_batches_init(struct stretto_batches *batches)
{
	bool augments = stretto_augment_any(&batches->augment);
	stretto_status status = stretto_shard_init(&batches->shard);

	batches->epoch = SIZE_MAX;
	batches->image = augments ? malloc(batches->dataset->features) : NULL;
	return augments && !batches->image ? STRETTO_NO_MEMORY : status;
}

void stretto_batches_fini(struct stretto_batches *batches)
{
	stretto_shard_fini(&batches->shard);
	free(batches->image);
	batches->image = NULL;
}

/* As stretto_dataset_batch() of training images, each augmented as it is in this epoch. */
static void fill_augmented(const struct stretto_batches *batches, const uint32_t *index, float *x,
			   uint8_t *labels)
{
	const struct stretto_dataset *dataset = batches->dataset;

	for (size_t r = 0; r < batches->shard.batch; r++) {
		struct stretto_augment_draw draw = stretto_augment_draw(
			&batches->augment, batches->shard.seed, batches->epoch, index[r]);

		stretto_augment_image(&dataset->shape, &draw,
				      dataset->train.pixels + index[r] * dataset->features,
				      batches->image);
		stretto_dataset_convert(dataset, batches->image, x + r * dataset->features);
		labels[r] = dataset->train.labels[index[r]];
	}
}

stretto_status stretto_batches_fill(void *context, size_t step, float *x, uint8_t *labels)
{
	struct stretto_batches *batches = context;
	size_t per_epoch = stretto_shard_steps(&batches->shard), epoch = step / per_epoch;
	const uint32_t *index;

	if (epoch != batches->epoch)
		stretto_shard_shuffle(&batches->shard, epoch);
	batches->epoch = epoch;
	index = stretto_shard_step(&batches->shard, step % per_epoch);
	if (batches->image)
		fill_augmented(batches, index, x, labels);
	else
		stretto_dataset_batch(batches->dataset, &batches->dataset->train,
				      batches->shard.batch, index, x, labels);
	return STRETTO_OK;
}
