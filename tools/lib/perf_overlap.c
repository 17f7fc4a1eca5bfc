/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three things for each size: the nonblocking allreduce alone, the compute alone, sized to last as
 * long, and both: start, compute, wait, with no call into the library between. What the third takes
 * beyond the second is communication that was not hidden.
 */
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "tools/lib/options.h"
#include "tools/lib/perf.h"

enum {
	SIDE = 256, /* of the matrices: three of 256 KiB, as a layer's working set */
	TILE = 32,  /* one unit of work multiplies two tiles: a few microseconds */
	TILES = SIDE / TILE,
	UNITS = TILES * TILES * TILES,
	TRIES = 3, /* where the compute came out unlike the communication, as on a busy machine */
};

/* Private to a rank: nothing of it is communicated. */
struct work {
	float a[SIDE][SIDE];
	float b[SIDE][SIDE];
	float c[SIDE][SIDE];
	size_t next;    /* unit, modulo UNITS */
	size_t units;   /* to do in one compute phase */
	double seconds; /* of one compute phase that sleeps; 0: gemm */
};

static void multiply_tile(struct work *work, size_t unit)
{
	size_t row = unit / TILES / TILES * TILE, column = unit / TILES % TILES * TILE;
	size_t inner = unit % TILES * TILE;

	for (size_t i = row; i < row + TILE; i++)
		for (size_t k = inner; k < inner + TILE; k++)
			for (size_t j = column; j < column + TILE; j++)
				work->c[i][j] += work->a[i][k] * work->b[k][j];
}

static void compute(struct work *work)
{
	if (work->seconds > 0) {
		struct timespec time = {.tv_sec = (time_t)work->seconds};

		time.tv_nsec = (long)((work->seconds - (double)time.tv_sec) * 1e9);
		nanosleep(&time, NULL);
		return;
	}
	for (size_t i = 0; i < work->units; i++) {
		multiply_tile(work, work->next);
		work->next = (work->next + 1) % UNITS;
	}
}

static struct work *new_work(void)
{
	struct work *work = calloc(1, sizeof *work);

	if (!work)
		tool_die(PERF_COMMUNICATION, "no memory for the matrices");
	for (size_t i = 0; i < SIDE; i++) {
		for (size_t j = 0; j < SIDE; j++) {
			work->a[i][j] = (float)((i + j) % 7) * 0x1p-10f;
			work->b[i][j] = (float)((i * j) % 5) * 0x1p-10f;
		}
	}
	return work;
}

static void pure_body(struct perf *perf, const struct perf_case *test, void *context)
{
	(void)context;
	perf_must(perf, stretto_wait(perf_start(perf, test)), "wait");
}

static void compute_body(struct perf *perf, const struct perf_case *test, void *context)
{
	(void)perf;
	(void)test;
	compute(context);
}

static void total_body(struct perf *perf, const struct perf_case *test, void *context)
{
	struct stretto_request *request = perf_start(perf, test);

	compute(context);
	perf_must(perf, stretto_wait(request), "wait");
}

/* Sets the work so that the slowest rank computes for about `seconds`, the same units on all. */
static void calibrate(struct perf *perf, struct work *work, double seconds)
{
	double least = 0.5 * seconds > 2e-3 ? 0.5 * seconds : 2e-3;
	double begin, took;

	work->seconds = perf->options->sleep_compute ? seconds : 0;
	if (perf->options->sleep_compute)
		return;
	/* all ranks at once, as they will be; long enough that a time slice does not decide */
	work->units = 32;
	do {
		work->units *= 2;
		perf_must(perf, stretto_barrier(perf->comm), "barrier");
		begin = perf_now();
		compute(work);
		took = perf_now() - begin;
		perf_must(perf,
			  stretto_allreduce(perf->comm, &took, &took, 1, STRETTO_F64, STRETTO_MAX),
			  "allreduce of the time");
	} while (took < least);
	work->units = (size_t)((double)work->units * seconds / took + 0.5);
	if (work->units == 0)
		work->units = 1;
}

static double clamp(double percent)
{
	return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

static void rate(struct perf_overlap_row *row)
{
	double pure = row->pure.median, alone = row->compute.median, total = row->total.median;
	double longer = pure > alone ? pure : alone;

	row->osu = 100 * (1 - (total - alone) / pure);
	if (row->osu < 0)
		row->osu = 0;
	row->imb = clamp(100 * (pure + alone - total) / longer);
}

/* All ranks have the same numbers, so they agree. */
static bool alike(double pure, double compute)
{
	return compute > 0.75 * pure && compute < 1.33 * pure;
}

static void one_size(struct perf *perf, struct work *work, const struct perf_case *test)
{
	struct perf_case idle = *test;
	struct perf_part parts[] = {
		{.test = test, .body = pure_body},
		{.test = &idle, .body = compute_body, .context = work},
		{.test = test, .body = total_body, .context = work},
	};
	struct perf_overlap_row row = {.bytes = test->bytes, .count = test->count};

	perf_prepare(perf, test);
	idle.collective = STRETTO_BARRIER; /* nothing is sent: nothing to check */
	perf_loop(perf, parts, 1);         /* to know for how long to compute */
	for (int tries = 0; tries < TRIES; tries++) {
		calibrate(perf, work, parts[0].result.median);
		perf_loop(perf, parts, 3);
		if (alike(parts[0].result.median, parts[1].result.median))
			break;
	}
	perf_release(perf);
	row.pure = parts[0].result;
	row.compute = parts[1].result;
	row.total = parts[2].result;
	rate(&row);
	perf_report_overlap_row(perf, &row);
}

void perf_overlap(struct perf *perf)
{
	const struct perf_options *options = perf->options;
	struct work *work = new_work();

	/* sleeps would else end up to 50 us late */
	if (options->sleep_compute)
		prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
	for (int type = 0; type < STRETTO_TYPE_COUNT; type++) {
		for (int op = 0; op < STRETTO_OP_COUNT; op++) {
			if (!perf_selects(options, (enum stretto_type)type, (enum stretto_op)op))
				continue;
			for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
			     bytes = perf_next_size(options, bytes)) {
				struct perf_case test = perf_case_of(perf, (enum stretto_type)type,
								     (enum stretto_op)op, 0, bytes);

				one_size(perf, work, &test);
			}
		}
	}
	free(work);
}
