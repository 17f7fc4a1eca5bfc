/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_file.h: the traces of all ranks as one file in Chrome's trace format, which Perfetto opens
 * (https://ui.perfetto.dev) and stretto-report draws.
 *
 * Clocks of hosts differ. Nobody leaves a barrier before all have entered it, so each barrier bounds
 * the difference between two clocks from both sides:
 *
 *	rank 0:   enters a0 ........ leaves b0        clock of r = clock of 0 + offset
 *	rank r:        enters ar ...... leaves br     ar - b0 <= offset <= br - a0
 *
 * Many barriers give the tightest bounds. (NTP's argument, for all ranks at once.)
 *
 * Threads: one at a time for each communicator.
 */
#ifndef STRETTO_TRAINER_TRACE_FILE_H
#define STRETTO_TRAINER_TRACE_FILE_H

#include "collectives/stretto_coll.h"
#include "trainer/trace.h"

/* When a rank entered a barrier and left it, ns of its clock. */
struct stretto_trace_meeting {
	uint64_t entered;
	uint64_t left;
};

/*
 * The clock of `other` minus that of `root`, in ns, from `count` barriers: 0 if they allow that, as
 * on one host; else the middle of what they allow, which is wrong by *error at most. Pure.
 */
int64_t stretto_trace_offset(const struct stretto_trace_meeting *root,
			     const struct stretto_trace_meeting *other, size_t count,
			     uint64_t *error);

/*
 * Makes the ring of this rank, of `capacity` events, if all ranks can. Collective; blocks. *there: whether
 * all could; else nobody has one, and rank 0 has warned: the training is worth more than its trace. Errors
 * of an allreduce, after which there is none.
 */
stretto_status stretto_trace_open(struct stretto_comm *comm, struct stretto_trace *trace,
				  size_t capacity, bool *there);

/*
 * The first of the last `steps` steps of which the ring has all events. May be behind the last step,
 * if the ring is too small for one. Pure.
 */
uint32_t stretto_trace_first(const struct stretto_trace *trace, size_t steps);

/*
 * Gathers what all ranks did in the last `steps` steps, in fewer where a ring was too small for them,
 * and rank 0 writes it to `path`. Collective; blocks. A file that cannot be written is a warning.
 * STRETTO_NO_MEMORY (on all ranks), errors of collectives.
 */
stretto_status stretto_trace_write(struct stretto_comm *comm, const struct stretto_trace *trace,
				   size_t steps, const char *path);

/*
 * After a failure, when nobody can be asked: rank 0 writes what it recorded itself, and warns; the other ranks
 * do nothing, and so does rank 0 if it recorded nothing. Local.
 */
void stretto_trace_write_own(struct stretto_comm *comm, const struct stretto_trace *trace,
			     size_t steps, const char *path);

#endif
