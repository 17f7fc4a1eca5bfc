/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mapped.h: runs the schedules of ranks that have each other's memory mapped.
 *
 * The steps of such a schedule (see schedule.h) run one after the other, and what waits is only an
 * AWAIT; so a part needs a place in its schedule and no queues. Windows follow each other, one at a
 * time, on one line of the board (runtime/board.h).
 *
 * Such a part is driven by its channel as any other (executor.h), or, when what it publishes is on
 * the board, the caller waits for it and nothing else of its communicator is under way, by the caller
 * alone: then no lock is taken and no thread is told.
 *
 * Threads: the holder of the channel's baton, or the caller in stretto_mapped_run().
 */
#ifndef STRETTO_COLLECTIVES_MAPPED_H
#define STRETTO_COLLECTIVES_MAPPED_H

#include "collectives/schedule.h"
#include "runtime/board.h"
#include "runtime/channel.h"

struct stretto_exec;

/* What the others may touch of a rank, as we see it. */
struct stretto_mapped_peer {
	char *base[2];   /* its published input and output of the window; NULL: none */
	size_t bytes[2]; /* from there to the end of its region */
};

/* The state of a part, in struct stretto_exec. */
struct stretto_mapped {
	struct stretto_board *board;
	uint64_t number;                   /* of the operation on the board */
	bool listed;                       /* its line is filled in */
	size_t window;                     /* under way, or next */
	bool begun;                        /* it has its line */
	int step;                          /* to be done next */
	size_t piece;                      /* elements of that step that are done */
	bool streaming;                    /* results go past the caches */
	struct stretto_mapped_peer *peers; /* by rank; owned */
	const void **sources;              /* of one reduction, by rank; owned */
	void **targets;                    /* likewise */
};

extern const struct stretto_work_ops stretto_mapped_ops;

/* Allocates what the part needs. STRETTO_NO_MEMORY. */
stretto_status stretto_mapped_new(struct stretto_exec *exec);
void stretto_mapped_free(struct stretto_exec *exec);

/* Takes a number on the board for a part that starts now. */
void stretto_mapped_start(struct stretto_exec *exec);

/*
 * Runs a part that was prepared and not submitted, in the calling thread, for about the channel's
 * time to spin. false: it is not complete and has to be submitted; it goes on where it is. The board
 * is ready, and no work of the communicator is under way.
 */
bool stretto_mapped_run(struct stretto_exec *exec);

#endif
