/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/model_spec.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/layers/pool.h"

size_t stretto_shape_positions(const struct stretto_shape *shape)
{
	return shape->height * shape->width;
}

size_t stretto_shape_size(const struct stretto_shape *shape)
{
	return stretto_shape_positions(shape) * shape->channels;
}

/* The shape after a convolution. */
static const char *conv_shape(const struct stretto_layer_spec *spec, struct stretto_shape *shape)
{
	size_t high = shape->height + 2 * spec->pad, wide = shape->width + 2 * spec->pad;

	if (spec->pad >= spec->side)
		return "the padding must be less than the kernel";
	if (spec->side > high || spec->side > wide)
		return "the kernel is larger than the image";
	if ((size_t)spec->side * spec->side * shape->channels > STRETTO_MODEL_ROW)
		return "the kernel is too large";
	shape->height = (high - spec->side) / spec->stride + 1;
	shape->width = (wide - spec->side) / spec->stride + 1;
	shape->channels = spec->out;
	return NULL;
}

static const char *pool_shape(const struct stretto_layer_spec *spec, struct stretto_shape *shape)
{
	size_t side = spec->side;

	if (spec->kind == STRETTO_LAYER_MAXPOOL && side > STRETTO_POOL_SIDE)
		return "the side of maxpool is at most 16";
	if (side == 0 && shape->height != shape->width)
		return "avgpool without a side needs a square image";
	if (side == 0)
		side = shape->height;
	if (side > shape->height || side > shape->width)
		return "the window is larger than the image";
	shape->height /= side;
	shape->width /= side;
	return NULL;
}

/* The shape after `add`, given that at its branch. */
static const char *add_shape(const struct stretto_shape *from, const struct stretto_shape *shape)
{
	size_t stride = (from->height + shape->height - 1) / shape->height;

	if (shape->channels < from->channels)
		return "the block has fewer channels than its branch";
	if ((from->height + stride - 1) / stride != shape->height ||
	    (from->width + stride - 1) / stride != shape->width)
		return "the block's image is not that of its branch, nor every n-th position of it";
	return NULL;
}

static const char *layer_shape(const struct stretto_model_options *options, size_t i,
			       struct stretto_shape *shape)
{
	const struct stretto_layer_spec *spec = &options->specs[i];

	if (options->vocabulary && (spec->kind == STRETTO_LAYER_EMBEDDING) != (i == 0))
		return "tokens need embedding as their first layer, and only there";
	switch (spec->kind) {
	case STRETTO_LAYER_CONV:
		return conv_shape(spec, shape);
	case STRETTO_LAYER_MAXPOOL:
	case STRETTO_LAYER_AVGPOOL:
		return pool_shape(spec, shape);
	case STRETTO_LAYER_FLATTEN:
		*shape = (struct stretto_shape){1, 1, stretto_shape_size(shape)};
		return NULL;
	case STRETTO_LAYER_EMBEDDING:
		if (!options->vocabulary)
			return "embedding needs tokens, not an image";
		shape->channels = spec->out;
		return NULL;
	case STRETTO_LAYER_DENSE:
		shape->channels = spec->out;
		return NULL;
	case STRETTO_LAYER_ATTENTION:
		if (shape->width != 1 || shape->channels % (3 * (size_t)spec->out) != 0)
			return "attention needs a sequence of width 3 x a multiple of the heads";
		shape->channels /= 3;
		return NULL;
	default:
		return NULL;
	}
}

/* The branches that are open. */
struct open {
	size_t at[STRETTO_MODEL_LAYERS];
	size_t count;
};

static const char *plan_layer(const struct stretto_model_options *options, size_t i,
			      struct stretto_model_plan *plan, struct open *open)
{
	struct stretto_shape *shape = &plan->shapes[i + 1];
	const char *problem;

	*shape = plan->shapes[i];
	if (options->specs[i].kind == STRETTO_LAYER_BRANCH)
		open->at[open->count++] = i;
	if (options->specs[i].kind == STRETTO_LAYER_ADD) {
		if (open->count == 0)
			return "add without a branch";
		plan->branch[i] = open->at[--open->count];
		return add_shape(&plan->shapes[plan->branch[i]], shape);
	}
	problem = layer_shape(options, i, shape);
	if (!problem && stretto_shape_size(shape) > STRETTO_MODEL_ROW)
		return "more than 16777216 values for one sample";
	return problem;
}

const char *stretto_model_plan(const struct stretto_model_options *options,
			       struct stretto_model_plan *plan, size_t *at)
{
	const struct stretto_shape *last = &plan->shapes[options->layers];
	struct open open = {.count = 0};
	bool trained = false;

	plan->shapes[0] = options->input;
	*at = 0;
	if (options->layers > 0 && stretto_shape_size(&options->input) > STRETTO_MODEL_ROW)
		return "more than 16777216 values for one sample";
	for (; *at < options->layers; ++*at) {
		enum stretto_layer_kind kind = options->specs[*at].kind;
		const char *problem = plan_layer(options, *at, plan, &open);

		if (problem)
			return problem;
		trained |= kind == STRETTO_LAYER_DENSE || kind == STRETTO_LAYER_CONV;
	}
	if (open.count > 0)
		return "a branch is never added";
	if (!trained)
		return "a model needs a dense or conv layer";
	if (options->vocabulary && (last->channels != options->vocabulary ||
				    last->height != options->input.height || last->width != 1))
		return "the last layer must score the whole vocabulary for each token";
	if (!options->vocabulary && stretto_shape_positions(last) != 1)
		return "the last layer must leave one position (flatten before dense)";
	if (last->channels > STRETTO_MODEL_WIDTH)
		return "more than 65536 classes";
	return NULL;
}

const char *stretto_model_settle(struct stretto_model_options *options, size_t *at)
{
	struct stretto_model_plan *plan = malloc(sizeof(*plan));
	const char *problem;

	*at = options->layers;
	if (!plan)
		return "no memory";
	problem = stretto_model_plan(options, plan, at);
	if (!problem)
		options->output = plan->shapes[options->layers];
	free(plan);
	return problem;
}

/* Numbers of a text, each from 1 to 65536. */
struct numbers {
	size_t value[STRETTO_MODEL_DENSE + 1];
	size_t count;
};

/* Reads numbers with `separator` between them, and leaves *text behind the last. */
static const char *read_numbers(const char **text, char separator, struct numbers *numbers)
{
	for (numbers->count = 0;;) {
		char *end;
		unsigned long value = strtoul(*text, &end, 10);

		if (**text < '0' || **text > '9' || value < 1 || value > STRETTO_MODEL_WIDTH)
			return "each width must be a number from 1 to 65536";
		if (numbers->count > STRETTO_MODEL_DENSE)
			return "at most 16 layers";
		numbers->value[numbers->count++] = value;
		*text = end;
		if (*end != separator)
			return NULL;
		++*text;
	}
}

static void add(struct stretto_model_options *options, struct stretto_layer_spec spec)
{
	options->specs[options->layers++] = spec;
}

static void add_plain(struct stretto_model_options *options, enum stretto_layer_kind kind)
{
	add(options, (struct stretto_layer_spec){.kind = kind});
}

static void add_dense(struct stretto_model_options *options, size_t out)
{
	add(options,
	    (struct stretto_layer_spec){.kind = STRETTO_LAYER_DENSE, .out = (uint32_t)out});
}

static void add_conv(struct stretto_model_options *options, size_t out, uint32_t side,
		     uint32_t stride, uint32_t pad)
{
	add(options, (struct stretto_layer_spec){.kind = STRETTO_LAYER_CONV,
						 .out = (uint32_t)out,
						 .side = side,
						 .stride = stride,
						 .pad = pad});
}

static const char *parse_mlp(const char *text, struct stretto_model_options *options)
{
	struct numbers widths;
	const char *problem = read_numbers(&text, '-', &widths);

	if (problem)
		return problem;
	if (*text != '\0')
		return "widths are separated by -";
	if (widths.count < 2)
		return "at least two widths: the input's and the number of classes";
	options->input = (struct stretto_shape){1, 1, widths.value[0]};
	for (size_t i = 1; i < widths.count; i++) {
		if (i > 1)
			add_plain(options, STRETTO_LAYER_RELU);
		add_dense(options, widths.value[i]);
	}
	return NULL;
}

/* "HEIGHTxWIDTHxCHANNELS-" and then numbers. */
static const char *parse_image(const char *text, struct stretto_model_options *options,
			       struct numbers *numbers)
{
	const char *problem = read_numbers(&text, 'x', numbers);

	if (problem)
		return problem;
	if (numbers->count != 3 || *text != '-')
		return "expected HEIGHTxWIDTHxCHANNELS-, and numbers separated by -";
	options->input =
		(struct stretto_shape){numbers->value[0], numbers->value[1], numbers->value[2]};
	text++;
	problem = read_numbers(&text, '-', numbers);
	return problem || *text == '\0' ? problem : "numbers are separated by -";
}

static const char *parse_cnn(const char *text, struct stretto_model_options *options)
{
	struct numbers n;
	const char *problem = parse_image(text, options, &n);

	if (problem)
		return problem;
	if (n.count < 3)
		return "at least three numbers after the image: channels, a width, the classes";
	for (size_t i = 0; i + 2 < n.count; i++) {
		add_conv(options, n.value[i], 5, 1, 0);
		add_plain(options, STRETTO_LAYER_RELU);
		add(options, (struct stretto_layer_spec){.kind = STRETTO_LAYER_MAXPOOL, .side = 2});
	}
	add_plain(options, STRETTO_LAYER_FLATTEN);
	add_dense(options, n.value[n.count - 2]);
	add_plain(options, STRETTO_LAYER_RELU);
	add_dense(options, n.value[n.count - 1]);
	return NULL;
}

static void add_residual(struct stretto_model_options *options, size_t out, uint32_t stride)
{
	add_plain(options, STRETTO_LAYER_BRANCH);
	add_conv(options, out, 3, stride, 1);
	add_plain(options, STRETTO_LAYER_BATCHNORM);
	add_plain(options, STRETTO_LAYER_RELU);
	add_conv(options, out, 3, 1, 1);
	add_plain(options, STRETTO_LAYER_BATCHNORM);
	add_plain(options, STRETTO_LAYER_ADD);
	add_plain(options, STRETTO_LAYER_RELU);
}

/* He et al. 2016, section 4.2: three groups of blocks, each half the image and twice the channels. */
static const char *parse_resnet(const char *text, struct stretto_model_options *options)
{
	struct numbers n;
	const char *problem = parse_image(text, options, &n);

	if (problem)
		return problem;
	if (n.count != 3)
		return "three numbers after the image: layers, channels, classes";
	if (n.value[0] < 8 || n.value[0] > 20 || n.value[0] % 6 != 2)
		return "a resnet has 8, 14 or 20 layers";
	if (n.value[1] > STRETTO_MODEL_WIDTH / 4)
		return "too many channels";
	add_conv(options, n.value[1], 3, 1, 1);
	add_plain(options, STRETTO_LAYER_BATCHNORM);
	add_plain(options, STRETTO_LAYER_RELU);
	for (size_t i = 0; i < n.value[0] / 2 - 1; i++) {
		size_t blocks = n.value[0] / 6, group = i / blocks;

		add_residual(options, n.value[1] << group, group > 0 && i % blocks == 0 ? 2 : 1);
	}
	add_plain(options, STRETTO_LAYER_AVGPOOL);
	add_dense(options, n.value[2]);
	return NULL;
}

/* One block, the norms before what they norm (Radford et al. 2019). */
static void add_block(struct stretto_model_options *options, size_t width, uint32_t heads)
{
	add_plain(options, STRETTO_LAYER_BRANCH);
	add_plain(options, STRETTO_LAYER_LAYERNORM);
	add_dense(options, 3 * width);
	add(options, (struct stretto_layer_spec){.kind = STRETTO_LAYER_ATTENTION, .out = heads});
	add_dense(options, width);
	add_plain(options, STRETTO_LAYER_ADD);
	add_plain(options, STRETTO_LAYER_BRANCH);
	add_plain(options, STRETTO_LAYER_LAYERNORM);
	add_dense(options, 4 * width);
	add_plain(options, STRETTO_LAYER_GELU);
	add_dense(options, width);
	add_plain(options, STRETTO_LAYER_ADD);
}

static const char *parse_transformer(const char *text, struct stretto_model_options *options)
{
	struct numbers n;
	const char *problem = read_numbers(&text, '-', &n);

	if (problem)
		return problem;
	if (*text != '\0' || n.count < 4 || n.count > 5)
		return "expected LENGTH-WIDTH-HEADS-BLOCKS or LENGTH-WIDTH-HEADS-BLOCKS-VOCABULARY";
	if (n.value[3] > STRETTO_MODEL_DENSE || n.value[1] > STRETTO_MODEL_WIDTH / 4)
		return "at most 16 blocks of a width of at most 16384";
	if (n.value[1] % n.value[2] != 0)
		return "the width must be a multiple of the heads";
	options->vocabulary = n.count == 5 ? n.value[4] : 256;
	options->input = (struct stretto_shape){n.value[0], 1, 1};
	add(options, (struct stretto_layer_spec){.kind = STRETTO_LAYER_EMBEDDING,
						 .out = (uint32_t)n.value[1]});
	for (size_t i = 0; i < n.value[3]; i++)
		add_block(options, n.value[1], (uint32_t)n.value[2]);
	add_plain(options, STRETTO_LAYER_LAYERNORM);
	add_dense(options, options->vocabulary);
	return NULL;
}

static const struct family {
	const char *prefix;
	const char *(*parse)(const char *text, struct stretto_model_options *options);
} families[] = {
	{"mlp:", parse_mlp},
	{"cnn:", parse_cnn},
	{"resnet:", parse_resnet},
	{"transformer:", parse_transformer},
};

static const struct family *family_of(const char *text)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
		if (strncmp(text, families[i].prefix, strlen(families[i].prefix)) == 0)
			return &families[i];
	return NULL;
}

bool stretto_model_named(const char *text)
{
	return family_of(text) != NULL;
}

/* Empty but for batch, which is not part of a description. */
static struct stretto_model_options *new_options(const struct stretto_model_options *options)
{
	struct stretto_model_options *fresh = calloc(1, sizeof(*fresh));

	if (fresh)
		fresh->batch = options->batch;
	return fresh;
}

const char *stretto_model_parse(const char *text, struct stretto_model_options *options)
{
	const struct family *family = family_of(text);
	struct stretto_model_options *found;
	const char *problem;
	size_t at;

	if (!family)
		return "expected mlp:, cnn:, resnet: or transformer:, or the name of a file";
	found = new_options(options);
	if (!found)
		return "no memory";
	problem = family->parse(text + strlen(family->prefix), found);
	if (!problem)
		problem = stretto_model_settle(found, &at);
	if (!problem)
		*options = *found;
	free(found);
	return problem;
}
