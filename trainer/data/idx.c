/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/idx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The type byte of unsigned bytes. */
enum { TYPE_U8 = 8 };

__attribute__((format(printf, 3, 4))) static stretto_status
fail(struct stretto_idx_problem *problem, size_t offset, const char *format, ...)
{
	va_list args;

	problem->offset = offset;
	va_start(args, format);
	vsnprintf(problem->text, sizeof(problem->text), format, args);
	va_end(args);
	return STRETTO_INVALID;
}

static size_t big_endian(const uint8_t *bytes)
{
	return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

/* The four bytes before the dimensions. */
static stretto_status check_magic(const uint8_t *bytes, size_t dimensions,
				  struct stretto_idx_problem *problem)
{
	if (bytes[0] != 0 || bytes[1] != 0)
		return fail(problem, 0, "expected two zero bytes, found %u %u: not an IDX file",
			    bytes[0], bytes[1]);
	if (bytes[2] != TYPE_U8)
		return fail(problem, 2, "expected element type 8 (unsigned byte), found %u",
			    bytes[2]);
	if (bytes[3] != dimensions)
		return fail(problem, 3, "expected %zu dimension%s (%s), found %u", dimensions,
			    dimensions == 1 ? "" : "s", dimensions == 1 ? "labels" : "images",
			    bytes[3]);
	return STRETTO_OK;
}

/* Reads dimension i, which makes idx->elements grow. */
static stretto_status read_extent(const uint8_t *bytes, size_t i, struct stretto_idx *idx,
				  struct stretto_idx_problem *problem)
{
	size_t offset = 4 + 4 * i;
	size_t extent = big_endian(bytes + offset);

	if (extent < 1)
		return fail(problem, offset, "expected at least 1 in dimension %zu, found 0", i);
	if (i > 0 && extent > STRETTO_IDX_SIDE)
		return fail(problem, offset, "expected at most %d rows or columns, found %zu",
			    STRETTO_IDX_SIDE, extent);
	if (extent > STRETTO_IDX_BYTES / idx->elements)
		return fail(problem, offset,
			    "expected at most %zu bytes of elements, but dimension %zu of %zu "
			    "makes them more",
			    STRETTO_IDX_BYTES, i, extent);
	idx->extent[i] = extent;
	idx->elements *= extent;
	return STRETTO_OK;
}

stretto_status stretto_idx_header(const uint8_t *bytes, size_t size, size_t dimensions,
				  struct stretto_idx *idx, struct stretto_idx_problem *problem)
{
	size_t header = 4 + 4 * dimensions;
	struct stretto_idx found = {dimensions, {1, 1, 1}, header, 1, NULL};
	stretto_status status;

	if (size < header)
		return fail(problem, size, "expected a header of %zu bytes, but the file ends here",
			    header);
	status = check_magic(bytes, dimensions, problem);
	for (size_t i = 0; i < dimensions && status == STRETTO_OK; i++)
		status = read_extent(bytes, i, &found, problem);
	if (status == STRETTO_OK)
		*idx = found;
	return status;
}

stretto_status stretto_idx_parse(const uint8_t *bytes, size_t size, size_t dimensions,
				 struct stretto_idx *idx, struct stretto_idx_problem *problem)
{
	struct stretto_idx found;
	stretto_status status = stretto_idx_header(bytes, size, dimensions, &found, problem);
	size_t end;

	if (status != STRETTO_OK)
		return status;
	end = found.header + found.elements;
	if (size < end)
		return fail(problem, size,
			    "expected %zu bytes in all, as the header says, but the file ends here",
			    end);
	if (size > end)
		return fail(problem, end,
			    "expected the end of the file, as the header says, but more follows");
	found.data = bytes + found.header;
	*idx = found;
	return STRETTO_OK;
}

/* At the end of what could be read: whether compressed data is missing there. */
static bool cut_short(gzFile file)
{
	int code = Z_OK;

	gzerror(file, &code);
	return code == Z_BUF_ERROR;
}

/* Reads up to `size` bytes of the decompressed file; *got tells how many there were. */
static stretto_status read_up_to(gzFile file, uint8_t *bytes, size_t size, size_t *got)
{
	const size_t most = 1 << 20;

	*got = 0;
	while (*got < size) {
		size_t want = size - *got < most ? size - *got : most;
		int n = gzread(file, bytes + *got, (unsigned)want);

		if (n < 0 || (n == 0 && cut_short(file)))
			return STRETTO_SYSTEM;
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return STRETTO_OK;
}

/*
 * Reads the whole file: header first, so that its numbers bound the memory taken, and one byte more
 * than they say, to see whether the file ends there (which also makes zlib check its checksum).
 */
static stretto_status read_all(gzFile file, size_t dimensions, uint8_t **bytes, size_t *size,
			       struct stretto_idx_problem *problem)
{
	uint8_t header[4 + 4 * STRETTO_IDX_DIMENSIONS];
	size_t length = 4 + 4 * dimensions, got = 0;
	struct stretto_idx idx;
	stretto_status status = read_up_to(file, header, length, size);

	if (status == STRETTO_OK)
		status = stretto_idx_header(header, *size, dimensions, &idx, problem);
	if (status != STRETTO_OK)
		return status;
	*bytes = malloc(length + idx.elements + 1);
	if (!*bytes)
		return STRETTO_NO_MEMORY;
	memcpy(*bytes, header, length);
	status = read_up_to(file, *bytes + length, idx.elements + 1, &got);
	*size = length + got;
	return status;
}

/* Says why the file could not be read to its end. */
static void tell_unreadable(gzFile file, const char *path, size_t offset, char *problem)
{
	int code = Z_OK;
	const char *text = gzerror(file, &code);

	if (code == Z_BUF_ERROR)
		text = "the compressed file is truncated";
	else if (code == Z_ERRNO)
		text = strerror(errno);
	else if (code == Z_DATA_ERROR)
		text = "the compressed data is damaged";
	snprintf(problem, STRETTO_PROBLEM, "%s: after offset %zu: %s", path, offset, text);
}

stretto_status stretto_idx_read(const char *path, size_t dimensions, struct stretto_idx *idx,
				uint8_t **bytes, char *problem)
{
	struct stretto_idx_problem found = {0};
	uint8_t *memory = NULL;
	size_t size = 0;
	stretto_status status;
	gzFile file;

	errno = 0;
	file = gzopen(path, "rb");
	if (!file) {
		snprintf(problem, STRETTO_PROBLEM, "%s: %s", path,
			 errno ? strerror(errno) : "out of memory");
		return STRETTO_SYSTEM;
	}
	status = read_all(file, dimensions, &memory, &size, &found);
	if (status == STRETTO_OK)
		status = stretto_idx_parse(memory, size, dimensions, idx, &found);
	if (status == STRETTO_INVALID)
		snprintf(problem, STRETTO_PROBLEM, "%s: at offset %zu: %.*s", path, found.offset,
			 STRETTO_PROBLEM / 2, found.text);
	else if (status == STRETTO_NO_MEMORY)
		snprintf(problem, STRETTO_PROBLEM, "%s: no memory for its contents", path);
	else if (status == STRETTO_SYSTEM)
		tell_unreadable(file, path, size, problem);
	gzclose_r(file);
	if (status == STRETTO_OK)
		*bytes = memory;
	else
		free(memory);
	return status;
}
