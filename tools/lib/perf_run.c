/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/traits.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

double perf_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void perf_must(struct perf *perf, stretto_status status, const char *what)
{
	if (status == STRETTO_OK)
		return;
	fflush(stdout);
	if (status == STRETTO_INVALID)
		exit(PERF_USAGE); /* the library has said which setting or argument, in one line */
	tool_die(PERF_COMMUNICATION, "rank %d: %s: %s", perf->rank, what,
		 stretto_status_text(status));
}

/* A buffer with room for the largest size and the guards; *block is what to free. */
static unsigned char *new_buffer(struct perf *perf, void **block)
{
	size_t bytes = perf->options->max_bytes + 2 * PERF_GUARD;

	if (perf->options->registered) {
		perf_must(perf, stretto_alloc(perf->comm, bytes, block), "stretto_alloc");
	} else {
		if (posix_memalign(block, PERF_GUARD, bytes) != 0)
			tool_die(PERF_COMMUNICATION, "no memory for a buffer of %zu bytes", bytes);
		memset(*block, 0, bytes);
	}
	return (unsigned char *)*block + PERF_GUARD;
}

void perf_open(struct perf *perf, const struct perf_options *options)
{
	const char *settings[PERF_SETTINGS_MAX + 1] = {NULL};
	const struct stretto_options init = {.settings = settings};

	*perf = (struct perf){.options = options, .rank = -1};
	for (int i = 0; i < options->setting_count; i++)
		settings[i] = options->settings[i];
	perf_must(perf, stretto_init(&init, &perf->comm), "stretto_init");
	perf->rank = stretto_comm_rank(perf->comm);
	perf->size = stretto_comm_size(perf->comm);
	if (options->root >= perf->size)
		tool_fail("-r %d is no rank: there are %d", options->root, perf->size);
	if (options->p2p && perf->size != 2)
		tool_fail("p2p needs two ranks, not %d", perf->size);
	perf->in = new_buffer(perf, &perf->blocks[0]);
	perf->out = new_buffer(perf, &perf->blocks[1]);
	perf->table = calloc(PERF_PERIOD, sizeof(double));
	perf->times = calloc((size_t)options->iterations * PERF_PARTS_MAX, sizeof *perf->times);
	if (!perf->table || !perf->times)
		tool_die(PERF_COMMUNICATION, "no memory for the tables");
}

void perf_close(struct perf *perf)
{
	for (int i = 0; i < 2; i++) {
		if (perf->options->registered)
			perf_must(perf, stretto_free(perf->comm, perf->blocks[i]), "stretto_free");
		else
			free(perf->blocks[i]);
	}
	free(perf->table);
	free(perf->times);
	perf_must(perf, stretto_finalize(perf->comm), "stretto_finalize");
}

void perf_call(struct perf *perf, const struct perf_case *test)
{
	const struct stretto_coll_args args = {
		.collective = test->collective,
		.type = test->type,
		.op = test->op,
		.root = test->root,
		.count = test->count,
		.in = perf_input(perf, test),
		.out = perf_output(perf, test),
	};
	stretto_status status = stretto_coll_run(perf->comm, &args);

	perf_must(perf, status, stretto_collective_name(test->collective));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* `times` are sorted by this. */
static void summarize(double *times, int count, struct perf_result *result)
{
	double sum = 0;

	qsort(times, (size_t)count, sizeof *times, by_value);
	for (int i = 0; i < count; i++)
		sum += times[i];
	result->median = (times[(count - 1) / 2] + times[count / 2]) / 2;
	result->p99 = times[(count * 99L + 99) / 100 - 1];
	result->min = times[0];
	result->max = times[count - 1];
	result->mean = sum / count;
}

/* One iteration of one part: returns its seconds on this rank, adds to *wrong. */
static double run_part(struct perf *perf, const struct perf_part *part, int64_t *wrong)
{
	bool check = perf->options->check && part->test->collective != STRETTO_BARRIER;
	double start, seconds;

	if (check)
		perf_fill(perf, part->test);
	perf_must(perf, stretto_barrier(perf->comm), "barrier");
	start = perf_now();
	part->body(perf, part->test, part->context);
	seconds = perf_now() - start;
	if (check)
		*wrong += perf_wrong(perf, part->test);
	return seconds;
}

void perf_loop(struct perf *perf, struct perf_part *parts, int count)
{
	int iterations = perf->options->iterations;
	int64_t wrong[PERF_PARTS_MAX] = {0};

	for (int i = -perf->options->warmup; i < iterations; i++) {
		for (int p = 0; p < count; p++) {
			double seconds = run_part(perf, &parts[p], &wrong[p]);

			if (i >= 0)
				perf->times[p * iterations + i] = seconds;
		}
	}
	/* an iteration took as long as on its slowest rank */
	perf_must(perf,
		  stretto_allreduce(perf->comm, perf->times, perf->times,
				    (size_t)count * (size_t)iterations, STRETTO_F64, STRETTO_MAX),
		  "allreduce of the times");
	perf_must(perf,
		  stretto_allreduce(perf->comm, wrong, wrong, (size_t)count, STRETTO_I64,
				    STRETTO_SUM),
		  "allreduce of the errors");
	for (int p = 0; p < count; p++) {
		bool checked = perf->options->check && parts[p].test->collective != STRETTO_BARRIER;

		summarize(perf->times + p * iterations, iterations, &parts[p].result);
		parts[p].result.wrong = checked ? wrong[p] : -1;
		perf->total_wrong += wrong[p];
	}
}

struct perf_case perf_case_of(const struct perf *perf, enum stretto_type type, enum stretto_op op,
			      int root, size_t bytes)
{
	struct perf_case test = {
		.collective = perf->options->collective,
		.type = type,
		.op = op,
		.root = root,
	};
	size_t element = stretto_type_size(type);
	size_t unit = element * (stretto_traits_blocks(test.collective) ? (size_t)perf->size : 1);

	if (test.collective != STRETTO_BARRIER)
		test.count = bytes / unit;
	test.bytes = test.count * unit;
	return test;
}

size_t perf_next_size(const struct perf_options *options, size_t bytes)
{
	if (options->step_bytes)
		return bytes + options->step_bytes;
	return bytes * options->factor;
}
