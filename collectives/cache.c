/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/cache.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/counts.h"

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
	       a->out_mapped == b->out_mapped && a->scaled == b->scaled && same_nodes(a, b) &&
	       stretto_counts_same(a->counts, b->counts, a->size);
}

static void drop(struct stretto_cached_schedule *entry)
{
	stretto_list_remove(&entry->link);
	stretto_schedule_fini(&entry->schedule);
	stretto_counts_free(entry->counts);
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

/* Makes an entry that is not in the list yet, with counts of its own: those of the shape may go. */
static stretto_status make(const struct stretto_algorithm *algorithm, struct stretto_shape shape,
			   struct stretto_cached_schedule **made)
{
	struct stretto_cached_schedule *entry = calloc(1, sizeof *entry);
	stretto_status status = STRETTO_OK;

	if (!entry)
		return STRETTO_NO_MEMORY;
	stretto_list_init(&entry->link);
	entry->algorithm = algorithm;
	entry->users = 1;
	if (shape.counts)
		status = stretto_counts_copy(shape.counts, shape.size, &entry->counts);
	shape.counts = entry->counts;
	if (status == STRETTO_OK)
		status = stretto_algorithm_build(algorithm, &shape, &entry->schedule);
	if (status != STRETTO_OK) {
		drop(entry);
		return status;
	}
	*made = entry;
	return STRETTO_OK;
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
	status = make(algorithm, *shape, &entry);
	if (status != STRETTO_OK)
		return status;
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
