/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/train_options.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/log.h"

/* Whether the data can be augmented as wanted; says why not. */
static bool augments(const struct stretto_train_options *options, bool says)
{
	const struct stretto_image_shape *shape = &options->dataset->shape;
	size_t border = options->augment.border;
	bool image = shape->height > 0 && shape->width > 0 && shape->channels > 0;

	if (!stretto_augment_any(&options->augment) ||
	    (image && border < shape->height && border < shape->width))
		return true;
	if (says && image)
		stretto_error("a border of %zu pixels is too much to crop images of %zu x %zu",
			      border, shape->height, shape->width);
	else if (says)
		stretto_error("only images of known height and width can be augmented, and the "
			      "data set is %s",
			      options->dataset->text ? "text" : "none of these");
	return false;
}

stretto_status stretto_train_check(const struct stretto_train_options *options,
				   const struct stretto_comm *comm, size_t steps)
{
	const struct stretto_dataset *dataset = options->dataset;
	size_t in = stretto_shape_size(&options->model.input);
	size_t out = options->model.output.channels;
	bool wrong_in = in != dataset->features, wrong_out = out < dataset->classes;

	bool wrong_kind = dataset->text != (options->model.vocabulary > 0);

	if (!augments(options, stretto_comm_rank(comm) == 0))
		return STRETTO_INVALID;
	if (!wrong_kind && !wrong_in && !wrong_out && steps > 0)
		return STRETTO_OK;
	if (stretto_comm_rank(comm) != 0)
		return STRETTO_INVALID;
	if (wrong_kind)
		stretto_error("the model is for %s, but the data set is %s",
			      dataset->text ? "images" : "text", dataset->text ? "text" : "images");
	else if (wrong_in)
		stretto_error("the model's input has width %zu, but an image has %zu pixels", in,
			      dataset->features);
	else if (wrong_out)
		stretto_error("the model has %zu outputs, but the labels have %zu classes", out,
			      dataset->classes);
	else
		stretto_error("%zu training images are too few for one step of %d ranks with a "
			      "batch of %zu",
			      dataset->train.count, stretto_comm_size(comm), options->model.batch);
	return STRETTO_INVALID;
}

void stretto_train_describe(const struct stretto_train_options *options, size_t parameters,
			    char text[STRETTO_TRAIN_TEXT])
{
	const struct stretto_average_options *average = &options->average;
	int length = snprintf(
		text, (size_t)STRETTO_TRAIN_TEXT,
		"seed %" PRIu64
		" batch %zu parameters %zu samples %zu strategy %s tau %zu delay %zu "
		"own-weight %g moments %zu",
		options->seed, options->model.batch, parameters, options->dataset->train.count,
		stretto_strategy_name(average->strategy), average->tau, average->delay,
		(double)average->own_weight, stretto_optimizer_moments(&options->optimizer));
	if (stretto_augment_any(&options->augment))
		snprintf(text + length, (size_t)STRETTO_TRAIN_TEXT - (size_t)length,
			 " crop %zu flip %d", options->augment.border, options->augment.flip);
}
