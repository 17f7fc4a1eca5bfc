/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe of the gradient: by hand over ranks with uneven shares, and that it leaves no trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "trainer/probe.h"

enum { BATCH = 2, FEATURES = 64 };

/* Memory of a place, large enough for both tests. */
struct buffers {
	float x[BATCH * FEATURES];
	uint8_t labels[BATCH];
	uint32_t index[BATCH];
};

static stretto_status take(struct stretto_comm *world, const struct stretto_dataset *dataset,
			   struct stretto_model *model, const float *weights,
			   struct stretto_probe_found *found)
{
	struct buffers buffers;
	struct stretto_probe probe;
	const struct stretto_probe_place place = {.comm = world,
						  .dataset = dataset,
						  .weights = weights,
						  .x = buffers.x,
						  .labels = buffers.labels,
						  .index = buffers.index};
	stretto_status status = stretto_probe_init(&probe, model);

	/* Twice, because a probe starts from nothing each time. */
	for (size_t i = 0; i < 2 && status == STRETTO_OK; i++)
		status = stretto_probe_take(&probe, model, &place, found);
	stretto_probe_fini(&probe);
	return status;
}

/*
 * With weights of zero both classes have probability 1/2. The gradients of class 0, summed over the
 * samples (1 2), (3 4), (5 0) of classes 0, 1, 1, are 3.5, 1 and (bias) 0.5; those of class 1 are their
 * negatives. So the norm of the mean is sqrt(2 (3.5^2 + 1^2 + 0.5^2)) / 3 = sqrt(3).
 */
static void probe_by_hand(struct stretto_comm *world, void *argument)
{
	static const uint8_t pixels[] = {1, 2, 3, 4, 5, 0}, labels[] = {0, 1, 1};
	const struct stretto_dataset dataset = {.train = {3, pixels, labels, {NULL, NULL}},
						.features = 2,
						.classes = 2,
						.scale = 1};
	struct stretto_model_options options = {.batch = BATCH};
	struct stretto_model model;
	struct stretto_probe_found found;
	float *weights;

	(void)argument;
	require(stretto_model_parse("mlp:2-2", &options) == NULL);
	require(stretto_model_init(&model, &options) == STRETTO_OK);
	weights = calloc(model.parameters, sizeof(*weights));
	require(weights && take(world, &dataset, &model, weights, &found) == STRETTO_OK);
	require(fabs(found.norm - sqrt(3)) < 1e-6);
	require(fabs(found.loss - log(2)) < 1e-6);
	free(weights);
	stretto_model_fini(&model);
}

static void test_by_hand(void **state)
{
	(void)state;
	/* With four ranks, one has no sample. */
	for (int ranks = 1; ranks <= 4; ranks++)
		run_ranks(ranks, NULL, probe_by_hand, NULL);
}

/* Running statistics stay, and the probe sees what training would: the batch's statistics. */
static void probe_normalised(struct stretto_comm *world, void *argument)
{
	uint8_t pixels[4 * FEATURES];
	const uint8_t labels[] = {0, 1, 1, 0};
	const struct stretto_dataset dataset = {.train = {4, pixels, labels, {NULL, NULL}},
						.features = FEATURES,
						.classes = 2,
						.scale = 0.01f};
	struct stretto_model_options options = {.batch = BATCH};
	struct stretto_model model;
	struct stretto_probe_found found;
	float *weights, before[1024];

	(void)argument;
	for (size_t i = 0; i < sizeof(pixels); i++)
		pixels[i] = (uint8_t)(i * 37);
	require(stretto_model_parse("resnet:8x8x1-8-4-2", &options) == NULL);
	require(stretto_model_init(&model, &options) == STRETTO_OK);
	weights = calloc(model.parameters, sizeof(*weights));
	require(weights && model.running_count > 0 && model.running_count <= 1024);
	stretto_model_start(&model, 1, weights);
	memcpy(before, model.running, model.running_count * sizeof(*before));
	require(take(world, &dataset, &model, weights, &found) == STRETTO_OK);
	require(found.norm > 0 && found.loss > 0);
	require(memcmp(before, model.running, model.running_count * sizeof(*before)) == 0);
	free(weights);
	stretto_model_fini(&model);
}

static void test_normalised(void **state)
{
	(void)state;
	run_ranks(2, NULL, probe_normalised, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_normalised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
