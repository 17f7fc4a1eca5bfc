/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the CIFAR parser: clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.
 * tests/fuzz/fuzz_cifar.c trainer/data/cifar.c; -max_len=10000 for some records
 */
#include <stdlib.h>

#include "trainer/data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	size_t count = size / (STRETTO_CIFAR_IMAGE + 1);
	uint8_t *images = malloc(count * STRETTO_CIFAR_IMAGE + 1), *labels = malloc(count + 1);
	struct stretto_idx_problem problem;

	require(images && labels);
	if (stretto_cifar_parse(bytes, size, images, labels, &problem) != STRETTO_OK)
		require(problem.offset <= size && problem.text[0] != '\0');
	else
		for (size_t i = 0; i < count; i++)
			require(labels[i] < STRETTO_CIFAR_CLASSES);
	free(images);
	free(labels);
	return 0;
}
