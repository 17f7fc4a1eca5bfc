/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/loop.h"

stretto_status stretto_probe_init(struct stretto_probe *probe, const struct stretto_model *model)
{
	/* Zeros: the backward pass never writes the padding between tensors. */
	probe->gradients = calloc(model->parameters, sizeof(float));
	probe->sums = calloc(model->parameters + 1, sizeof(float));
	probe->running = calloc(model->running_count + 1, sizeof(float));
	return probe->gradients && probe->sums && probe->running ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_probe_fini(struct stretto_probe *probe)
{
	free(probe->gradients);
	free(probe->sums);
	free(probe->running);
	*probe = (struct stretto_probe){0};
}

/* sums += factor * gradients */
static void add(size_t count, float factor, const float *gradients, float *sums)
{
	LOOP_INDEPENDENT
	for (size_t i = 0; i < count; i++)
		sums[i] += factor * gradients[i];
}

/* Adds loss and gradients of the training samples [first, first + rows). */
static void add_batch(struct stretto_probe *probe, struct stretto_model *model,
		      const struct stretto_probe_place *place, size_t first, size_t rows)
{
	const struct stretto_model_backward backward = {.weights = place->weights,
							.x = place->x,
							.gradients = probe->gradients,
							.rows = rows};
	double loss;

	for (size_t i = 0; i < rows; i++)
		place->index[i] = (uint32_t)(first + i);
	stretto_dataset_batch(place->dataset, &place->dataset->train, rows, place->index, place->x,
			      place->labels);
	stretto_model_forward(model, place->weights, rows, place->x);
	loss = stretto_model_loss(model, rows, place->labels);
	/* Without ready(), nothing in it can fail. */
	stretto_model_backward(model, &backward);
	add(model->parameters, (float)rows, probe->gradients, probe->sums);
	probe->sums[model->parameters] += (float)(loss * (double)rows);
}

static double norm(const float *x, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

stretto_status stretto_probe_take(struct stretto_probe *probe, struct stretto_model *model,
				  const struct stretto_probe_place *place,
				  struct stretto_probe_found *found)
{
	size_t count = place->dataset->train.count, sums = model->parameters + 1;
	size_t samples = count < STRETTO_PROBE_SAMPLES ? count : STRETTO_PROBE_SAMPLES;
	size_t rank = (size_t)stretto_comm_rank(place->comm);
	size_t ranks = (size_t)stretto_comm_size(place->comm);
	size_t at = samples * rank / ranks, end = samples * (rank + 1) / ranks;
	stretto_status status;

	memset(probe->sums, 0, sums * sizeof(float));
	if (model->running)
		memcpy(probe->running, model->running, model->running_count * sizeof(float));
	while (at < end) {
		size_t rows = end - at < model->batch ? end - at : model->batch;

		add_batch(probe, model, place, at, rows);
		at += rows;
	}
	if (model->running)
		memcpy(model->running, probe->running, model->running_count * sizeof(float));
	status = stretto_allreduce(place->comm, probe->sums, probe->sums, sums, STRETTO_F32,
				   STRETTO_SUM);
	if (status != STRETTO_OK)
		return status;
	*found = (struct stretto_probe_found){
		.norm = norm(probe->sums, model->parameters) / (double)samples,
		.loss = (double)probe->sums[model->parameters] / (double)samples,
	};
	return STRETTO_OK;
}
