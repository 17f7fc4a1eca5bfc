/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algorithm.h: the table of algorithms. One algorithm is one file in algorithms/ and one line of
 * the array in algorithm.c; docs/adding-an-algorithm.md is the checklist.
 *
 * Threads: everything here is pure or constant.
 */
#ifndef STRETTO_COLLECTIVES_ALGORITHM_H
#define STRETTO_COLLECTIVES_ALGORITHM_H

#include "collectives/schedule.h"

/* A link as the cost model sees it (LogGP without the o): seconds, and seconds per byte. */
struct stretto_link {
	double latency;    /* seconds from post to completion of an empty message */
	double per_byte;   /* seconds per byte on the wire, one direction */
	double per_reduce; /* seconds per byte reduced by a core */
	size_t message;    /* bytes from which on what a message costs in itself hardly counts */
};

/* The ranks of an operation as the cost model sees them. */
struct stretto_group {
	int size;                        /* number of ranks */
	int nodes;                       /* that they are on */
	int least;                       /* ranks on a node, at least */
	int most;                        /* and at most; they share the node's way to the others */
	const struct stretto_link *link; /* between any two: the slowest there is */
	const struct stretto_link *near; /* between two of a node; `link` if that is no faster */
	bool board; /* the ranks have each other's memory mapped (runtime/board.h) */
};

struct stretto_algorithm {
	const char *name; /* as users write it: "ring" */
	enum stretto_collective collective;
	/*
	 * Appends this rank's steps to a schedule that was initialised with the shape. Pure.
	 * Handles every size >= 2, root and count (0 included: all ranks still exchange messages,
	 * so that a mismatch is seen).
	 */
	void (*build)(struct stretto_schedule *schedule);
	/*
	 * Estimated seconds for `bytes` (of the vector for allreduce and broadcast, of all blocks
	 * together for allgather and reduce_scatter) on the ranks of a group, and with `window`
	 * bytes of it per window.
	 */
	double (*cost)(const struct stretto_group *group, size_t bytes, size_t window);
	/* Bytes (counted as for cost) of the best window; SIZE_MAX where sliding wins nothing. */
	size_t (*window)(const struct stretto_group *group, size_t bytes);
	/* Whether it is considered for a group unless it is asked for. NULL: always. */
	bool (*suits)(const struct stretto_group *group);
	/*
	 * Reductions: every element is combined in the canonical order of the ranks, wherever it
	 * stands in the vector. Of n ranks, extras = n - 2^floor(log2 n): the first `extras` pairs
	 * (2i, 2i+1) are combined first, then neighbours of what is left at distance 1, 2, 4 ...,
	 * lower ranks on the left. What STRETTO_REPRODUCIBLE=1 asks for.
	 */
	bool canonical;
	/*
	 * It exchanges the same messages as all others of its collective, so that each rank may take
	 * another one of them: what ranks know of the sizes differs.
	 */
	bool alike;
	/* Bytes (counted as for cost) it can do, in one window then; 0: any number. */
	size_t most;
	bool mapped; /* makes schedules without messages: all ranks on one node, see board.h */
};

/* All algorithms, ended by NULL. */
extern const struct stretto_algorithm *const stretto_algorithms[];

/* The algorithm of that name for the collective; NULL if there is none. */
const struct stretto_algorithm *stretto_algorithm_find(enum stretto_collective collective,
						       const char *name);

/* The algorithm's place in the table, which travels in signatures; and back, NULL for none. */
uint8_t stretto_algorithm_index(const struct stretto_algorithm *algorithm);
const struct stretto_algorithm *stretto_algorithm_at(uint8_t index);

/*
 * Builds and seals the schedule of `algorithm` for a shape. A group of one rank gets a COPY or
 * nothing, whatever the algorithm. The caller ends *schedule with stretto_schedule_fini(), also on
 * failure.
 */
stretto_status stretto_algorithm_build(const struct stretto_algorithm *algorithm,
				       const struct stretto_shape *shape,
				       struct stretto_schedule *schedule);

#endif
