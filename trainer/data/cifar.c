/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/cifar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = STRETTO_CIFAR_IMAGE + 1, PLANE = 1024, PLANES = 3 };

stretto_status stretto_cifar_parse(const uint8_t *bytes, size_t size, uint8_t *images,
				   uint8_t *labels, struct stretto_idx_problem *problem)
{
	if (size == 0 || size % RECORD != 0) {
		problem->offset = size;
		snprintf(problem->text, sizeof(problem->text),
			 "expected whole records of %d bytes, found the end after %zu of them",
			 RECORD, size / RECORD);
		return STRETTO_INVALID;
	}
	for (size_t r = 0; r < size / RECORD; r++, images += STRETTO_CIFAR_IMAGE) {
		const uint8_t *record = bytes + r * RECORD;

		if (record[0] >= STRETTO_CIFAR_CLASSES) {
			problem->offset = r * RECORD;
			snprintf(problem->text, sizeof(problem->text),
				 "expected a label from 0 to 9, found %u", record[0]);
			return STRETTO_INVALID;
		}
		labels[r] = record[0];
		for (size_t i = 0; i < PLANE; i++)
			for (size_t c = 0; c < PLANES; c++)
				images[i * PLANES + c] = record[1 + c * PLANE + i];
	}
	return STRETTO_OK;
}

/* Makes room for `more` records. */
static bool grow(struct stretto_cifar *cifar, size_t more)
{
	size_t count = cifar->count + more;
	uint8_t *images = realloc(cifar->images, count * STRETTO_CIFAR_IMAGE + 1);
	uint8_t *labels;

	if (images)
		cifar->images = images;
	labels = realloc(cifar->labels, count + 1);
	if (labels)
		cifar->labels = labels;
	return images && labels;
}

/* The contents of an open file, at most the limit and one byte more; NULL: no memory. */
static uint8_t *read_all(FILE *file, size_t *size)
{
	const size_t limit = (size_t)STRETTO_CIFAR_RECORDS * RECORD + 1, first = (size_t)1 << 25;
	size_t room = first;
	uint8_t *bytes = malloc(room);

	*size = 0;
	while (bytes) {
		uint8_t *more;

		*size += fread(bytes + *size, 1, room - *size, file);
		if (*size < room || room == limit)
			return bytes;
		room = 2 * room < limit ? 2 * room : limit;
		more = realloc(bytes, room);
		if (!more)
			free(bytes);
		bytes = more;
	}
	return NULL;
}

static stretto_status append(const char *path, const uint8_t *bytes, size_t size,
			     struct stretto_cifar *cifar, char *problem)
{
	struct stretto_idx_problem found;

	if (size > (size_t)STRETTO_CIFAR_RECORDS * RECORD) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: more than %d records", path,
			 STRETTO_CIFAR_RECORDS);
		return STRETTO_INVALID;
	}
	if (!grow(cifar, size / RECORD)) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: no memory", path);
		return STRETTO_NO_MEMORY;
	}
	if (stretto_cifar_parse(bytes, size, cifar->images + cifar->count * STRETTO_CIFAR_IMAGE,
				cifar->labels + cifar->count, &found) != STRETTO_OK) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: at offset %zu: %.200s", path,
			 found.offset, found.text);
		return STRETTO_INVALID;
	}
	cifar->count += size / RECORD;
	return STRETTO_OK;
}

stretto_status stretto_cifar_read(const char *path, struct stretto_cifar *cifar, char *problem)
{
	FILE *file = fopen(path, "rb");
	stretto_status status = STRETTO_SYSTEM;
	uint8_t *bytes = NULL;
	size_t size = 0;

	errno = file ? 0 : errno;
	if (file)
		bytes = read_all(file, &size);
	if (!file || ferror(file)) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: %s", path, strerror(errno));
	} else if (!bytes) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: no memory", path);
		status = STRETTO_NO_MEMORY;
	} else {
		status = append(path, bytes, size, cifar, problem);
	}
	free(bytes);
	if (file)
		fclose(file);
	return status;
}
