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
	if (perf_watch_due())
		perf_watch_end();
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

static void use_set(struct perf *perf, int index)
{
	perf->set = &perf->sets[index];
	perf->in = perf->set->in;
	perf->out = perf->set->out;
}

static void new_memory(struct perf *perf)
{
	const struct perf_options *options = perf->options;

	perf->sets = calloc((size_t)options->sets, sizeof *perf->sets);
	perf->table = calloc(PERF_PERIOD, sizeof(double[2]));
	perf->times = calloc((size_t)options->iterations * PERF_PARTS_MAX, sizeof *perf->times);
	if (!perf->sets || !perf->table || !perf->times)
		tool_die(PERF_COMMUNICATION, "no memory for the tables");
	for (int i = 0; i < options->sets; i++) {
		perf->sets[i].in = new_buffer(perf, &perf->sets[i].blocks[0]);
		perf->sets[i].out = new_buffer(perf, &perf->sets[i].blocks[1]);
	}
	use_set(perf, 0);
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
	perf_watch_case(perf->rank, perf_test_name(options), 0);
	if (options->root >= perf->size)
		tool_fail("-r %d is no rank: there are %d", options->root, perf->size);
	if (options->p2p && perf->size != 2)
		tool_fail("p2p needs two ranks, not %d", perf->size);
	if (options->tune && perf->size < 2)
		tool_fail("tune needs two ranks at least");
	new_memory(perf);
}

static void free_block(struct perf *perf, void *block)
{
	if (perf->options->registered)
		perf_must(perf, stretto_free(perf->comm, block), "stretto_free");
	else
		free(block);
}

void perf_close(struct perf *perf)
{
	for (int i = 0; i < perf->options->sets; i++) {
		free_block(perf, perf->sets[i].blocks[0]);
		free_block(perf, perf->sets[i].blocks[1]);
	}
	free(perf->sets);
	free(perf->table);
	free(perf->times);
	perf_must(perf, stretto_finalize(perf->comm), "stretto_finalize");
}

static struct stretto_coll_args arguments(const struct perf *perf, const struct perf_case *test)
{
	return (struct stretto_coll_args){
		.collective = test->collective,
		.type = test->type,
		.op = test->op,
		.root = test->root,
		.count = test->count,
		.in = perf_input(perf, test),
		.out = perf_output(perf, test),
		.algorithm = test->algorithm,
	};
}

void perf_prepare(struct perf *perf, const struct perf_case *test)
{
	perf_watch_case(perf->rank, perf_test_name(perf->options), test->bytes);
	if (perf->options->mode != PERF_PERSISTENT)
		return;
	for (int i = 0; i < perf->options->sets; i++) {
		struct stretto_coll_args args;

		use_set(perf, i);
		args = arguments(perf, test);
		perf_must(perf, stretto_coll_init(perf->comm, &args, &perf->set->request),
			  "stretto_coll_init");
	}
}

void perf_release(struct perf *perf)
{
	for (int i = 0; i < perf->options->sets; i++) {
		stretto_request_free(perf->sets[i].request);
		perf->sets[i].request = NULL;
	}
}

struct stretto_request *perf_start(struct perf *perf, const struct perf_case *test)
{
	struct stretto_coll_args args = arguments(perf, test);
	struct stretto_request *request = perf->set->request;

	if (request)
		perf_must(perf, stretto_start(request), "stretto_start");
	else
		perf_must(perf, stretto_coll_start(perf->comm, &args, &request),
			  "stretto_coll_start");
	return request;
}

void perf_call(struct perf *perf, const struct perf_case *test)
{
	struct stretto_coll_args args;

	if (perf->options->mode != PERF_BLOCKING) {
		perf_must(perf, stretto_wait(perf_start(perf, test)), "stretto_wait");
		return;
	}
	args = arguments(perf, test);
	perf_must(perf, stretto_coll_run(perf->comm, &args),
		  stretto_collective_name(test->collective));
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

static bool checks(const struct perf *perf, const struct perf_part *part)
{
	return perf->options->check && !perf_collectives[part->test->collective].no_data;
}

/*
 * One part on the first `count` sets: fills all, runs all, checks all, so that a set is out of the
 * caches when its turn comes if all together do not fit. Leaves the times in the sets.
 */
static int64_t run_part(struct perf *perf, const struct perf_part *part, int count)
{
	bool check = checks(perf, part);
	unsigned first = perf->round + 1;
	int64_t wrong = 0;

	for (int i = 0; i < count && check; i++) {
		use_set(perf, i);
		perf->round = first + (unsigned)i;
		perf_fill(perf, part->test);
	}
	for (int i = 0; i < count; i++) {
		double start;

		use_set(perf, i);
		perf_must(perf, stretto_barrier(perf->comm), "barrier");
		start = perf_now();
		part->body(perf, part->test, part->context);
		perf->set->seconds = perf_now() - start;
	}
	for (int i = 0; i < count && check; i++) {
		use_set(perf, i);
		perf->round = first + (unsigned)i;
		wrong += perf_wrong(perf, part->test);
	}
	return wrong;
}

/* The mean of this rank's own times, compared over the ranks. */
static void compare_ranks(struct perf *perf, const double *times, struct perf_result *result)
{
	double sum = 0, mean, extremes[2];

	for (int i = 0; i < perf->options->iterations; i++)
		sum += times[i];
	mean = sum / perf->options->iterations;
	extremes[0] = mean;
	extremes[1] = -mean;
	perf_must(perf,
		  stretto_allreduce(perf->comm, extremes, extremes, 2, STRETTO_F64, STRETTO_MAX),
		  "allreduce of the means");
	perf_must(perf, stretto_allreduce(perf->comm, &mean, &mean, 1, STRETTO_F64, STRETTO_SUM),
		  "allreduce of the means");
	result->rank_max = extremes[0];
	result->rank_min = -extremes[1];
	result->rank_mean = mean / perf->size;
}

/* All parts, all iterations; wrong elements of this rank are added to wrong[part]. */
static void run_parts(struct perf *perf, struct perf_part *parts, int count, int64_t *wrong)
{
	int iterations = perf->options->iterations, sets = perf->options->sets;
	int warmup = perf->options->warmup, batch;

	if (warmup > 0 && warmup < sets)
		warmup = sets; /* each set has its first use before the timed ones */
	for (int done = -warmup; done < iterations; done += batch) {
		int left = done < 0 ? -done : iterations - done;

		batch = left < sets ? left : sets;
		for (int p = 0; p < count; p++) {
			wrong[p] += run_part(perf, &parts[p], batch);
			for (int i = 0; i < batch && done >= 0; i++)
				perf->times[p * iterations + done + i] = perf->sets[i].seconds;
		}
	}
}

void perf_loop(struct perf *perf, struct perf_part *parts, int count)
{
	int iterations = perf->options->iterations;
	int64_t wrong[PERF_PARTS_MAX] = {0};

	run_parts(perf, parts, count, wrong);
	for (int p = 0; p < count; p++)
		compare_ranks(perf, perf->times + p * iterations, &parts[p].result);
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
		summarize(perf->times + p * iterations, iterations, &parts[p].result);
		parts[p].result.wrong = checks(perf, &parts[p]) ? wrong[p] : -1;
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
	const struct perf_collective *facts = &perf_collectives[test.collective];
	size_t unit = element * (stretto_traits_blocks(test.collective) ? (size_t)perf->size : 1);

	if (!facts->no_data)
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
