/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_launchers.c: whatever a launcher's variables or PMI2 say, their readers stay within their
 * buffers and take only what is well formed.
 *
 *	clang -std=c11 -D_GNU_SOURCE -I. -g -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz_launchers.c runtime/bootstrap/{slurm,pmi2}_text.c -o fuzz_launchers
 *	./fuzz_launchers -max_total_time=60
 *
 * The first byte of an input chooses the function, the second a size.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bootstrap/pmi2_text.h"
#include "runtime/bootstrap/slurm_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert() it stays whatever NDEBUG says. */
static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

/* Memory of exactly this size, where an access past the end is seen. */
static void *exactly(size_t size)
{
	void *memory = calloc(1, size ? size : 1);

	must(memory != NULL, "memory");
	return memory;
}

static void fuzz_host(const char *list, size_t bytes)
{
	char *host = exactly(bytes);

	if (stretto_slurm_first_host(list, host, bytes)) {
		must(strlen(host) > 0 && strlen(host) < bytes, "a host fits");
		must(strlen(host) <= strlen(list), "a host is part of its list");
		must(host[strcspn(host, "[],:/; ")] == '\0', "a host is one name");
	}
	free(host);
}

static void fuzz_numbers(const char *text)
{
	int number;

	if (stretto_slurm_first_port(text, &number))
		must(number > 0 && number < 65536, "a port");
	if (stretto_slurm_number(text, 1000, &number))
		must(number >= 0 && number <= 1000 && strtol(text, NULL, 10) == number, "a number");
}

static void fuzz_value(const char *text, size_t bytes)
{
	char *part = exactly(bytes);
	char value[STRETTO_PMI2_VALUE];

	if (stretto_pmi2_decode(text, part, bytes)) {
		stretto_pmi2_encode(part, bytes, value);
		must(strcmp(value, text) == 0, "only what was encoded decodes");
	}
	free(part);
}

static void fuzz_blob(const char *blob, size_t bytes)
{
	char value[STRETTO_PMI2_VALUE];
	char *back;

	if (bytes > STRETTO_PMI2_PART)
		bytes = STRETTO_PMI2_PART;
	back = exactly(bytes);
	stretto_pmi2_encode(blob, bytes, value);
	must(stretto_pmi2_decode(value, back, bytes), "what was encoded decodes");
	must(memcmp(back, blob, bytes) == 0, "a blob comes back");
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 2 || size > 4096)
		return 0;
	text = exactly(size - 1);
	memcpy(text, data + 2, size - 2);
	switch (data[0] % 4) {
	case 0:
		fuzz_host(text, data[1]);
		break;
	case 1:
		fuzz_numbers(text);
		break;
	case 2:
		fuzz_value(text, strlen(text) * 3 / 4);
		break;
	default:
		fuzz_blob(text, size - 2);
		break;
	}
	free(text);
	return 0;
}
