/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h: what a rank does when, as spans of time in a ring of fixed size.
 *
 * The ring keeps the latest spans, so that a trace shows the end of a training, where it is warm,
 * and what came before an error. Nothing is allocated after the beginning. All calls take NULL for a
 * training that is not traced, and then do nothing but look at that. The file is trace_file.h's.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_TRACE_H
#define STRETTO_TRAINER_TRACE_H

#include "runtime/clock.h"
#include "runtime/stretto.h"

/* Kinds: name, and the word in the file. */
#define STRETTO_TRACE_MAP(X)                                                                       \
	X(STRETTO_TRACE_FORWARD, "forward")   /* batch, forward pass, loss */                      \
	X(STRETTO_TRACE_BACKWARD, "backward") /* with what the strategy does meanwhile */          \
	X(STRETTO_TRACE_UPDATE, "update")     /* the pass over the arenas, with its waits */       \
	X(STRETTO_TRACE_MERGE, "merge")       /* the part of it that takes an average in */        \
	X(STRETTO_TRACE_WAIT, "wait")         /* for a slice in flight: exposed */                 \
	X(STRETTO_TRACE_VOTE, "vote")         /* whether to stop */                                \
	X(STRETTO_TRACE_TEST, "test")         /* of the weights as they are */                     \
	X(STRETTO_TRACE_SAVE, "checkpoint")   /* with its drain */                                 \
	X(STRETTO_TRACE_HIDDEN, "hidden")     /* slice in flight, complete when it was due */      \
	X(STRETTO_TRACE_WAITED, "waited")     /* slice in flight, which had to be waited for */

enum stretto_trace_kind {
#define X(name, word) name,
	STRETTO_TRACE_MAP(X)
#undef X
		STRETTO_TRACE_KINDS
};

struct stretto_trace_event {
	uint64_t start; /* ns of this host's clock, stretto_now() */
	uint64_t end;
	uint32_t step;  /* under way when it ended, from 1 */
	uint16_t kind;  /* enum stretto_trace_kind */
	uint16_t slice; /* of the arena; 0 where there is none */
};

struct stretto_trace {
	struct stretto_trace_event *events; /* ring, owned */
	size_t capacity;                    /* events, >= 1 */
	uint64_t recorded;                  /* of which the last `capacity` are there */
	uint32_t step;                      /* under way */
	uint32_t lost;                      /* the last step that lost an event; 0: none */
};

/* A ring of `capacity` events. STRETTO_NO_MEMORY. */
stretto_status stretto_trace_init(struct stretto_trace *trace, size_t capacity);
void stretto_trace_fini(struct stretto_trace *trace);

/* The step that begins. */
void stretto_trace_step(struct stretto_trace *trace, size_t step);

/* Adds a span that began at `start` and ends now. */
void stretto_trace_add(struct stretto_trace *trace, enum stretto_trace_kind kind, size_t slice,
		       uint64_t start);

/* The beginning of a span; 0 if there is no trace, without a look at the clock. */
static inline uint64_t stretto_trace_now(const struct stretto_trace *trace)
{
	return trace ? stretto_now() : 0;
}

#endif
