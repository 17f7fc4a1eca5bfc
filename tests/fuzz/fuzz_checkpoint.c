/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the checkpoint parser: clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.
 * tests/fuzz/fuzz_checkpoint.c trainer/checkpoint.c build/libstretto.a -lz ...
 *
 * The input is given as it is, and once more with a checksum that is right, so that what lies behind the
 * checksum is reached. Parts that were accepted must fill the bytes exactly, and have names that end.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "trainer/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void parse(const uint8_t *bytes, size_t size)
{
	char problem[STRETTO_CHECKPOINT_PROBLEM] = "";
	struct stretto_checkpoint checkpoint;
	size_t at = 32;

	if (stretto_checkpoint_parse(bytes, size, &checkpoint, problem) != STRETTO_OK) {
		require(problem[0] != '\0');
		return;
	}
	for (size_t i = 0; i < checkpoint.count; i++) {
		require(strlen(checkpoint.parts[i].name) < STRETTO_CHECKPOINT_NAME);
		require(checkpoint.parts[i].data == bytes + at + 32);
		at += 32 + checkpoint.parts[i].bytes;
	}
	require(at + 4 == size && checkpoint.id.rank < checkpoint.id.ranks);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	uint32_t crc;

	require(copy != NULL);
	memcpy(copy, bytes, size);
	parse(copy, size);
	if (size >= sizeof(crc)) {
		crc = (uint32_t)crc32_z(0, copy, size - sizeof(crc));
		memcpy(copy + size - sizeof(crc), &crc, sizeof(crc));
		parse(copy, size);
	}
	free(copy);
	return 0;
}
