/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuner.h: from times to a tuning file: the line through measured points, and the file that is
 * either the old one or all of the new one.
 *
 * Threads: pure but for the file.
 */
#ifndef STRETTO_TOOLS_TUNER_H
#define STRETTO_TOOLS_TUNER_H

#include <stdbool.h>
#include <stddef.h>

/* What something took. */
struct tuner_point {
	double bytes;
	double seconds;
};

/* seconds = latency + per_byte * bytes */
struct tuner_line {
	double latency;  /* seconds */
	double per_byte; /* seconds */
};

/*
 * The line with the least sum of squared relative errors: each point counts the same, whatever its
 * size. False if there is none: fewer than two sizes, or a time that is not positive.
 */
bool tuner_fit(const struct tuner_point *points, int count, struct tuner_line *line);

/*
 * The power of two from which on the latency is a fifth or less of what a message takes; the key
 * `message` of a tuning file.
 */
double tuner_message(const struct tuner_line *line);

/* Rounds to four digits: more are noise, and would make a file hard to read. */
double tuner_rounded(double value);

/*
 * Replaces the file of that name, whole and for good: written beside it, flushed and renamed. An
 * error leaves the old file and nothing beside it, and is returned as an errno; 0 is success. What
 * is there and no regular file is not replaced: ENOTSUP, or EISDIR.
 */
int tuner_write(const char *path, const char *text, size_t bytes);

#endif
