/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.h: a file of one JSON object a line, one line every so many steps.
 *
 *	{"step":20,"epoch":1,"loss":0.8123,"lr":0.05,"step_ms":3.91,"exposed_ms":0.00,
 *	 "in_flight_ms":7.02,"samples_per_s":32700}
 *
 * Times are means since the line before, of the rank that writes. Each line is on disk when the
 *call returns (as far as the system's cache goes), so that the file can be followed, and a full
 *disk is noticed at once.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_METRICS_H
#define STRETTO_TRAINER_METRICS_H

#include <stdio.h>

#include "trainer/train.h"

struct stretto_metrics {
	FILE *file;                     /* owned; NULL: not open */
	const char *path;               /* borrowed, for messages */
	size_t every;                   /* steps between two lines */
	size_t samples;                 /* of all ranks in a step */
	struct stretto_train_step last; /* at the line before */
	bool failed;                    /* a write failed, and was logged */
};

/* Creates the file, or empties it. STRETTO_SYSTEM: logged. */
stretto_status stretto_metrics_open(struct stretto_metrics *metrics, const char *path);

/* Writes a line if it is time for one. false after a failed write (logged once). */
bool stretto_metrics_step(struct stretto_metrics *metrics, const struct stretto_train_step *step);

/* Closes the file, if open. STRETTO_SYSTEM: logged, unless a write had failed already. */
stretto_status stretto_metrics_close(struct stretto_metrics *metrics);

#endif
