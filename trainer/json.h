/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h: texts in JSON files. Threads: one at a time for each file. */
#ifndef STRETTO_TRAINER_JSON_H
#define STRETTO_TRAINER_JSON_H

#include <stdio.h>

/* Writes a text in quotation marks; what may not stand there is escaped (RFC 8259, section 7). */
void stretto_json_put_text(FILE *file, const char *text);

#endif
