/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cache.h: the schedules of a communicator, built once.
 *
 * Threads: the thread that calls collectives on the communicator.
 */
#ifndef STRETTO_COLLECTIVES_CACHE_H
#define STRETTO_COLLECTIVES_CACHE_H

#include "collectives/algorithm.h"
#include "runtime/list.h"

struct stretto_cached_schedule {
	struct stretto_list link; /* most recently used first */
	const struct stretto_algorithm *algorithm;
	struct stretto_schedule schedule;
	struct stretto_counts *counts; /* of the schedule's shape, or NULL; owned */
	int users;                     /* parts that refer to it */
};

/*
 * The schedule of an algorithm for a shape, built if it is not there. The caller gives it back with
 * stretto_schedule_put(). Schedules without users beyond `limit` are freed, oldest first.
 */
stretto_status stretto_schedule_get(struct stretto_list *cache, size_t limit,
				    const struct stretto_algorithm *algorithm,
				    const struct stretto_shape *shape,
				    const struct stretto_schedule **schedule);
void stretto_schedule_put(const struct stretto_schedule *schedule);
/* Frees all; none has users. */
void stretto_schedules_free(struct stretto_list *cache);

#endif
