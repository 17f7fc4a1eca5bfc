/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/data/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Reads `expected` bytes from an open file, which must have no more. */
static stretto_status read_bytes(FILE *file, const char *path, size_t expected, uint8_t *bytes,
				 char *problem)
{
	size_t found = fread(bytes, 1, expected, file);

	if (found == expected && fgetc(file) == EOF && !ferror(file))
		return STRETTO_OK;
	snprintf(problem, STRETTO_PROBLEM, "%.200s: at offset %zu: %s", path, found,
		 ferror(file) ? strerror(errno) : "the file changed while it was read");
	return STRETTO_SYSTEM;
}

static stretto_status read_file(FILE *file, const char *path, uint8_t **bytes, size_t *size,
				char *problem)
{
	struct stat stat;
	uint8_t *found;
	stretto_status status;

	if (fstat(fileno(file), &stat) != 0 || !S_ISREG(stat.st_mode)) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: not a file", path);
		return STRETTO_SYSTEM;
	}
	if (stat.st_size < 1 || (uint64_t)stat.st_size > STRETTO_IDX_BYTES) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: expected 1 to %zu bytes, found %lld",
			 path, STRETTO_IDX_BYTES, (long long)stat.st_size);
		return STRETTO_INVALID;
	}
	found = malloc((size_t)stat.st_size);
	if (!found) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: no memory", path);
		return STRETTO_NO_MEMORY;
	}
	status = read_bytes(file, path, (size_t)stat.st_size, found, problem);
	if (status != STRETTO_OK) {
		free(found);
		return status;
	}
	*bytes = found;
	*size = (size_t)stat.st_size;
	return STRETTO_OK;
}

stretto_status stretto_text_read(const char *path, uint8_t **bytes, size_t *size, char *problem)
{
	FILE *file = fopen(path, "rb");
	stretto_status status;

	if (!file) {
		snprintf(problem, STRETTO_PROBLEM, "%.200s: %s", path, strerror(errno));
		return STRETTO_SYSTEM;
	}
	status = read_file(file, path, bytes, size, problem);
	fclose(file);
	return status;
}
