/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/slurm_text.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What may stand in the name of a host, brackets aside. */
static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

/* Adds a character to a text of `size` bytes, of which one stays for its end. */
static bool add(char *text, size_t *used, size_t size, char c)
{
	if (*used + 1 >= size)
		return false;
	text[(*used)++] = c;
	return true;
}

bool stretto_slurm_first_host(const char *list, char *host, size_t size)
{
	char made[256];
	size_t used = 0;

	if (size > sizeof made)
		size = sizeof made;
	for (; *list && *list != ','; list++) {
		size_t number;

		if (is_name(*list)) {
			if (!add(made, &used, size, *list))
				return false;
			continue;
		}
		if (*list != '[')
			return false;
		number = strspn(++list, "0123456789");
		for (size_t i = 0; i < number; i++)
			if (!add(made, &used, size, list[i]))
				return false;
		list += strspn(list, "0123456789-,");
		if (number == 0 || *list != ']')
			return false;
	}
	if (used == 0)
		return false;
	made[used] = '\0';
	memcpy(host, made, used + 1);
	return true;
}

/* Reads digits at *text and moves behind them. */
static bool take_number(const char **text, int most, int *number)
{
	long long value = 0;
	const char *at = *text;

	while (isdigit((unsigned char)*at) && value <= INT_MAX)
		value = 10 * value + (*at++ - '0');
	if (at == *text || value > most)
		return false;
	*text = at;
	*number = (int)value;
	return true;
}

bool stretto_slurm_number(const char *text, int most, int *number)
{
	int value;

	if (!text || !take_number(&text, most, &value) || *text != '\0')
		return false;
	*number = value;
	return true;
}

bool stretto_slurm_first_port(const char *ports, int *port)
{
	int first;

	if (!take_number(&ports, 65535, &first) || first == 0 ||
	    ports[strspn(ports, "0123456789-,")] != '\0')
		return false;
	*port = first;
	return true;
}

/* FNV-1a of 64 bits over the texts and their ends. */
static uint64_t hash(const char *const *texts, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++) {
		const unsigned char *at = (const unsigned char *)texts[i];

		do
			value = (value ^ *at) * 0x100000001b3u;
		while (*at++ != '\0');
	}
	return value;
}

void stretto_slurm_make_token(const char *const *texts, size_t count, char token[33])
{
	uint64_t low = hash(texts, count, 0xcbf29ce484222325u);
	uint64_t high = hash(texts, count, low);

	snprintf(token, 33, "%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
}
