/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_rendezvous.c: whatever arrives at the rendezvous, the wire functions stay within their
 * buffers, let nobody in without the token, and take only what they could have made themselves.
 *
 *	clang -std=c11 -D_GNU_SOURCE -I. -g -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz_rendezvous.c runtime/bootstrap/tcp_wire.c -o fuzz_rendezvous
 *	./fuzz_rendezvous -max_total_time=60
 *
 * The first byte of an input chooses the function, the second the size of the job.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bootstrap/tcp_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert() it stays whatever NDEBUG says. */
static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

static const unsigned char token[STRETTO_TCP_TOKEN] = "sixteen bytes...";

/* Copies to the heap, where a read past the end is seen. */
static unsigned char *exactly(const uint8_t *data, size_t size, size_t wanted)
{
	unsigned char *copy = calloc(1, wanted);

	must(copy != NULL, "memory");
	memcpy(copy, data, size < wanted ? size : wanted);
	return copy;
}

static void fuzz_hello(const uint8_t *data, size_t size, int job_size)
{
	unsigned char *hello = exactly(data, size, STRETTO_TCP_HELLO);
	unsigned char made[STRETTO_TCP_HELLO];
	int rank = -1;
	enum stretto_tcp_code code;

	/* no fuzzer guesses a token that is compared in constant time: half of them are right */
	if (job_size % 2 == 0) {
		stretto_tcp_make_hello(made, token, 1, job_size);
		memcpy(hello, made, STRETTO_TCP_HELLO - 12); /* all but version, rank and size */
	}
	code = stretto_tcp_judge_hello(hello, token, job_size, &rank);
	must((rank >= 0) == (code == STRETTO_TCP_ACCEPTED), "a rank only for the accepted");
	if (code == STRETTO_TCP_ACCEPTED) {
		must(rank > 0 && rank < job_size, "accepted ranks are of the job");
		stretto_tcp_make_hello(made, token, rank, job_size);
		must(memcmp(made, hello, sizeof made) == 0, "only the one right hello is accepted");
	}
	must(stretto_tcp_code_text(code)[0] != '\0', "every code has a text");
	free(hello);
}

static void fuzz_answer(const uint8_t *data, size_t size)
{
	unsigned char *answer = exactly(data, size, STRETTO_TCP_ANSWER);
	unsigned char made[STRETTO_TCP_ANSWER];
	enum stretto_tcp_code code;
	uint32_t detail;

	if (stretto_tcp_parse_answer(answer, &code, &detail)) {
		must(code < STRETTO_TCP_CODES, "only codes that travel");
		stretto_tcp_make_answer(made, code, detail);
		must(memcmp(made, answer, sizeof made) == 0, "answers come back as made");
	}
	free(answer);
}

static void fuzz_frame(const uint8_t *data, size_t size)
{
	unsigned char *head = exactly(data, size, STRETTO_TCP_FRAME);
	unsigned char made[STRETTO_TCP_FRAME];
	struct stretto_tcp_frame frame;

	if (stretto_tcp_parse_frame(head, &frame)) {
		must(frame.kind != STRETTO_TCP_FAIL || frame.length <= STRETTO_TCP_REASON,
		     "a reason fits its buffer");
		must(frame.kind != STRETTO_TCP_START || frame.length == 0, "START is empty");
		stretto_tcp_make_frame(made, &frame);
		must(memcmp(made, head, sizeof made) == 0, "frames come back as made");
	}
	free(head);
}

static void fuzz_texts(const uint8_t *data, size_t size)
{
	char *text = (char *)exactly(data, size, size + 1);
	unsigned char parsed[STRETTO_TCP_TOKEN];
	char host[64];
	char port[64];

	if (stretto_tcp_parse_token(text, parsed))
		must(strlen(text) == 2 * STRETTO_TCP_TOKEN, "a token has 32 digits");
	if (stretto_tcp_split_root(text, host, port, sizeof host)) {
		must(host[0] != '\0' && strlen(host) < sizeof host, "a host");
		must(strtol(port, NULL, 10) >= 1 && strtol(port, NULL, 10) <= 65535, "a port");
	}
	stretto_tcp_make_printable(text, size);
	for (size_t i = 0; i < size; i++)
		must(text[i] >= ' ' && text[i] <= '~', "printable");
	free(text);
}

static void fuzz_list(const uint8_t *data, size_t size)
{
	size_t bytes = size > 0 ? 4 + data[0] : 4;
	char *text = (char *)exactly(data, 0, bytes);
	bool *listed = calloc(size + 1, sizeof *listed);

	must(listed != NULL, "memory");
	for (size_t i = 0; i < size; i++)
		listed[i] = data[i] & 1;
	stretto_tcp_list_ranks(listed, (int)size, text, bytes);
	must(strlen(text) < bytes, "a list ends");
	free(listed);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > 4096)
		return 0;
	switch (data[0] % 5) {
	case 0:
		fuzz_hello(data + 2, size - 2, 1 + data[1]);
		break;
	case 1:
		fuzz_answer(data + 2, size - 2);
		break;
	case 2:
		fuzz_frame(data + 2, size - 2);
		break;
	case 3:
		fuzz_texts(data + 2, size - 2);
		break;
	default:
		fuzz_list(data + 2, size - 2);
		break;
	}
	return 0;
}
