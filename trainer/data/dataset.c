/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/dataset.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/data/cifar.h"
#include "trainer/data/text.h"

static const char fashion_mnist[] = "/usr/share/datasets/fashion-mnist";

/* One file of the format, as found. */
struct file {
	char path[PATH_MAX];
	struct stretto_idx idx;
};

/* Loads FOLDER/NAME or FOLDER/NAME.gz. */
static stretto_status load_file(const char *folder, const char *name, size_t dimensions,
				struct file *file, uint8_t **memory, char *problem)
{
	int length = snprintf(file->path, sizeof(file->path), "%s/%s", folder, name);

	if (length < 0 || (size_t)length + sizeof(".gz") > sizeof(file->path)) {
		snprintf(problem, STRETTO_PROBLEM, "the data folder's name is too long");
		return STRETTO_INVALID;
	}
	if (access(file->path, F_OK) != 0) {
		memcpy(file->path + length, ".gz", sizeof(".gz"));
		if (access(file->path, F_OK) != 0) {
			snprintf(problem, STRETTO_PROBLEM,
				 "%s/%s: no such file, nor with .gz (a package with this format: "
				 "dataset-fashion-mnist)",
				 folder, name);
			return STRETTO_SYSTEM;
		}
	}
	return stretto_idx_read(file->path, dimensions, &file->idx, memory, problem);
}

/* The two files of the samples to train on, or to test with. */
struct half {
	struct file images;
	struct file labels;
};

/* Loads KIND-images... and KIND-labels..., and checks that they belong together. */
static stretto_status load_samples(const char *folder, const char *kind,
				   struct stretto_samples *samples, struct half *half,
				   char *problem)
{
	struct file *images = &half->images, *labels = &half->labels;
	char name[64];
	stretto_status status;

	snprintf(name, sizeof(name), "%s-images-idx3-ubyte", kind);
	status = load_file(folder, name, 3, images, &samples->memory[0], problem);
	if (status != STRETTO_OK)
		return status;
	snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", kind);
	status = load_file(folder, name, 1, labels, &samples->memory[1], problem);
	if (status != STRETTO_OK)
		return status;
	if (labels->idx.extent[0] != images->idx.extent[0]) {
		snprintf(problem, STRETTO_PROBLEM,
			 "%.200s: at offset 4: expected %zu labels, one for each image, found %zu",
			 labels->path, images->idx.extent[0], labels->idx.extent[0]);
		return STRETTO_INVALID;
	}
	samples->count = images->idx.extent[0];
	samples->pixels = images->idx.data;
	samples->labels = labels->idx.data;
	return STRETTO_OK;
}

static stretto_status check_sides(const struct half *train, const struct half *test, char *problem)
{
	for (size_t i = 1; i < 3; i++) {
		size_t expected = train->images.idx.extent[i], found = test->images.idx.extent[i];

		if (found == expected)
			continue;
		snprintf(problem, STRETTO_PROBLEM,
			 "%.200s: at offset %zu: expected %zu %s, as in the training images, "
			 "found %zu",
			 test->images.path, 4 + 4 * i, expected, i == 1 ? "rows" : "columns",
			 found);
		return STRETTO_INVALID;
	}
	return STRETTO_OK;
}

/* Classes come from the training labels; the test labels must be among them. */
static stretto_status check_labels(struct stretto_dataset *dataset, const struct half *test,
				   char *problem)
{
	for (size_t i = 0; i < dataset->train.count; i++)
		if (dataset->train.labels[i] >= dataset->classes)
			dataset->classes = dataset->train.labels[i] + (size_t)1;
	for (size_t i = 0; i < dataset->test.count; i++) {
		if (dataset->test.labels[i] < dataset->classes)
			continue;
		snprintf(problem, STRETTO_PROBLEM,
			 "%.200s: at offset %zu: expected a label less than %zu, the number of "
			 "classes in training, found %u",
			 test->labels.path, test->labels.idx.header + i, dataset->classes,
			 dataset->test.labels[i]);
		return STRETTO_INVALID;
	}
	return STRETTO_OK;
}

/* Mean 0 and standard deviation 1 over all training pixels; a constant image is only shifted. */
static void normalise(struct stretto_dataset *dataset)
{
	size_t pixels = dataset->train.count * dataset->features;
	uint64_t sum = 0, squares = 0;
	double mean, variance;

	for (size_t i = 0; i < pixels; i++) {
		sum += dataset->train.pixels[i];
		squares += (uint64_t)dataset->train.pixels[i] * dataset->train.pixels[i];
	}
	mean = (double)sum / (double)pixels;
	variance = (double)squares / (double)pixels - mean * mean;
	dataset->scale = variance > 0 ? (float)(1 / sqrt(variance)) : 1.0f;
	dataset->shift = (float)-mean * dataset->scale;
}

static stretto_status load_idx(const char *folder, struct stretto_dataset *dataset, char *problem)
{
	struct half train, test;
	stretto_status status = load_samples(folder, "train", &dataset->train, &train, problem);

	if (status == STRETTO_OK)
		status = load_samples(folder, "t10k", &dataset->test, &test, problem);
	if (status == STRETTO_OK)
		status = check_sides(&train, &test, problem);
	if (status == STRETTO_OK)
		status = check_labels(dataset, &test, problem);
	if (status != STRETTO_OK)
		return status;
	dataset->shape = (struct stretto_image_shape){train.images.idx.extent[1],
						      train.images.idx.extent[2], 1};
	dataset->features = dataset->shape.height * dataset->shape.width;
	return STRETTO_OK;
}

/* Appends FOLDER/NAME to the samples, which then own its images and labels. */
static stretto_status load_cifar_file(const char *folder, const char *name,
				      struct stretto_samples *samples, char *problem)
{
	struct stretto_cifar cifar = {samples->memory[0], samples->memory[1], samples->count};
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
	stretto_status status;

	if (length < 0 || (size_t)length >= sizeof(path)) {
		snprintf(problem, STRETTO_PROBLEM, "the data folder's name is too long");
		return STRETTO_INVALID;
	}
	status = stretto_cifar_read(path, &cifar, problem);
	*samples = (struct stretto_samples){
		.count = cifar.count,
		.pixels = cifar.images,
		.labels = cifar.labels,
		.memory = {cifar.images, cifar.labels},
	};
	return status;
}

static stretto_status load_cifar(const char *folder, struct stretto_dataset *dataset, char *problem)
{
	stretto_status status = STRETTO_OK;

	for (int i = 1; i <= 5 && status == STRETTO_OK; i++) {
		char name[32];

		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		status = load_cifar_file(folder, name, &dataset->train, problem);
	}
	if (status == STRETTO_OK)
		status = load_cifar_file(folder, "test_batch.bin", &dataset->test, problem);
	dataset->features = STRETTO_CIFAR_IMAGE;
	dataset->shape = (struct stretto_image_shape){
		STRETTO_CIFAR_SIDE, STRETTO_CIFAR_SIDE,
		STRETTO_CIFAR_IMAGE / (STRETTO_CIFAR_SIDE * STRETTO_CIFAR_SIDE)};
	dataset->classes = STRETTO_CIFAR_CLASSES;
	return status;
}

/* The file's bytes, one sample so far for each half. */
static stretto_status load_text(const char *path, struct stretto_dataset *dataset, char *problem)
{
	uint8_t *bytes;
	size_t size, train;
	stretto_status status = stretto_text_read(path, &bytes, &size, problem);

	if (status != STRETTO_OK)
		return status;
	train = size - size / 10;
	dataset->train = (struct stretto_samples){.count = 1, .pixels = bytes, .memory = {bytes}};
	dataset->test = (struct stretto_samples){.count = 1, .pixels = bytes + train};
	dataset->text = true;
	dataset->features = size;
	dataset->split = train;
	dataset->scale = 1;
	for (size_t i = 0; i < size; i++)
		if (bytes[i] >= dataset->classes)
			dataset->classes = bytes[i] + (size_t)1;
	return STRETTO_OK;
}

stretto_status stretto_dataset_cut(struct stretto_dataset *dataset, size_t length, char *problem)
{
	size_t train = dataset->split, test = dataset->features - train;

	if (!dataset->text)
		return STRETTO_OK;
	if (train <= length || test <= length) {
		snprintf(
			problem, STRETTO_PROBLEM,
			"the text has %zu characters to train on and %zu to test with: too few for "
			"samples of %zu and one more",
			train, test, length);
		return STRETTO_INVALID;
	}
	/* One character more than whole samples: the label of the last. */
	dataset->train.count = (train - 1) / length;
	dataset->test.count = (test - 1) / length;
	dataset->features = length;
	return STRETTO_OK;
}

stretto_status stretto_dataset_load(const char *name, struct stretto_dataset *dataset,
				    char *problem)
{
	const char prefix[] = "cifar10:", text[] = "text:";
	stretto_status status;

	*dataset = (struct stretto_dataset){0};
	if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
		status = load_cifar(name + sizeof(prefix) - 1, dataset, problem);
	else if (strncmp(name, text, sizeof(text) - 1) == 0)
		status = load_text(name + sizeof(text) - 1, dataset, problem);
	else
		status = load_idx(strcmp(name, "fashion-mnist") == 0 ? fashion_mnist : name,
				  dataset, problem);
	if (status != STRETTO_OK) {
		stretto_dataset_fini(dataset);
		return status;
	}
	if (!dataset->text)
		normalise(dataset);
	return STRETTO_OK;
}

void stretto_dataset_fini(struct stretto_dataset *dataset)
{
	for (size_t i = 0; i < 2; i++) {
		free(dataset->train.memory[i]);
		free(dataset->test.memory[i]);
	}
	*dataset = (struct stretto_dataset){0};
}

void stretto_dataset_convert(const struct stretto_dataset *dataset, const uint8_t *pixels, float *x)
{
	for (size_t i = 0; i < dataset->features; i++)
		x[i] = dataset->scale * (float)pixels[i] + dataset->shift;
}

void stretto_dataset_batch(const struct stretto_dataset *dataset,
			   const struct stretto_samples *samples, size_t rows,
			   const uint32_t *index, float *x, uint8_t *labels)
{
	for (size_t r = 0; r < rows; r++) {
		const uint8_t *pixels = samples->pixels + index[r] * dataset->features;

		stretto_dataset_convert(dataset, pixels, x + r * dataset->features);
		if (dataset->text)
			memcpy(labels + r * dataset->features, pixels + 1, dataset->features);
		else
			labels[r] = samples->labels[index[r]];
	}
}
