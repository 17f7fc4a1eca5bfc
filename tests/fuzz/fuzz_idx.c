/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the IDX parser: clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.
 * tests/fuzz/fuzz_idx.c trainer/data/idx.c -lz
 *
 * What the parser accepts must be exactly the bytes it was given; what it refuses must be explained
 * at an offset inside them.
 */
#include <stdlib.h>

#include "trainer/data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	for (size_t dimensions = 1; dimensions <= STRETTO_IDX_DIMENSIONS; dimensions++) {
		struct stretto_idx_problem problem;
		struct stretto_idx idx;

		if (stretto_idx_parse(bytes, size, dimensions, &idx, &problem) != STRETTO_OK) {
			require(problem.offset <= size && problem.text[0] != '\0');
			continue;
		}
		require(idx.data == bytes + idx.header);
		require(idx.header + idx.elements == size);
		require(idx.extent[0] * idx.extent[1] * idx.extent[2] == idx.elements);
	}
	return 0;
}
