/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: a network of layers in a row, with branches around some of them, and softmax
 * cross-entropy at the end. model_spec.h says which layers there are.
 *
 * The model owns the activations; weights and gradients are arenas that the caller passes in, and
 * may be others at each call. In an arena the layers follow each other from first to last, each
 * with two tensors (W and b, scale and shift, tokens and places), every tensor at a multiple of 16
 * floats; the padding between them is never written. Convolutions have channels last.
 *
 * Threads: one at a time for each model.
 */
#ifndef STRETTO_TRAINER_MODEL_H
#define STRETTO_TRAINER_MODEL_H

#include "trainer/model_spec.h"

/* A layer in its place. Sizes of activations are those of the whole batch. */
struct stretto_layer {
	struct stretto_layer_spec spec;
	struct stretto_shape in;
	struct stretto_shape out;
	size_t index;        /* of the layer */
	size_t branch;       /* add: the layer that it closes */
	size_t weights;      /* place of the first tensor in the arenas */
	size_t weight_count; /* its floats; 0: the layer has no tensors */
	size_t bias;         /* place of the second tensor */
	size_t bias_count;
	const float *input; /* of the last forward pass */
	float *output;      /* that of the layer before if it works in place */
	float *save;        /* what its backward pass needs besides; NULL: nothing */
	float *running;     /* batchnorm: running mean and variance, in model->running */
};

struct stretto_model {
	struct stretto_layer *layers; /* owned */
	size_t count;                 /* layers */
	size_t trained;               /* index of the first layer with tensors */
	size_t parameters;            /* floats of an arena, padding included */
	size_t batch;                 /* rows at most */
	size_t labels;                /* of a row: positions of the last layer */
	float *memory;                /* all activations, owned */
	float *delta[2];              /* gradients of activations, the widest; in memory */
	float *scratch;               /* of whichever layer is at work; in memory */

	/*
	 * Running statistics of batch normalisation: local to the rank while it trains, averaged
	 * by the caller at the end; part of what a checkpoint holds.
	 */
	float *running;       /* [running_count], owned; NULL: none */
	size_t running_count; /* floats */

	/* For the caller to set; dropout draws from seed and step, so that it can be resumed. */
	bool training; /* normalise with the batch and drop; true after init */
	uint64_t seed; /* of dropout, another on each rank */
	uint64_t step; /* number of the forward pass */
};

/* Told by the backward pass that gradients [first, first + count) are final. */
typedef stretto_status stretto_model_ready(void *context, size_t first, size_t count);

/* Makes the model. STRETTO_NO_MEMORY. */
stretto_status stretto_model_init(struct stretto_model *model,
				  const struct stretto_model_options *options);
void stretto_model_fini(struct stretto_model *model);

/*
 * Initial weights, the same for the same seed: W uniform in +-sqrt(6 / in) (He et al. 2015,
 * "Delving Deep into Rectifiers"), those of an embedding in +-0.035, b zero, scale one, shift zero;
 * running mean zero and variance one.
 */
void stretto_model_start(struct stretto_model *model, uint64_t seed, float *weights);

/*
 * Scores [rows * labels, classes] of x [rows, in], rows <= batch; x must stay until the backward
 * pass. Scores are owned by the model until the next call.
 */
float *stretto_model_forward(struct stretto_model *model, const float *weights, size_t rows,
			     const float *x);

/*
 * The mean loss of a forward pass, labels[rows * labels]; its scores become gradients for
 * stretto_model_backward().
 */
double stretto_model_loss(struct stretto_model *model, size_t rows, const uint8_t *labels);

/*
 * All gradients of that loss, written (not added) to `gradients`; x and weights as for the forward.
 * After each layer with tensors, from the last to the first, ready(context, ...) is called for its
 * part of the arena; NULL: not. Ends early with the status of ready() if that is not STRETTO_OK.
 */
struct stretto_model_backward {
	const float *weights;
	const float *x;
	float *gradients;
	stretto_model_ready *ready;
	void *context; /* of ready */
	size_t rows;
};
stretto_status stretto_model_backward(struct stretto_model *model,
				      const struct stretto_model_backward *args);

#endif
