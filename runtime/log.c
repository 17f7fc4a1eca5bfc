/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int current_level = STRETTO_LOG_WARN;
static _Thread_local int current_rank = -1;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

void stretto_log_set_level(enum stretto_log_level level)
{
	/* relaxed: a plain flag, nothing is published with it; partner: stretto_log_enabled() */
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool stretto_log_enabled(enum stretto_log_level level)
{
	/* relaxed: partner is stretto_log_set_level() */
	return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void stretto_log_set_rank(int rank)
{
	current_rank = rank;
}

void stretto_log(enum stretto_log_level level, const char *format, ...)
{
	char line[STRETTO_LOG_LINE];
	int saved = errno;
	int length;
	va_list args;

	if (!stretto_log_enabled(level))
		return;
	if (current_rank >= 0)
		length = snprintf(line, sizeof line, "stretto: rank %d: %s: ", current_rank,
				  level_names[level]);
	else
		length = snprintf(line, sizeof line, "stretto: %s: ", level_names[level]);
	va_start(args, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length, format, args);
	va_end(args);
	if (length > (int)sizeof line - 2)
		length = (int)sizeof line - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		errno = 0; /* nowhere left to say it */
	errno = saved;
}
