/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the model parser: clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.
 * tests/fuzz/fuzz_model.c trainer/model_text.c trainer/model_spec.c
 *
 * What the parser accepts must be a model whose plan holds; what it refuses must be explained in a
 * line that is there.
 */
#include <stdlib.h>
#include <string.h>

#include "trainer/model_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void require_plan(const struct stretto_model_options *options)
{
	static struct stretto_model_plan plan;
	size_t at;

	require(options->layers >= 1 && options->layers <= STRETTO_MODEL_LAYERS);
	require(options->batch == 1);
	require(stretto_model_plan(options, &plan, &at) == NULL);
	for (size_t i = 0; i <= options->layers; i++) {
		size_t floats = stretto_shape_size(&plan.shapes[i]);

		require(floats >= 1 && floats <= STRETTO_MODEL_ROW);
	}
}

static void try_text(const uint8_t *bytes, size_t size)
{
	static struct stretto_model_options options;
	char text[512];

	if (size >= sizeof(text))
		return;
	memcpy(text, bytes, size);
	text[size] = '\0';
	options.batch = 1;
	if (stretto_model_parse(text, &options) == NULL)
		require_plan(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct stretto_model_options options;
	const char *problem;
	size_t line = 0, lines = 1;

	options.batch = 1;
	problem = stretto_model_parse_file((const char *)bytes, size, &options, &line);
	for (size_t i = 0; i < size; i++)
		lines += bytes[i] == '\n';
	if (problem)
		require(problem[0] != '\0' && line >= 1 && line <= lines);
	else
		require_plan(&options);
	try_text(bytes, size);
	return 0;
}
