/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h: what can be seen of a training while it runs: the progress line, and the log.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_WATCH_H
#define STRETTO_TRAINER_WATCH_H

#include "trainer/run_log.h"

struct stretto_watch {
	struct stretto_run_log log;
	const char *name; /* of the strategy, where there are several; else "" */
	bool shows;       /* progress lines, on stderr */
	bool terminal;    /* stderr is one */
	bool stops;       /* the training, at the first vote: there can be no log */
	size_t samples;   /* of all ranks in a step */
	size_t epoch;     /* of the last line; 1 at first */
	double shown;     /* when the last line was written, seconds */
};

/* Longest text of a duration. */
enum { STRETTO_WATCH_DURATION = 24 };

/* Seconds as "7 s", "1:07" or "2:03:04". Pure. */
void stretto_watch_duration(double seconds, char text[STRETTO_WATCH_DURATION]);

/* The observer of a training: context is a struct stretto_watch. */
bool stretto_watch_step(void *context, const struct stretto_train_step *step);

#endif
