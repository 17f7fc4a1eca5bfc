/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h: what trainings came to, on stdout: as text for people, as JSON for programs.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_REPORT_H
#define STRETTO_TRAINER_REPORT_H

#include "trainer/train.h"

/* One training, or several that ran side by side. All borrowed. */
struct stretto_report {
	const struct stretto_train_options *trainings; /* [count] */
	const struct stretto_train_result *results;    /* [count] */
	size_t count;
	const char *model; /* as the user named it */
	const char *data;  /* likewise, as the next two */
	const char *optimizer;
	const char *schedule;
	int ranks;
};

/* One training as a few lines, several as a table. */
void stretto_report_text(const struct stretto_report *report);
/* One training as an object, several as an array of them, an object a line. */
void stretto_report_json(const struct stretto_report *report);

#endif
