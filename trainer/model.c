/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/relu.h"
#include "trainer/layers/softmax.h"
#include "trainer/rng.h"

/* Tensors begin at whole cache lines, which GEMM likes. */
static size_t round_up(size_t floats)
{
	const size_t line = 16;

	return (floats + line - 1) / line * line;
}

const char *stretto_model_parse(const char *text, struct stretto_model_options *options)
{
	size_t widths = 0;

	if (strncmp(text, "mlp:", 4) != 0)
		return "expected mlp:WIDTH-WIDTH-...-CLASSES";
	text += 4;
	for (;;) {
		char *end;
		unsigned long width = strtoul(text, &end, 10);

		if (*text < '0' || *text > '9' || width < 1 || width > STRETTO_MODEL_WIDTH)
			return "each width must be a number from 1 to 65536";
		if (widths > STRETTO_MODEL_LAYERS)
			return "at most 16 layers";
		options->widths[widths++] = width;
		if (*end == '\0')
			break;
		if (*end != '-')
			return "widths are separated by -";
		text = end + 1;
	}
	if (widths < 2)
		return "at least two widths: the input's and the number of classes";
	options->layers = widths - 1;
	return NULL;
}

/* Places the tensors of all layers in the arenas; the floats of all activations. */
static size_t place(struct stretto_model *model, const struct stretto_model_options *options)
{
	size_t activations = 0, widest = 0;

	for (size_t i = 0; i < options->layers; i++) {
		struct stretto_layer *layer = &model->layers[i];

		layer->dense = (struct stretto_dense){options->widths[i], options->widths[i + 1]};
		layer->weights = model->parameters;
		layer->bias = layer->weights + round_up(layer->dense.in * layer->dense.out);
		model->parameters = layer->bias + round_up(layer->dense.out);
		activations += round_up(options->batch * layer->dense.out);
		if (layer->dense.out > widest)
			widest = layer->dense.out;
	}
	return activations + 2 * round_up(options->batch * widest);
}

stretto_status stretto_model_init(struct stretto_model *model,
				  const struct stretto_model_options *options)
{
	const size_t alignment = 64;
	size_t floats;
	float *at;

	*model = (struct stretto_model){.count = options->layers, .batch = options->batch};
	floats = place(model, options);
	model->memory = aligned_alloc(alignment, floats * sizeof(float));
	if (!model->memory)
		return STRETTO_NO_MEMORY;
	at = model->memory;
	for (size_t i = 0; i < model->count; i++) {
		model->layers[i].output = at;
		at += round_up(model->batch * model->layers[i].dense.out);
	}
	model->delta[0] = at;
	model->delta[1] = at + (model->memory + floats - at) / 2;
	return STRETTO_OK;
}

void stretto_model_fini(struct stretto_model *model)
{
	free(model->memory);
	model->memory = NULL;
}

void stretto_model_start(const struct stretto_model *model, uint64_t seed, float *weights)
{
	struct stretto_rng rng;

	stretto_rng_init(&rng, seed, 0);
	for (size_t i = 0; i < model->count; i++) {
		const struct stretto_layer *layer = &model->layers[i];
		float bound = sqrtf(6.0f / (float)layer->dense.in);

		for (size_t k = 0; k < layer->dense.in * layer->dense.out; k++)
			weights[layer->weights + k] = stretto_rng_uniform(&rng, -bound, bound);
		memset(weights + layer->bias, 0, layer->dense.out * sizeof(float));
	}
}

float *stretto_model_forward(struct stretto_model *model, const float *weights, size_t rows,
			     const float *x)
{
	for (size_t i = 0; i < model->count; i++) {
		const struct stretto_layer *layer = &model->layers[i];

		stretto_dense_forward(&layer->dense, rows, x, weights + layer->weights,
				      weights + layer->bias, layer->output);
		if (i + 1 < model->count)
			stretto_relu_forward(rows * layer->dense.out, layer->output);
		x = layer->output;
	}
	return model->layers[model->count - 1].output;
}

double stretto_model_loss(struct stretto_model *model, size_t rows, const uint8_t *labels)
{
	const struct stretto_layer *last = &model->layers[model->count - 1];

	return stretto_softmax_loss(rows, last->dense.out, labels, last->output);
}

/* Where the layer's part of the arenas ends. */
static size_t layer_end(const struct stretto_model *model, size_t i)
{
	return i + 1 < model->count ? model->layers[i + 1].weights : model->parameters;
}

stretto_status stretto_model_backward(struct stretto_model *model,
				      const struct stretto_model_backward *args)
{
	float *dy = model->layers[model->count - 1].output;
	stretto_status status = STRETTO_OK;

	for (size_t i = model->count; i-- > 0 && status == STRETTO_OK;) {
		const struct stretto_layer *layer = &model->layers[i];
		const float *x = i > 0 ? model->layers[i - 1].output : args->x;
		float *dx = model->delta[i % 2];

		/* The layer's own gradients first: they can travel while the rest is computed. */
		stretto_dense_backward_weights(&layer->dense, args->rows, x, dy,
					       args->gradients + layer->weights,
					       args->gradients + layer->bias);
		if (args->ready)
			status = args->ready(args->context, layer->weights,
					     layer_end(model, i) - layer->weights);
		if (i == 0)
			break;
		stretto_dense_backward_input(&layer->dense, args->rows, dy,
					     args->weights + layer->weights, dx);
		stretto_relu_backward(args->rows * layer->dense.in, x, dx);
		dy = dx;
	}
	return status;
}
