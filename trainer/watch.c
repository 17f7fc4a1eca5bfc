/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/watch.h"

#include <math.h>

/* Seconds between two progress lines: elsewhere, and on a terminal. */
static const double line_seconds[] = {5.0, 0.1};

void stretto_watch_duration(double seconds, char text[STRETTO_WATCH_DURATION])
{
	/* Some 30 years: more is not known to the second. */
	unsigned long s = (unsigned long)(seconds < 1e9 ? rint(seconds) : 1e9);

	if (s < 60)
		snprintf(text, STRETTO_WATCH_DURATION, "%lu s", s);
	else if (s < 3600)
		snprintf(text, STRETTO_WATCH_DURATION, "%lu:%02lu", s / 60, s % 60);
	else
		snprintf(text, STRETTO_WATCH_DURATION, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60,
			 s % 60);
}

static void show(struct stretto_watch *watch, const struct stretto_train_step *step)
{
	bool last = step->step == step->steps || step->epoch != watch->epoch;
	double now = step->seconds, done = (double)(step->step - step->begun);
	double hidden = 100 * stretto_train_share_hidden(step->exposed, step->in_flight);
	char left[STRETTO_WATCH_DURATION];

	if (!last && now - watch->shown < line_seconds[watch->terminal])
		return;
	stretto_watch_duration(now / done * (double)(step->steps - step->step), left);
	fprintf(stderr,
		"%s%-*sepoch %zu  step %zu/%zu  loss %.4f  %.0f samples/s  hidden %.1f%%  left "
		"%s%s",
		watch->terminal ? "\r" : "", watch->name[0] ? 13 : 0, watch->name, step->epoch,
		step->step, step->steps, step->loss, (double)watch->samples * done / now,
		isfinite(hidden) ? hidden : 0.0, left, watch->terminal ? "\033[K" : "\n");
	if (watch->terminal && step->step == step->steps)
		fputc('\n', stderr);
	watch->shown = now;
	watch->epoch = step->epoch;
}

bool stretto_watch_step(void *context, const struct stretto_train_step *step)
{
	struct stretto_watch *watch = context;

	if (watch->shows)
		show(watch, step);
	stretto_run_log_step(&watch->log, step);
	return !watch->stops;
}
