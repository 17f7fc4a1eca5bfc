/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger.h: the output of many ranks on one terminal, each line behind "[rank] ".
 *
 * Each rank writes into two pipes. Whole lines go, in the order of their stream, to this process's
 * stdout and stderr. A line without an end is held back until its end comes, the stream closes (it
 * then gets one), or it is longer than TAGGER_LINE (it is then split). Nothing here blocks: while
 * the reader of our output is slow the pipes are not read, so that the ranks wait for it as they
 * would without us; when it has gone away the pipes are closed, so that the ranks learn of it.
 *
 * Threads: one thread a tagger.
 */
#ifndef STRETTO_TOOLS_TAGGER_H
#define STRETTO_TOOLS_TAGGER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes of the longest line that stays in one piece. */
enum { TAGGER_LINE = 4096 };

struct tagger;

/* For the two streams of each of `ranks` ranks; NULL if there is no memory. Owned by the caller. */
struct tagger *tagger_new(size_t ranks);
/* Closes all pipes; what has not been written is lost. NULL does nothing. */
void tagger_free(struct tagger *tagger);

/* Takes the read ends of a rank's pipes; they become non-blocking and the tagger's. */
void tagger_add(struct tagger *tagger, size_t rank, int stdout_pipe, int stderr_pipe);

/* Number of entries that tagger_prepare() fills. */
size_t tagger_polls(const struct tagger *tagger);
/* Fills polls[0..tagger_polls()) for poll(2). */
void tagger_prepare(struct tagger *tagger, struct pollfd *polls);
/* Moves what poll(2) said can be moved. */
void tagger_turn(struct tagger *tagger, const struct pollfd *polls);

/* Ends all streams as if they had been closed. */
void tagger_end(struct tagger *tagger);
/* Whether all streams have ended and everything is written. */
bool tagger_done(const struct tagger *tagger);

#endif
