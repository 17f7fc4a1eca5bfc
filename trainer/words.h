/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h: reads option texts of the form HEAD[:NAME=NUMBER[,NAME=NUMBER...]]. Pure. */
#ifndef STRETTO_TRAINER_WORDS_H
#define STRETTO_TRAINER_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct stretto_word {
	const char *name; /* before the = */
	double *value;    /* set if the name is found */
};

/* false if the head is another, a name is not among the words, or a number is malformed. */
bool stretto_words_parse(const char *text, const char *head, const struct stretto_word *words,
			 size_t count);

#endif
