/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/pmi2_text.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void stretto_pmi2_make_key(char key[STRETTO_PMI2_KEY], uint32_t round, int rank, size_t part)
{
	snprintf(key, STRETTO_PMI2_KEY, "stretto-%u-%d-%zu", round, rank, part);
}

/* Digits of so many bytes. */
static size_t digits_of(size_t bytes)
{
	return (8 * bytes + 5) / 6;
}

void stretto_pmi2_encode(const void *part, size_t bytes, char value[STRETTO_PMI2_VALUE])
{
	const unsigned char *from = part;
	size_t count = digits_of(bytes);
	uint32_t bits = 0; /* the last bits read, the latest lowest */
	unsigned have = 0; /* of them not yet written */

	for (size_t i = 0; i < count; i++) {
		if (have < 6) {
			bits = bits << 8 | (bytes > 0 ? *from++ : 0u);
			bytes -= bytes > 0;
			have += 8;
		}
		have -= 6;
		value[i] = digits[bits >> have & 63];
	}
	value[count] = '\0';
}

bool stretto_pmi2_decode(const char *value, void *part, size_t bytes)
{
	unsigned char decoded[STRETTO_PMI2_PART];
	size_t count = digits_of(bytes);
	size_t done = 0;
	uint32_t bits = 0;
	unsigned have = 0;

	if (bytes > sizeof decoded || strlen(value) != count)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *found = strchr(digits, value[i]);

		if (!found)
			return false;
		bits = bits << 6 | (uint32_t)(found - digits);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		decoded[done++] = (unsigned char)(bits >> have);
	}
	if ((bits & ((1u << have) - 1)) != 0) /* the padding bits of the last digit */
		return false;
	memcpy(part, decoded, bytes);
	return true;
}
