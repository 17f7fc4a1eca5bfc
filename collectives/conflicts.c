/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/conflicts.h"

#include <stdio.h>
#include <stdlib.h>

#include "collectives/traits.h"

/* One span that a step reads or writes. */
struct use {
	enum stretto_buffer buffer;
	size_t first; /* element */
	size_t stop;  /* element after the last */
	int step;
	bool writes;
};

static int compare_uses(const void *left, const void *right)
{
	const struct use *x = left;
	const struct use *y = right;
	if (x->buffer != y->buffer)
		return x->buffer < y->buffer ? -1 : 1;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->step - y->step;
}

/* Lists the uses of all steps, sorted by position; returns how many. uses has 3 places a step. */
static size_t list_uses(const struct stretto_schedule *schedule, struct use *uses)
{
	size_t n = 0;
	for (int i = 0; i < schedule->step_count; i++) {
		const struct stretto_step *step = &schedule->steps[i];
		const struct stretto_span *spans[] = {&step->dst, &step->a, &step->b};
		for (int k = 0; k < 3; k++) /* a span that the kind does not use is empty */
			if (spans[k]->count > 0)
				uses[n++] = (struct use){.buffer = spans[k]->buffer,
							 .first = spans[k]->first,
							 .stop = spans[k]->first + spans[k]->count,
							 .step = i,
							 .writes = k == 0};
	}
	qsort(uses, n, sizeof(*uses), compare_uses);
	return n;
}

/* For each step the set of steps that it waits for, one bit each, `words` words a set. */
static uint64_t *list_ancestors(const struct stretto_schedule *schedule, size_t words)
{
	uint64_t *sets = calloc((size_t)schedule->step_count * words + 1, sizeof(*sets));
	if (!sets)
		return NULL;
	for (int i = 0; i < schedule->step_count; i++)
		for (int k = 0; k < 2; k++) {
			int before = schedule->steps[i].after[k];
			if (before == STRETTO_NO_STEP)
				continue;
			uint64_t *set = sets + (size_t)i * words;
			for (size_t w = 0; w < words; w++)
				set[w] |= sets[(size_t)before * words + w];
			set[before / 64] |= (uint64_t)1 << (before % 64);
		}
	return sets;
}

static bool waits_for(const uint64_t *sets, size_t words, int later, int earlier)
{
	return (sets[(size_t)later * words + (size_t)earlier / 64] >> (earlier % 64)) & 1;
}

static const char *buffer_name(enum stretto_buffer buffer)
{
	static const char *const names[STRETTO_BUF_COUNT] = {"IN", "OUT", "TMP"};
	return names[buffer];
}

/* Describes two uses that overlap and are not ordered. */
static stretto_status report_pair(const struct stretto_schedule *schedule, const struct use *x,
				  const struct use *y, char *why, size_t why_size)
{
	char earlier[160];
	char later[160];

	stretto_step_text(schedule, x->step < y->step ? x->step : y->step, earlier,
			  sizeof(earlier));
	stretto_step_text(schedule, x->step < y->step ? y->step : x->step, later, sizeof(later));
	snprintf(why, why_size, "rank %d: nothing orders two steps that touch %s[%zu]: %s, and %s",
		 schedule->shape.rank, buffer_name(x->buffer),
		 x->first > y->first ? x->first : y->first, earlier, later);
	return STRETTO_INTERNAL;
}

/* Whether a step may write there. */
static bool may_write(const struct stretto_shape *shape, const struct use *use)
{
	struct stretto_span own = stretto_own(shape, STRETTO_BUF_IN);
	if (use->buffer != STRETTO_BUF_IN)
		return true;
	return stretto_traits_into_block(shape->collective) && shape->in_place &&
	       use->first >= own.first && use->stop <= own.first + own.count;
}

static stretto_status check_inputs(const struct stretto_schedule *schedule, const struct use *uses,
				   size_t count, char *why, size_t why_size)
{
	char text[160];
	for (size_t i = 0; i < count; i++)
		if (uses[i].writes && !may_write(&schedule->shape, &uses[i])) {
			snprintf(why, why_size, "rank %d, step %s: writes an input",
				 schedule->shape.rank,
				 stretto_step_text(schedule, uses[i].step, text, sizeof(text)));
			return STRETTO_INTERNAL;
		}
	return STRETTO_OK;
}

/* Looks at every pair of uses that overlap: sorted by position, they stand close together. */
static stretto_status check_pairs(const struct stretto_schedule *schedule, const struct use *uses,
				  size_t count, char *why, size_t why_size)
{
	size_t words = ((size_t)schedule->step_count + 63) / 64;
	uint64_t *sets = list_ancestors(schedule, words);
	stretto_status status = sets ? STRETTO_OK : STRETTO_NO_MEMORY;

	for (size_t i = 0; status == STRETTO_OK && i < count; i++)
		for (size_t j = i + 1;
		     status == STRETTO_OK && j < count && uses[j].buffer == uses[i].buffer &&
		     uses[j].first < uses[i].stop;
		     j++) {
			int x = uses[i].step;
			int y = uses[j].step;
			if (x != y && (uses[i].writes || uses[j].writes) &&
			    !waits_for(sets, words, x > y ? x : y, x > y ? y : x))
				status = report_pair(schedule, &uses[i], &uses[j], why, why_size);
		}
	free(sets);
	return status;
}

stretto_status stretto_conflicts_check(const struct stretto_schedule *schedule, char *why,
				       size_t why_size)
{
	struct use *uses = malloc((3 * (size_t)schedule->step_count + 1) * sizeof(*uses));
	if (!uses)
		return STRETTO_NO_MEMORY;
	size_t count = list_uses(schedule, uses);
	stretto_status status = check_inputs(schedule, uses, count, why, why_size);
	if (status == STRETTO_OK)
		status = check_pairs(schedule, uses, count, why, why_size);
	free(uses);
	return status;
}
