/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h: the parts of stretto-perf.
 *
 *   perf_options.c  the command line
 *   perf_data.c     what is sent, and the check of every element that comes back
 *   perf_run.c      buffers, the timed loop, the statistics
 *   perf_overlap.c  how much of a nonblocking allreduce hides behind compute
 *   perf_p2p.c      messages between two ranks, below the collectives
 *   perf_report.c   headers, rows and the JSON file
 *
 * Threads: the main thread only.
 */
#ifndef STRETTO_TOOLS_PERF_H
#define STRETTO_TOOLS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "collectives/stretto_coll.h"

/* Exit codes. */
enum { PERF_WRONG_DATA = 1, PERF_USAGE = 2, PERF_COMMUNICATION = 3 };
/* Most settings that the command line can make, the end included. */
enum { PERF_SETTINGS_MAX = 4 };
/* Bytes before and after each output that must stay as they are; keeps outputs on cache lines. */
enum { PERF_GUARD = 64 };
/* Root given as "all". */
enum { PERF_ALL_ROOTS = -1 };

struct perf_options {
	enum stretto_collective collective;    /* allreduce for the overlap test */
	bool overlap;                          /* the overlap test */
	bool p2p;                              /* messages between two ranks */
	bool perftest;                         /* p2p: print perftest's columns */
	bool sleep_compute;                    /* overlap: sleep where gemm would be */
	size_t min_bytes;                      /* first size */
	size_t max_bytes;                      /* no size above */
	size_t step_bytes;                     /* added from size to size; 0: multiply */
	size_t factor;                         /* from size to size, >= 2 */
	int iterations;                        /* timed, >= 1 */
	int warmup;                            /* not timed */
	bool check;                            /* fill and check the data of each iteration */
	bool registered;                       /* buffers from stretto_alloc() */
	unsigned types;                        /* bit per enum stretto_type */
	unsigned ops;                          /* bit per enum stretto_op */
	int root;                              /* of broadcast; PERF_ALL_ROOTS */
	const char *json;                      /* file to write, or NULL; borrowed from argv */
	char settings[PERF_SETTINGS_MAX][300]; /* "NAME=value" for stretto_init() */
	int setting_count;
	int argc; /* the command line, for the report */
	char **argv;
};

/* One row and half: what one timed loop runs. */
struct perf_case {
	enum stretto_collective collective;
	enum stretto_type type;
	enum stretto_op op;
	int root;
	size_t count; /* elements as in struct stretto_coll_args */
	size_t bytes; /* of the vector, or of all blocks together */
	bool in_place;
};

/* What a timed loop gave; seconds, each iteration's being the slowest rank's. */
struct perf_result {
	double median;
	double p99;
	double min;
	double max;
	double mean;
	int64_t wrong; /* elements, all ranks and iterations together; -1 if not checked */
};

/* Everything one process works with. */
struct perf {
	const struct perf_options *options;
	struct stretto_comm *comm;
	int rank;
	int size;
	unsigned char *in;    /* room for max_bytes and the guards around */
	unsigned char *out;   /* the same */
	void *blocks[2];      /* what in and out are part of */
	unsigned char *table; /* one period of data, see perf_data.c */
	double *times;        /* per part and iteration; then the maxima over ranks */
	unsigned round;       /* of data; each iteration uses another */
	/* Sums over the rows, for the last lines. */
	int64_t total_wrong;
	double bus_bandwidth;
	int bandwidths;
	FILE *json; /* rank 0 with --json, else NULL */
	int json_rows;
};

/* Reads the command line; ends the program on a wrong one. */
void perf_options_read(struct perf_options *options, int argc, char **argv);

/* Elements in one period of data. */
enum { PERF_PERIOD = 8191 };
/* Where the buffers of a case are. */
const void *perf_input(const struct perf *perf, const struct perf_case *test);
void *perf_output(const struct perf *perf, const struct perf_case *test);
/* Writes the inputs of the next round, and guards and poison to the output. */
void perf_fill(struct perf *perf, const struct perf_case *test);
/* Counts the elements of outputs, untouched inputs and guard bytes that are not as expected. */
int64_t perf_wrong(struct perf *perf, const struct perf_case *test);

/* Seconds of CLOCK_MONOTONIC. */
double perf_now(void);
/* Ends the program with PERF_COMMUNICATION (or PERF_USAGE if the argument is at fault). */
void perf_must(struct perf *perf, stretto_status status, const char *what);
/* Connects, allocates; perf_close() releases all. */
void perf_open(struct perf *perf, const struct perf_options *options);
void perf_close(struct perf *perf);
/* One blocking collective of the case. */
void perf_call(struct perf *perf, const struct perf_case *test);
/* Something to time: in each iteration body(perf, test, context), after a barrier. */
struct perf_part {
	const struct perf_case *test; /* what is filled and checked around it */
	void (*body)(struct perf *perf, const struct perf_case *test, void *context);
	void *context;             /* handed to body */
	struct perf_result result; /* filled in by perf_loop() */
};
/* Most parts of a loop. */
enum { PERF_PARTS_MAX = 3 };
/*
 * The timed loop. Each iteration does all parts one after the other, so that what disturbs the
 * machine for a while disturbs all of them. Collective.
 */
void perf_loop(struct perf *perf, struct perf_part *parts, int count);
/* The case of a size; reports the rounded size. */
struct perf_case perf_case_of(const struct perf *perf, enum stretto_type type, enum stretto_op op,
			      int root, size_t bytes);
/* The next size; > max_bytes at the end. */
size_t perf_next_size(const struct perf_options *options, size_t bytes);

/* The overlap test: all sizes. */
void perf_overlap(struct perf *perf);

/* Messages between two ranks: all sizes, measured and printed. */
void perf_p2p(struct perf *perf);

/* What the report says of one overlap row; seconds. */
struct perf_overlap_row {
	size_t bytes;
	size_t count;
	struct perf_result pure;    /* start and wait, nothing between */
	struct perf_result compute; /* the compute alone */
	struct perf_result total;   /* start, compute, wait */
	double osu;                 /* percent of the communication hidden, OSU's definition */
	double imb;                 /* the same by Intel MPI Benchmarks' definition */
};

/* The header, on rank 0; collective. */
void perf_report_open(struct perf *perf);
/* One row; `in_place` is NULL where the collective has no such form. */
void perf_report_row(struct perf *perf, const struct perf_case *test,
		     const struct perf_result *out_of_place, const struct perf_result *in_place);
void perf_report_overlap_row(struct perf *perf, const struct perf_overlap_row *row);
/* The last lines. */
void perf_report_close(struct perf *perf);

#endif
