/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/cache.h"

#include <stdlib.h>
#include <string.h>

static bool same_nodes(const struct stretto_shape *a, const struct stretto_shape *b)
{
	if (!a->node || !b->node)
		return a->node == b->node;
	return a->nodes == b->nodes &&
	       memcmp(a->node, b->node, (size_t)a->size * sizeof *a->node) == 0;
}

static bool same_shape(const struct stretto_shape *a, const struct stretto_shape *b)
{
	return a->collective == b->collective && a->rank == b->rank && a->size == b->size &&
	       a->root == b->root && a->count == b->count && a->stride == b->stride &&
	       a->in_place == b->in_place && a->in_mapped == b->in_mapped &&
	       a->out_mapped == b->out_mapped && a->scaled == b->scaled && same_nodes(a, b);
}

static void drop(struct stretto_cached_schedule *entry)
{
	stretto_list_remove(&entry->link);
	stretto_schedule_fini(&entry->schedule);
	free(entry);
}

/* Frees the oldest schedules without users until at most `limit` are left. */
static void trim(struct stretto_list *cache, size_t limit)
{
	size_t count = 0;

	STRETTO_LIST_FOR_SAFE (it, cache) {
		struct stretto_cached_schedule *entry =
			stretto_container_of(it, struct stretto_cached_schedule, link);

		if (++count > limit && entry->users == 0)
			drop(entry);
	}
}

stretto_status stretto_schedule_get(struct stretto_list *cache, size_t limit,
				    const struct stretto_algorithm *algorithm,
				    const struct stretto_shape *shape,
				    const struct stretto_schedule **schedule)
{
	struct stretto_cached_schedule *entry;
	stretto_status status;

	STRETTO_LIST_FOR (it, cache) {
		entry = stretto_container_of(it, struct stretto_cached_schedule, link);
		if (entry->algorithm == algorithm && same_shape(&entry->schedule.shape, shape)) {
			stretto_list_remove(it);
			stretto_list_append(cache->next, it); /* before the first */
			entry->users++;
			*schedule = &entry->schedule;
			return STRETTO_OK;
		}
	}
	trim(cache, limit);
	entry = calloc(1, sizeof *entry);
	if (!entry)
		return STRETTO_NO_MEMORY;
	status = stretto_algorithm_build(algorithm, shape, &entry->schedule);
	if (status != STRETTO_OK) {
		stretto_schedule_fini(&entry->schedule);
		free(entry);
		return status;
	}
	entry->algorithm = algorithm;
	entry->users = 1;
	stretto_list_append(cache->next, &entry->link);
	*schedule = &entry->schedule;
	return STRETTO_OK;
}

void stretto_schedule_put(const struct stretto_schedule *schedule)
{
	if (schedule)
		stretto_container_of(schedule, struct stretto_cached_schedule, schedule)->users--;
}

void stretto_schedules_free(struct stretto_list *cache)
{
	STRETTO_LIST_FOR_SAFE (it, cache)
		drop(stretto_container_of(it, struct stretto_cached_schedule, link));
}
