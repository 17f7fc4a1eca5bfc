/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h: an operation from the call to its end.
 *
 * A request is made of one part per channel (executor.h). What is expensive about it (schedules,
 * scratch) depends only on its *form*: collective, count, type, root, in place or not, algorithm.
 * Finished requests of blocking and nonblocking calls are therefore kept by their communicator and
 * used again for the next call of the same form, which then allocates and builds nothing.
 *
 * Threads: a communicator's cache has a lock of its own, since requests may be waited for in several
 * threads; a request belongs to the thread that starts, tests or waits for it.
 */
#ifndef STRETTO_COLLECTIVES_REQUEST_H
#define STRETTO_COLLECTIVES_REQUEST_H

#include "collectives/executor.h"
#include "collectives/selection.h"
#include "collectives/stripe.h"
#include "runtime/comm.h"

/* Requests that a communicator keeps, and schedules; the least recently used ones go. */
enum { STRETTO_CACHED_REQUESTS = 16, STRETTO_CACHED_SCHEDULES = 64 };

struct stretto_request {
	struct stretto_list link; /* in the cache while unused */
	struct stretto_comm *comm;
	struct stretto_coll_args args; /* of the call; algorithm points to its static name */
	struct stretto_choice choice;
	struct stretto_signature signature; /* of all its operations */
	struct stretto_counts *counts; /* that args points to where blocks vary, or NULL; owned */
	bool in_place;
	struct stretto_board *board; /* of an algorithm without messages; else NULL */
	bool in_mapped;              /* whether the ranks can map the buffers; not looked at */
	bool out_mapped;             /* where the algorithm does not care */
	bool persistent;             /* made by an ..._init call */
	bool active;                 /* started and not waited for */
	struct stretto_operation operation; /* while it is active */
	int part_count;
	struct stretto_exec
		*parts[STRETTO_STRIPES_MAX]; /* one per channel that has a share; owned */
};

/*
 * A request for a call, taken from those that are kept or made. STRETTO_INVALID (logged),
 * STRETTO_NO_MEMORY, or why the communicator has ended.
 */
stretto_status stretto_request_get(struct stretto_comm *comm, const struct stretto_coll_args *args,
				   struct stretto_request **request);

/* Keeps a request that is not active for later, and lets the one go that was not used for longest. */
void stretto_request_keep(struct stretto_request *request);

/*
 * A request for arguments as good as those that made it, if there is one at hand, else NULL. What
 * was checked then is not checked again. Only the thread that starts operations calls these two; the
 * request stays at hand.
 */
struct stretto_request *stretto_request_hot(struct stretto_comm *comm,
					    const struct stretto_coll_args *args);

/* Keeps a request at hand, and lets go of another one. */
void stretto_request_keep_hot(struct stretto_request *request);

/* Whether the operation must combine in the order of the ranks. */
bool stretto_request_reproducible(const struct stretto_request *request);

/* Exact numbers of the last run of a request, all parts together. For tests and tools. */
struct stretto_exec_counts stretto_request_counts(const struct stretto_request *request);

#endif
