/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.c: how much of a nonblocking allreduce hides behind compute that makes no call into the
 * library, by the library that it is linked with (peer.h).
 *
 *   overlap BYTES,BYTES,... REPEATS
 *
 * For each size one line: bytes, and medians in microseconds of the operation alone, of the compute
 * alone, which is sized to last as long, and of both together; then the overlap in percent,
 * 100 (1 - (together - compute) / alone), as OSU defines it. The three are measured in turn in each
 * repeat, after a barrier, as the slowest rank sees them. The compute keeps its core busy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/peers/peer.h"

enum { WARMUP = 3, AT_MOST = 1000, DATA = 4096 };

static float data[DATA]; /* what the compute works on */

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

static void compute(long passes)
{
	for (long pass = 0; pass < passes; pass++) {
		for (int i = 0; i < DATA; i++)
			data[i] = data[i] * 0.999f + 0.001f;
		__asm__ volatile("" : : "r"(data) : "memory"); /* each pass is made */
	}
}

struct bench {
	int rank, size;
	float *in, *out;
	size_t count;
	long passes; /* of compute */
};

/* Seconds of the operation if `communicates`, beside the compute if there are passes of it. */
static double once(const struct bench *bench, int communicates, long passes)
{
	double start, time;

	if (peer.barrier() != 0)
		die("barrier");
	start = now();
	if (communicates && peer.start(bench->in, bench->out, bench->count) != 0)
		die("start of an allreduce");
	compute(passes);
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

/* As many passes as last for so many seconds. */
static long passes_for(double seconds)
{
	double start = now();

	compute(2000);
	return (long)(2000 * seconds / (now() - start)) + 1;
}

static void measure(struct bench *bench, int repeats)
{
	static double alone[AT_MOST], computing[AT_MOST], together[AT_MOST];
	double pure, busy, both, passes;

	for (int i = 0; i < WARMUP + repeats; i++)
		alone[i < WARMUP ? 0 : i - WARMUP] = once(bench, 1, 0);
	passes = (double)passes_for(median(alone, repeats));
	if (peer.max(&passes, 1) != 0)
		die("allreduce of the times");
	bench->passes = (long)passes;
	for (int i = 0; i < repeats; i++) {
		alone[i] = once(bench, 1, 0);
		computing[i] = once(bench, 0, bench->passes);
		together[i] = once(bench, 1, bench->passes);
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
	struct bench bench = {0};
	long repeats;
	char *next;

	if (peer.init(&argc, &argv, &bench.rank, &bench.size) != 0)
		die("init");
	repeats = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	if (repeats < 1 || repeats > AT_MOST - WARMUP)
		die("the command line");
	for (next = argv[1]; *next; next += *next == ',') {
		size_t bytes = strtoul(next, &next, 10);

		if (bytes < sizeof(float) || (*next && *next != ','))
			die("the list of sizes");
		bench.count = bytes / sizeof(float);
		bench.in = peer.alloc(bytes);
		bench.out = peer.alloc(bytes);
		if (!bench.in || !bench.out)
			die("alloc");
		for (size_t i = 0; i < bench.count; i++)
			bench.in[i] = 1;
		measure(&bench, (int)repeats);
	}
	return peer.fini() != 0;
}
