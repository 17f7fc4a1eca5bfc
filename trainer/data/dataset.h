/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dataset.h: images with labels for training and for testing, from a folder in MNIST's format.
 *
 * A folder holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte, each plain or with .gz. Pixels stay bytes in memory; batches are made
 * into floats, normalised by mean and standard deviation of the training pixels.
 *
 * Threads: a loaded data set is only read.
 */
#ifndef STRETTO_TRAINER_DATA_DATASET_H
#define STRETTO_TRAINER_DATA_DATASET_H

#include <stdbool.h>

#include "trainer/data/augment.h"
#include "trainer/data/idx.h"

/* Half of a data set: to train on, or to test with. */
struct stretto_samples {
	size_t count;          /* images, >= 1 */
	const uint8_t *pixels; /* [count, features] */
	const uint8_t *labels; /* [count] */
	uint8_t *memory[2];    /* what the two point into, owned */
};

struct stretto_dataset {
	struct stretto_samples train;
	struct stretto_samples test;
	size_t features; /* pixels of an image, or characters of a sample */
	struct stretto_image_shape
		shape;  /* of the features; all 0: they are not known to be an image */
	size_t classes; /* greatest training label + 1, or greatest character + 1 */
	bool text;      /* each character's label is the next one; samples have no other labels */
	size_t split;   /* of a text: characters to train on */
	float scale;    /* a pixel byte b becomes scale * b + shift */
	float shift;
};

/*
 * Loads the folder; "fashion-mnist" means that of Debian's package dataset-fashion-mnist, and
 * "cifar10:FOLDER" the files data_batch_1.bin to data_batch_5.bin and test_batch.bin in FOLDER. The
 * caller ends it with stretto_dataset_fini(). On failure problem[STRETTO_PROBLEM] is one line that
 * names the file, the offset and what was expected, and nothing is to be released.
 */
stretto_status stretto_dataset_load(const char *name, struct stretto_dataset *dataset,
				    char *problem);
/*
 * Cuts a text, as loaded from "text:FILE" (the last tenth is to test with), into samples of
 * `length` characters; does nothing to images. To be done once, before any batch. problem as above.
 */
stretto_status stretto_dataset_cut(struct stretto_dataset *dataset, size_t length, char *problem);

void stretto_dataset_fini(struct stretto_dataset *dataset);

/* The floats of one sample: x[features] of bytes pixels[features]. */
void stretto_dataset_convert(const struct stretto_dataset *dataset, const uint8_t *pixels,
			     float *x);

/* Gathers images and labels index[0 .. rows) into x[rows, features] and labels[rows], or of a
 * text labels[rows, features]. */
void stretto_dataset_batch(const struct stretto_dataset *dataset,
			   const struct stretto_samples *samples, size_t rows,
			   const uint32_t *index, float *x, uint8_t *labels);

#endif
