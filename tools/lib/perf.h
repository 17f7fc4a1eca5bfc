/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h: the parts of stretto-perf.
 *
 *   perf_options.c  the command line
 *   perf_data.c     what is sent, and the check of every element that comes back
 *   perf_run.c      buffers, the timed loop, the statistics
 *   perf_overlap.c  how much of a nonblocking allreduce hides behind compute
 *   perf_p2p.c      messages between two ranks, below the collectives
 *   perf_tune.c     the parameters of the cost model, measured into a tuning file
 *   perf_collectives.c  what differs between the collectives, a line each
 *   perf_watch.c    the end of a run that takes too long
 *   perf_report.c   the header, what a row is worth, the last lines
 *   perf_formats.c  rows in the columns of nccl-tests, OSU, IMB, and as CSV
 *   perf_json.c     all of it as JSON
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
enum {
	PERF_BAD_RESULT = 1, /* wrong data, or slower than --min-bw */
	PERF_USAGE = 2,
	PERF_COMMUNICATION = 3,
	PERF_TIMEOUT = 4, /* --timeout has passed */
};
/* Most settings that the command line can make, the end included. */
enum { PERF_SETTINGS_MAX = 4 };
/* Bytes before and after each output that must stay as they are; keeps outputs on cache lines. */
enum { PERF_GUARD = 64 };
/* Root given as "all". */
enum { PERF_ALL_ROOTS = -1 };

/* Which call an iteration makes. */
enum perf_mode {
	PERF_BLOCKING,
	PERF_NONBLOCKING, /* start, then wait */
	PERF_PERSISTENT,  /* start and wait of an operation made before */
};

/* Which halves of a row are measured; a bit each. */
enum perf_place { PERF_OUT_OF_PLACE = 1, PERF_IN_PLACE = 2 };

struct perf_format;

struct perf_options {
	enum stretto_collective collective;    /* allreduce for the overlap test */
	bool overlap;                          /* the overlap test */
	bool p2p;                              /* messages between two ranks */
	bool tune;                             /* the tuning file */
	const char *output;                    /* tune: file to write, NULL: stdout; from argv */
	bool fixes;                            /* tune: fix the fastest algorithms too */
	bool perftest;                         /* p2p: print perftest's columns */
	bool sleep_compute;                    /* overlap: sleep where gemm would be */
	const struct perf_format *format;      /* of the rows; NULL: JSON on stdout, or p2p */
	bool full;                             /* OSU: the columns of its option -f too */
	unsigned places;                       /* enum perf_place */
	enum perf_mode mode;                   /* overlap: PERF_PERSISTENT or not */
	int sets;                              /* of buffers, used in turn; >= 1 */
	double least_bandwidth;                /* 10^9 bytes a second of busbw; 0: any will do */
	double timeout;                        /* seconds of the whole run; 0: none */
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
	const char *algorithm; /* NULL: the library's choice */
};

/* What a timed loop gave; seconds, each iteration's being the slowest rank's. */
struct perf_result {
	double median;
	double p99;
	double min;
	double max;
	double mean;
	/* Means over the iterations of each rank's own times: over the ranks, as OSU and IMB do. */
	double rank_mean;
	double rank_min;
	double rank_max;
	int64_t wrong; /* elements, all ranks and iterations together; -1 if not checked */
};

/* Buffers of one iteration. */
struct perf_set {
	unsigned char *in;               /* room for max_bytes and the guards around */
	unsigned char *out;              /* the same */
	void *blocks[2];                 /* what in and out are part of */
	struct stretto_request *request; /* persistent, between perf_prepare and perf_release */
	double seconds;                  /* of its last iteration on this rank */
};

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

/* Everything one process works with. */
struct perf {
	const struct perf_options *options;
	struct stretto_comm *comm;
	int rank;
	int size;
	struct perf_set *sets; /* options->sets of them */
	struct perf_set *set;  /* the one in use */
	unsigned char *in;     /* of that one */
	unsigned char *out;    /* of that one */
	unsigned char *table;  /* one period of data, see perf_data.c */
	double *times;         /* per part and iteration; then the maxima over ranks */
	unsigned round; /* of data that is filled in or checked; each iteration has another */
	/* Sums over the rows, for the last lines. */
	int64_t total_wrong;
	int too_slow; /* halves of rows below least_bandwidth */
	double bus_bandwidth;
	int bandwidths;
	FILE *json; /* rank 0, where JSON is wanted, else NULL; owned if it is not stdout */
	int json_rows;
};

/* Reads the command line; ends the program on a wrong one. */
void perf_options_read(struct perf_options *options, int argc, char **argv);
/* Whether a reduction of that type by that operation is asked for, and there is one. */
bool perf_selects(const struct perf_options *options, enum stretto_type type, enum stretto_op op);

/* What the tool must know of a collective. */
struct perf_collective {
	const char *osu;    /* name in OSU's and IMB's headers */
	bool no_data;       /* synchronizes only */
	bool one_buffer;    /* has no in-place form of its own */
	bool reduces;       /* has an op */
	bool rooted;        /* has a root */
	bool block_is_size; /* OSU and IMB call one block the size */
	int passes;         /* busbw = algbw * passes * (n-1)/n; 0: algbw */
};
/* Indexed by enum stretto_collective. */
extern const struct perf_collective perf_collectives[STRETTO_COLLECTIVE_COUNT];

/* Elements in one period of data. */
enum { PERF_PERIOD = 8191 };
/* Where the buffers of a case are. */
const void *perf_input(const struct perf *perf, const struct perf_case *test);
void *perf_output(const struct perf *perf, const struct perf_case *test);
/* Writes the inputs of perf->round, and guards and poison to the output. */
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
/*
 * Before and after the loops over a case: makes and frees its persistent operations, one for each
 * set of buffers. Do nothing in the other modes.
 */
void perf_prepare(struct perf *perf, const struct perf_case *test);
void perf_release(struct perf *perf);
/* The collective of the case on the set in use: started, to be ended by stretto_wait(). */
struct stretto_request *perf_start(struct perf *perf, const struct perf_case *test);
/* The same from start to end, in the mode that is wanted. */
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
 * The timed loop. All parts are done in turn, so that what disturbs the machine for a while
 * disturbs all of them. With several sets of buffers a turn is one iteration on each set, all
 * filled before the first and checked after the last: a set is not touched between. Collective.
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
/*
 * Seconds that a message of so many bytes takes one way between the two ranks of perf->comm: the
 * median of `count` round trips, halved; 0 on rank 1. Collective; count <= options->iterations.
 */
double perf_p2p_delay(struct perf *perf, size_t bytes, int count);

/*
 * Measures the parameters of the cost model on the ranks of the job, and prints or writes a tuning
 * file. False, after one line on stderr of rank 0, if what was measured cannot be right or the file
 * cannot be written; the other ranks return true. Collective.
 */
bool perf_tune(struct perf *perf);

/*
 * Ends the program with PERF_TIMEOUT and one line when `seconds` have passed; 0 does nothing. A
 * failure in the last second before that is taken for another rank's end by the same limit:
 * perf_watch_due() tells, and perf_watch_end() is that end.
 */
void perf_watch(double seconds);
bool perf_watch_due(void);
_Noreturn void perf_watch_end(void);
/* What the line shall say: this rank is in test `name` of that many bytes. Any time. */
void perf_watch_case(int rank, const char *name, size_t bytes);

/* What each rank says of itself; gathered as bytes. */
struct perf_facts {
	char host[64];
	char cores[96];       /* affinity mask as a list */
	char transports[160]; /* open, in the order of preference, with RDMA devices */
	char governor[32];    /* of the first core, or "not readable" */
	int64_t pid;
	int64_t memlock;       /* soft limit, bytes; -1 for none */
	int64_t compute_cores; /* stretto_compute_cores() */
};

/* How rows are printed on stdout, by rank 0. */
struct perf_format {
	const char *name;
	bool one_place; /* a row has room for one half only */
	void (*columns)(const struct perf *perf);
	/* A half that was not measured, or does not exist, is NULL. */
	void (*row)(const struct perf *perf, const struct perf_case *test,
		    const struct perf_result *out_of_place, const struct perf_result *in_place);
	void (*overlap_row)(const struct perf *perf, const struct perf_overlap_row *row);
};
/* All of them; the first is the default. */
extern const struct perf_format perf_formats[];
extern const size_t perf_formats_count;

/* The same as JSON, to perf->json. */
void perf_json_open(struct perf *perf, const struct perf_facts *facts);
void perf_json_row(struct perf *perf, const struct perf_case *test,
		   const struct perf_result *out_of_place, const struct perf_result *in_place);
void perf_json_overlap_row(struct perf *perf, const struct perf_overlap_row *row);
void perf_json_close(struct perf *perf);

/* The test's name, and the words of a case's type and op. */
const char *perf_test_name(const struct perf_options *options);
const char *perf_mode_name(enum perf_mode mode);
const char *perf_type_word(const struct perf_case *test);
const char *perf_op_word(const struct perf_case *test);
/* -1 where the collective has none. */
int perf_root(const struct perf_case *test);
/* 10^9 bytes a second of a row, and multiplied as nccl-tests does: see docs/stretto-perf.md. */
double perf_algbw(const struct perf_case *test, const struct perf_result *result);
double perf_busbw(const struct perf *perf, const struct perf_case *test,
		  const struct perf_result *result);
/* Calls print for every setting that somebody chose: by option, then by environment. */
int perf_each_setting(const struct perf_options *options,
		      void (*print)(FILE *file, const char *setting), FILE *file,
		      const char *between);

/* The header, on rank 0; collective. */
void perf_report_open(struct perf *perf);
/* One row, on all ranks; a half is NULL where it was not measured or does not exist. */
void perf_report_row(struct perf *perf, const struct perf_case *test,
		     const struct perf_result *out_of_place, const struct perf_result *in_place);
void perf_report_overlap_row(struct perf *perf, const struct perf_overlap_row *row);
/* The last lines. */
void perf_report_close(struct perf *perf);

#endif
