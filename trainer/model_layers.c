/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/model_layers.h"

#include <string.h>

#include "trainer/layers/attention.h"
#include "trainer/layers/conv.h"
#include "trainer/layers/dense.h"
#include "trainer/layers/dropout.h"
#include "trainer/layers/embedding.h"
#include "trainer/layers/gelu.h"
#include "trainer/layers/norm.h"
#include "trainer/layers/pool.h"
#include "trainer/layers/relu.h"
#include "trainer/layers/shortcut.h"

/* The parameters of all functions of the table. */
#define FORWARD                                                                                    \
	struct stretto_model *model, struct stretto_layer *layer, const struct stretto_pass *pass
#define GRADIENTS FORWARD, const float *dy
#define INPUT     FORWARD, float *dy, float *dx

/* Rows of the matrix [rows * positions, channels]. */
static size_t matrix_rows(const struct stretto_layer *layer, size_t rows)
{
	return rows * stretto_shape_positions(&layer->in);
}

static struct stretto_dense dense_of(const struct stretto_layer *layer)
{
	return (struct stretto_dense){layer->in.channels, layer->out.channels};
}

static void dense_forward(FORWARD)
{
	struct stretto_dense dense = dense_of(layer);

	(void)model;
	stretto_dense_forward(&dense, matrix_rows(layer, pass->rows), layer->input,
			      pass->weights + layer->weights, pass->weights + layer->bias,
			      layer->output);
}

static void dense_gradients(GRADIENTS)
{
	struct stretto_dense dense = dense_of(layer);

	(void)model;
	stretto_dense_backward_weights(&dense, matrix_rows(layer, pass->rows), layer->input, dy,
				       pass->gradients + layer->weights,
				       pass->gradients + layer->bias);
}

static void dense_input(INPUT)
{
	struct stretto_dense dense = dense_of(layer);

	(void)model;
	stretto_dense_backward_input(&dense, matrix_rows(layer, pass->rows), dy,
				     pass->weights + layer->weights, dx);
}

static struct stretto_conv conv_of(const struct stretto_layer *layer, float *columns)
{
	return (struct stretto_conv){
		.height = layer->in.height,
		.width = layer->in.width,
		.channels = layer->in.channels,
		.out = layer->out.channels,
		.kernel = layer->spec.side,
		.stride = layer->spec.stride,
		.pad = layer->spec.pad,
		.columns = columns,
	};
}

static void conv_forward(FORWARD)
{
	struct stretto_conv conv = conv_of(layer, model->scratch);

	stretto_conv_forward(&conv, pass->rows, layer->input, pass->weights + layer->weights,
			     pass->weights + layer->bias, layer->output);
}

static void conv_gradients(GRADIENTS)
{
	struct stretto_conv conv = conv_of(layer, model->scratch);

	stretto_conv_backward_weights(&conv, pass->rows, layer->input, dy,
				      pass->gradients + layer->weights,
				      pass->gradients + layer->bias);
}

static void conv_input(INPUT)
{
	struct stretto_conv conv = conv_of(layer, model->scratch);

	stretto_conv_backward_input(&conv, pass->rows, dy, pass->weights + layer->weights, dx);
}

static struct stretto_pool pool_of(const struct stretto_layer *layer)
{
	size_t side = layer->spec.side ? layer->spec.side : layer->in.height;

	return (struct stretto_pool){layer->in.height, layer->in.width, layer->in.channels, side};
}

static void maxpool_forward(FORWARD)
{
	struct stretto_pool pool = pool_of(layer);

	(void)model;
	stretto_pool_max_forward(&pool, pass->rows, layer->input, layer->output,
				 (uint8_t *)layer->save);
}

static void maxpool_input(INPUT)
{
	struct stretto_pool pool = pool_of(layer);

	(void)model;
	stretto_pool_max_backward(&pool, pass->rows, dy, (const uint8_t *)layer->save, dx);
}

static void avgpool_forward(FORWARD)
{
	struct stretto_pool pool = pool_of(layer);

	(void)model;
	stretto_pool_mean_forward(&pool, pass->rows, layer->input, layer->output);
}

static void avgpool_input(INPUT)
{
	struct stretto_pool pool = pool_of(layer);

	(void)model;
	stretto_pool_mean_backward(&pool, pass->rows, dy, dx);
}

/* The norm with `count` means and as many inverses in what the layer saves. */
static struct stretto_norm norm_of(const struct stretto_layer *layer, size_t count)
{
	return (struct stretto_norm){layer->in.channels, layer->save, layer->save + count};
}

static void batchnorm_forward(FORWARD)
{
	struct stretto_norm norm = norm_of(layer, layer->in.channels);
	size_t rows = matrix_rows(layer, pass->rows);

	if (model->training) {
		stretto_norm_batch_measure(&norm, rows, layer->input);
		stretto_norm_batch_move(&norm, rows, layer->running);
	} else {
		stretto_norm_batch_use(&norm, layer->running);
	}
	stretto_norm_batch_forward(&norm, rows, layer->input, pass->weights + layer->weights,
				   pass->weights + layer->bias, layer->output);
}

static void batchnorm_gradients(GRADIENTS)
{
	struct stretto_norm norm = norm_of(layer, layer->in.channels);

	(void)model;
	stretto_norm_batch_backward_weights(&norm, matrix_rows(layer, pass->rows), layer->input, dy,
					    pass->gradients + layer->weights,
					    pass->gradients + layer->bias);
}

static void batchnorm_input(INPUT)
{
	struct stretto_norm norm = norm_of(layer, layer->in.channels);
	struct stretto_norm_gradients gradients = {
		pass->gradients + layer->weights,
		pass->gradients + layer->bias,
	};

	(void)model;
	stretto_norm_batch_backward_input(&norm, matrix_rows(layer, pass->rows), layer->input, dy,
					  pass->weights + layer->weights, &gradients, dx);
}

static void layernorm_forward(FORWARD)
{
	size_t rows = matrix_rows(layer, pass->rows);
	struct stretto_norm norm = norm_of(layer, rows);

	(void)model;
	stretto_norm_layer_forward(&norm, rows, layer->input, pass->weights + layer->weights,
				   pass->weights + layer->bias, layer->output);
}

static void layernorm_gradients(GRADIENTS)
{
	size_t rows = matrix_rows(layer, pass->rows);
	struct stretto_norm norm = norm_of(layer, rows);

	(void)model;
	stretto_norm_layer_backward_weights(&norm, rows, layer->input, dy,
					    pass->gradients + layer->weights,
					    pass->gradients + layer->bias);
}

static void layernorm_input(INPUT)
{
	size_t rows = matrix_rows(layer, pass->rows);
	struct stretto_norm norm = norm_of(layer, rows);

	(void)model;
	stretto_norm_layer_backward_input(&norm, rows, layer->input, dy,
					  pass->weights + layer->weights, dx);
}

/* Puts the input where a layer that works in place finds it. */
static void bring(const struct stretto_layer *layer, size_t rows)
{
	if (layer->output != layer->input)
		memcpy(layer->output, layer->input,
		       rows * stretto_shape_size(&layer->in) * sizeof(float));
}

static void dropout_forward(FORWARD)
{
	struct stretto_rng rng;

	if (!model->training) {
		bring(layer, pass->rows);
		return;
	}
	stretto_rng_init(&rng, model->seed, model->step * STRETTO_MODEL_LAYERS + layer->index);
	stretto_dropout_forward(&rng, layer->spec.share,
				pass->rows * stretto_shape_size(&layer->in), layer->input,
				layer->output, (uint8_t *)layer->save);
}

static void dropout_input(INPUT)
{
	(void)model;
	(void)dx;
	stretto_dropout_backward(layer->spec.share, pass->rows * stretto_shape_size(&layer->in),
				 (const uint8_t *)layer->save, dy);
}

static void relu_forward(FORWARD)
{
	(void)model;
	bring(layer, pass->rows);
	stretto_relu_forward(pass->rows * stretto_shape_size(&layer->in), layer->output);
}

static void relu_input(INPUT)
{
	(void)model;
	(void)dx;
	stretto_relu_backward(pass->rows * stretto_shape_size(&layer->in), layer->output, dy);
}

static void gelu_forward(FORWARD)
{
	(void)model;
	stretto_gelu_forward(pass->rows * stretto_shape_size(&layer->in), layer->input,
			     layer->output);
}

static void gelu_input(INPUT)
{
	(void)model;
	(void)dx;
	stretto_gelu_backward(pass->rows * stretto_shape_size(&layer->in), layer->input, dy);
}

/* The first tensor is [vocabulary, width], the second [length, width]. */
static struct stretto_embedding embedding_of(const struct stretto_layer *layer)
{
	size_t width = layer->out.channels;

	return (struct stretto_embedding){layer->in.height, layer->weight_count / width, width};
}

static void embedding_forward(FORWARD)
{
	struct stretto_embedding embedding = embedding_of(layer);

	(void)model;
	stretto_embedding_forward(&embedding, pass->rows, layer->input,
				  pass->weights + layer->weights, pass->weights + layer->bias,
				  layer->output);
}

static void embedding_gradients(GRADIENTS)
{
	struct stretto_embedding embedding = embedding_of(layer);

	(void)model;
	stretto_embedding_backward(&embedding, pass->rows, layer->input, dy,
				   pass->gradients + layer->weights, pass->gradients + layer->bias);
}

static struct stretto_attention attention_of(const struct stretto_layer *layer)
{
	return (struct stretto_attention){layer->in.height, layer->out.channels, layer->spec.out};
}

static void attention_forward(FORWARD)
{
	struct stretto_attention attention = attention_of(layer);

	(void)model;
	stretto_attention_forward(&attention, pass->rows, layer->input, layer->save, layer->output);
}

static void attention_input(INPUT)
{
	struct stretto_attention attention = attention_of(layer);

	stretto_attention_backward(&attention, pass->rows,
				   &(struct stretto_attention_backward){.qkv = layer->input,
									.dy = dy,
									.p = layer->save,
									.score = model->scratch,
									.dqkv = dx});
}

/* What a branch saves is the gradient that comes back over its shortcut. */
static void branch_input(INPUT)
{
	const size_t count = pass->rows * stretto_shape_size(&layer->in);

	(void)model;
	(void)dx;
	for (size_t i = 0; i < count; i++)
		dy[i] += layer->save[i];
}

static struct stretto_shortcut shortcut_of(const struct stretto_layer *layer,
					   const struct stretto_layer *branch)
{
	const struct stretto_shape *from = &branch->out;

	return (struct stretto_shortcut){
		.height = from->height,
		.width = from->width,
		.channels = from->channels,
		.stride = (from->height + layer->in.height - 1) / layer->in.height,
		.out = layer->in.channels,
	};
}

static void add_forward(FORWARD)
{
	const struct stretto_layer *branch = &model->layers[layer->branch];
	struct stretto_shortcut shortcut = shortcut_of(layer, branch);

	bring(layer, pass->rows);
	stretto_shortcut_forward(&shortcut, pass->rows, branch->input, layer->output);
}

static void add_input(INPUT)
{
	struct stretto_layer *branch = &model->layers[layer->branch];
	struct stretto_shortcut shortcut = shortcut_of(layer, branch);

	(void)dx;
	memset(branch->save, 0, pass->rows * stretto_shape_size(&branch->in) * sizeof(float));
	stretto_shortcut_backward(&shortcut, pass->rows, dy, branch->save);
}

static const struct stretto_layer_ops table[STRETTO_LAYER_KINDS_COUNT] = {
	[STRETTO_LAYER_CONV] = {.forward = conv_forward,
				.gradients = conv_gradients,
				.input = conv_input},
	[STRETTO_LAYER_MAXPOOL] = {.forward = maxpool_forward, .input = maxpool_input},
	[STRETTO_LAYER_AVGPOOL] = {.forward = avgpool_forward, .input = avgpool_input},
	[STRETTO_LAYER_FLATTEN] = {.place = STRETTO_PLACE_SAME, .over = true},
	[STRETTO_LAYER_DENSE] = {.forward = dense_forward,
				 .gradients = dense_gradients,
				 .input = dense_input},
	[STRETTO_LAYER_BATCHNORM] = {.forward = batchnorm_forward,
				     .gradients = batchnorm_gradients,
				     .input = batchnorm_input,
				     .over = true,
				     .reads_gradients = true},
	[STRETTO_LAYER_LAYERNORM] = {.forward = layernorm_forward,
				     .gradients = layernorm_gradients,
				     .input = layernorm_input,
				     .over = true},
	[STRETTO_LAYER_DROPOUT] = {.forward = dropout_forward,
				   .input = dropout_input,
				   .place = STRETTO_PLACE_OVER,
				   .over = true},
	[STRETTO_LAYER_RELU] = {.forward = relu_forward,
				.input = relu_input,
				.place = STRETTO_PLACE_OVER,
				.over = true,
				.keeps_output = true},
	[STRETTO_LAYER_GELU] = {.forward = gelu_forward, .input = gelu_input, .over = true},
	[STRETTO_LAYER_EMBEDDING] = {.forward = embedding_forward,
				     .gradients = embedding_gradients},
	[STRETTO_LAYER_ATTENTION] = {.forward = attention_forward, .input = attention_input},
	[STRETTO_LAYER_BRANCH] = {.input = branch_input, .place = STRETTO_PLACE_SAME, .over = true},
	[STRETTO_LAYER_ADD] = {.forward = add_forward,
			       .input = add_input,
			       .place = STRETTO_PLACE_OVER,
			       .over = true},
};

const struct stretto_layer_ops *stretto_layer_ops(const struct stretto_layer *layer)
{
	return &table[layer->spec.kind];
}

size_t stretto_layer_save(const struct stretto_layer *layer, size_t rows)
{
	const size_t positions = stretto_shape_positions(&layer->in);

	switch (layer->spec.kind) {
	case STRETTO_LAYER_MAXPOOL:
	case STRETTO_LAYER_DROPOUT: /* a byte for each value */
		return rows * stretto_shape_size(&layer->out) / sizeof(float) + 1;
	case STRETTO_LAYER_BATCHNORM:
		return 2 * layer->in.channels;
	case STRETTO_LAYER_LAYERNORM:
		return 2 * rows * positions;
	case STRETTO_LAYER_ATTENTION:
		return rows * layer->spec.out * positions * positions;
	case STRETTO_LAYER_BRANCH:
		return rows * stretto_shape_size(&layer->in);
	default:
		return 0;
	}
}

size_t stretto_layer_scratch(const struct stretto_layer *layer)
{
	const size_t positions = stretto_shape_positions(&layer->in);
	struct stretto_conv conv;

	switch (layer->spec.kind) {
	case STRETTO_LAYER_CONV:
		conv = conv_of(layer, NULL);
		return stretto_conv_scratch(&conv);
	case STRETTO_LAYER_ATTENTION:
		return positions * positions;
	default:
		return 0;
	}
}
