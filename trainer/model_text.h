/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model_text.h: a model from a file, a layer a line; or what --model takes, a file or a short text.
 *
 *	line:    words separated by blanks; # and what follows is ignored, and so are empty lines
 *	first:   input HEIGHT WIDTH CHANNELS, or tokens LENGTH VOCABULARY
 *	others:  a word of STRETTO_LAYER_KINDS and its numbers, each from 1 to 65536 (pad from 0);
 *	         of dropout a share, 0 <= share < 1
 *
 * Threads: pure, but for reading the file.
 */
#ifndef STRETTO_TRAINER_MODEL_TEXT_H
#define STRETTO_TRAINER_MODEL_TEXT_H

#include "trainer/model_spec.h"

/* Bytes of a file and of a line at most, and of the longest problem text, its end included. */
enum { STRETTO_MODEL_FILE = 65536, STRETTO_MODEL_LINE = 256, STRETTO_MODEL_PROBLEM = 512 };

/* Reads a file's contents; leaves batch. NULL, or what is wrong (static) in *line, from 1. */
const char *stretto_model_parse_file(const char *bytes, size_t size,
				     struct stretto_model_options *options, size_t *line);

/*
 * Reads a short text or a file. On failure problem[STRETTO_MODEL_PROBLEM] is one line that says what
 * is wrong and where: STRETTO_INVALID, or STRETTO_SYSTEM if the file cannot be read.
 */
stretto_status stretto_model_load(const char *text, struct stretto_model_options *options,
				  char *problem);

#endif
