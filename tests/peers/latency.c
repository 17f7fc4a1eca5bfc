/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency.c: times a blocking allreduce of floats by the library that it is linked with (peer.h).
 *
 *   latency own|malloc BYTES,BYTES,... PLACEMENT,PLACEMENT,... MILLISECONDS
 *
 * A placement is in_place, out_of_place (one input and one output, used again and again) or rotated
 * (out of place, each call on the next of many buffers, together larger than the caches). The
 * memory is of the library's own allocator or of malloc. For each size and placement one line:
 *
 *   BYTES PLACEMENT CALLS TIME TIME ...
 *
 * A time is that of a window of so many calls after a barrier, per call, on its slowest rank, in
 * microseconds. A window lasts long enough that reading the clock twice is nothing of it. Windows
 * are repeated for about so many milliseconds, at least 5 times. Every window's results are checked
 * on every rank; one wrong element ends the program with status 1.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/peers/peer.h"

enum {
	WARMUP = 2,    /* single calls, which connect and map */
	AT_LEAST = 5,  /* windows */
	AT_MOST = 400, /* windows */
	CALLS = 64,    /* of a window, at most */
	LINE = 64,     /* bytes: buffers share no cache line */
};
static const double window_seconds = 100e-6;
/* Where ranks share cores: a single call then waits for the kernel to give the core to each. */
static const double shared_window_seconds = 4e-3;
/* So long a new case takes to become steady: seen here with every library, for about 1 ms. */
static const double settle_seconds = 5e-3;
/*
 * Buffers in turn are steady when each has been used once: the first touch of each page in a peer's
 * memory costs a page fault, of which thousands are to come. At most so many times as long as the
 * measurement.
 */
static const double settle_rotated = 100;
/* Of the rotated buffers of a rank: more than the caches of a core, or its share of them. */
static const size_t set_bytes = (size_t)128 << 20;

enum placement { IN_PLACE, OUT_OF_PLACE, ROTATED, PLACEMENTS };
static const char *const words[PLACEMENTS] = {"in_place", "out_of_place", "rotated"};

struct bench {
	int rank, size;
	char *memory; /* pairs of an input and an output, each of `slot` bytes */
	size_t slot, pairs;
	size_t count; /* elements of a vector */
	enum placement placement;
	size_t next,
		stride; /* rotated: the pair of the next call, and how far it is to that after */
	int calls;      /* in a window */
	double times[AT_MOST];
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "latency: %s: %s failed\n", peer.name, what);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(int status, const char *what)
{
	if (status != 0)
		die(what);
}

static float *input(const struct bench *bench, size_t pair)
{
	return (float *)(bench->memory + 2 * pair * bench->slot);
}

static float *output(const struct bench *bench, size_t pair)
{
	return bench->placement == IN_PLACE
		       ? input(bench, pair)
		       : (float *)(bench->memory + (2 * pair + 1) * bench->slot);
}

/* What sums are exact of. */
static float element(size_t i, int rank)
{
	return (float)((int)(i % 100) + rank);
}

static void fill(const struct bench *bench, size_t pair)
{
	float *in = input(bench, pair);

	for (size_t i = 0; i < bench->count; i++)
		in[i] = element(i, bench->rank);
}

/*
 * The sum has been made `times` times in place, or once. Each further time multiplies by the number
 * of ranks, exactly if that is a power of two.
 */
static void check(const struct bench *bench, size_t pair, int times)
{
	const float *out = output(bench, pair);
	int n = bench->size;
	double more = pow(n, times - 1);

	for (size_t i = 0; i < bench->count; i++) {
		double want = more * (n * (double)(i % 100) + n * (n - 1) / 2.0);

		if (fabs(out[i] - want) <= 1e-5 * want)
			continue;
		fprintf(stderr, "latency: %s: rank %d: element %zu of %zu, %s, is %g, not %g\n",
			peer.name, bench->rank, i, bench->count, words[bench->placement],
			(double)out[i], want);
		exit(1);
	}
}

static void advance(struct bench *bench)
{
	if (bench->placement == ROTATED)
		bench->next = (bench->next + bench->stride) % bench->pairs;
}

/* What a call that writes nothing would leave is wrong. */
static void spoil(const struct bench *bench, size_t pair)
{
	float *out = output(bench, pair);

	for (size_t i = 0; i < bench->count; i++)
		out[i] = -1;
}

static void prepare(const struct bench *bench)
{
	if (bench->placement == IN_PLACE)
		fill(bench, 0);
}

/* Checks the results of the window that began with pair `first`, and spoils them. */
static void check_window(struct bench *bench, size_t first)
{
	int distinct = bench->placement == ROTATED ? bench->calls : 1;

	if ((size_t)distinct > bench->pairs)
		distinct = (int)bench->pairs;
	bench->next = first;
	for (int i = 0; i < distinct; i++, advance(bench)) {
		check(bench, bench->next, bench->placement == IN_PLACE ? bench->calls : 1);
		spoil(bench, bench->next);
	}
	for (int i = distinct; i < bench->calls; i++)
		advance(bench);
}

/* Seconds of a call in a window of them; *whole: with what is around it. */
static double window(struct bench *bench, double *whole)
{
	size_t first = bench->next;
	double begin = now(), start, time;

	prepare(bench);
	must(peer.barrier(), "barrier");
	start = now();
	for (int i = 0; i < bench->calls; i++, advance(bench))
		must(peer.sum(input(bench, bench->next), output(bench, bench->next), bench->count),
		     "allreduce");
	time = now() - start;
	check_window(bench, first);
	*whole = now() - begin;
	return time / bench->calls;
}

static size_t common_divisor(size_t a, size_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* A buffer is met again only after all others, and no prefetcher guesses the next. */
static void lay_out(struct bench *bench)
{
	bench->slot = (bench->count * sizeof(float) + LINE - 1) / LINE * LINE;
	bench->pairs = bench->placement == ROTATED ? set_bytes / (2 * bench->slot) : 1;
	if (bench->placement == ROTATED && bench->pairs < 2)
		bench->pairs = 2;
	bench->stride = (size_t)(0.618 * (double)bench->pairs) + 1;
	while (common_divisor(bench->stride, bench->pairs) != 1)
		bench->stride++;
	bench->next = 0;
	for (size_t pair = 0; pair < bench->pairs; pair++) {
		spoil(bench, pair);
		fill(bench, pair);
	}
}

/* Sums in place grow by the number of ranks with each call: they stay below the largest float. */
static int most_calls(int ranks)
{
	int most = ranks < 2 ? CALLS : (int)(96 / log2(ranks));

	return most < CALLS ? most : CALLS;
}

static int between(double value, int least, int most)
{
	return value < least ? least : value > most ? most : (int)value;
}

/* The least times of some windows: of a call, and of a window with all around it; alike on all ranks. */
static void try_windows(struct bench *bench, int windows, double least[2])
{
	double time, whole;

	least[0] = least[1] = HUGE_VAL;
	for (int i = 0; i < windows; i++) {
		time = window(bench, &whole);
		least[0] = fmin(least[0], time);
		least[1] = fmin(least[1], whole);
	}
	must(peer.max(least, 2), "allreduce of the times");
}

/* Windows that use each of the buffers once. */
static int turn(const struct bench *bench)
{
	return (int)(bench->pairs / (size_t)bench->calls) + 1;
}

/* Sets the calls of a window, for a measurement of so long; returns the seconds of one with all around it. */
static double settle(struct bench *bench, double seconds)
{
	double length, least[2] = {0};
	int windows = WARMUP;

	length = bench->size > sysconf(_SC_NPROCESSORS_ONLN) ? shared_window_seconds
							     : window_seconds;
	bench->calls = 1;
	for (int pass = 0; pass < 3 && least[1] < settle_seconds; pass++) {
		try_windows(bench, windows, least);
		if (pass < 2)
			bench->calls = between(length / least[0], 1, most_calls(bench->size));
		windows = pass == 0 && bench->placement == ROTATED
				  ? between(settle_rotated * seconds / least[1], 1, turn(bench))
				  : between(settle_seconds / least[1], 1, AT_MOST);
	}
	return least[1];
}

static void measure(struct bench *bench, double seconds)
{
	double whole;
	int windows;

	lay_out(bench);
	windows = between(seconds / settle(bench, seconds), AT_LEAST, AT_MOST);
	for (int i = 0; i < windows; i++)
		bench->times[i] = window(bench, &whole);
	must(peer.max(bench->times, (size_t)windows), "allreduce of the times");
	if (bench->rank != 0)
		return;
	printf("%zu %s %d", bench->count * sizeof(float), words[bench->placement], bench->calls);
	for (int i = 0; i < windows; i++)
		printf(" %.3f", 1e6 * bench->times[i]);
	printf("\n");
	fflush(stdout);
}

/* Memory for two pairs of the largest size, or for the rotated set. */
static char *allocate(const char *kind, size_t most)
{
	size_t bytes = 4 * (most + LINE) > set_bytes ? 4 * (most + LINE) : set_bytes;
	char *memory = NULL;

	if (strcmp(kind, "own") == 0)
		memory = peer.alloc(bytes + LINE);
	else if (strcmp(kind, "malloc") == 0)
		memory = malloc(bytes + LINE);
	if (!memory)
		die("allocation");
	return memory + (LINE - (uintptr_t)memory % LINE) % LINE;
}

static bool listed(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, ','), at += at ? 1 : 0)
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

static size_t next_size(char **list)
{
	size_t bytes = strtoul(*list, list, 10);

	if (bytes < sizeof(float) || (**list && **list != ','))
		die("the list of sizes");
	*list += **list == ',';
	return bytes / sizeof(float) * sizeof(float);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	size_t most = 0;

	must(peer.init(&argc, &argv, &bench.rank, &bench.size), "init");
	if (argc != 5)
		die("the command line");
	for (char *list = argv[2]; *list;) {
		size_t bytes = next_size(&list);

		most = bytes > most ? bytes : most;
	}
	bench.memory = allocate(argv[1], most);
	for (char *list = argv[2]; *list;) {
		bench.count = next_size(&list) / sizeof(float);
		for (bench.placement = 0; bench.placement < PLACEMENTS; bench.placement++)
			if (listed(argv[3], words[bench.placement]))
				measure(&bench, strtod(argv[4], NULL) / 1e3);
	}
	return peer.fini() != 0;
}
