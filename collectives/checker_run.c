/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/checker_internal.h"

#include <stdio.h>
#include <string.h>

#include "collectives/traits.h"

uint64_t stretto_check_mix(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0xd6e8feb86659fd93u + ((b << 23) | (b >> 41)) * 0xa0761d6478bd642fu;
	z = (z ^ (z >> 32)) * 0xe7037ed1a0b428dbu;
	return z ^ (z >> 29);
}

void stretto_check_fail_step(struct stretto_check *check, const struct stretto_node *node,
			     const char *what)
{
	char text[200];
	stretto_step_text(&check->schedules[node->rank], node->index, text, sizeof(text));
	stretto_check_fail(check, "rank %d, step %s: %s", node->rank, text, what);
}

/* --- A rank's memory --- */

void stretto_check_read(struct stretto_check *check, const struct stretto_node *node, int rank,
			const struct stretto_span *span, struct stretto_runs *data)
{
	const struct stretto_shape *shape = &check->schedules[rank].shape;
	char text[80];

	data->count = 0;
	data->end = 0;
	if (span->count == 0)
		return;
	stretto_check_need(
		check, stretto_runs_read(&check->memory[rank],
					 stretto_check_position(shape, span->buffer, span->first),
					 span->count, data));
	for (size_t i = 0; i < data->count; i++)
		if (data->list[i].element == STRETTO_UNWRITTEN) {
			snprintf(text, sizeof(text), "reads %s[%zu], which nothing has written",
				 stretto_check_buffer_name(span->buffer),
				 span->first + data->list[i].first);
			stretto_check_fail_step(check, node, text);
			return;
		}
}

void stretto_check_write(struct stretto_check *check, int rank, const struct stretto_span *span,
			 const struct stretto_runs *data)
{
	const struct stretto_shape *shape = &check->schedules[rank].shape;
	stretto_check_need(
		check,
		stretto_runs_write(&check->memory[rank],
				   stretto_check_position(shape, span->buffer, span->first), data));
}

/* Writes what rank `rank` has at the start: `count` elements of a result from `element` on. */
static void write_input(struct stretto_check *check, int rank, struct stretto_span span,
			size_t element)
{
	struct stretto_run run = {
		.element = element, .sum = check->shares[rank], .order = check->shares[rank]};
	struct stretto_runs *data = &check->left;

	data->count = 0;
	data->end = 0;
	stretto_check_need(check, stretto_runs_append(data, run, span.count) &&
					  stretto_runs_write(&check->memory[rank],
							     stretto_check_position(
								     &check->schedules[rank].shape,
								     span.buffer, span.first),
							     data));
}

void stretto_check_fill_memory(struct stretto_check *check, int rank)
{
	const struct stretto_schedule *schedule = &check->schedules[rank];
	const struct stretto_shape *shape = &schedule->shape;
	bool is_root = rank == shape->root;
	bool to_blocks = stretto_traits_of(shape->collective)->out == STRETTO_BLOCKS;
	enum stretto_extent extent = stretto_traits_in(shape->collective, is_root);
	bool in_out = shape->in_place && !stretto_traits_into_block(shape->collective);
	enum stretto_buffer input = in_out ? STRETTO_BUF_OUT : STRETTO_BUF_IN;
	struct stretto_span vector = stretto_own(shape, input);

	stretto_check_need(check, stretto_runs_reset(&check->memory[rank],
						     stretto_check_position(shape, STRETTO_BUF_TMP,
									    schedule->tmp_count)));
	if (shape->collective == STRETTO_BROADCAST && is_root) {
		vector = stretto_own(shape, STRETTO_BUF_OUT);
		write_input(check, rank, vector, 0);
	} else if (extent == STRETTO_VECTOR) {
		write_input(check, rank, vector,
			    to_blocks ? stretto_check_element(shape, rank) : 0);
	} else if (extent == STRETTO_BLOCKS) {
		for (int b = 0; b < check->size; b++)
			write_input(check, rank, stretto_block(shape, input, b),
				    stretto_check_element(shape, b));
	}
}

/* --- One step --- */

/* The part that two runs have in common, combined. */
static struct stretto_run combine_runs(struct stretto_check *check, const struct stretto_node *node,
				       struct stretto_run a, struct stretto_run b)
{
	char text[120];
	struct stretto_run run = {
		.element = a.element,
		.sum = a.sum + b.sum,
		.order = stretto_check_mix(a.order, b.order),
		.finals = a.finals + b.finals,
	};

	if (a.element != b.element) {
		snprintf(text, sizeof(text), "adds element %zu to element %zu", b.element,
			 a.element);
		stretto_check_fail_step(check, node, text);
	}
	return run;
}

void stretto_check_combine(struct stretto_check *check, const struct stretto_node *node,
			   const struct stretto_runs *a, const struct stretto_runs *b)
{
	size_t i = 0;
	size_t j = 0;

	check->result.count = 0;
	check->result.end = 0;
	for (size_t where = 0; where < a->end && check->status == STRETTO_OK;) {
		size_t a_stop = stretto_runs_stop(a, i);
		size_t b_stop = stretto_runs_stop(b, j);
		size_t stop = a_stop < b_stop ? a_stop : b_stop;
		struct stretto_run run =
			combine_runs(check, node, stretto_run_from(a->list[i], where),
				     stretto_run_from(b->list[j], where));
		stretto_check_need(check, stretto_runs_append(&check->result, run, stop - where));
		i += a_stop == stop;
		j += b_stop == stop;
		where = stop;
	}
}

/* A fault if what a FINAL step made is not the whole sum. */
void stretto_check_finish(struct stretto_check *check, const struct stretto_node *node,
			  struct stretto_runs *data)
{
	char what[80];
	char text[120];

	if (!(node->step->flags & STRETTO_STEP_FINAL))
		return;
	for (size_t i = 0; i < data->count; i++) {
		data->list[i].finals++;
		if (data->list[i].sum == check->full)
			continue;
		stretto_check_describe_sum(check, data->list[i].sum, what, sizeof(what));
		snprintf(text, sizeof(text), "is final, but its element %zu %s",
			 data->list[i].element, what);
		stretto_check_fail_step(check, node, text);
		return;
	}
}

static void reduce(struct stretto_check *check, const struct stretto_node *node)
{
	const struct stretto_step *step = node->step;
	stretto_check_read(check, node, node->rank, &step->a, &check->left);
	stretto_check_read(check, node, node->rank, &step->b, &check->right);
	stretto_check_combine(check, node, &check->left, &check->right);
	stretto_check_finish(check, node, &check->result);
	stretto_check_write(check, node->rank, &step->dst, &check->result);
}

static void copy(struct stretto_check *check, const struct stretto_node *node)
{
	stretto_check_read(check, node, node->rank, &node->step->a, &check->left);
	stretto_check_finish(check, node, &check->left);
	stretto_check_write(check, node->rank, &node->step->dst, &check->left);
}

/* --- One execution --- */

static struct stretto_node *node_of(struct stretto_check *check, int rank, int step)
{
	return &check->nodes[check->base[rank] + (size_t)step];
}

static uint64_t *known_of(struct stretto_check *check, const struct stretto_node *node)
{
	return check->known + (size_t)(node - check->nodes) * check->known_words;
}

uint64_t *stretto_check_known(struct stretto_check *check, int rank)
{
	return check->known + (check->node_count + (size_t)rank) * check->known_words;
}

static void learn(struct stretto_check *check, uint64_t *set, const uint64_t *from)
{
	for (size_t w = 0; w < check->known_words; w++)
		set[w] |= from[w];
}

static bool is_fused(const struct stretto_check *check, const struct stretto_node *node)
{
	return check->fused && node->step->fused != STRETTO_NO_STEP;
}

enum { ACTION_START, ACTION_END };

static void offer(struct stretto_check *check, const struct stretto_node *node, int action)
{
	check->actions[check->action_count++] = 2 * (size_t)(node - check->nodes) + (size_t)action;
}

/* Marks a step as complete and offers the start of what waited only for it. */
static void complete(struct stretto_check *check, struct stretto_node *node)
{
	const struct stretto_schedule *schedule = &check->schedules[node->rank];
	const int *followers = schedule->followers + node->step->successors;

	node->done = true;
	check->done_count++;
	learn(check, stretto_check_known(check, node->rank), known_of(check, node));
	for (int k = 0; k < node->step->successor_count; k++) {
		struct stretto_node *next = node_of(check, node->rank, followers[k]);
		if (is_fused(check, next)) /* it starts when its RECV does */
			next = node_of(check, node->rank, next->step->fused);
		if (--next->waiting == 0 && !next->done)
			offer(check, next, ACTION_START);
	}
}

/* What a step knows when it starts: its rank has entered, and what its dependencies know. */
static void gather_known(struct stretto_check *check, struct stretto_node *node)
{
	uint64_t *set = known_of(check, node);
	set[node->rank / 64] |= (uint64_t)1 << (node->rank % 64);
	for (int k = 0; k < 2; k++)
		if (node->step->after[k] != STRETTO_NO_STEP)
			learn(check, set,
			      known_of(check, node_of(check, node->rank, node->step->after[k])));
}

static void start(struct stretto_check *check, struct stretto_node *node)
{
	struct stretto_node *partner = &check->nodes[node->partner];

	gather_known(check, node);
	node->posted = true;
	switch (node->step->kind) {
	case STRETTO_STEP_COPY:
		copy(check, node);
		complete(check, node);
		return;
	case STRETTO_STEP_REDUCE:
		reduce(check, node);
		complete(check, node);
		return;
	case STRETTO_STEP_SEND:
		if (check->eager) {
			stretto_check_read(check, node, node->rank, &node->step->a, &node->payload);
			offer(check, node, ACTION_END);
		}
		if (partner->posted)
			offer(check, partner, ACTION_END);
		return;
	case STRETTO_STEP_RECV:
		if (partner->posted)
			offer(check, node, ACTION_END);
		return;
	default: /* of checker_mapped.c */
		return;
	}
}

/* The second half of a fused RECV: the data goes to the REDUCE and never stays in TMP. */
static void end_fused(struct stretto_check *check, struct stretto_node *recv)
{
	struct stretto_node *node = node_of(check, recv->rank, recv->step->fused);
	gather_known(check, node);
	reduce(check, node);
	stretto_check_need(check, stretto_runs_reset(&check->left, recv->step->dst.count));
	stretto_check_write(check, recv->rank, &recv->step->dst, &check->left);
	node->waiting = 0;
	complete(check, node);
}

/* Ends a SEND, or a RECV whose SEND is posted: its data arrives. */
static void end(struct stretto_check *check, struct stretto_node *node)
{
	struct stretto_node *partner = &check->nodes[node->partner];

	if (node->step->kind == STRETTO_STEP_RECV) {
		if (!check->eager)
			stretto_check_read(check, partner, partner->rank, &partner->step->a,
					   &partner->payload);
		stretto_check_write(check, node->rank, &node->step->dst, &partner->payload);
		learn(check, known_of(check, node), known_of(check, partner));
		if (!check->eager)
			offer(check, partner, ACTION_END);
	}
	complete(check, node);
	if (node->step->kind == STRETTO_STEP_RECV && is_fused(check, node))
		end_fused(check, node);
}

/* Nothing can move any more: names a step that was posted, and where its partner is. */
static void report_deadlock(struct stretto_check *check)
{
	char mine[200];
	char theirs[200];

	for (size_t i = 0; i < check->node_count; i++) {
		const struct stretto_node *node = &check->nodes[i];
		if (!node->posted || node->done)
			continue;
		const struct stretto_node *partner = &check->nodes[node->partner];
		stretto_step_text(&check->schedules[node->rank], node->index, mine, sizeof(mine));
		stretto_step_text(&check->schedules[partner->rank], partner->index, theirs,
				  sizeof(theirs));
		stretto_check_fail(
			check,
			"deadlock (%s%s): rank %d waits in step %s, and rank %d never gets to %s",
			check->eager ? "eager" : "rendezvous", check->fused ? ", fused" : "",
			node->rank, mine, partner->rank, theirs);
	}
	stretto_check_fail(check, "deadlock: no step can start");
}

static void reset(struct stretto_check *check)
{
	size_t sets = check->node_count + (size_t)check->size;

	check->action_count = 0;
	check->done_count = 0;
	memset(check->known, 0, sets * check->known_words * sizeof(*check->known));
	for (int r = 0; r < check->size; r++)
		stretto_check_fill_memory(check, r);
	for (size_t i = 0; i < check->node_count; i++) {
		struct stretto_node *node = &check->nodes[i];
		node->posted = false;
		node->done = false;
		node->waiting = (node->step->after[0] != STRETTO_NO_STEP) +
				(node->step->after[1] != STRETTO_NO_STEP);
	}
	for (size_t i = 0; i < check->node_count; i++) {
		struct stretto_node *node = &check->nodes[i];
		if (!is_fused(check, node))
			continue;
		if (node->step->kind == STRETTO_STEP_RECV) /* waits for both, but not for itself */
			node->waiting += node_of(check, node->rank, node->step->fused)->waiting - 1;
	}
	for (size_t i = 0; i < check->node_count; i++) {
		const struct stretto_node *node = &check->nodes[i];
		bool starts = !is_fused(check, node) || node->step->kind == STRETTO_STEP_RECV;
		if (starts && node->waiting == 0)
			offer(check, node, ACTION_START);
	}
}

void stretto_check_execute(struct stretto_check *check)
{
	reset(check);
	while (check->status == STRETTO_OK && check->action_count > 0) {
		size_t pick = (size_t)(stretto_check_random(check) % check->action_count);
		size_t action = check->actions[pick];
		check->actions[pick] = check->actions[--check->action_count];
		if (action % 2 == ACTION_START)
			start(check, &check->nodes[action / 2]);
		else
			end(check, &check->nodes[action / 2]);
	}
	if (check->done_count < check->node_count)
		report_deadlock(check);
}
