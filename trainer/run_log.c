/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/run_log.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "runtime/log.h"
#include "trainer/json.h"

/* What follows is read by version: raise it when a field changes its meaning. */
enum { FORMAT = 1 };

static const char *const stops[] = {
	[STRETTO_STOP_NONE] = "done",
	[STRETTO_STOP_LOSS] = "loss",
	[STRETTO_STOP_OBSERVER] = "log",
	[STRETTO_STOP_SIGNAL] = "signal",
};

stretto_status stretto_run_log_open(struct stretto_run_log *log, const char *path)
{
	log->path = path;
	log->file = fopen(path, "we");
	if (log->file)
		return STRETTO_OK;
	stretto_error("log %s: cannot create it: %s", path, strerror(errno));
	return STRETTO_SYSTEM;
}

/* Hands a complete line to the system; gives the log up if that fails. */
static void flush(struct stretto_run_log *log)
{
	if (fflush(log->file) == 0 && !ferror(log->file))
		return;
	stretto_warn(
		"log %s: cannot write to it: %s; the training goes on, without more lines there",
		log->path, strerror(errno));
	fclose(log->file);
	log->file = NULL;
}

/* A number for JSON, which has no NaN. */
static void put_number(FILE *file, const char *name, double value)
{
	if (isfinite(value))
		fprintf(file, ",\"%s\":%.6g", name, value);
	else
		fprintf(file, ",\"%s\":null", name);
}

static void put_text(FILE *file, const char *name, const char *text)
{
	fprintf(file, ",\"%s\":", name);
	stretto_json_put_text(file, text);
}

void stretto_run_log_start(struct stretto_run_log *log, const struct stretto_report *report)
{
	const struct stretto_train_options *train = report->trainings;
	const struct stretto_average_options *average = &train->average;
	FILE *file = log->file;

	if (!file)
		return;
	fprintf(file, "{\"event\":\"start\",\"format\":%d,\"version\":\"%s\",\"started\":%lld",
		FORMAT, stretto_version(), (long long)time(NULL));
	put_text(file, "strategy", stretto_strategy_name(average->strategy));
	fprintf(file, ",\"ranks\":%d", report->ranks);
	put_text(file, "model", report->model);
	put_text(file, "data", report->data);
	fprintf(file,
		",\"batch\":%zu,\"tau\":%zu,\"delay\":%zu,\"own_weight\":%g,\"fragments\":%zu",
		train->model.batch, average->tau, average->delay, (double)average->own_weight,
		average->fragments);
	put_text(file, "optimizer", report->optimizer);
	put_text(file, "schedule", report->schedule);
	fprintf(file, ",\"epochs\":%zu,\"steps\":%zu,\"seed\":%llu}\n", train->epochs,
		stretto_train_steps(train, report->ranks), (unsigned long long)train->seed);
	flush(log);
}

/* The beginning of every later line. */
static void put_place(const struct stretto_run_log *log, const char *event,
		      const struct stretto_train_step *step)
{
	fprintf(log->file,
		"{\"event\":\"%s\",\"time\":%.6f,\"step\":%zu,\"epoch\":%zu,\"samples\":%zu", event,
		step->seconds, step->step, step->epoch, log->samples * step->step);
}

static void put_test(const struct stretto_run_log *log, const struct stretto_train_step *step,
		     double accuracy)
{
	put_place(log, "test", step);
	put_number(log->file, "test_accuracy", accuracy);
	fputs("}\n", log->file);
}

static void put_probe(const struct stretto_run_log *log, const struct stretto_train_step *step)
{
	put_place(log, "probe", step);
	put_number(log->file, "gradient_norm", step->probe.norm);
	put_number(log->file, "train_loss", step->probe.loss);
	fputs("}\n", log->file);
}

void stretto_run_log_step(struct stretto_run_log *log, const struct stretto_train_step *step)
{
	const struct stretto_train_step *last = &log->last;
	size_t from = last->step > step->begun ? last->step : step->begun;
	double ms = 1e3 / (double)(step->step - from), seconds = step->seconds - last->seconds;
	double exposed = step->exposed - last->exposed, flown = step->in_flight - last->in_flight;

	log->seen = *step;
	if (!log->file || (step->step % log->every != 0 && step->step != step->steps &&
			   !isfinite(step->accuracy) && !isfinite(step->probe.norm)))
		return;
	put_place(log, "step", step);
	if (isfinite(step->loss))
		fprintf(log->file, ",\"loss\":%.6f", step->loss);
	else
		fprintf(log->file, ",\"loss\":null");
	fprintf(log->file,
		",\"lr\":%.8g,\"step_ms\":%.4f,\"compute_ms\":%.4f,\"exposed_ms\":%.4f,"
		"\"in_flight_ms\":%.4f",
		step->rate, seconds * ms, (seconds - exposed) * ms, exposed * ms, flown * ms);
	put_number(log->file, "hidden_percent", 100 * stretto_train_share_hidden(exposed, flown));
	fprintf(log->file, ",\"samples_per_s\":%.1f}\n",
		(double)log->samples * (double)(step->step - from) / seconds);
	if (isfinite(step->accuracy))
		put_test(log, step, step->accuracy);
	if (isfinite(step->probe.norm))
		put_probe(log, step);
	log->last = *step;
	flush(log);
}

static void put_straggler(FILE *file, const struct stretto_straggler *straggler)
{
	fprintf(file, ",\"slowest_rank\":%d", straggler->rank);
	put_text(file, "slowest_host", straggler->host);
	put_number(file, "slowest_compute_ms", straggler->compute * 1e3);
	put_number(file, "median_compute_ms", straggler->median * 1e3);
	put_number(file, "slower_percent", straggler->slower_percent);
}

static void put_end(struct stretto_run_log *log, const struct stretto_train_result *result)
{
	struct stretto_train_step place = log->last;

	place.step = result->steps;
	place.seconds = result->seconds;
	if (result->verdict.stop == STRETTO_STOP_NONE)
		put_test(log, &place, result->accuracy);
	put_place(log, "end", &place);
	put_text(log->file, "why", stops[result->verdict.stop]);
	put_number(log->file, "samples_per_s", result->samples_per_second);
	put_number(log->file, "step_ms", result->step.seconds * 1e3);
	put_number(log->file, "compute_ms", (result->step.seconds - result->step.exposed) * 1e3);
	put_number(log->file, "exposed_ms", result->step.exposed * 1e3);
	put_number(log->file, "hidden_percent", 100 * stretto_train_hidden(result));
	put_straggler(log->file, &result->straggler);
	fputs("}\n", log->file);
	flush(log);
}

static void close_log(struct stretto_run_log *log)
{
	if (log->file)
		fclose(log->file);
	log->file = NULL;
}

void stretto_run_log_end(struct stretto_run_log *log, const struct stretto_train_result *result)
{
	if (log->file)
		put_end(log, result);
	close_log(log);
}

/* Times are means over all steps: what is robust is measured at the end only. */
static void put_failure(struct stretto_run_log *log, const char *error)
{
	const struct stretto_train_step *seen = &log->seen;
	double steps = (double)(seen->step - seen->begun);
	double ms = steps > 0 ? 1e3 / steps : 0;

	put_place(log, "end", seen);
	put_text(log->file, "why", "error");
	put_text(log->file, "error", error);
	put_number(log->file, "samples_per_s", (double)log->samples * steps / seen->seconds);
	put_number(log->file, "step_ms", seen->seconds * ms);
	put_number(log->file, "compute_ms", (seen->seconds - seen->exposed) * ms);
	put_number(log->file, "exposed_ms", seen->exposed * ms);
	put_number(log->file, "hidden_percent",
		   100 * stretto_train_share_hidden(seen->exposed, seen->in_flight));
	put_number(log->file, "slower_percent", NAN);
	fputs("}\n", log->file);
	flush(log);
}

void stretto_run_log_fail(struct stretto_run_log *log, const char *error)
{
	if (log->file)
		put_failure(log, error);
	close_log(log);
}
