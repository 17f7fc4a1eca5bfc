/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h: any file as bytes, each a character for a model. Threads: pure, but for reading files. */
#ifndef STRETTO_TRAINER_DATA_TEXT_H
#define STRETTO_TRAINER_DATA_TEXT_H

#include "trainer/data/idx.h"

/*
 * Reads a file of 1 to STRETTO_IDX_BYTES bytes; *bytes is the caller's (free). On failure
 * problem[STRETTO_PROBLEM] is one line that names the file: STRETTO_INVALID for its size,
 * STRETTO_SYSTEM if it cannot be read, STRETTO_NO_MEMORY.
 */
stretto_status stretto_text_read(const char *path, uint8_t **bytes, size_t *size, char *problem);

#endif
