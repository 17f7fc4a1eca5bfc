/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idx.h: the IDX format of MNIST and its relatives, checked field by field.
 *
 *	offset 0   0 0          always zero
 *	       2   8            type of the elements: unsigned byte, the only one read here
 *	       3   n            number of dimensions: 3 for images, 1 for labels
 *	       4   n x uint32   the dimensions, big-endian: items, then rows and columns
 *	  4 + 4n   bytes        the elements, row-major, to the end of the file
 *
 * Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database".
 *
 * Threads: pure, but for reading files.
 */
#ifndef STRETTO_TRAINER_DATA_IDX_H
#define STRETTO_TRAINER_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/stretto.h"

/* Limits: dimensions read here, bytes of elements, and rows or columns of an image. */
enum { STRETTO_IDX_DIMENSIONS = 3, STRETTO_IDX_SIDE = 4096 };
#define STRETTO_IDX_BYTES ((size_t)1 << 30)

/* Bytes of the longest problem text, its end included. */
enum { STRETTO_PROBLEM = 512 };

/* One file's contents. */
struct stretto_idx {
	size_t dimensions;                     /* 1 to 3 */
	size_t extent[STRETTO_IDX_DIMENSIONS]; /* of each dimension, >= 1; those not there are 1 */
	size_t header;                         /* bytes before the elements */
	size_t elements;                       /* bytes of the elements */
	const uint8_t *data;                   /* the elements, inside the bytes that were parsed */
};

/* What is wrong with bytes: where, and in words that complete "at offset N: ". */
struct stretto_idx_problem {
	size_t offset;
	char text[STRETTO_PROBLEM];
};

/*
 * Parses the header at the start of bytes[size], which must have `dimensions` dimensions; more
 * bytes may follow or miss. Sets all but idx->data. STRETTO_INVALID: *problem is filled.
 */
stretto_status stretto_idx_header(const uint8_t *bytes, size_t size, size_t dimensions,
				  struct stretto_idx *idx, struct stretto_idx_problem *problem);

/* Parses a whole file: a header, and exactly as many bytes as it says. idx->data points into bytes.
 */
stretto_status stretto_idx_parse(const uint8_t *bytes, size_t size, size_t dimensions,
				 struct stretto_idx *idx, struct stretto_idx_problem *problem);

/*
 * Reads a file, plain or gzip, and parses it. *bytes is what idx->data points into, owned by the
 * caller (free). On failure problem[STRETTO_PROBLEM] is one line that names the file, the offset
 * (in the data after decompression) and what was expected: STRETTO_INVALID for the contents,
 * STRETTO_SYSTEM if it cannot be read, STRETTO_NO_MEMORY.
 */
stretto_status stretto_idx_read(const char *path, size_t dimensions, struct stretto_idx *idx,
				uint8_t **bytes, char *problem);

#endif
