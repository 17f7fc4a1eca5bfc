/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-perf tune: measures what the cost model goes by, and writes it as a tuning file.
 *
 * latency and per_byte: messages to and fro between the first two ranks of one node, and between
 * the first two of different nodes, while the others wait. At each size the least of ROUNDS medians
 * (what disturbs a machine only adds), and through them the line of least relative errors.
 * per_reduce: all ranks sum floats at the same time, as in a job; the slope over the sizes, and of
 * the ranks' the median. message follows from the line.
 *
 * What is decided is decided alike on all ranks, from numbers that they have in common.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/kernels.h"
#include "collectives/selection.h"
#include "collectives/traits.h"
#include "runtime/comm.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"
#include "tools/lib/perf_tune.h"
#include "tools/lib/tuner.h"

enum { ROUNDS = 5, SIZES_MAX = 64 };
/* A sum is repeated until it has had so many bytes: less is too short for the clock. */
enum { SUMMED_BYTES = 256 << 10 };

/* A level of this job, measured between two of its ranks. */
struct tune_link {
	enum stretto_tuning_level level;
	const char *transport;
	int ranks[2];
	struct tuner_point points[SIZES_MAX];
	int count; /* of points */
	struct tuner_line line;
};

static const char *const level_names[] = {"node", "across"};

static bool fail(const struct perf *perf, const char *text)
{
	fflush(stdout);
	if (perf->rank == 0)
		fprintf(stderr, "stretto-perf: tune: %s\n", text);
	return perf->rank != 0;
}

/* The first two ranks of one node, or of two. False if there are none. */
static bool find_pair(const struct perf *perf, struct tune_link *link)
{
	const struct stretto_world *world = perf->comm->world;
	const int *node = perf->comm->topology.node;
	bool near = link->level == STRETTO_TUNING_NODE;

	link->transport = near && world->mapped ? "shm" : world->network;
	for (int b = 1; b < perf->size; b++)
		for (int a = 0; a < b; a++)
			if ((node[a] == node[b]) == near) {
				link->ranks[0] = a;
				link->ranks[1] = b;
				return true;
			}
	return false;
}

/* The sizes of the command line; without any that is measured yet. */
static void set_sizes(const struct perf *perf, struct tune_link *link)
{
	const struct perf_options *options = perf->options;

	for (size_t bytes = options->min_bytes;
	     bytes <= options->max_bytes && link->count < SIZES_MAX;
	     bytes = perf_next_size(options, bytes))
		link->points[link->count++].bytes = (double)bytes;
}

/* On the two ranks alone, over a communicator of theirs. */
static void measure_delays(struct perf *pair, struct tune_link *link)
{
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < link->count; i++) {
			struct tuner_point *point = &link->points[i];
			double seconds = perf_p2p_delay(pair, (size_t)point->bytes,
							pair->options->iterations);

			if (round == 0 || seconds < point->seconds)
				point->seconds = seconds;
		}
}

static void measure_link(struct perf *perf, struct tune_link *link)
{
	struct perf pair = *perf;
	bool mine = perf->rank == link->ranks[0] || perf->rank == link->ranks[1];

	set_sizes(perf, link);
	perf_must(
		perf,
		stretto_comm_split(perf->comm, mine ? 0 : STRETTO_NO_COLOR, perf->rank, &pair.comm),
		"a communicator of two ranks");
	if (mine) {
		pair.rank = stretto_comm_rank(pair.comm);
		pair.size = 2;
		measure_delays(&pair, link);
		stretto_comm_free(pair.comm);
	}
	perf_must(perf,
		  stretto_broadcast(perf->comm, link->points, sizeof link->points, STRETTO_U8,
				    link->ranks[0]),
		  "broadcast of the times");
}

/* Seconds of one sum of `count` floats on this rank. */
static double sum_seconds(struct perf *perf, size_t count)
{
	stretto_reduce_fn sum = stretto_kernel(STRETTO_F32, STRETTO_SUM);
	size_t times = SUMMED_BYTES / (count * sizeof(float)) + 1;
	double start = perf_now();

	for (size_t i = 0; i < times; i++)
		sum(perf->out, perf->out, perf->in, count);
	return (perf_now() - start) / (double)times;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Seconds a byte: the median over the ranks; 0 if one has no slope. */
static double measure_reduce(struct perf *perf)
{
	struct tuner_point points[4] = {{0, 0}};
	struct tuner_line line = {0, 0};
	double *all = calloc((size_t)perf->size, sizeof *all), median;

	if (!all)
		tool_die(PERF_COMMUNICATION, "no memory for the ranks' times");
	memset(perf->in, 0, perf->options->max_bytes);
	memset(perf->out, 0, perf->options->max_bytes);
	perf_must(perf, stretto_barrier(perf->comm), "barrier");
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < 4; i++) {
			size_t count = (perf->options->max_bytes >> i) / sizeof(float);
			double seconds = sum_seconds(perf, count);

			points[i].bytes = (double)(count * sizeof(float));
			if (round == 0 || seconds < points[i].seconds)
				points[i].seconds = seconds;
		}
	if (!tuner_fit(points, 4, &line))
		line.per_byte = 0;
	perf_must(perf, stretto_allgather(perf->comm, &line.per_byte, all, 1, STRETTO_F64),
		  "allgather of the ranks' times");
	qsort(all, (size_t)perf->size, sizeof *all, by_value);
	median = all[0] > 0 ? all[perf->size / 2] : 0;
	free(all);
	return median;
}

static stretto_status enter(const struct tune_link *link, double per_reduce,
			    struct stretto_tuning *tuning, struct stretto_tuning_problem *problem)
{
	const double values[STRETTO_TUNING_KEYS] = {
		[STRETTO_TUNING_LATENCY] = tuner_rounded(link->line.latency),
		[STRETTO_TUNING_PER_BYTE] = tuner_rounded(link->line.per_byte),
		[STRETTO_TUNING_PER_REDUCE] = tuner_rounded(per_reduce),
		[STRETTO_TUNING_MESSAGE] = tuner_message(&link->line),
	};
	stretto_status status = STRETTO_OK;

	for (int key = 0; key < STRETTO_TUNING_KEYS && status == STRETTO_OK; key++)
		status = stretto_tuning_set(tuning, link->level, link->transport,
					    (enum stretto_tuning_key)key, values[key], problem);
	return status;
}

static void print_link(const struct perf *perf, const struct tune_link *link, double per_reduce)
{
	const struct tuner_line *line = &link->line;

	if (perf->rank != 0)
		return;
	printf("#\n# %s %s, between ranks %d and %d\n# %12s  %12s  %12s\n# %12s  %12s  %12s\n",
	       level_names[link->level], link->transport, link->ranks[0], link->ranks[1], "size",
	       "one way", "fitted", "(B)", "(us)", "(us)");
	for (int i = 0; i < link->count; i++)
		printf("%14.0f  %12.3f  %12.3f\n", link->points[i].bytes,
		       1e6 * link->points[i].seconds,
		       1e6 * (line->latency + line->per_byte * link->points[i].bytes));
	printf("# latency %.4g us; per_byte %.4g ns (%.4g GB/s); per_reduce %.4g ns (%.4g GB/s); "
	       "message %.0f B\n",
	       1e6 * line->latency, 1e9 * line->per_byte, 1e-9 / line->per_byte, 1e9 * per_reduce,
	       1e-9 / per_reduce, tuner_message(line));
	fflush(stdout);
}

/* All levels that this job has. False, said, if a value cannot be right. */
static bool measure_links(struct perf *perf, struct stretto_tuning *tuning)
{
	double per_reduce = measure_reduce(perf);
	struct stretto_tuning_problem problem = {.text = "no line fits the times of the sizes"};

	for (int level = 0; level < STRETTO_TUNING_LEVELS; level++) {
		struct tune_link link = {.level = (enum stretto_tuning_level)level};

		if (!find_pair(perf, &link))
			continue;
		measure_link(perf, &link);
		if (!tuner_fit(link.points, link.count, &link.line) ||
		    enter(&link, per_reduce, tuning, &problem) != STRETTO_OK) {
			fail(perf, problem.text);
			return false;
		}
		print_link(perf, &link, per_reduce);
	}
	return true;
}

/* The allreduce of that many bytes of float by the configuration, with another tuning file. */
static struct stretto_choice choice_of(const struct perf *perf, const struct stretto_tuning *tuning,
				       size_t bytes)
{
	struct stretto_config config = perf->comm->world->config;
	struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
					 .type = STRETTO_F32,
					 .op = STRETTO_SUM,
					 .count = bytes / sizeof(float)};
	struct stretto_choice choice = {0};
	struct stretto_link links[2];
	struct stretto_group group = stretto_group_tuned(perf->comm, tuning, links);

	config.tuning = tuning;
	perf_must((struct perf *)perf, stretto_select(&config, &group, &args, &choice),
		  "the choice of an algorithm");
	return choice;
}

static void print_choices(const struct perf *perf, const struct stretto_tuning *tuning)
{
	const struct perf_options *options = perf->options;

	if (perf->rank != 0)
		return;
	printf("#\n# allreduce of float on %d ranks, as estimated\n"
	       "# %12s  %14s  %12s  %14s  %12s\n# %12s  %14s  %12s  %14s  %12s\n",
	       perf->size, "size", "before", "", "after", "", "(B)", "(algorithm)", "(us)",
	       "(algorithm)", "(us)");
	for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
	     bytes = perf_next_size(options, bytes)) {
		struct stretto_choice before =
			choice_of(perf, perf->comm->world->config.tuning, bytes);
		struct stretto_choice after = choice_of(perf, tuning, bytes);

		printf("%14zu  %14s  %12.4g  %14s  %12.4g\n", bytes, before.algorithm->name,
		       1e6 * before.seconds, after.algorithm->name, 1e6 * after.seconds);
	}
	fflush(stdout);
}

/* On rank 0: to the file of -o, or to stdout. False, said, if that fails. */
static bool put(const struct perf *perf, const struct stretto_tuning *tuning)
{
	static char text[STRETTO_TUNING_BYTES];
	size_t bytes = stretto_tuning_print(tuning, text, sizeof text);
	const char *path = perf->options->output;
	char line[512];
	int error;

	if (perf->rank != 0)
		return true;
	if (!path) {
		printf("#\n");
		return fwrite(text, 1, bytes, stdout) == bytes;
	}
	error = tuner_write(path, text, bytes);
	if (error) {
		snprintf(line, sizeof line, "%s cannot be written: %s", path, strerror(error));
		return fail(perf, line);
	}
	printf("#\n# written to %s: STRETTO_TUNING=%s\n", path, path);
	return true;
}

bool perf_tune(struct perf *perf)
{
	struct stretto_tuning *tuning = calloc(1, sizeof *tuning);
	bool good;

	if (!tuning)
		tool_die(PERF_COMMUNICATION, "no memory for a tuning file");
	good = measure_links(perf, tuning);
	if (good) {
		print_choices(perf, tuning);
		if (perf->options->fixes)
			perf_tune_fix(perf, tuning);
		good = put(perf, tuning);
	}
	free(tuning);
	return good || perf->rank != 0;
}
