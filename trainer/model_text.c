/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/model_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of a line: the kind and four numbers, and one that is too many. */
enum { WORDS = 6 };

struct words {
	char text[STRETTO_MODEL_LINE];
	const char *word[WORDS];
	size_t count; /* of word */
};

static const struct kind {
	const char *word;
	size_t fewest, most; /* numbers after it */
} kinds[] = {
#define KIND(kind, word, fewest, most) {word, fewest, most},
	STRETTO_LAYER_KINDS(KIND)
#undef KIND
};

static const char *split(const char *line, size_t length, struct words *words)
{
	const char *comment = memchr(line, '#', length);
	char *rest = words->text;

	words->count = 0;
	if (comment)
		length = (size_t)(comment - line);
	if (length >= sizeof(words->text))
		return "the line is too long";
	if (memchr(line, '\0', length))
		return "a zero byte: this is not a text";
	memcpy(words->text, line, length);
	words->text[length] = '\0';
	for (char *word; (word = strtok_r(rest, " \t\r", &rest)) != NULL;) {
		if (words->count == WORDS)
			return "too many words";
		words->word[words->count++] = word;
	}
	return NULL;
}

/* The numbers behind the first word. */
static const char *numbers(const struct words *words, uint32_t lowest_last, uint32_t *values)
{
	for (size_t i = 1; i < words->count; i++) {
		const char *word = words->word[i];
		uint32_t lowest = i == 4 ? lowest_last : 1;
		char *end;
		unsigned long value = strtoul(word, &end, 10);

		if (*word < '0' || *word > '9' || *end != '\0' || value < lowest ||
		    value > STRETTO_MODEL_WIDTH)
			return "each number must be from 1 to 65536 (a padding from 0)";
		values[i - 1] = (uint32_t)value;
	}
	return NULL;
}

static const char *parse_input(const struct words *words, struct stretto_model_options *options)
{
	const bool image = strcmp(words->word[0], "input") == 0;
	uint32_t n[WORDS] = {0};
	const char *problem;

	if (!image && strcmp(words->word[0], "tokens") != 0)
		return "the first line must be input HEIGHT WIDTH CHANNELS or tokens LENGTH "
		       "VOCABULARY";
	if (words->count != (image ? 4 : 3))
		return image ? "expected input HEIGHT WIDTH CHANNELS"
			     : "expected tokens LENGTH VOCABULARY";
	problem = numbers(words, 1, n);
	if (problem)
		return problem;
	options->input = image ? (struct stretto_shape){n[0], n[1], n[2]}
			       : (struct stretto_shape){n[0], 1, 1};
	options->vocabulary = image ? 0 : n[1];
	return NULL;
}

static const char *parse_share(const char *word, float *share)
{
	char *end;
	double value = strtod(word, &end);

	if (*word < '0' || *word > '9' || *end != '\0' || !(value >= 0 && value < 1))
		return "the share of dropout must be 0 or more and less than 1";
	*share = (float)value;
	/* What is almost 1 must not become it. */
	return *share < 1 ? NULL : "the share of dropout is too near to 1";
}

static bool is_pool(enum stretto_layer_kind kind)
{
	return kind == STRETTO_LAYER_MAXPOOL || kind == STRETTO_LAYER_AVGPOOL;
}

static const char *parse_layer(const struct words *words, struct stretto_model_options *options)
{
	struct stretto_layer_spec *spec = &options->specs[options->layers];
	uint32_t n[WORDS] = {0};
	const char *problem;
	size_t kind = 0;

	while (kind < STRETTO_LAYER_KINDS_COUNT && strcmp(words->word[0], kinds[kind].word) != 0)
		kind++;
	if (kind == STRETTO_LAYER_KINDS_COUNT)
		return "no such layer";
	if (options->layers == STRETTO_MODEL_LAYERS)
		return "more than 256 layers";
	if (words->count - 1 < kinds[kind].fewest || words->count - 1 > kinds[kind].most)
		return "the layer takes another number of numbers";
	*spec = (struct stretto_layer_spec){.kind = (enum stretto_layer_kind)kind};
	if (spec->kind == STRETTO_LAYER_DROPOUT)
		problem = parse_share(words->word[1], &spec->share);
	else
		problem = numbers(words, 0, n);
	spec->out = is_pool(spec->kind) ? 0 : n[0];
	spec->side = is_pool(spec->kind) ? n[0] : n[1];
	spec->stride = n[2] ? n[2] : 1;
	spec->pad = n[3];
	options->layers++;
	return problem;
}

/* Reads all lines; where[i] is the line of layer i. */
static const char *parse_lines(const char *bytes, size_t size,
			       struct stretto_model_options *options, size_t *where, size_t *line)
{
	const char *end = bytes + size, *problem = NULL;

	*line = 0;
	while (bytes < end && !problem) {
		const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
		struct words words = {.count = 0};

		++*line;
		stop = stop ? stop : end;
		problem = split(bytes, (size_t)(stop - bytes), &words);
		if (!problem && words.count > 0 && options->input.height == 0) {
			problem = parse_input(&words, options);
		} else if (!problem && words.count > 0) {
			where[options->layers < STRETTO_MODEL_LAYERS ? options->layers : 0] = *line;
			problem = parse_layer(&words, options);
		}
		bytes = stop < end ? stop + 1 : end;
	}
	*line = *line > 0 ? *line : 1;
	if (!problem && options->layers == 0)
		return "no layers";
	return problem;
}

const char *stretto_model_parse_file(const char *bytes, size_t size,
				     struct stretto_model_options *options, size_t *line)
{
	struct stretto_model_options *found = calloc(1, sizeof(*found));
	size_t where[STRETTO_MODEL_LAYERS], at;
	const char *problem;

	*line = 1;
	if (!found)
		return "no memory";
	problem = parse_lines(bytes, size, found, where, line);
	if (!problem) {
		problem = stretto_model_settle(found, &at);
		if (problem && at < found->layers)
			*line = where[at];
	}
	if (!problem) {
		found->batch = options->batch;
		*options = *found;
	}
	free(found);
	return problem;
}

/* bytes[STRETTO_MODEL_FILE + 1] of a file; their number, or -1 with errno. */
static long read_bytes(const char *path, char *bytes)
{
	FILE *file = fopen(path, "rb");
	size_t size;
	int error;

	if (!file)
		return -1;
	errno = 0;
	size = fread(bytes, 1, STRETTO_MODEL_FILE + 1, file);
	error = ferror(file) ? errno : 0;
	fclose(file);
	errno = error;
	return error ? -1 : (long)size;
}

static stretto_status load_file(const char *path, struct stretto_model_options *options,
				char *bytes, char *problem)
{
	long size = read_bytes(path, bytes);
	const char *wrong;
	size_t line = 1;

	if (size < 0) {
		snprintf(problem, STRETTO_MODEL_PROBLEM,
			 "%.200s: %s (a file, or mlp:, cnn:, resnet:, transformer: and numbers)",
			 path, strerror(errno));
		return STRETTO_SYSTEM;
	}
	wrong = size > STRETTO_MODEL_FILE
			? "more than 65536 bytes"
			: stretto_model_parse_file(bytes, (size_t)size, options, &line);
	if (!wrong)
		return STRETTO_OK;
	snprintf(problem, STRETTO_MODEL_PROBLEM, "%.200s: line %zu: %s", path, line, wrong);
	return STRETTO_INVALID;
}

stretto_status stretto_model_load(const char *text, struct stretto_model_options *options,
				  char *problem)
{
	stretto_status status;
	char *bytes;

	if (stretto_model_named(text)) {
		const char *wrong = stretto_model_parse(text, options);

		if (!wrong)
			return STRETTO_OK;
		snprintf(problem, STRETTO_MODEL_PROBLEM, "%.200s: %s", text, wrong);
		return STRETTO_INVALID;
	}
	bytes = malloc(STRETTO_MODEL_FILE + 1);
	if (!bytes) {
		snprintf(problem, STRETTO_MODEL_PROBLEM, "no memory to read a model");
		return STRETTO_NO_MEMORY;
	}
	status = load_file(text, options, bytes, problem);
	free(bytes);
	return status;
}
