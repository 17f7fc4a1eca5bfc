/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/model.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/softmax.h"
#include "trainer/model_layers.h"
#include "trainer/rng.h"

/* Tensors begin at whole cache lines, which GEMM likes. */
static size_t round_up(size_t floats)
{
	const size_t line = 16;

	return (floats + line - 1) / line * line;
}

/* Floats of both tensors of a layer; 0 and 0 if it has none. */
static void count_tensors(struct stretto_layer *layer, size_t vocabulary)
{
	const size_t in = layer->in.channels, out = layer->out.channels, side = layer->spec.side;

	switch (layer->spec.kind) {
	case STRETTO_LAYER_CONV:
		layer->weight_count = side * side * in * out;
		layer->bias_count = out;
		break;
	case STRETTO_LAYER_DENSE:
		layer->weight_count = in * out;
		layer->bias_count = out;
		break;
	case STRETTO_LAYER_BATCHNORM:
	case STRETTO_LAYER_LAYERNORM:
		layer->weight_count = layer->bias_count = in;
		break;
	case STRETTO_LAYER_EMBEDDING:
		layer->weight_count = vocabulary * out;
		layer->bias_count = layer->in.height * out;
		break;
	default:
		break;
	}
}

/* Whether the layer may write over the output of the one before. */
static bool may_overwrite(const struct stretto_model *model, size_t i)
{
	const struct stretto_layer_ops *ops = stretto_layer_ops(&model->layers[i]);
	const struct stretto_layer_ops *before;

	if (ops->place != STRETTO_PLACE_OVER || i == 0)
		return false;
	before = stretto_layer_ops(&model->layers[i - 1]);
	return before->place != STRETTO_PLACE_SAME && !before->keeps_output;
}

/* Places the tensors of all layers in the arenas. */
static void place(struct stretto_model *model, const struct stretto_model_options *options,
		  const struct stretto_model_plan *plan)
{
	model->trained = model->count;
	for (size_t i = 0; i < model->count; i++) {
		struct stretto_layer *layer = &model->layers[i];

		*layer = (struct stretto_layer){
			.spec = options->specs[i],
			.in = plan->shapes[i],
			.out = plan->shapes[i + 1],
			.index = i,
			.branch = plan->branch[i],
		};
		count_tensors(layer, options->vocabulary);
		layer->weights = model->parameters;
		layer->bias = layer->weights + round_up(layer->weight_count);
		model->parameters = layer->bias + round_up(layer->bias_count);
		if (layer->weight_count > 0 && model->trained == model->count)
			model->trained = i;
		if (layer->spec.kind == STRETTO_LAYER_BATCHNORM)
			model->running_count += 2 * layer->in.channels;
	}
}

/* Gives out `count` floats at *used; no address yet while memory is NULL. */
static float *take(float *memory, size_t count, size_t *used)
{
	float *at = memory ? memory + *used : NULL;

	*used += round_up(count);
	return at;
}

/* Lays the activations out in memory; the floats they need. With NULL only counts. */
static size_t lay_out(struct stretto_model *model, float *memory)
{
	size_t used = 0, widest = 1, scratch = 1, running = 0;

	for (size_t i = 0; i < model->count; i++) {
		struct stretto_layer *layer = &model->layers[i];
		size_t save = stretto_layer_save(layer, model->batch);
		size_t in = model->batch * stretto_shape_size(&layer->in);

		if (may_overwrite(model, i) ||
		    stretto_layer_ops(layer)->place == STRETTO_PLACE_SAME)
			layer->output = i > 0 ? layer[-1].output : NULL;
		else
			layer->output =
				take(memory, model->batch * stretto_shape_size(&layer->out), &used);
		layer->save = save > 0 ? take(memory, save, &used) : NULL;
		widest = i > 0 && in > widest ? in : widest;
		if (stretto_layer_scratch(layer) > scratch)
			scratch = stretto_layer_scratch(layer);
		if (layer->spec.kind == STRETTO_LAYER_BATCHNORM && model->running) {
			layer->running = model->running + running;
			running += 2 * layer->in.channels;
		}
	}
	for (size_t i = 0; i < 2; i++)
		model->delta[i] = take(memory, widest, &used);
	model->scratch = take(memory, scratch, &used);
	return used;
}

/* Whether the rows of every matrix can be told to BLAS. */
static bool countable(const struct stretto_model *model)
{
	for (size_t i = 0; i < model->count; i++)
		if (stretto_shape_positions(&model->layers[i].in) > INT_MAX / model->batch)
			return false;
	return true;
}

static stretto_status open_memory(struct stretto_model *model)
{
	const size_t alignment = 64;

	if (!countable(model))
		return STRETTO_NO_MEMORY;
	if (model->running_count > 0) {
		model->running = calloc(model->running_count, sizeof(float));
		if (!model->running)
			return STRETTO_NO_MEMORY;
	}
	model->memory = aligned_alloc(alignment, lay_out(model, NULL) * sizeof(float));
	if (!model->memory)
		return STRETTO_NO_MEMORY;
	lay_out(model, model->memory);
	return STRETTO_OK;
}

stretto_status stretto_model_init(struct stretto_model *model,
				  const struct stretto_model_options *options)
{
	struct stretto_model_plan *plan = calloc(1, sizeof(*plan));
	stretto_status status = STRETTO_NO_MEMORY;
	size_t at;

	*model = (struct stretto_model){
		.count = options->layers,
		.batch = options->batch,
		.labels = stretto_shape_positions(&options->output),
		.training = true,
		.layers = calloc(options->layers, sizeof(*model->layers)),
	};
	if (plan && model->layers) {
		/* It was checked when the description was read. */
		stretto_model_plan(options, plan, &at);
		place(model, options, plan);
		status = open_memory(model);
	}
	free(plan);
	if (status != STRETTO_OK)
		stretto_model_fini(model);
	return status;
}

void stretto_model_fini(struct stretto_model *model)
{
	free(model->memory);
	free(model->running);
	free(model->layers);
	model->memory = NULL;
	model->running = NULL;
	model->layers = NULL;
}

static void fill(float value, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = value;
}

static void fill_uniform(struct stretto_rng *rng, float bound, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = stretto_rng_uniform(rng, -bound, bound);
}

static void start_layer(const struct stretto_layer *layer, struct stretto_rng *rng, float *weights)
{
	const float small = 0.035f; /* a standard deviation of 0.02 */
	float *w = weights + layer->weights, *b = weights + layer->bias;
	float inputs;

	switch (layer->spec.kind) {
	case STRETTO_LAYER_CONV:
	case STRETTO_LAYER_DENSE:
		inputs = (float)(layer->weight_count / layer->out.channels);
		fill_uniform(rng, sqrtf(6.0f / inputs), layer->weight_count, w);
		fill(0, layer->bias_count, b);
		break;
	case STRETTO_LAYER_BATCHNORM:
		fill(0, layer->in.channels, layer->running);
		fill(1, layer->in.channels, layer->running + layer->in.channels);
		/* fallthrough */
	case STRETTO_LAYER_LAYERNORM:
		fill(1, layer->weight_count, w);
		fill(0, layer->bias_count, b);
		break;
	case STRETTO_LAYER_EMBEDDING:
		fill_uniform(rng, small, layer->weight_count, w);
		fill_uniform(rng, small, layer->bias_count, b);
		break;
	default:
		break;
	}
}

void stretto_model_start(struct stretto_model *model, uint64_t seed, float *weights)
{
	struct stretto_rng rng;

	stretto_rng_init(&rng, seed, 0);
	for (size_t i = 0; i < model->count; i++)
		start_layer(&model->layers[i], &rng, weights);
}

float *stretto_model_forward(struct stretto_model *model, const float *weights, size_t rows,
			     const float *x)
{
	const struct stretto_pass pass = {.weights = weights, .rows = rows};

	for (size_t i = 0; i < model->count; i++) {
		struct stretto_layer *layer = &model->layers[i];
		const struct stretto_layer_ops *ops = stretto_layer_ops(layer);

		layer->input = x;
		if (ops->forward)
			ops->forward(model, layer, &pass);
		/* NULL: the input of the model itself, so far unchanged */
		x = layer->output ? layer->output : x;
	}
	return model->layers[model->count - 1].output;
}

double stretto_model_loss(struct stretto_model *model, size_t rows, const uint8_t *labels)
{
	const struct stretto_layer *last = &model->layers[model->count - 1];

	return stretto_softmax_loss(rows * model->labels, last->out.channels, labels, last->output);
}

static stretto_status tell_ready(const struct stretto_layer *layer,
				 const struct stretto_model_backward *args)
{
	size_t end = layer->bias + round_up(layer->bias_count);

	return args->ready ? args->ready(args->context, layer->weights, end - layer->weights)
			   : STRETTO_OK;
}

/* One layer's backward pass; *dy becomes the gradient of its input. */
static stretto_status backward_layer(struct stretto_model *model, struct stretto_layer *layer,
				     const struct stretto_model_backward *args, float **dy)
{
	const struct stretto_layer_ops *ops = stretto_layer_ops(layer);
	const struct stretto_pass pass = {args->weights, args->gradients, args->rows};
	float *dx = ops->over ? *dy : model->delta[*dy == model->delta[0]];
	bool input = layer->index > model->trained && ops->input;
	stretto_status status = STRETTO_OK;

	if (ops->gradients)
		ops->gradients(model, layer, &pass, *dy);
	/* Once ready is told, gradients may be reduced where they are: who still reads them is
	 * first. Otherwise they travel while the rest is computed. */
	if (input && ops->reads_gradients)
		ops->input(model, layer, &pass, *dy, dx);
	if (ops->gradients)
		status = tell_ready(layer, args);
	if (input && !ops->reads_gradients)
		ops->input(model, layer, &pass, *dy, dx);
	*dy = dx;
	return status;
}

stretto_status stretto_model_backward(struct stretto_model *model,
				      const struct stretto_model_backward *args)
{
	float *dy = model->layers[model->count - 1].output;
	stretto_status status = STRETTO_OK;

	for (size_t i = model->count; i-- > model->trained && status == STRETTO_OK;)
		status = backward_layer(model, &model->layers[i], args, &dy);
	return status;
}
