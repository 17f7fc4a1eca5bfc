/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conflicts.h: the part of the checker that looks at one rank: what may run at the same time must
 * not touch the same elements.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_CONFLICTS_H
#define STRETTO_COLLECTIVES_CONFLICTS_H

#include "collectives/schedule.h"

/*
 * Checks a sealed schedule: no step writes an input (except a reduce_scatter in place, its own
 * block), and of any two steps that touch the same element, one of them writing, the later waits
 * for the earlier, directly or through other steps of the same rank. A buffer is busy from the
 * post of its SEND or RECV to the completion, so nothing less will do. STRETTO_OK,
 * STRETTO_NO_MEMORY, or STRETTO_INTERNAL with one line in why[] (of why_size bytes).
 */
stretto_status stretto_conflicts_check(const struct stretto_schedule *schedule, char *why,
				       size_t why_size);

#endif
