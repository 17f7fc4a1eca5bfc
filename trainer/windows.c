/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/windows.h"

#include <stdlib.h>

/* Steps of a window at least. */
enum { LEAST = 4 };

stretto_status stretto_windows_init(struct stretto_windows *windows, size_t steps, size_t tau)
{
	size_t round = tau > 0 ? tau : 1;
	size_t length = (LEAST + round - 1) / round * round;

	/* A training shorter than a window is one window. */
	if (length > steps)
		length = steps > 0 ? steps : 1;
	*windows = (struct stretto_windows){.length = length};
	windows->windows = calloc(steps / length + 1, sizeof(*windows->windows));
	windows->scratch = calloc(steps / length + 1, 3 * sizeof(*windows->scratch));
	if (windows->windows && windows->scratch)
		return STRETTO_OK;
	stretto_windows_fini(windows);
	return STRETTO_NO_MEMORY;
}

void stretto_windows_fini(struct stretto_windows *windows)
{
	free(windows->windows);
	free(windows->scratch);
	windows->windows = NULL;
	windows->scratch = NULL;
}

void stretto_windows_add(struct stretto_windows *windows, const struct stretto_window *total,
			 double loss)
{
	const struct stretto_window *start = &windows->start;
	double length = (double)windows->length;

	windows->steps++;
	windows->loss_sum += loss;
	if (windows->count == 0)
		windows->loss = windows->loss_sum / (double)windows->steps;
	if (windows->steps < windows->length)
		return;
	windows->windows[windows->count++] = (struct stretto_window){
		(total->seconds - start->seconds) / length,
		(total->exposed - start->exposed) / length,
		(total->in_flight - start->in_flight) / length,
	};
	windows->loss = windows->loss_sum / length;
	windows->loss_sum = 0;
	windows->steps = 0;
	windows->start = *total;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The mean of values[count] without the least and the greatest quarter. */
static double midmean(double *values, size_t count)
{
	size_t cut = count / 4;
	double sum = 0;

	qsort(values, count, sizeof(*values), by_value);
	for (size_t i = cut; i < count - cut; i++)
		sum += values[i];
	return sum / (double)(count - 2 * cut);
}

struct stretto_window stretto_windows_typical(struct stretto_windows *windows)
{
	struct stretto_window typical = {0, 0, 0};
	size_t count = windows->count;
	double *seconds = windows->scratch;
	double *exposed = seconds + count, *in_flight = exposed + count;

	if (count == 0)
		return typical;
	for (size_t i = 0; i < count; i++) {
		seconds[i] = windows->windows[i].seconds;
		exposed[i] = windows->windows[i].exposed;
		in_flight[i] = windows->windows[i].in_flight;
	}
	typical.seconds = midmean(seconds, count);
	typical.exposed = midmean(exposed, count);
	typical.in_flight = midmean(in_flight, count);
	return typical;
}
