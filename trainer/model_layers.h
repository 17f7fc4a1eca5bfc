/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_layers.h: what each kind of layer does in a model, as a table by kind. Adding a kind is a
 * line in STRETTO_LAYER_KINDS, its shape in model_spec.c, and its row here.
 *
 * Threads: one at a time for each model.
 */
#ifndef STRETTO_TRAINER_MODEL_LAYERS_H
#define STRETTO_TRAINER_MODEL_LAYERS_H

#include "trainer/model.h"

/* What a pass works on. */
struct stretto_pass {
	const float *weights; /* arena */
	float *gradients;     /* arena; forward: NULL */
	size_t rows;
};

/* Where the output of a forward pass is, and the gradient of the input of a backward pass. */
enum stretto_place {
	STRETTO_PLACE_OWN,  /* in a buffer of its own */
	STRETTO_PLACE_OVER, /* over the input if the layer before does not need it any more */
	STRETTO_PLACE_SAME, /* it is the input, unchanged */
};

struct stretto_layer_ops {
	/* output of input; NULL: nothing to do */
	void (*forward)(struct stretto_model *model, struct stretto_layer *layer,
			const struct stretto_pass *pass);
	/* gradients of the tensors, from dy; NULL: there are none */
	void (*gradients)(struct stretto_model *model, struct stretto_layer *layer,
			  const struct stretto_pass *pass, const float *dy);
	/* dx from dy; dx == dy if `over`; NULL: nothing to do */
	void (*input)(struct stretto_model *model, struct stretto_layer *layer,
		      const struct stretto_pass *pass, float *dy, float *dx);
	enum stretto_place place; /* of the output */
	bool over;                /* the gradient of the input takes the place of dy */
	bool reads_gradients;     /* input() reads what gradients() wrote */
	bool keeps_output;        /* the backward pass reads the output */
};

const struct stretto_layer_ops *stretto_layer_ops(const struct stretto_layer *layer);

/* Floats that the layer keeps for its backward pass, and of scratch, for so many rows. */
size_t stretto_layer_save(const struct stretto_layer *layer, size_t rows);
size_t stretto_layer_scratch(const struct stretto_layer *layer);

#endif
