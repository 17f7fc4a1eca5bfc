/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h: a collective is data.
 *
 * A schedule is what one rank does in one operation: a flat array of steps over named buffers. It
 * is made by a pure function (a builder, one per algorithm), so the same schedule can be executed
 * (executor.h), proved (checker.h), costed (selection.h) and printed (stretto-sched).
 *
 *   SEND    peer, a          sends span a to the peer; a is busy until the step completes
 *   RECV    peer, dst        receives into dst; the n-th SEND to a rank meets its n-th RECV from us
 *   REDUCE  dst = a op b     elementwise; the rank order of a and b is part of the schedule, because
 *                            all ranks must get the same bits. dst may be a or b exactly, never a part
 *   COPY    dst = a
 *
 * Ranks that have each other's memory mapped (runtime/board.h) need no messages. Each *publishes* up
 * to two spans of its own buffers, by default IN and OUT; a schedule for them has these steps:
 *
 *   SIGNAL      phase        all that came before is done: the others may go on
 *   AWAIT       peer, phase  waits until the peer has signalled that phase
 *   REDUCE_ALL  dst = op over all ranks of their published input at span a, in the order of
 *               allreduce_doubling.c; with STRETTO_STEP_TO_ALL the result also goes into
 *               every rank's published output, at the span dst
 *   PULL        peer, dst = a, where a is in the peer's published input or output
 *   COPY        as above
 *
 * They wait for nothing but the step before: a rank runs them one after the other.
 *
 * A step starts when the (up to two) earlier steps it waits for are complete. Steps that are not
 * ordered by these run in any order, also at the same time.
 *
 * Buffers: IN and OUT are the caller's, TMP is scratch of `tmp_count` elements. An in-place
 * operation has only one buffer: its builder names it IN where the result is a block of the input
 * (reduce_scatter, scatter), else OUT, and nothing else. With a root only the root is in place.
 *
 * Windows: for a long vector the schedule describes a window of `shape.count` elements and the
 * executor slides it along: in window w every IN and OUT span is shifted by w * count elements. TMP
 * is not shifted; each window in flight has its own. In buffers of blocks (IN of reduce_scatter,
 * OUT of allgather; see traits.h) the window covers a part of every block: block b starts at b * shape.stride.
 *
 * AVG: a step with STRETTO_STEP_FINAL completes the reduction of its elements, and divides by the
 * number of ranks on the way. Each result must pass through exactly one such step.
 *
 * Threads: pure data. Built by one thread, then read by any.
 */
#ifndef STRETTO_COLLECTIVES_SCHEDULE_H
#define STRETTO_COLLECTIVES_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/stretto_coll.h"

enum stretto_buffer {
	STRETTO_BUF_IN,
	STRETTO_BUF_OUT,
	STRETTO_BUF_TMP,
	STRETTO_BUF_COUNT,
};

enum stretto_step_kind {
	STRETTO_STEP_SEND,
	STRETTO_STEP_RECV,
	STRETTO_STEP_REDUCE,
	STRETTO_STEP_COPY,
	STRETTO_STEP_SIGNAL,
	STRETTO_STEP_AWAIT,
	STRETTO_STEP_REDUCE_ALL,
	STRETTO_STEP_PULL,
};

/* Elements [first, first + count) of a buffer. count may be 0: a message without payload. */
struct stretto_span {
	enum stretto_buffer buffer;
	size_t first;
	size_t count;
};

/* Flags of a step. OWN: the operand is this rank's input, to be multiplied; see premul.h. */
enum {
	STRETTO_STEP_FINAL = 1,
	STRETTO_STEP_OWN_A = 2,
	STRETTO_STEP_OWN_B = 4,
	STRETTO_STEP_TO_ALL = 8, /* see REDUCE_ALL */
};

/* Phases of a SIGNAL. */
enum { STRETTO_PHASE_MAX = 3 };

/* No step, in `after` and `fused`. */
enum { STRETTO_NO_STEP = -1 };

struct stretto_step {
	enum stretto_step_kind kind;
	unsigned flags;          /* STRETTO_STEP_... */
	int peer;                /* SEND, RECV, AWAIT, PULL: the other rank; else -1 */
	int phase;               /* SIGNAL, AWAIT: from 1 on */
	struct stretto_span dst; /* RECV, REDUCE, COPY */
	struct stretto_span a;   /* SEND, REDUCE, COPY */
	struct stretto_span b;   /* REDUCE */
	int after[2];            /* earlier steps this one waits for; STRETTO_NO_STEP for none */

	/* Filled in by stretto_schedule_seal(): */
	uint32_t ordinal; /* SEND, RECV: how many earlier steps of this kind have the same peer */
	uint32_t pitch;   /* SEND, RECV: how many steps of this kind have the same peer in all */
	int fused;        /* RECV: the REDUCE that may take its data straight from the transport;
			     REDUCE: that RECV; STRETTO_NO_STEP where there is none */
	int successors;   /* first of this step's followers in schedule.followers */
	int successor_count;
};

/*
 * Lengths and places of blocks that are not all alike, by rank, in elements. NULL for a buffer that
 * is no buffer of blocks.
 */
struct stretto_counts {
	const size_t *in_counts;
	const size_t *in_firsts;
	const size_t *out_counts;
	const size_t *out_firsts;
};

/* What a builder is asked for. */
struct stretto_shape {
	enum stretto_collective collective;
	int rank;      /* as the schedule counts them, see request.c */
	int size;      /* number of ranks, >= 1 */
	int root;      /* of a collective that has one, else 0; counted likewise */
	size_t count;  /* elements, as in struct stretto_coll_args, of one window */
	size_t stride; /* elements between blocks of IN or OUT, >= count */
	bool in_place; /* see above */
	bool scaled;   /* each rank's input is multiplied before it is added; see premul.h */
	/* Whether peers can map this rank's buffers; only schedules without messages look. */
	bool in_mapped;
	bool out_mapped;
	/*
	 * Of a collective whose blocks vary: theirs; `count` and `stride` say nothing then, and the
	 * window is all there is. Borrowed from what outlives all schedules. NULL: all are alike.
	 */
	const struct stretto_counts *counts;
	/*
	 * By rank: the number of its node, 0 to nodes - 1, where that matters (allreduce). Borrowed
	 * from what outlives all schedules. NULL: all are on one node.
	 */
	const int *node;
	int nodes; /* number of nodes; not looked at without `node` */
};

struct stretto_schedule {
	struct stretto_shape shape;
	const char *algorithm; /* its name; static */
	struct stretto_step *steps;
	int step_count;
	int capacity;     /* of steps */
	int *followers;   /* all steps' followers, one array; owned */
	size_t tmp_count; /* elements of TMP */
	bool mapped;      /* has SIGNAL and AWAIT: runs in order, without messages */
	bool on_board;    /* TMP is this rank's payload on the board, and is what it publishes */
	/* Where what this rank publishes as its input and as its output begins. */
	struct stretto_span published[2];
	bool failed; /* memory ran out while building; seal reports it */
};

/* Starts an empty schedule for a shape. Never fails; end with stretto_schedule_fini(). */
void stretto_schedule_init(struct stretto_schedule *schedule, const struct stretto_shape *shape,
			   const char *algorithm);

/*
 * Append a step that waits for the steps `after0` and `after1` (indices of earlier steps, or
 * STRETTO_NO_STEP) and return its index. When memory runs out they return STRETTO_NO_STEP and the
 * schedule is marked; builders need not look.
 */
int stretto_schedule_send(struct stretto_schedule *schedule, int peer, struct stretto_span a,
			  int after0, int after1);
int stretto_schedule_recv(struct stretto_schedule *schedule, int peer, struct stretto_span dst,
			  int after0, int after1);
int stretto_schedule_copy(struct stretto_schedule *schedule, struct stretto_span dst,
			  struct stretto_span a, int after0, int after1);
int stretto_schedule_reduce(struct stretto_schedule *schedule, struct stretto_span dst,
			    struct stretto_span a, struct stretto_span b, int after0, int after1);
/* Steps without messages, each after the one before. What a rank publishes is set first. */
void stretto_schedule_publish(struct stretto_schedule *schedule, struct stretto_span in,
			      struct stretto_span out);
/* Publishes `count` elements of TMP on the board itself; returns the span. */
struct stretto_span stretto_schedule_on_board(struct stretto_schedule *schedule, size_t count);
int stretto_schedule_signal(struct stretto_schedule *schedule, int phase);
int stretto_schedule_await(struct stretto_schedule *schedule, int peer, int phase);
/* SIGNAL and then AWAIT of all others, the next rank first. */
void stretto_schedule_meet(struct stretto_schedule *schedule, int phase);
/* `own` is this rank's operand; it may be another copy of what the rank published. */
int stretto_schedule_reduce_all(struct stretto_schedule *schedule, struct stretto_span dst,
				struct stretto_span a, struct stretto_span own, unsigned flags);
int stretto_schedule_pull(struct stretto_schedule *schedule, int peer, struct stretto_span dst,
			  struct stretto_span a);

/* Sets STRETTO_STEP_FINAL on a step; ignores STRETTO_NO_STEP. */
void stretto_schedule_final(struct stretto_schedule *schedule, int step);

/* Reserves `count` elements of TMP and returns the span. */
struct stretto_span stretto_schedule_tmp(struct stretto_schedule *schedule, size_t count);

/*
 * Ends building: checks the form (indices, peers, spans within their buffers), fills in the sealed
 * fields. STRETTO_NO_MEMORY, or STRETTO_INTERNAL for a malformed schedule (the log says which
 * step).
 */
stretto_status stretto_schedule_seal(struct stretto_schedule *schedule);

/* Releases what the schedule owns. */
void stretto_schedule_fini(struct stretto_schedule *schedule);

/* Elements of IN and of OUT that a shape has, stride included. */
size_t stretto_shape_in_count(const struct stretto_shape *shape);
size_t stretto_shape_out_count(const struct stretto_shape *shape);

/* Block b of a buffer of one block per rank, IN or OUT. */
struct stretto_span stretto_block(const struct stretto_shape *shape, enum stretto_buffer buffer,
				  int b);

/* What is this rank's of a buffer, IN or OUT: its block where there is one per rank, else all. */
struct stretto_span stretto_own(const struct stretto_shape *shape, enum stretto_buffer buffer);

/* Whether two spans are the same elements of the same buffer. */
static inline bool stretto_same_span(const struct stretto_span *x, const struct stretto_span *y)
{
	return x->buffer == y->buffer && x->first == y->first && x->count == y->count;
}

/* Block b of `count` elements cut into `parts` parts that differ by at most one element. */
struct stretto_span stretto_part(enum stretto_buffer buffer, size_t count, int parts, int b);
/* The same with parts that begin at multiples of 64 elements; the last ones may be short or empty. */
struct stretto_span stretto_aligned_part(enum stretto_buffer buffer, size_t count, int parts,
					 int b);

/*
 * Writes one step as text into buf of `size` bytes, such as
 * "3: RECV+REDUCE  from 2  OUT[0,4) = recv + IN[0,4)  after 1". Returns buf.
 */
const char *stretto_step_text(const struct stretto_schedule *schedule, int step, char *buf,
			      size_t size);

#endif
