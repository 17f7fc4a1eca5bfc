/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmi2_text.h: blobs as what PMI2 can carry, and nothing that calls it.
 *
 * A PMI2 value is a text of at most 1024 bytes that a NUL ends and that ';' cuts short without an
 * error, under a key of at most 63 bytes. A blob is cut into parts, and each part is a value in the
 * 64 digits of base64 (RFC 4648, section 4), without padding:
 *
 *   key      stretto-ROUND-RANK-PART
 *   value    4 digits for 3 bytes; at the end 2 digits for 1 byte, 3 for 2
 *
 * Threads: pure functions, any thread.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_PMI2_TEXT_H
#define STRETTO_RUNTIME_BOOTSTRAP_PMI2_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STRETTO_PMI2_PART = 720,  /* most bytes of a blob in one value: 960 digits */
	STRETTO_PMI2_VALUE = 961, /* bytes that hold any value, its end included */
	STRETTO_PMI2_KEY = 64,    /* bytes that hold any key, its end included */
};

/* Writes the key of one part of the blob that `rank` gives to exchange number `round`. */
void stretto_pmi2_make_key(char key[STRETTO_PMI2_KEY], uint32_t round, int rank, size_t part);

/* Writes `bytes` <= STRETTO_PMI2_PART as a value. */
void stretto_pmi2_encode(const void *part, size_t bytes, char value[STRETTO_PMI2_VALUE]);

/*
 * Reads a value of exactly `bytes` <= STRETTO_PMI2_PART; false for any other text, `part` is then
 * not written. What was encoded comes back, and nothing else decodes.
 */
bool stretto_pmi2_decode(const char *value, void *part, size_t bytes);

#endif
