/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slurm_text.h: reads what Slurm says in a task's environment, and nothing that does I/O.
 *
 * Threads: pure functions, any thread.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_SLURM_TEXT_H
#define STRETTO_RUNTIME_BOOTSTRAP_SLURM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the first host of a node list such as "node1", "node[03-12,20]", "rack[1-2]n[7-8]-ib,login"
 * (node1, node03, rack1n7-ib); false for a list that is malformed as far as it was read, or whose
 * first host does not fit into `size` bytes: host is then not written.
 */
bool stretto_slurm_first_host(const char *list, char *host, size_t size);

/* Reads the first port of "21000", "21000-21003" or "21000,21005-21007"; false for any other text. */
bool stretto_slurm_first_port(const char *ports, int *port);

/* Reads a whole number from 0 to `most`, digits only. NULL is no number. */
bool stretto_slurm_number(const char *text, int most, int *number);

/*
 * Makes a token (32 hex digits and their end) from texts that are the same on all ranks, and the
 * same in no other step. It is no secret: who knows the texts can make it too.
 */
void stretto_slurm_make_token(const char *const *texts, size_t count, char token[33]);

#endif
