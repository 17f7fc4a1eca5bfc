/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads one NAME=NUMBER; the text after it, NULL if it is malformed. */
static const char *parse_word(const char *text, const struct stretto_word *words, size_t count)
{
	const char *equal = strchr(text, '=');
	size_t length = equal ? (size_t)(equal - text) : 0;

	for (size_t i = 0; i < count && equal; i++) {
		char *end;
		double value;

		if (strlen(words[i].name) != length || strncmp(words[i].name, text, length) != 0)
			continue;
		value = strtod(equal + 1, &end);
		if (end == equal + 1 || !isfinite(value))
			return NULL;
		*words[i].value = value;
		return end;
	}
	return NULL;
}

bool stretto_words_parse(const char *text, const char *head, const struct stretto_word *words,
			 size_t count)
{
	size_t length = strlen(head);

	if (strncmp(text, head, length) != 0)
		return false;
	text += length;
	if (*text == '\0')
		return true;
	if (*text != ':')
		return false;
	do {
		text = parse_word(text + 1, words, count);
	} while (text && *text == ',');
	return text && *text == '\0';
}
