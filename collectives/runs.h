/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runs.h: the checker's memory, kept as runs of elements with one history.
 *
 * A schedule moves few spans, however long they are. A row of runs says for each stretch of
 * positions what it holds: consecutive elements of a result, to which the same ranks contributed in
 * the same way. The cost of checking then depends on the number of spans, not on counts.
 *
 * Threads: pure data.
 */
#ifndef STRETTO_COLLECTIVES_RUNS_H
#define STRETTO_COLLECTIVES_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The `element` of memory that nothing has written. */
#define STRETTO_UNWRITTEN SIZE_MAX

struct stretto_run {
	size_t first;    /* position of the first; the run ends where the next one starts */
	size_t element;  /* index in the result that the first one contributes to, or UNWRITTEN */
	uint64_t sum;    /* of the shares of the ranks that contributed */
	uint64_t order;  /* hash of the way they were combined */
	unsigned finals; /* FINAL steps passed */
};

/* Runs without gaps from position 0 to `end`: a rank's memory, or what a step moves. */
struct stretto_runs {
	struct stretto_run *list;
	size_t count;
	size_t capacity; /* of list */
	size_t end;      /* position after the last */
};

/* Releases the list and leaves empty runs. All-zero runs are empty ones. */
void stretto_runs_fini(struct stretto_runs *runs);

/* Makes runs of `end` unwritten positions. False when memory runs out, as for all below. */
bool stretto_runs_reset(struct stretto_runs *runs, size_t end);

/* Appends a run of `count` positions like `run`, whose `first` is not looked at. */
bool stretto_runs_append(struct stretto_runs *runs, struct stretto_run run, size_t count);

/* Copies positions [first, first + count) of runs to data, there from 0 on. */
bool stretto_runs_read(const struct stretto_runs *runs, size_t first, size_t count,
		       struct stretto_runs *data);

/* Replaces positions [first, first + data->end) of runs by data. */
bool stretto_runs_write(struct stretto_runs *runs, size_t first, const struct stretto_runs *data);

/* Index of the run that holds position `where` < runs->end. */
size_t stretto_runs_find(const struct stretto_runs *runs, size_t where);

/* Position after the last of run i. */
size_t stretto_runs_stop(const struct stretto_runs *runs, size_t i);

/* The part of a run from position `where`, within it, on. */
struct stretto_run stretto_run_from(struct stretto_run run, size_t where);

#endif
