/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checker_internal.h: what the two halves of the checker share: checker.c says what must hold,
 * checker_run.c executes.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_CHECKER_INTERNAL_H
#define STRETTO_COLLECTIVES_CHECKER_INTERNAL_H

#include "collectives/checker.h"
#include "collectives/runs.h"

/* One step of one rank. */
struct stretto_node {
	const struct stretto_step *step;
	int rank;
	int index;                   /* of the step in its schedule */
	size_t partner;              /* SEND, RECV: the node at the other end */
	int waiting;                 /* dependencies that are not complete yet */
	bool posted;                 /* SEND, RECV: has been handed to the transport */
	bool done;                   /* is complete */
	struct stretto_runs payload; /* SEND: what an eager send took along */
};

/* One call of stretto_check(). */
struct stretto_check {
	const struct stretto_schedule *schedules;
	int size;              /* number of ranks */
	uint64_t seed;         /* of the random numbers; moves on */
	char *why;             /* where the first fault goes */
	size_t why_size;       /* bytes of why */
	stretto_status status; /* STRETTO_OK until the first fault */

	struct stretto_node *nodes; /* all steps, rank by rank */
	size_t node_count;
	size_t *base;     /* of each rank: its first node */
	uint64_t *shares; /* of each rank: what it adds to a sum, random */
	uint64_t full;    /* sum of all shares */
	uint64_t order;   /* hash of the canonical order of all ranks */

	/* One execution: */
	bool eager;                  /* sends complete at once */
	bool fused;                  /* RECV+REDUCE are one step */
	struct stretto_runs *memory; /* of each rank: IN, OUT, TMP one behind the other */
	struct stretto_runs left;    /* operands and result of the step at hand */
	struct stretto_runs right;
	struct stretto_runs result;
	size_t *actions; /* what can happen next: 2 * node to start it, + 1 to end it */
	size_t action_count;
	size_t done_count; /* nodes that are complete */
	uint64_t *known;   /* of each node, then each rank: a set of ranks that must have entered */
	size_t known_words; /* in one set */
};

/* Keeps the first fault in check->why. */
void stretto_check_fail(struct stretto_check *check, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Ends the check for want of memory unless `ok`. */
void stretto_check_need(struct stretto_check *check, bool ok);

/* Writes what is wrong with a sum that should have every rank once. */
void stretto_check_describe_sum(const struct stretto_check *check, uint64_t sum, char *text,
				size_t size);

/* Position of an element of a buffer in the memory of its rank. */
size_t stretto_check_position(const struct stretto_shape *shape, enum stretto_buffer buffer,
			      size_t element);

/* The number of the first element of block b of a result: no two blocks share a number. */
size_t stretto_check_element(const struct stretto_shape *shape, int b);

/* "IN", "OUT" or "TMP". */
const char *stretto_check_buffer_name(enum stretto_buffer buffer);

/* The order hash of `a op b`: neither commutative nor associative. */
uint64_t stretto_check_mix(uint64_t a, uint64_t b);

/* The next random number of the call. */
uint64_t stretto_check_random(struct stretto_check *check);

/* Runs all schedules to their end in a random order, as check->eager and check->fused say. */
void stretto_check_execute(struct stretto_check *check);

/* The same for schedules without messages, each rank in order: checker_mapped.c. */
void stretto_check_execute_mapped(struct stretto_check *check);

/*
 * What both use. The memory of a rank before the operation; spans in the memory of a rank, for a
 * step (a fault if nothing has written what is read); check->result = a op b; and what a FINAL step
 * made. stretto_check_fail_step() is stretto_check_fail(): "rank R, step 3: SEND ...: what".
 */
void stretto_check_fill_memory(struct stretto_check *check, int rank);
void stretto_check_read(struct stretto_check *check, const struct stretto_node *node, int rank,
			const struct stretto_span *span, struct stretto_runs *data);
void stretto_check_write(struct stretto_check *check, int rank, const struct stretto_span *span,
			 const struct stretto_runs *data);
void stretto_check_combine(struct stretto_check *check, const struct stretto_node *node,
			   const struct stretto_runs *a, const struct stretto_runs *b);
void stretto_check_finish(struct stretto_check *check, const struct stretto_node *node,
			  struct stretto_runs *data);
void stretto_check_fail_step(struct stretto_check *check, const struct stretto_node *node,
			     const char *what);

/* The set of ranks that `rank` knows to have entered when it is done, one bit each. */
uint64_t *stretto_check_known(struct stretto_check *check, int rank);

#endif
