/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vote.h: how ranks that hardly ever wait for each other stop at the same step.
 *
 * Each rank may put in a reason to stop. Every few steps the earliest reason of all ranks is
 * reduced in the background, and looked at one period later, at the same step on all ranks.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_VOTE_H
#define STRETTO_TRAINER_VOTE_H

#include "collectives/stretto_coll.h"

/* Why to stop. */
enum stretto_stop {
	STRETTO_STOP_NONE,
	STRETTO_STOP_LOSS,     /* the loss is not a number */
	STRETTO_STOP_OBSERVER, /* the observer asked for it */
	STRETTO_STOP_SIGNAL,   /* a signal asked for it; any other reason counts before it */
};

/* A reason, of the first rank that had one. */
struct stretto_verdict {
	enum stretto_stop stop;
	size_t step;
	int rank;
};

struct stretto_vote {
	struct stretto_request *request; /* persistent, owned */
	int64_t mine;                    /* earliest reason of this rank, coded; INT64_MAX: none */
	int64_t in;                      /* what was put in: constant while in flight */
	int64_t out;                     /* earliest reason of all ranks */
	int rank;                        /* of this process */
	bool active;                     /* a vote is in flight */
};

/* Makes the vote of a communicator, at a fixed place in memory. Local. */
stretto_status stretto_vote_init(struct stretto_vote *vote, struct stretto_comm *comm);
void stretto_vote_fini(struct stretto_vote *vote);

/* Puts in a reason to stop; the first of a rank counts. */
void stretto_vote_put(struct stretto_vote *vote, enum stretto_stop stop, size_t step);

/*
 * Called by all ranks at the same steps: takes the result of the vote in flight, if any, into
 * *verdict, and starts the next. Blocks only if that vote is not complete yet.
 */
stretto_status stretto_vote_turn(struct stretto_vote *vote, struct stretto_verdict *verdict);

/* Called by all ranks at the end: what all ranks have put in until now. Blocks. */
stretto_status stretto_vote_last(struct stretto_vote *vote, struct stretto_verdict *verdict);

#endif
