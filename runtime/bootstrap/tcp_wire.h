/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_wire.h: the bytes of the tcp rendezvous, and nothing that does I/O.
 *
 * Everything that arrives from a socket is judged here, so that it can be fuzzed without one. All
 * numbers are big endian. A rank says hello to rank 0 and gets an answer; from then on both sides
 * send frames.
 *
 *   hello    0         8                    24        28      32      36
 *            | magic   | token              | version | rank  | size  |
 *   answer   0         8      12       16
 *            | magic   | code | detail |
 *   frame    0      4       8               16
 *            | kind | round | length        | payload of `length` bytes ...
 *
 * The token is compared before anything behind it is looked at. No length from the wire is ever
 * used to allocate: the receiver knows what it expects and refuses all else.
 *
 * Threads: pure functions, any thread.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_TCP_WIRE_H
#define STRETTO_RUNTIME_BOOTSTRAP_TCP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STRETTO_TCP_VERSION = 1,
	STRETTO_TCP_TOKEN = 16,   /* bytes of a token */
	STRETTO_TCP_HELLO = 36,   /* bytes of a hello */
	STRETTO_TCP_ANSWER = 16,  /* bytes of an answer */
	STRETTO_TCP_FRAME = 16,   /* bytes of a frame's head */
	STRETTO_TCP_REASON = 512, /* most bytes of the text of a FAIL frame */
};

/* Rank 0's answer to a hello. */
enum stretto_tcp_code {
	STRETTO_TCP_ACCEPTED,      /* detail: milliseconds that rank 0 still waits for the others */
	STRETTO_TCP_WRONG_TOKEN,   /* detail: 0 */
	STRETTO_TCP_WRONG_VERSION, /* detail: rank 0's version */
	STRETTO_TCP_WRONG_SIZE,    /* detail: rank 0's size */
	STRETTO_TCP_WRONG_RANK,    /* detail: rank 0's size */
	STRETTO_TCP_RANK_TAKEN,    /* detail: 0 */
	STRETTO_TCP_CODES,         /* number of the codes above, which travel */
	STRETTO_TCP_STRANGER,      /* no magic: gets no answer */
};

enum stretto_tcp_kind {
	STRETTO_TCP_START = 1, /* from rank 0: all ranks are there; no payload */
	STRETTO_TCP_DATA = 2,  /* to rank 0: a blob; from rank 0: the blobs of all ranks */
	STRETTO_TCP_FAIL = 3,  /* from rank 0: the job failed; payload: why, as text */
};

struct stretto_tcp_frame {
	enum stretto_tcp_kind kind;
	uint32_t round;  /* number of the allgather, from 1; 0 for START */
	uint64_t length; /* bytes of the payload */
};

/* Reads exactly 32 hex digits; false for anything else. */
bool stretto_tcp_parse_token(const char *text, unsigned char token[STRETTO_TCP_TOKEN]);

/*
 * Splits "HOST:PORT" or "[V6]:PORT" into two texts of at most `bytes` bytes each; false unless HOST
 * is not empty, PORT is a number from 1 to 65535 and both fit.
 */
bool stretto_tcp_split_root(const char *root, char *host, char *port, size_t bytes);

void stretto_tcp_make_hello(unsigned char hello[STRETTO_TCP_HELLO],
			    const unsigned char token[STRETTO_TCP_TOKEN], int rank, int size);

/*
 * Judges a hello as rank 0 of a job of `size` ranks with `token`. *rank is written for
 * STRETTO_TCP_ACCEPTED only. Takes the same time for every wrong token.
 */
enum stretto_tcp_code stretto_tcp_judge_hello(const unsigned char hello[STRETTO_TCP_HELLO],
					      const unsigned char token[STRETTO_TCP_TOKEN],
					      int size, int *rank);

void stretto_tcp_make_answer(unsigned char answer[STRETTO_TCP_ANSWER], enum stretto_tcp_code code,
			     uint32_t detail);
/* False if this is not an answer of a rank 0; outputs are written only if true. */
bool stretto_tcp_parse_answer(const unsigned char answer[STRETTO_TCP_ANSWER],
			      enum stretto_tcp_code *code, uint32_t *detail);

void stretto_tcp_make_frame(unsigned char head[STRETTO_TCP_FRAME],
			    const struct stretto_tcp_frame *frame);
/* False for an unknown kind or a length that its kind cannot have; *frame written only if true. */
bool stretto_tcp_parse_frame(const unsigned char head[STRETTO_TCP_FRAME],
			     struct stretto_tcp_frame *frame);

/* What a code means and what to do, in a few words: static. */
const char *stretto_tcp_code_text(enum stretto_tcp_code code);

/* Writes the indices i < size with listed[i] as "3,5-7", cut with "..." where it would not fit. */
void stretto_tcp_list_ranks(const bool *listed, int size, char *text, size_t bytes);

/* Replaces what is not printable ASCII, so that a peer's text can go to a terminal. */
void stretto_tcp_make_printable(char *text, size_t bytes);

#endif
