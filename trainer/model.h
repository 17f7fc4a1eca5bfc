/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: a multilayer perceptron, dense layers with ReLU between them and softmax cross-entropy
 * at the end.
 *
 * The model owns the activations; weights and gradients are arenas that the caller passes in, and
 * may be others at each call. In an arena the layers follow each other from first to last, each as
 * W [in, out] and then b [out], every tensor at a multiple of 16 floats; the padding between them
 * is never written.
 *
 * Threads: one at a time for each model.
 */
#ifndef STRETTO_TRAINER_MODEL_H
#define STRETTO_TRAINER_MODEL_H

#include "runtime/stretto.h"
#include "trainer/layers/dense.h"

/* Layers at most, and the widest. */
enum { STRETTO_MODEL_LAYERS = 16, STRETTO_MODEL_WIDTH = 65536 };

/* "mlp:784-512-256-10": the widths from the input to the classes. */
struct stretto_model_options {
	size_t widths[STRETTO_MODEL_LAYERS + 1];
	size_t layers; /* dense layers, one less than widths, >= 1 */
	size_t batch;  /* rows at most of a forward pass, >= 1 */
};

struct stretto_layer {
	struct stretto_dense dense;
	size_t weights; /* place of W in the arenas */
	size_t bias;    /* place of b in the arenas */
	float *output;  /* [batch, out], after ReLU; for the last layer the scores */
};

struct stretto_model {
	struct stretto_layer layers[STRETTO_MODEL_LAYERS];
	size_t count;      /* layers */
	size_t parameters; /* floats of an arena, padding included */
	size_t batch;      /* rows at most */
	float *memory;     /* all activations, owned */
	float *delta[2];   /* gradients of the activations, [batch, widest] each, in `memory` */
};

/* Told by the backward pass that gradients [first, first + count) are final. */
typedef stretto_status stretto_model_ready(void *context, size_t first, size_t count);

/* Reads a text such as the above into widths and layers; NULL, or what is wrong, static. */
const char *stretto_model_parse(const char *text, struct stretto_model_options *options);

/* Makes the model. STRETTO_NO_MEMORY. */
stretto_status stretto_model_init(struct stretto_model *model,
				  const struct stretto_model_options *options);
void stretto_model_fini(struct stretto_model *model);

/*
 * Initial weights, the same for the same seed: W uniform in +-sqrt(6 / in) (He et al. 2015,
 * "Delving Deep into Rectifiers"), b zero.
 */
void stretto_model_start(const struct stretto_model *model, uint64_t seed, float *weights);

/* Scores [rows, classes] of x [rows, in], rows <= batch; owned by the model until the next call. */
float *stretto_model_forward(struct stretto_model *model, const float *weights, size_t rows,
			     const float *x);

/* The mean loss of a forward pass; its scores become gradients for stretto_model_backward(). */
double stretto_model_loss(struct stretto_model *model, size_t rows, const uint8_t *labels);

/*
 * All gradients of that loss, written (not added) to `gradients`; x and weights as for the forward.
 * After each layer, from the last to the first, ready(context, ...) is called for its part of the
 * arena; NULL: not. Ends early with the status of ready() if that is not STRETTO_OK.
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
