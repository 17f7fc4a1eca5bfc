/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checker_mapped.c: executes schedules of ranks that have each other's memory mapped.
 *
 * Each rank runs its steps in order; which rank goes next is drawn. A vector clock per rank says
 * which steps of others must have come before: SIGNAL leaves a copy, AWAIT takes it in. Every access
 * to memory is kept with the time of who made it; an access that overlaps an earlier one of another
 * rank, one of them writing, must know that time. So one execution finds what could race in any.
 * The caller of a rank touches its buffers too: all of them before the operation and after it.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/checker_internal.h"

struct access {
	size_t first, end; /* positions in the memory of the rank */
	int rank;          /* who made it */
	unsigned time;     /* of that rank */
	bool writes;
};

struct accesses {
	struct access *list;
	size_t count, capacity;
};

/* One execution. */
struct mapped {
	struct stretto_check *check;
	int size;
	unsigned *clocks; /* [rank][rank] */
	unsigned
		*signalled; /* [rank][phase - 1][rank]: the clock at its SIGNAL; own time 0: none */
	int *step;          /* by rank: next in its schedule */
	struct accesses *touched;  /* by rank: of its memory */
	struct stretto_runs *sums; /* by rank: operands of a REDUCE_ALL */
};

static unsigned *clock_of(const struct mapped *mapped, int rank)
{
	return mapped->clocks + (size_t)rank * (size_t)mapped->size;
}

static unsigned *signal_of(const struct mapped *mapped, int rank, int phase)
{
	size_t row = (size_t)rank * STRETTO_PHASE_MAX + (size_t)phase - 1;

	return mapped->signalled + row * (size_t)mapped->size;
}

static void keep(struct mapped *mapped, int owner, struct access access)
{
	struct accesses *list = &mapped->touched[owner];

	if (list->count == list->capacity) {
		size_t capacity = 2 * list->capacity + 8;
		struct access *grown = realloc(list->list, capacity * sizeof *grown);

		stretto_check_need(mapped->check, grown != NULL);
		if (!grown)
			return;
		list->list = grown;
		list->capacity = capacity;
	}
	list->list[list->count++] = access;
}

/* `rank` touches positions [first, end) of the memory of `owner`; `text` says in which step. */
static void touch(struct mapped *mapped, int owner, struct access access, const char *text)
{
	const unsigned *knows = clock_of(mapped, access.rank);
	const struct accesses *list = &mapped->touched[owner];

	if (access.first == access.end)
		return;
	access.time = knows[access.rank];
	for (size_t i = 0; i < list->count; i++) {
		const struct access *other = &list->list[i];

		if (other->rank == access.rank || (!other->writes && !access.writes) ||
		    other->end <= access.first || access.end <= other->first ||
		    knows[other->rank] >= other->time)
			continue;
		stretto_check_fail(mapped->check,
				   "rank %d, step %s: touches memory of rank %d that rank %d may "
				   "touch at the same time, one of them writing",
				   access.rank, text, owner, other->rank);
		return;
	}
	keep(mapped, owner, access);
}

/* A span in the memory of a rank; of another rank, it counts from where that published a buffer. */
static struct stretto_span span_at(const struct mapped *mapped, int owner, int rank,
				   const struct stretto_span *span)
{
	const struct stretto_schedule *schedule = &mapped->check->schedules[owner];
	struct stretto_span at = schedule->published[span->buffer == STRETTO_BUF_OUT];

	if (owner == rank)
		return *span;
	at.first += span->first;
	at.count = span->count;
	return at;
}

/* Positions of a span in its rank's memory; a fault if the buffer is shorter. */
static struct access access_to(const struct mapped *mapped, const struct stretto_node *node,
			       int owner, struct stretto_span span, bool writes)
{
	const struct stretto_schedule *schedule = &mapped->check->schedules[owner];
	const size_t counts[STRETTO_BUF_COUNT] = {
		stretto_shape_in_count(&schedule->shape),
		stretto_shape_out_count(&schedule->shape),
		schedule->tmp_count,
	};
	size_t first = stretto_check_position(&schedule->shape, span.buffer, span.first);

	if (span.first + span.count > counts[span.buffer])
		stretto_check_fail_step(mapped->check, node,
					"leaves the buffer that a rank has published");
	return (struct access){first, first + span.count, node->rank, 0, writes};
}

static void read_from(struct mapped *mapped, const struct stretto_node *node, int owner,
		      struct stretto_span span, struct stretto_runs *data)
{
	char text[200];
	struct access access = access_to(mapped, node, owner, span, false);

	if (mapped->check->status != STRETTO_OK)
		return;
	stretto_step_text(&mapped->check->schedules[node->rank], node->index, text, sizeof text);
	touch(mapped, owner, access, text);
	stretto_check_read(mapped->check, node, owner, &span, data);
}

static void write_to(struct mapped *mapped, const struct stretto_node *node, int owner,
		     struct stretto_span span, const struct stretto_runs *data)
{
	char text[200];
	struct access access = access_to(mapped, node, owner, span, true);

	if (mapped->check->status != STRETTO_OK)
		return;
	stretto_step_text(&mapped->check->schedules[node->rank], node->index, text, sizeof text);
	touch(mapped, owner, access, text);
	stretto_check_write(mapped->check, owner, &span, data);
}

/* sums[at] = sums[at] op sums[with] */
static void combine(struct mapped *mapped, const struct stretto_node *node, int at, int with)
{
	struct stretto_check *check = mapped->check;
	struct stretto_runs swap = mapped->sums[at];

	stretto_check_combine(check, node, &mapped->sums[at], &mapped->sums[with]);
	mapped->sums[at] = check->result;
	check->result = swap;
}

static void move_sum(struct mapped *mapped, int to, int from)
{
	struct stretto_runs swap = mapped->sums[to];

	mapped->sums[to] = mapped->sums[from];
	mapped->sums[from] = swap;
}

/* Combines all sums in the canonical order into the first. */
static void combine_all(struct mapped *mapped, const struct stretto_node *node)
{
	int left = 1;

	while (2 * left <= mapped->size)
		left *= 2;
	int extras = mapped->size - left;

	for (int i = 0; i < left; i++) {
		if (i < extras)
			combine(mapped, node, 2 * i, 2 * i + 1);
		move_sum(mapped, i, i < extras ? 2 * i : i + extras);
	}
	for (; left > 1; left /= 2)
		for (int i = 0; i < left / 2; i++) {
			combine(mapped, node, 2 * i, 2 * i + 1);
			move_sum(mapped, i, 2 * i);
		}
}

static void reduce_all(struct mapped *mapped, const struct stretto_node *node)
{
	const struct stretto_step *step = node->step;
	struct stretto_check *check = mapped->check;

	for (int r = 0; r < mapped->size; r++)
		read_from(mapped, node, r,
			  r == node->rank ? step->b : span_at(mapped, r, node->rank, &step->a),
			  &mapped->sums[r]);
	if (check->status == STRETTO_OK)
		combine_all(mapped, node);
	stretto_check_finish(check, node, &mapped->sums[0]);
	for (int r = 0; r < mapped->size; r++)
		if (r == node->rank || step->flags & STRETTO_STEP_TO_ALL)
			write_to(mapped, node, r, span_at(mapped, r, node->rank, &step->dst),
				 &mapped->sums[0]);
}

static void copy(struct mapped *mapped, const struct stretto_node *node)
{
	const struct stretto_step *step = node->step;
	int from = step->kind == STRETTO_STEP_PULL ? step->peer : node->rank;

	read_from(mapped, node, from, span_at(mapped, from, node->rank, &step->a),
		  &mapped->sums[0]);
	stretto_check_finish(mapped->check, node, &mapped->sums[0]);
	write_to(mapped, node, node->rank, step->dst, &mapped->sums[0]);
}

/* Whether the next step of a rank can run; false also at the end. */
static bool can_go(const struct mapped *mapped, int rank)
{
	const struct stretto_schedule *schedule = &mapped->check->schedules[rank];
	const struct stretto_step *step = &schedule->steps[mapped->step[rank]];

	if (mapped->step[rank] == schedule->step_count)
		return false;
	return step->kind != STRETTO_STEP_AWAIT ||
	       signal_of(mapped, step->peer, step->phase)[step->peer] > 0;
}

static void learn(const struct mapped *mapped, unsigned *clock, const unsigned *from)
{
	for (int r = 0; r < mapped->size; r++)
		if (from[r] > clock[r])
			clock[r] = from[r];
}

/* The caller touches all buffers of its rank, before the operation and after it. */
static void touch_all(struct mapped *mapped, int rank, const char *when)
{
	const struct stretto_schedule *schedule = &mapped->check->schedules[rank];
	/* What is on the board is kept for the others until they are done. */
	size_t count = schedule->on_board ? 0 : schedule->tmp_count;
	struct access access = {0, stretto_check_position(&schedule->shape, STRETTO_BUF_TMP, count),
				rank, 0, true};

	touch(mapped, rank, access, when);
}

static void go(struct mapped *mapped, int rank)
{
	struct stretto_check *check = mapped->check;
	struct stretto_node *node = &check->nodes[check->base[rank] + (size_t)mapped->step[rank]];
	const struct stretto_step *step = node->step;
	unsigned *clock = clock_of(mapped, rank);

	clock[rank]++;
	switch (step->kind) {
	case STRETTO_STEP_SIGNAL:
		memcpy(signal_of(mapped, rank, step->phase), clock,
		       (size_t)mapped->size * sizeof *clock);
		break;
	case STRETTO_STEP_AWAIT:
		learn(mapped, clock, signal_of(mapped, step->peer, step->phase));
		break;
	case STRETTO_STEP_REDUCE_ALL:
		reduce_all(mapped, node);
		break;
	default:
		copy(mapped, node);
		break;
	}
	node->done = true;
	check->done_count++;
	if (++mapped->step[rank] == check->schedules[rank].step_count)
		touch_all(mapped, rank, "end");
}

/* What each rank knows at its end: who has entered. */
static void tell_known(struct mapped *mapped)
{
	for (int r = 0; r < mapped->size; r++) {
		uint64_t *set = stretto_check_known(mapped->check, r);

		memset(set, 0, mapped->check->known_words * sizeof *set);
		for (int other = 0; other < mapped->size; other++)
			if (clock_of(mapped, r)[other] > 0)
				set[other / 64] |= (uint64_t)1 << other % 64;
	}
}

static void run(struct mapped *mapped)
{
	struct stretto_check *check = mapped->check;
	size_t ready = 1;

	for (int r = 0; r < mapped->size; r++) {
		clock_of(mapped, r)[r] = 1;
		touch_all(mapped, r, "start");
	}
	while (ready > 0 && check->status == STRETTO_OK) {
		int first = (int)(stretto_check_random(check) % (uint64_t)mapped->size);

		ready = 0;
		for (int k = 0; k < mapped->size && ready == 0; k++)
			if (can_go(mapped, (first + k) % mapped->size)) {
				go(mapped, (first + k) % mapped->size);
				ready++;
			}
	}
	for (int r = 0; r < mapped->size; r++)
		if (mapped->step[r] < check->schedules[r].step_count) {
			char text[200];

			stretto_step_text(&check->schedules[r], mapped->step[r], text, sizeof text);
			stretto_check_fail(check, "deadlock: rank %d waits in step %s", r, text);
		}
	tell_known(mapped);
}

void stretto_check_execute_mapped(struct stretto_check *check)
{
	size_t size = (size_t)check->size;
	struct mapped mapped = {
		.check = check,
		.size = check->size,
		.clocks = calloc(size * size, sizeof(unsigned)),
		.signalled = calloc(size * STRETTO_PHASE_MAX * size, sizeof(unsigned)),
		.step = calloc(size, sizeof(int)),
		.touched = calloc(size, sizeof(struct accesses)),
		.sums = calloc(size, sizeof(struct stretto_runs)),
	};
	bool ok = mapped.clocks && mapped.signalled && mapped.step && mapped.touched && mapped.sums;

	stretto_check_need(check, ok);
	check->done_count = 0;
	for (int r = 0; r < check->size; r++)
		stretto_check_fill_memory(check, r);
	if (ok)
		run(&mapped);
	for (size_t r = 0; r < size; r++) {
		if (mapped.touched)
			free(mapped.touched[r].list);
		if (mapped.sums)
			stretto_runs_fini(&mapped.sums[r]);
	}
	free(mapped.clocks);
	free(mapped.signalled);
	free(mapped.step);
	free(mapped.touched);
	free(mapped.sums);
}
