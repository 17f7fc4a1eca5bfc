/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuning.h: what a tuning file says: the speeds of links, and algorithms fixed for ranges of bytes.
 *
 * A file is lines of words; docs/tuning.md has the format:
 *
 *	stretto-tuning 1
 *	node shm latency 0.8us
 *	allreduce 0-4096 doubling
 *
 * Names of collectives and algorithms are words here: selection knows which exist. What
 * stretto_tuning_print() writes is read back to the same values.
 *
 * Threads: the parser is pure; a struct stretto_tuning is filled once and only read afterwards.
 */
#ifndef STRETTO_RUNTIME_TUNING_H
#define STRETTO_RUNTIME_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/stretto.h"

/* Limits of a file: bytes, bytes of a line, rules, bytes of a word with its end. */
enum {
	STRETTO_TUNING_BYTES = 64 << 10,
	STRETTO_TUNING_LINE = 256,
	STRETTO_TUNING_RULES = 128,
	STRETTO_TUNING_WORD = 32,
};

enum stretto_tuning_level { STRETTO_TUNING_NODE, STRETTO_TUNING_ACROSS, STRETTO_TUNING_LEVELS };

enum stretto_tuning_key {
	STRETTO_TUNING_LATENCY,    /* seconds */
	STRETTO_TUNING_PER_BYTE,   /* seconds */
	STRETTO_TUNING_PER_REDUCE, /* seconds per byte */
	STRETTO_TUNING_MESSAGE,    /* bytes */
	STRETTO_TUNING_KEYS
};

/* shm, verbs, ucx */
enum { STRETTO_TUNING_TRANSPORTS = 3 };

/* An algorithm for a range of bytes. */
struct stretto_tuning_rule {
	char collective[STRETTO_TUNING_WORD];
	char algorithm[STRETTO_TUNING_WORD];
	size_t low;    /* bytes as the cost models count them */
	size_t high;   /* the last that it is for; SIZE_MAX: no end */
	unsigned line; /* of the file, for messages */
};

struct stretto_tuning {
	/* 0: not given. */
	double values[STRETTO_TUNING_LEVELS][STRETTO_TUNING_TRANSPORTS][STRETTO_TUNING_KEYS];
	struct stretto_tuning_rule rules[STRETTO_TUNING_RULES];
	size_t rule_count;
	uint64_t hash; /* of the file's bytes; 0: no file */
};

/* Why a file is refused. */
struct stretto_tuning_problem {
	unsigned line; /* counted from 1 */
	char text[160];
};

/* Reads the text of a file. STRETTO_INVALID, and *problem, for the first line that is wrong. */
stretto_status stretto_tuning_parse(const char *text, size_t bytes, struct stretto_tuning *tuning,
				    struct stretto_tuning_problem *problem);

/*
 * Reads the file of that name; an empty name is no file, and *tuning NULL. The caller frees
 * *tuning. STRETTO_INVALID, logged with file and line, for one that cannot be read or is wrong.
 */
stretto_status stretto_tuning_load(const char *path, const struct stretto_tuning **tuning);

/*
 * Enters a measured value, as a line of a file would. STRETTO_INVALID, and *problem (line 0), for a
 * transport that a file cannot name, or a value out of the key's range, which no measurement of a
 * working link gives.
 */
stretto_status stretto_tuning_set(struct stretto_tuning *tuning, enum stretto_tuning_level level,
				  const char *transport, enum stretto_tuning_key key, double value,
				  struct stretto_tuning_problem *problem);

/*
 * Writes the text of a file that says what *tuning says, with its end, and returns its bytes; 0 if
 * `size` bytes are too few. The hash is not looked at.
 */
size_t stretto_tuning_print(const struct stretto_tuning *tuning, char *text, size_t size);

/*
 * The value of a key, or `otherwise` where the file (NULL: none) does not give it or the transport
 * has none.
 */
double stretto_tuning_value(const struct stretto_tuning *tuning, enum stretto_tuning_level level,
			    const char *transport, enum stretto_tuning_key key, double otherwise);

#endif
