/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.h: the average of one arena into another (or itself), sliced, persistent and timed.
 *
 * A route is a row of persistent operations, one a slice: allreduces, or the two halves of one, a
 * reduce-scatter and an all-gather, where something is done in between. A *flight* is one use of it:
 * every slice is started once and finished once, and the times from the first start to the last
 * finish are added up. Slices of a new flight may start before the last slices of another route's
 * flight are finished.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_ROUTE_H
#define STRETTO_TRAINER_ROUTE_H

#include "collectives/stretto_coll.h"
#include "trainer/trace.h"

/* What the flights of all routes of an averager took. */
struct stretto_flight_log {
	uint64_t flights;            /* completed */
	uint64_t bytes;              /* payload averaged by them */
	double exposed;              /* seconds spent waiting */
	double in_flight;            /* seconds, a lower bound: see stretto_average_stats() */
	struct stretto_trace *trace; /* where slices in flight and waits are noted; NULL: nowhere */
};

/* The operation of one slice. */
struct stretto_route_slice {
	struct stretto_request *request; /* owned */
	bool active;                     /* started and not finished */
	uint64_t start;                  /* when, for the trace; ns */
};

struct stretto_route {
	struct stretto_route_slice *slices; /* owned; NULL: not open */
	size_t count;                       /* number of slices */
	size_t bytes;                       /* payload of a flight */
	size_t started;                     /* slices started in this flight */
	size_t finished;                    /* slices finished in this flight */
	double start_time;                  /* of the first slice, seconds */
	double seen_time; /* last moment at which a slice was known to be in flight, seconds */
	struct stretto_flight_log *log; /* where finished flights are added; borrowed */
};

/* The arena's division, the same for all routes: slice k is [k * slice, ...) of count elements. */
struct stretto_slicing {
	size_t count; /* floats of the arena */
	size_t slice; /* floats of a slice; the last may be shorter */
};

/* Number of slices, and the elements of slice k. Pure. */
size_t stretto_slicing_slices(const struct stretto_slicing *slicing);
size_t stretto_slicing_length(const struct stretto_slicing *slicing, size_t k);

/*
 * Makes the operations that average `in` into `out` (which may be `in`). route->log is set by the
 * caller before. Local. On failure *route is as if closed. The arenas must outlive the route.
 */
stretto_status stretto_route_open(struct stretto_comm *comm, const struct stretto_slicing *slicing,
				  const float *in, float *out, struct stretto_route *route);

/*
 * The same for the first half: the rank's block of the average of slice k of `in` goes to
 * out + k * block, block = slice / ranks. All slices must be whole and multiples of the ranks.
 */
stretto_status stretto_route_open_scatter(struct stretto_comm *comm,
					  const struct stretto_slicing *slicing, const float *in,
					  float *out, struct stretto_route *route);

/* And for the second, in place: each rank's block of every slice of `arena` goes to all. */
stretto_status stretto_route_open_gather(struct stretto_comm *comm,
					 const struct stretto_slicing *slicing, float *arena,
					 struct stretto_route *route);

/* Waits for what is in flight (errors are ignored) and releases all. A zeroed route is left as is.
 */
void stretto_route_close(struct stretto_route *route);

/* Starts slice k. Does not block. */
stretto_status stretto_route_start(struct stretto_route *route, size_t k);

/* Ends slice k, started before: looks, and waits if it is not complete (exposed time). */
stretto_status stretto_route_finish(struct stretto_route *route, size_t k);

/* Whether slice k, started before, is complete; does not block. */
bool stretto_route_done(const struct stretto_route *route, size_t k);

/*
 * Looks at slice k, the last to complete, and notes the time if it is still in flight. Its errors
 * are left for stretto_route_finish().
 */
void stretto_route_look(struct stretto_route *route, size_t k);

#endif
