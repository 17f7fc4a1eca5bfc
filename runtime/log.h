/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h: one line of text per event, to stderr.
 *
 * Whoever finds an error logs it once, with the cause, the numbers and the likely fix; whoever
 * passes the status on is silent. Each line is written with one write(2), so lines of several ranks
 * do not mix. The level is one per process (STRETTO_LOG: error, warn, info, debug); the rank shown
 * is the calling thread's, so that ranks that are threads of a test can be told apart.
 *
 * Threads: all functions from any thread.
 */
#ifndef STRETTO_RUNTIME_LOG_H
#define STRETTO_RUNTIME_LOG_H

#include <stdbool.h>

enum stretto_log_level {
	STRETTO_LOG_ERROR,
	STRETTO_LOG_WARN,
	STRETTO_LOG_INFO,
	STRETTO_LOG_DEBUG,
};

/* Bytes of the longest line, its end included; a longer one is cut. */
enum { STRETTO_LOG_LINE = 1024 };

/* Sets the process's level; the default is STRETTO_LOG_WARN. */
void stretto_log_set_level(enum stretto_log_level level);
/* Whether a line of this level would be written; to skip the work of making one. */
bool stretto_log_enabled(enum stretto_log_level level);
/* The rank that this thread's lines carry; -1 (the default) for none. */
void stretto_log_set_rank(int rank);

/* Writes "stretto: rank R: LEVEL: text\n". errno is kept. */
void stretto_log(enum stretto_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define stretto_error(...) stretto_log(STRETTO_LOG_ERROR, __VA_ARGS__)
#define stretto_warn(...)  stretto_log(STRETTO_LOG_WARN, __VA_ARGS__)
#define stretto_info(...)  stretto_log(STRETTO_LOG_INFO, __VA_ARGS__)
#define stretto_debug(...) stretto_log(STRETTO_LOG_DEBUG, __VA_ARGS__)

#endif
