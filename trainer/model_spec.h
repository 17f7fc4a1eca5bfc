/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_spec.h: what a model is made of, its shapes, and the short texts for usual models.
 *
 *	mlp:784-512-256-10               widths, from the input to the classes
 *	cnn:28x28x1-8-16-128-10          5x5 convolutions with pooling, a hidden width, the classes
 *	resnet:32x32x3-20-16-10          layers (8, 14 or 20), channels of the first third, classes
 *	transformer:64-128-4-2           characters, width, heads, blocks (vocabulary 256, or -N)
 *
 * A file has a layer a line (model_text.h reads it, docs/training.md has the whole format):
 *
 *	input 28 28 1      # height, width, channels; or: tokens LENGTH VOCABULARY
 *	conv 8 5           # channels, kernel, stride (1), pad (0)
 *	relu
 *
 * Between layers are images [height, width, channels]; a sequence is an image of width 1.
 *
 * Threads: pure.
 */
#ifndef STRETTO_TRAINER_MODEL_SPEC_H
#define STRETTO_TRAINER_MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/stretto.h"

/* Limits: layers of a model, and of an mlp; the greatest number in a description; 
 * floats of a row of an activation and of one layer's weights. */
enum {
	STRETTO_MODEL_LAYERS = 256,
	STRETTO_MODEL_DENSE = 16,
	STRETTO_MODEL_WIDTH = 65536,
	STRETTO_MODEL_ROW = 1 << 24,
};

/* Kinds of layers: kind, word, fewest and most numbers after it. */
#define STRETTO_LAYER_KINDS(X)                                                                     \
	X(STRETTO_LAYER_CONV, "conv", 2, 4)                                                        \
	X(STRETTO_LAYER_MAXPOOL, "maxpool", 1, 1)                                                  \
	X(STRETTO_LAYER_AVGPOOL, "avgpool", 0, 1)                                                  \
	X(STRETTO_LAYER_FLATTEN, "flatten", 0, 0)                                                  \
	X(STRETTO_LAYER_DENSE, "dense", 1, 1)                                                      \
	X(STRETTO_LAYER_BATCHNORM, "batchnorm", 0, 0)                                              \
	X(STRETTO_LAYER_LAYERNORM, "layernorm", 0, 0)                                              \
	X(STRETTO_LAYER_DROPOUT, "dropout", 1, 1)                                                  \
	X(STRETTO_LAYER_RELU, "relu", 0, 0)                                                        \
	X(STRETTO_LAYER_GELU, "gelu", 0, 0)                                                        \
	X(STRETTO_LAYER_EMBEDDING, "embedding", 1, 1)                                              \
	X(STRETTO_LAYER_ATTENTION, "attention", 1, 1)                                              \
	X(STRETTO_LAYER_BRANCH, "branch", 0, 0)                                                    \
	X(STRETTO_LAYER_ADD, "add", 0, 0)

#define STRETTO_LAYER_ENUM(kind, word, fewest, most) kind,
enum stretto_layer_kind { STRETTO_LAYER_KINDS(STRETTO_LAYER_ENUM) STRETTO_LAYER_KINDS_COUNT };
#undef STRETTO_LAYER_ENUM

/* Of one position: an image [height, width, channels]. */
struct stretto_shape {
	size_t height;
	size_t width;
	size_t channels;
};

/* One line of a description. */
struct stretto_layer_spec {
	enum stretto_layer_kind kind;
	uint32_t out;    /* conv, dense, embedding: channels of the output; attention: heads */
	uint32_t side;   /* conv, pools: of the kernel or window; avgpool 0: the whole image */
	uint32_t stride; /* conv */
	uint32_t pad;    /* conv */
	float share;     /* dropout: of zeros */
};

struct stretto_model_options {
	struct stretto_layer_spec specs[STRETTO_MODEL_LAYERS];
	struct stretto_shape input;
	struct stretto_shape output; /* channels are classes; positions, the labels of a sample */
	size_t layers;               /* specs, >= 1 */
	size_t vocabulary;           /* input is tokens below it; 0: it is numbers */
	size_t batch; /* samples at most of a forward pass, >= 1; set by the caller */
};

/* Floats of a row of that shape, and its positions. */
size_t stretto_shape_size(const struct stretto_shape *shape);
size_t stretto_shape_positions(const struct stretto_shape *shape);

/*
 * The shape after each layer, shapes[i + 1] after specs[i]; and for each `add` the `branch` it
 * closes. NULL, or what is wrong (static) with specs[*at]; *at = layers if it is the whole.
 */
struct stretto_model_plan {
	struct stretto_shape shapes[STRETTO_MODEL_LAYERS + 1];
	size_t branch[STRETTO_MODEL_LAYERS]; /* by the index of the add */
};
const char *stretto_model_plan(const struct stretto_model_options *options,
			       struct stretto_model_plan *plan, size_t *at);

/* Plans what was read, and sets its output; the problem and *at as of stretto_model_plan(). */
const char *stretto_model_settle(struct stretto_model_options *options, size_t *at);

/* Whether a text begins as one of those above, so that it is not the name of a file. */
bool stretto_model_named(const char *text);

/* Reads a text such as the above, but no file; leaves batch. NULL, or what is wrong, static. */
const char *stretto_model_parse(const char *text, struct stretto_model_options *options);

#endif
