/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine.h: facts about the machine and the process that several tools print.
 *
 * Threads: any.
 */
#ifndef STRETTO_TOOLS_MACHINE_H
#define STRETTO_TOOLS_MACHINE_H

#include <stddef.h>
#include <stdio.h>

/* Writes the cores of the affinity mask as a list such as "0-3,8"; cut where it is too long. */
void machine_cores(char *text, size_t size);

/* Writes the NUMA nodes that these cores belong to, likewise; "?" in a build without hwloc. */
void machine_numa(char *text, size_t size);

/* Writes the frequency governor of the first core of the affinity mask, or "not readable". */
void machine_governor(char *text, size_t size);

/* Writes the load averages of 1, 5 and 15 minutes, or "unknown". */
void machine_load(char *text, size_t size);

/* Prints text as a JSON string. Bytes that are not ASCII are printed as if they were Latin-1. */
void machine_json_text(FILE *file, const char *text);

#endif
