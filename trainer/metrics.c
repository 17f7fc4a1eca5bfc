/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/metrics.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "runtime/log.h"

/* Logs what the system said, once. */
static void fail(struct stretto_metrics *metrics, const char *what)
{
	if (!metrics->failed)
		stretto_error("metrics file %s: cannot %s: %s", metrics->path, what,
			      strerror(errno));
	metrics->failed = true;
}

stretto_status stretto_metrics_open(struct stretto_metrics *metrics, const char *path)
{
	metrics->path = path;
	metrics->file = fopen(path, "we");
	if (metrics->file)
		return STRETTO_OK;
	fail(metrics, "create it");
	return STRETTO_SYSTEM;
}

bool stretto_metrics_step(struct stretto_metrics *metrics, const struct stretto_train_step *step)
{
	const struct stretto_train_step *last = &metrics->last;
	size_t from = last->step > step->begun ? last->step : step->begun;
	double steps = (double)(step->step - from);
	double ms = 1e3 / steps, seconds = step->seconds - last->seconds;
	char loss[32] = "null"; /* JSON has no NaN */

	if (metrics->failed)
		return false;
	if (step->step % metrics->every != 0 && step->step != step->steps)
		return true;
	if (isfinite(step->loss))
		snprintf(loss, sizeof(loss), "%.6f", step->loss);
	if (fprintf(metrics->file,
		    "{\"step\":%zu,\"epoch\":%zu,\"loss\":%s,\"lr\":%.8g,\"step_ms\":%.4f,"
		    "\"exposed_ms\":%.4f,\"in_flight_ms\":%.4f,\"samples_per_s\":%.1f}\n",
		    step->step, step->epoch, loss, step->rate, seconds * ms,
		    (step->exposed - last->exposed) * ms, (step->in_flight - last->in_flight) * ms,
		    (double)metrics->samples * steps / seconds) < 0 ||
	    fflush(metrics->file) != 0)
		fail(metrics, "write to it");
	metrics->last = *step;
	return !metrics->failed;
}

stretto_status stretto_metrics_close(struct stretto_metrics *metrics)
{
	if (!metrics->file)
		return STRETTO_OK;
	if (fclose(metrics->file) != 0)
		fail(metrics, "close it");
	metrics->file = NULL;
	return metrics->failed ? STRETTO_SYSTEM : STRETTO_OK;
}
