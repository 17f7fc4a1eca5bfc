/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.c: how much of a nonblocking allreduce hides behind compute that makes no call into the
 * library, by the library that it is linked with (peer.h).
 *
 *   overlap BYTES,BYTES,... REPEATS sgemm|sleep
 *
 * For each size one line: bytes, and medians in microseconds of the operation alone, of the compute
 * alone, which is sized to last as long, and of both together; then the overlap in percent,
 * 100 (1 - (together - compute) / alone), as OSU defines it. The three are measured in turn in each
 * repeat, after a barrier, as the slowest rank sees them. The compute is matrix products by OpenBLAS
 * on one thread, which keep the core busy, or sleep, which leaves it idle as a program does whose
 * accelerator computes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <cblas.h>

#include "tests/peers/peer.h"

enum {
	WARMUP = 3,
	AT_MOST = 1000,
	SIDE = 256, /* of the matrices: three of 256 KiB, as a layer's working set */
	ROWS = 8,   /* of the product that a pass makes: some ten microseconds */
	TRIAL = 500 /* passes that are timed to size the compute */
};

/* Private to a rank: nothing of it is communicated. */
static float left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "overlap: %s: %s failed\n", peer.name, what);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void fill_matrices(void)
{
	for (int i = 0; i < SIDE; i++) {
		for (int j = 0; j < SIDE; j++) {
			left[i][j] = (float)((i + j) % 7);
			right[i][j] = (float)((i * j) % 5);
		}
	}
}

static void multiply(long passes)
{
	for (long pass = 0; pass < passes; pass++) {
		int row = (int)(pass % (SIDE / ROWS)) * ROWS;

		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, ROWS, SIDE, SIDE, 1,
			    left[row], SIDE, right[0], SIDE, 0, product[row], SIDE);
	}
}

struct bench {
	int rank, size;
	float *in, *out;
	size_t count;
	int sleeps;
	long amount; /* of compute: passes, or nanoseconds of sleep */
};

static void compute(const struct bench *bench)
{
	struct timespec time = {bench->amount / 1000000000, bench->amount % 1000000000};

	if (bench->sleeps)
		nanosleep(&time, NULL);
	else
		multiply(bench->amount);
}

/* Seconds of the operation if `communicates`, beside the compute if `computes`. */
static double once(const struct bench *bench, int communicates, int computes)
{
	double start, time;

	if (peer.barrier() != 0)
		die("barrier");
	start = now();
	if (communicates && peer.start(bench->in, bench->out, bench->count) != 0)
		die("start of an allreduce");
	if (computes)
		compute(bench);
	if (communicates && peer.wait() != 0)
		die("wait");
	time = now() - start;
	return time;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *times, int count)
{
	if (peer.max(times, (size_t)count) != 0)
		die("allreduce of the times");
	qsort(times, (size_t)count, sizeof *times, by_value);
	return times[count / 2];
}

/* Sets the amount of compute to what lasts so many seconds on the slowest rank, all at once. */
static void size_compute(struct bench *bench, double seconds)
{
	double start, pass;

	if (bench->sleeps) {
		bench->amount = (long)(1e9 * seconds);
		return;
	}
	multiply(TRIAL / 10);
	if (peer.barrier() != 0)
		die("barrier");
	start = now();
	multiply(TRIAL);
	pass = (now() - start) / TRIAL;
	if (peer.max(&pass, 1) != 0)
		die("allreduce of the times");
	bench->amount = (long)(seconds / pass) + 1;
}

/* The first operations connect and map, and it takes some milliseconds until they are steady. */
static void settle(const struct bench *bench)
{
	double time = 0, more;

	for (int i = 0; i < WARMUP; i++)
		time = once(bench, 1, 0);
	if (peer.max(&time, 1) != 0)
		die("allreduce of the times");
	more = 10e-3 / time;
	for (int i = 0; i < more && i < AT_MOST; i++)
		once(bench, 1, 0);
}

static void measure(struct bench *bench, int repeats)
{
	static double alone[AT_MOST], computing[AT_MOST], together[AT_MOST];
	double pure, busy, both;

	settle(bench);
	for (int i = 0; i < repeats; i++)
		alone[i] = once(bench, 1, 0);
	size_compute(bench, median(alone, repeats));
	for (int i = 0; i < repeats; i++) {
		alone[i] = once(bench, 1, 0);
		computing[i] = once(bench, 0, 1);
		together[i] = once(bench, 1, 1);
	}
	pure = median(alone, repeats);
	busy = median(computing, repeats);
	both = median(together, repeats);
	for (size_t i = 0; i < bench->count; i++)
		if (bench->out[i] != (float)bench->size)
			die("check of the result of an allreduce");
	if (bench->rank == 0)
		printf("%zu %.1f %.1f %.1f %.1f\n", bench->count * sizeof(float), 1e6 * pure,
		       1e6 * busy, 1e6 * both, 100 * (1 - (both - busy) / pure));
}

int main(int argc, char **argv)
{
	static struct bench bench;
	size_t most = 0;
	long repeats;
	char *next;

	if (peer.init(&argc, &argv, &bench.rank, &bench.size) != 0)
		die("init");
	repeats = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
	if (repeats < 1 || repeats > AT_MOST - WARMUP)
		die("the command line");
	bench.sleeps = strcmp(argv[3], "sleep") == 0;
	if (!bench.sleeps && strcmp(argv[3], "sgemm") != 0)
		die("the kind of compute");
	fill_matrices();
	openblas_set_num_threads(1);
	prctl(PR_SET_TIMERSLACK, 1L); /* a sleep shall end when it ends */
	for (next = argv[1]; *next; next += *next == ',') {
		size_t bytes = strtoul(next, &next, 10);

		if (bytes < sizeof(float) || (*next && *next != ','))
			die("the list of sizes");
		most = bytes > most ? bytes : most;
	}
	bench.in = peer.alloc(most);
	bench.out = peer.alloc(most);
	if (!bench.in || !bench.out)
		die("allocation");
	for (size_t i = 0; i < most / sizeof(float); i++)
		bench.in[i] = 1;
	for (next = argv[1]; *next; next += *next == ',') {
		bench.count = strtoul(next, &next, 10) / sizeof(float);
		memset(bench.out, 0, bench.count * sizeof(float)); /* no result of a size before */
		measure(&bench, (int)repeats);
	}
	return peer.fini() != 0;
}
