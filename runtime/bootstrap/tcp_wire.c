/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/tcp_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Eight bytes that no text protocol starts with. */
static const unsigned char magic[8] = {0x9d, 'S', 'T', 'R', 'E', 'T', 'T', 'O'};

/* Offsets; see the picture in the header. */
enum {
	HELLO_TOKEN = sizeof magic,
	HELLO_VERSION = HELLO_TOKEN + STRETTO_TCP_TOKEN,
	HELLO_RANK = HELLO_VERSION + 4,
	HELLO_SIZE = HELLO_RANK + 4,
	ANSWER_CODE = sizeof magic,
	ANSWER_DETAIL = ANSWER_CODE + 4,
	FRAME_ROUND = 4,
	FRAME_LENGTH = 8,
};
_Static_assert(HELLO_SIZE + 4 == STRETTO_TCP_HELLO, "hello layout");
_Static_assert(ANSWER_DETAIL + 4 == STRETTO_TCP_ANSWER, "answer layout");
_Static_assert(FRAME_LENGTH + 8 == STRETTO_TCP_FRAME, "frame layout");

static void put32(unsigned char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t get32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int hex_value(char digit)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *found = digit ? strchr(digits, digit) : NULL;

	return found ? (int)((found - digits) % 16) : -1;
}

bool stretto_tcp_parse_token(const char *text, unsigned char token[STRETTO_TCP_TOKEN])
{
	unsigned char parsed[STRETTO_TCP_TOKEN];

	if (strlen(text) != 2 * STRETTO_TCP_TOKEN)
		return false;
	for (size_t i = 0; i < STRETTO_TCP_TOKEN; i++) {
		int high = hex_value(text[2 * i]);
		int low = hex_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		parsed[i] = (unsigned char)(high << 4 | low);
	}
	memcpy(token, parsed, sizeof parsed);
	return true;
}

static bool copy_part(char *to, const char *from, size_t length, size_t bytes)
{
	if (length == 0 || length >= bytes)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

bool stretto_tcp_split_root(const char *root, char *host, char *port, size_t bytes)
{
	const char *colon = strrchr(root, ':');
	const char *begin = root;
	const char *end = colon;
	long number;

	if (!colon || strlen(colon + 1) > 5 || colon[1 + strspn(colon + 1, "0123456789")] != '\0')
		return false;
	number = strtol(colon + 1, NULL, 10);
	if (number < 1 || number > 65535)
		return false;
	if (*begin == '[') {
		begin++;
		end--;
		if (end <= begin || *end != ']')
			return false;
	} else if (memchr(begin, ':', (size_t)(end - begin))) {
		return false; /* an IPv6 address without brackets */
	}
	return copy_part(host, begin, (size_t)(end - begin), bytes) &&
	       copy_part(port, colon + 1, strlen(colon + 1), bytes);
}

void stretto_tcp_make_hello(unsigned char hello[STRETTO_TCP_HELLO],
			    const unsigned char token[STRETTO_TCP_TOKEN], int rank, int size)
{
	memcpy(hello, magic, sizeof magic);
	memcpy(hello + HELLO_TOKEN, token, STRETTO_TCP_TOKEN);
	put32(hello + HELLO_VERSION, STRETTO_TCP_VERSION);
	put32(hello + HELLO_RANK, (uint32_t)rank);
	put32(hello + HELLO_SIZE, (uint32_t)size);
}

/* Takes the same time wherever the first difference is. */
static bool same_token(const unsigned char *a, const unsigned char *b)
{
	volatile unsigned char difference = 0; /* volatile: the loop must not end early */

	for (size_t i = 0; i < STRETTO_TCP_TOKEN; i++)
		difference = (unsigned char)(difference | (a[i] ^ b[i]));
	return difference == 0;
}

enum stretto_tcp_code stretto_tcp_judge_hello(const unsigned char hello[STRETTO_TCP_HELLO],
					      const unsigned char token[STRETTO_TCP_TOKEN],
					      int size, int *rank)
{
	uint32_t claimed;

	if (memcmp(hello, magic, sizeof magic) != 0)
		return STRETTO_TCP_STRANGER;
	if (!same_token(hello + HELLO_TOKEN, token))
		return STRETTO_TCP_WRONG_TOKEN;
	if (get32(hello + HELLO_VERSION) != STRETTO_TCP_VERSION)
		return STRETTO_TCP_WRONG_VERSION;
	if (get32(hello + HELLO_SIZE) != (uint32_t)size)
		return STRETTO_TCP_WRONG_SIZE;
	claimed = get32(hello + HELLO_RANK);
	if (claimed == 0 || claimed >= (uint32_t)size)
		return STRETTO_TCP_WRONG_RANK;
	*rank = (int)claimed;
	return STRETTO_TCP_ACCEPTED;
}

void stretto_tcp_make_answer(unsigned char answer[STRETTO_TCP_ANSWER], enum stretto_tcp_code code,
			     uint32_t detail)
{
	memcpy(answer, magic, sizeof magic);
	put32(answer + ANSWER_CODE, (uint32_t)code);
	put32(answer + ANSWER_DETAIL, detail);
}

bool stretto_tcp_parse_answer(const unsigned char answer[STRETTO_TCP_ANSWER],
			      enum stretto_tcp_code *code, uint32_t *detail)
{
	uint32_t value = get32(answer + ANSWER_CODE);

	if (memcmp(answer, magic, sizeof magic) != 0 || value >= STRETTO_TCP_CODES)
		return false;
	*code = (enum stretto_tcp_code)value;
	*detail = get32(answer + ANSWER_DETAIL);
	return true;
}

void stretto_tcp_make_frame(unsigned char head[STRETTO_TCP_FRAME],
			    const struct stretto_tcp_frame *frame)
{
	put32(head, (uint32_t)frame->kind);
	put32(head + FRAME_ROUND, frame->round);
	put32(head + FRAME_LENGTH, (uint32_t)(frame->length >> 32));
	put32(head + FRAME_LENGTH + 4, (uint32_t)frame->length);
}

bool stretto_tcp_parse_frame(const unsigned char head[STRETTO_TCP_FRAME],
			     struct stretto_tcp_frame *frame)
{
	uint32_t kind = get32(head);
	uint64_t length =
		(uint64_t)get32(head + FRAME_LENGTH) << 32 | get32(head + FRAME_LENGTH + 4);

	if (kind < STRETTO_TCP_START || kind > STRETTO_TCP_FAIL)
		return false;
	if ((kind == STRETTO_TCP_START && length != 0) ||
	    (kind == STRETTO_TCP_FAIL && length > STRETTO_TCP_REASON))
		return false;
	frame->kind = (enum stretto_tcp_kind)kind;
	frame->round = get32(head + FRAME_ROUND);
	frame->length = length;
	return true;
}

const char *stretto_tcp_code_text(enum stretto_tcp_code code)
{
	switch (code) {
	case STRETTO_TCP_ACCEPTED:
		return "accepted";
	case STRETTO_TCP_WRONG_TOKEN:
		return "wrong token (STRETTO_TOKEN must be the same on all ranks)";
	case STRETTO_TCP_WRONG_VERSION:
		return "another version of the rendezvous (all ranks must use the same Stretto)";
	case STRETTO_TCP_WRONG_SIZE:
		return "wrong size (STRETTO_SIZE must be the same on all ranks)";
	case STRETTO_TCP_WRONG_RANK:
		return "no such rank (STRETTO_RANK must be from 0 to STRETTO_SIZE - 1)";
	case STRETTO_TCP_RANK_TAKEN:
		return "this rank has joined already (STRETTO_RANK must differ on every rank)";
	case STRETTO_TCP_CODES:
	case STRETTO_TCP_STRANGER:
		break;
	}
	return "it does not speak the rendezvous protocol";
}

void stretto_tcp_list_ranks(const bool *listed, int size, char *text, size_t bytes)
{
	size_t used = 0;
	int last;

	text[0] = '\0';
	for (int first = 0; first < size; first = last + 1) {
		char part[32];
		int length;

		last = first;
		if (!listed[first])
			continue;
		while (last + 1 < size && listed[last + 1])
			last++;
		length = snprintf(part, sizeof part, last > first ? "%s%d-%d" : "%s%d",
				  used ? "," : "", first, last);
		if (used + (size_t)length + sizeof "..." > bytes) {
			snprintf(text + used, bytes - used, "...");
			return;
		}
		memcpy(text + used, part, (size_t)length + 1);
		used += (size_t)length;
	}
}

void stretto_tcp_make_printable(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}
