/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * executor.h: runs a schedule over the transports of one channel.
 *
 * The only code that knows both. A part of an operation (the whole of it, unless it is striped over
 * channels) covers elements [first, first + count) of the vector, and is cut into windows of
 * `window` elements. A few windows are in flight at a time, each in a *slot* that has its own state
 * of the steps and its own TMP. When a slot's window is complete, the next one starts in it.
 *
 * A step is started when the steps it waits for are complete: a counter per step, and a queue of
 * steps that are ready per slot. Completions from the transport only count down and queue. A RECV
 * that is fused with a REDUCE starts when both could, and the transport hands it the payload where
 * it lies.
 *
 * Messages of different windows are told apart by the ordinal: window << 16 | number in the window.
 * Ranks are never 65536 windows apart, since every window needs a message from every rank.
 *
 * Everything is allocated when the part is made; running it allocates nothing.
 *
 * Threads: made and started by the application's thread, run by the holder of the channel's baton.
 */
#ifndef STRETTO_COLLECTIVES_EXECUTOR_H
#define STRETTO_COLLECTIVES_EXECUTOR_H

#include <stdatomic.h>

#include "collectives/kernels.h"
#include "collectives/mapped.h"
#include "collectives/schedule.h"
#include "runtime/channel.h"

struct stretto_exec_slot;

/* A step under way: what the transport holds while it is posted. */
struct stretto_exec_step {
	union {
		struct stretto_send send;
		struct stretto_recv recv;
	};
	struct stretto_exec_slot *slot;
	int index;   /* in the schedule */
	int waiting; /* steps to complete before it starts */
};

struct stretto_exec_slot {
	struct stretto_exec *exec;
	const struct stretto_schedule *schedule; /* of the window in it; NULL: empty */
	size_t window;                           /* number of that window */
	struct stretto_exec_step *steps;         /* owned */
	int *ready;                              /* ring of step indices; owned */
	int ready_first, ready_count;            /* */
	int remaining;                           /* steps not complete */
	char *tmp;                               /* its TMP, within exec.tmp */
};

/* Numbers of what was done, exact; for tests and tools. */
struct stretto_exec_counts {
	uint64_t sends;        /* messages */
	uint64_t sent_bytes;   /* their payload */
	uint64_t fused;        /* receives that were reduced on arrival */
	uint64_t copied_bytes; /* by COPY steps */
	uint64_t again;        /* posts that had to be tried again */
	/* Of schedules without messages: */
	uint64_t read_bytes;    /* operands, and what was copied */
	uint64_t written_bytes; /* results, and copies */
};

/* What a part is made from. */
struct stretto_exec_plan {
	struct stretto_comm *comm;
	const int *ranks; /* world ranks, by rank as the schedules count; the communicator's */
	struct stretto_channel *channel;
	const struct stretto_schedule *full; /* of a whole window; outlives the part */
	const struct stretto_schedule *rest; /* of the shorter last window; NULL if there is none */
	const struct stretto_schedule *seal; /* a barrier behind all windows; NULL: not needed */
	size_t first;                        /* element of the vector (of each block) */
	size_t windows;                      /* number of them, at least 1 */
	size_t window;                       /* elements of a whole one */
	size_t in_flight;                    /* windows at a time, at most */
	size_t element_size;                 /* bytes */
	struct stretto_board
		*board; /* of schedules without messages, else NULL; outlives the part */
};

/* Added to the op of a signature where STRETTO_REPRODUCIBLE decides on the order of the ranks. */
enum { STRETTO_SIGNED_REPRODUCIBLE = 0x80 };
/* The same where each rank's input is scaled. */
enum { STRETTO_SIGNED_SCALED = 0x40 };
/* The algorithm of a signature where each rank may take another one; see algorithm.h, `alike`. */
enum { STRETTO_SIGNED_ANY = 0xff };
/* Bytes of the largest element. */
enum { STRETTO_ELEMENT_MAX = 16 };

/* The caller's buffers and operation, set anew at each start. */
struct stretto_exec_call {
	const char *in;
	char *out;
	const struct stretto_region *in_region;  /* that holds all of in, or NULL */
	const struct stretto_region *out_region; /* that holds all of out, or NULL */
	enum stretto_type type;
	enum stretto_op op;
	_Alignas(STRETTO_ELEMENT_MAX) unsigned char scale[STRETTO_ELEMENT_MAX]; /* the factor of
							own operands, a copy */
	struct stretto_signature signature;
	struct stretto_operation *operation; /* entered; account is kept of it if it has parts */
	uint64_t deadline;
	int priority;
	bool attended; /* the caller has entered the channel, and waits for the part next */
};

struct stretto_exec {
	struct stretto_work work;
	struct stretto_exec_plan plan;
	struct stretto_exec_call call;
	stretto_reduce_fn reduce;
	char *base[STRETTO_BUF_COUNT]; /* IN, OUT at element 0 of the part; TMP is the slot's */
	const struct stretto_region *region[STRETTO_BUF_COUNT]; /* that hold them, or NULL */
	struct stretto_exec_slot *slots;                        /* owned */
	size_t slot_count;
	char *tmp;           /* all slots' TMP, a region; NULL if none is needed; owned */
	size_t next_window;  /* to be started */
	size_t windows_left; /* not complete */
	int *peers;          /* ranks that the schedules talk to, as these count; owned */
	int peer_count;
	int step_capacity;            /* of each slot's steps and queue */
	bool started;                 /* endpoints exist, first windows are in their slots */
	struct stretto_mapped mapped; /* instead of slots, where schedules have no messages */
	struct stretto_exec_counts counts;
	stretto_status status; /* how it ended; valid once done */
	atomic_uint done;      /* 1 when it has ended */
};

/* How a channel runs a part with messages; for one without, see mapped.h. */
extern const struct stretto_work_ops stretto_exec_ops;

/* Allocates a part. The caller ends it with stretto_exec_free(). STRETTO_NO_MEMORY. */
stretto_status stretto_exec_new(const struct stretto_exec_plan *plan, struct stretto_exec **exec);
/* The part is not running. NULL does nothing. */
void stretto_exec_free(struct stretto_exec *exec);

/* Sets the part up for a call. Then either it is submitted, or see mapped.h. */
void stretto_exec_prepare(struct stretto_exec *exec, const struct stretto_exec_call *call);
/* Hands the part to its channel. exec->done becomes 1 when it has ended; exec->status says how. */
void stretto_exec_submit(struct stretto_exec *exec);

/* Says that a part has ended. Baton. */
void stretto_exec_finished(struct stretto_exec *exec, stretto_status status);

#endif
