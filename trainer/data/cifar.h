/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cifar.h: the binary version of CIFAR-10.
 *
 *	record   1 byte        label, 0 to 9
 *	      3072 bytes       red, green and blue planes of 32 x 32 pixels
 *
 * A file is a number of records. In memory channels are last, as convolutions have them. Source:
 * A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
 *
 * Threads: pure, but for reading files.
 */
#ifndef STRETTO_TRAINER_DATA_CIFAR_H
#define STRETTO_TRAINER_DATA_CIFAR_H

#include "trainer/data/idx.h"

/* Rows and columns, bytes of an image, and records of a file at most (the format has 10000). */
enum {
	STRETTO_CIFAR_SIDE = 32,
	STRETTO_CIFAR_IMAGE = 3072,
	STRETTO_CIFAR_CLASSES = 10,
	STRETTO_CIFAR_RECORDS = 100000
};

/*
 * Splits bytes[size] into images [count, 32, 32, 3] and labels [count], both large enough for
 * size / 3073 records. STRETTO_INVALID: *problem says what is wrong where.
 */
stretto_status stretto_cifar_parse(const uint8_t *bytes, size_t size, uint8_t *images,
				   uint8_t *labels, struct stretto_idx_problem *problem);

/* Images and labels of one or more files. */
struct stretto_cifar {
	uint8_t *images; /* [count, 32, 32, 3], owned by the caller (free) */
	uint8_t *labels; /* [count], likewise */
	size_t count;
};

/*
 * Appends the records of a file. On failure problem[STRETTO_PROBLEM] is one line that names the
 * file, and *cifar is as before: STRETTO_INVALID, STRETTO_SYSTEM, STRETTO_NO_MEMORY.
 */
stretto_status stretto_cifar_read(const char *path, struct stretto_cifar *cifar, char *problem);

#endif
