/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/runs.h"

#include <stdlib.h>
#include <string.h>

void stretto_runs_fini(struct stretto_runs *runs)
{
	free(runs->list);
	*runs = (struct stretto_runs){0};
}

static bool reserve(struct stretto_runs *runs, size_t count)
{
	if (count <= runs->capacity)
		return true;
	size_t capacity = 2 * count + 8;
	struct stretto_run *list = realloc(runs->list, capacity * sizeof(*list));
	if (!list)
		return false;
	runs->list = list;
	runs->capacity = capacity;
	return true;
}

bool stretto_runs_append(struct stretto_runs *runs, struct stretto_run run, size_t count)
{
	if (count == 0)
		return true;
	if (!reserve(runs, runs->count + 1))
		return false;
	run.first = runs->end;
	runs->list[runs->count++] = run;
	runs->end += count;
	return true;
}

bool stretto_runs_reset(struct stretto_runs *runs, size_t end)
{
	runs->count = 0;
	runs->end = 0;
	return stretto_runs_append(runs, (struct stretto_run){.element = STRETTO_UNWRITTEN}, end);
}

size_t stretto_runs_find(const struct stretto_runs *runs, size_t where)
{
	size_t low = 0;
	size_t high = runs->count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (runs->list[middle].first <= where)
			low = middle;
		else
			high = middle;
	}
	return low;
}

size_t stretto_runs_stop(const struct stretto_runs *runs, size_t i)
{
	return i + 1 < runs->count ? runs->list[i + 1].first : runs->end;
}

struct stretto_run stretto_run_from(struct stretto_run run, size_t where)
{
	if (run.element != STRETTO_UNWRITTEN)
		run.element += where - run.first;
	run.first = where;
	return run;
}

bool stretto_runs_read(const struct stretto_runs *runs, size_t first, size_t count,
		       struct stretto_runs *data)
{
	size_t stop = first + count;

	data->count = 0;
	data->end = 0;
	for (size_t i = stretto_runs_find(runs, first), where = first; where < stop; i++) {
		size_t next = stretto_runs_stop(runs, i);
		if (next > stop)
			next = stop;
		if (!stretto_runs_append(data, stretto_run_from(runs->list[i], where),
					 next - where))
			return false;
		where = next;
	}
	return true;
}

bool stretto_runs_write(struct stretto_runs *runs, size_t first, const struct stretto_runs *data)
{
	if (data->end == 0)
		return true;
	if (!reserve(runs, runs->count + data->count + 1))
		return false;
	size_t stop = first + data->end;
	size_t i = stretto_runs_find(runs, first);
	size_t j = stretto_runs_find(runs, stop - 1);
	bool rest = stretto_runs_stop(runs, j) > stop; /* something of run j stays behind data */
	struct stretto_run tail = stretto_run_from(runs->list[j], stop);

	if (runs->list[i].first < first) /* something of run i stays in front */
		i++;
	size_t from = j + 1;
	size_t to = i + data->count + (rest ? 1 : 0);
	memmove(runs->list + to, runs->list + from, (runs->count - from) * sizeof(*runs->list));
	runs->count = runs->count - from + to;
	for (size_t k = 0; k < data->count; k++) {
		runs->list[i + k] = data->list[k];
		runs->list[i + k].first += first;
	}
	if (rest)
		runs->list[to - 1] = tail;
	return true;
}
