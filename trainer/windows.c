/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/windows.h"

#include <stdlib.h>

/* Steps of a window at least. */
enum { LEAST = 16 };

stretto_status stretto_windows_init(struct stretto_windows *windows, size_t steps, size_t tau)
{
	size_t round = tau > 0 ? tau : 1;
	size_t length = (LEAST + round - 1) / round * round;

	/* A training shorter than a window is one window. */
	if (length > steps)
		length = steps > 0 ? steps : 1;
	*windows = (struct stretto_windows){.length = length};
	windows->windows = calloc(steps / length + 1, sizeof(*windows->windows));
	return windows->windows ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_windows_fini(struct stretto_windows *windows)
{
	free(windows->windows);
	windows->windows = NULL;
}

void stretto_windows_add(struct stretto_windows *windows, double seconds, double exposed,
			 double loss)
{
	double length = (double)windows->length;

	windows->steps++;
	windows->loss_sum += loss;
	if (windows->count == 0)
		windows->loss = windows->loss_sum / (double)windows->steps;
	if (windows->steps < windows->length)
		return;
	windows->windows[windows->count++] = (struct stretto_window){
		(seconds - windows->start_seconds) / length,
		(exposed - windows->start_exposed) / length,
	};
	windows->loss = windows->loss_sum / length;
	windows->loss_sum = 0;
	windows->steps = 0;
	windows->start_seconds = seconds;
	windows->start_exposed = exposed;
}

static int by_seconds(const void *a, const void *b)
{
	double x = ((const struct stretto_window *)a)->seconds;
	double y = ((const struct stretto_window *)b)->seconds;

	return (x > y) - (x < y);
}

static int by_exposed(const void *a, const void *b)
{
	double x = ((const struct stretto_window *)a)->exposed;
	double y = ((const struct stretto_window *)b)->exposed;

	return (x > y) - (x < y);
}

void stretto_windows_medians(const struct stretto_windows *windows, double *seconds,
			     double *exposed)
{
	*seconds = 0;
	*exposed = 0;
	if (windows->count == 0)
		return;
	/* The order of the windows carries nothing that is needed any more. */
	qsort(windows->windows, windows->count, sizeof(*windows->windows), by_exposed);
	*exposed = windows->windows[windows->count / 2].exposed;
	qsort(windows->windows, windows->count, sizeof(*windows->windows), by_seconds);
	*seconds = windows->windows[windows->count / 2].seconds;
}
