/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.h: how steep the loss is where the ranks are: the norm of the mean gradient of many samples.
 *
 * The gradient of a step is mostly the noise of its batch. A probe takes the same training samples
 * every time, each rank its share of them at its own weights, and averages the gradients over all:
 *
 *	g = sum over ranks i, samples s of i: grad f(w_i, s) / samples        norm = |g|
 *
 * Where the ranks hold the same weights, this is the gradient of the loss of those samples. It has
 * buffers of its own and leaves no trace in weights, gradients, running statistics or dropout.
 *
 * Threads: one at a time for each communicator.
 */
#ifndef STRETTO_TRAINER_PROBE_H
#define STRETTO_TRAINER_PROBE_H

#include "collectives/stretto_coll.h"
#include "trainer/data/dataset.h"
#include "trainer/model.h"

/* Training samples of a probe, of all ranks; fewer if there are fewer. */
enum { STRETTO_PROBE_SAMPLES = 1024 };

struct stretto_probe {
	float *gradients; /* [parameters], of a batch, owned */
	float *sums;      /* [parameters + 1], of gradients, then of losses, owned */
	float *running;   /* [running_count], kept meanwhile, owned */
};

/* Where a probe is taken. All borrowed; x, labels and index are overwritten. */
struct stretto_probe_place {
	struct stretto_comm *comm;
	const struct stretto_dataset *dataset;
	const float *weights; /* of this rank */
	float *x;             /* [model.batch, features] */
	uint8_t *labels;      /* [model.batch, model.labels] */
	uint32_t *index;      /* [model.batch] */
};

/* What a probe found, the same on all ranks. */
struct stretto_probe_found {
	double norm; /* of the mean gradient */
	double loss; /* mean over the samples */
};

/* STRETTO_NO_MEMORY; fini releases what there is either way. */
stretto_status stretto_probe_init(struct stretto_probe *probe, const struct stretto_model *model);
void stretto_probe_fini(struct stretto_probe *probe);

/* Collective; errors of an allreduce. The model's activations are overwritten. */
stretto_status stretto_probe_take(struct stretto_probe *probe, struct stretto_model *model,
				  const struct stretto_probe_place *place,
				  struct stretto_probe_found *found);

#endif
