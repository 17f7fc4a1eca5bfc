/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_log.h: a training as a file of JSON objects, a line each, that can be followed while it grows.
 *
 *	{"event":"start","format":1,"version":"0.1.0","strategy":"dasgd","ranks":4,...}
 *	{"event":"step","time":1.204,"step":20,"epoch":1,"samples":5120,"loss":0.812300,"lr":0.05,
 *	 "step_ms":3.91,"compute_ms":3.90,"exposed_ms":0.01,"in_flight_ms":7.02,
 *	 "hidden_percent":99.9,"samples_per_s":32700.0}
 *	{"event":"test","time":9.1,"step":937,"epoch":1,"samples":239872,"test_accuracy":0.8812}
 *	{"event":"probe","time":9.1,"step":900,...,"gradient_norm":0.31,"train_loss":0.42}
 *	{"event":"end","time":9.1,...,"slowest_rank":2,"slowest_host":"n7","slower_percent":3.1}
 *
 * or, if it failed, {"event":"end",...,"why":"error","error":"rank 3 (of the world) has failed: ...",...}
 *
 * `time` is that of the training, in seconds; other times are means over the steps since the line
 * before, of the rank that writes; samples are those of all ranks. Each line is handed to the system
 * at once. A write that fails (a full disk) ends the log with one warning, never the training.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_RUN_LOG_H
#define STRETTO_TRAINER_RUN_LOG_H

#include <stdio.h>

#include "trainer/report.h"

struct stretto_run_log {
	FILE *file;                     /* owned; NULL: not open, or given up */
	const char *path;               /* borrowed, for messages */
	size_t every;                   /* steps between two lines */
	size_t samples;                 /* of all ranks in a step */
	struct stretto_train_step last; /* at the line before */
	struct stretto_train_step seen; /* the latest, with a line or without */
};

/* Creates the file, or empties it. STRETTO_SYSTEM: logged. */
stretto_status stretto_run_log_open(struct stretto_run_log *log, const char *path);

/* The calls below do nothing if the file is not open. */

/* Writes the configuration of report->trainings[0]; results are not looked at. */
void stretto_run_log_start(struct stretto_run_log *log, const struct stretto_report *report);

/* Writes a line if it is time for one, or a test or probe was made: then one more for that. */
void stretto_run_log_step(struct stretto_run_log *log, const struct stretto_train_step *step);

/* Writes what the training came to: the test, if there was one, and the end. Closes the file. */
void stretto_run_log_end(struct stretto_run_log *log, const struct stretto_train_result *result);

/* Writes the end of a training that failed: after which step, and `error`, a line. Closes the file. */
void stretto_run_log_fail(struct stretto_run_log *log, const char *error);

#endif
