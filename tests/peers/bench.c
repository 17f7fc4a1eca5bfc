/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c: times an allreduce of floats by the library that it is linked with (peer.h).
 *
 *   bench BYTES,BYTES,... MILLISECONDS [COUNTER-FILE...]
 *
 * For each size one line: bytes, median and minimum in microseconds, iterations, and how much the
 * counters (a number in each file, such as a device's sent_pkts) went up in one operation. An
 * iteration takes as long as on its slowest rank, after a barrier; each size is repeated for about
 * so many milliseconds, at least 10 times. The results are checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/peers/peer.h"

enum { WARMUP = 3, AT_LEAST = 10, AT_MOST = 2000, COUNTED = 5 };

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s failed\n", peer.name, what);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double counters(char **files)
{
	double sum = 0;

	for (; *files; files++) {
		FILE *file = fopen(*files, "r");
		double value;

		if (!file || fscanf(file, "%lf", &value) != 1)
			die(*files);
		sum += value;
		fclose(file);
	}
	return sum;
}

struct bench {
	int rank, size;
	float *in, *out;
	double times[AT_MOST];
};

static double once(struct bench *bench, size_t count)
{
	double start;

	if (peer.barrier() != 0)
		die("barrier");
	start = now();
	if (peer.sum(bench->in, bench->out, count) != 0)
		die("allreduce");
	return now() - start;
}

/* Fills with what sums are exact of. */
static void fill(struct bench *bench, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bench->in[i] = (float)((int)(i % 100) + bench->rank);
		bench->out[i] = -1;
	}
}

static void check(const struct bench *bench, size_t count)
{
	int n = bench->size;

	for (size_t i = 0; i < count; i++)
		if (bench->out[i] != (float)(n * (int)(i % 100) + n * (n - 1) / 2))
			die("check of the result of an allreduce");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct bench *bench, size_t bytes, double seconds, char **files)
{
	size_t count = bytes / sizeof *bench->in;
	double time = 0, packets = 0;
	int iterations;

	fill(bench, count);
	for (int i = 0; i < WARMUP; i++)
		time = once(bench, count);
	if (peer.max(&time, 1) != 0)
		die("allreduce of the times");
	iterations = time * AT_MOST < seconds ? AT_MOST : (int)(seconds / time);
	if (iterations < AT_LEAST)
		iterations = AT_LEAST;
	for (int i = 0; i < iterations; i++)
		bench->times[i] = once(bench, count);
	check(bench, count);
	if (peer.max(bench->times, (size_t)iterations) != 0)
		die("allreduce of the times");
	/* packets in a loop of its own, without barriers; nobody else sends meanwhile */
	if (*files) {
		peer.barrier();
		packets = counters(files);
		peer.barrier();
		for (int i = 0; i < COUNTED; i++)
			peer.sum(bench->in, bench->out, count);
		peer.barrier();
		packets = (counters(files) - packets) / COUNTED;
		peer.barrier();
	}
	qsort(bench->times, (size_t)iterations, sizeof *bench->times, by_value);
	if (bench->rank == 0)
		printf("%zu %.2f %.2f %d %.2f\n", bytes, 1e6 * bench->times[iterations / 2],
		       1e6 * bench->times[0], iterations, packets);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	size_t most = 0;
	char *next;

	if (peer.init(&argc, &argv, &bench.rank, &bench.size) != 0)
		die("init");
	if (argc < 3)
		die("the command line");
	for (next = argv[1]; *next; next += *next == ',') {
		size_t bytes = strtoul(next, &next, 10);

		most = bytes > most ? bytes : most;
	}
	bench.in = peer.alloc(most);
	bench.out = peer.alloc(most);
	if (!bench.in || !bench.out)
		die("allocation");
	for (next = argv[1]; *next; next += *next == ',')
		measure(&bench, strtoul(next, &next, 10), strtod(argv[2], NULL) / 1e3, argv + 3);
	return peer.fini();
}
