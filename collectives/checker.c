/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How it proves. What may run at the same time is decided once, from the dependencies alone: two
 * steps of a rank that touch the same elements, one of them writing, must be joined by a path of
 * `after` edges within that rank. With that, and since the n-th send meets the n-th receive, no
 * order of execution can change a result or end in a deadlock that another order avoids: steps and
 * messages form a marked graph. Running them in random orders then shows that they end and what
 * they compute, for each of three ways to execute: sends that complete only after their receive
 * was posted (rendezvous), sends that complete at once (eager), and rendezvous with RECV and REDUCE
 * fused.
 */
#include "collectives/checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/checker_internal.h"
#include "collectives/conflicts.h"
#include "collectives/traits.h"

uint64_t stretto_check_random(struct stretto_check *check)
{
	uint64_t z = check->seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void stretto_check_fail(struct stretto_check *check, const char *format, ...)
{
	va_list args;
	if (check->status != STRETTO_OK)
		return;
	check->status = STRETTO_INTERNAL;
	va_start(args, format);
	vsnprintf(check->why, check->why_size, format, args);
	va_end(args);
}

void stretto_check_need(struct stretto_check *check, bool ok)
{
	if (!ok && check->status == STRETTO_OK)
		check->status = STRETTO_NO_MEMORY;
}

void stretto_check_describe_sum(const struct stretto_check *check, uint64_t sum, char *text,
				size_t size)
{
	snprintf(text, size, "does not hold each rank exactly once");
	for (int r = 0; r < check->size; r++)
		if (sum - check->full == check->shares[r])
			snprintf(text, size, "holds the contribution of rank %d twice", r);
		else if (check->full - sum == check->shares[r])
			snprintf(text, size, "lacks the contribution of rank %d", r);
}

const char *stretto_check_buffer_name(enum stretto_buffer buffer)
{
	static const char *const names[STRETTO_BUF_COUNT] = {"IN", "OUT", "TMP"};
	return names[buffer];
}

size_t stretto_check_position(const struct stretto_shape *shape, enum stretto_buffer buffer,
			      size_t element)
{
	if (buffer != STRETTO_BUF_IN)
		element += stretto_shape_in_count(shape);
	if (buffer == STRETTO_BUF_TMP)
		element += stretto_shape_out_count(shape);
	return element;
}

size_t stretto_check_element(const struct stretto_shape *shape, int b)
{
	const size_t apart = (size_t)1 << 40; /* more than any block that varies has */

	return (size_t)b * (shape->counts ? apart : shape->count);
}

/* --- What must hold afterwards --- */

/* A span of a rank must hold the elements from `want.element` on, with want's sum and finals. */
static void expect(struct stretto_check *check, int rank, struct stretto_span span,
		   struct stretto_run want)
{
	size_t start_at =
		stretto_check_position(&check->schedules[rank].shape, span.buffer, span.first);
	const struct stretto_runs *memory = &check->memory[rank];
	char what[80];

	want.first = start_at;
	for (size_t where = start_at; where < start_at + span.count;) {
		size_t i = stretto_runs_find(memory, where);
		struct stretto_run got = stretto_run_from(memory->list[i], where);
		size_t element = stretto_run_from(want, where).element;
		const char *name = stretto_check_buffer_name(span.buffer);
		size_t index = span.first + where - start_at;

		if (got.element == STRETTO_UNWRITTEN)
			stretto_check_fail(check, "rank %d: %s[%zu] was never written", rank, name,
					   index);
		else if (got.element != element)
			stretto_check_fail(check,
					   "rank %d: %s[%zu] holds element %zu instead of %zu",
					   rank, name, index, got.element, element);
		if (got.sum != want.sum) {
			stretto_check_describe_sum(check, got.sum, what, sizeof(what));
			stretto_check_fail(check, "rank %d: %s[%zu] %s", rank, name, index,
					   want.sum == check->full ? what
								   : "comes from the wrong rank");
		}
		if (got.finals != want.finals)
			stretto_check_fail(check,
					   "rank %d: %s[%zu] passed %u FINAL steps instead of %u",
					   rank, name, index, got.finals, want.finals);
		where = stretto_runs_stop(memory, i);
	}
}

/* Every rank must have combined the elements of its vector as rank 0 has. */
static void expect_same_order(struct stretto_check *check, int rank)
{
	const struct stretto_shape *shapes[] = {&check->schedules[0].shape,
						&check->schedules[rank].shape};
	const struct stretto_runs *memory[] = {&check->memory[0], &check->memory[rank]};
	size_t base[] = {stretto_check_position(shapes[0], STRETTO_BUF_OUT, 0),
			 stretto_check_position(shapes[1], STRETTO_BUF_OUT, 0)};

	for (size_t i = 0; i < shapes[0]->count;) {
		size_t next = shapes[0]->count;
		uint64_t order[2];
		for (int k = 0; k < 2; k++) {
			size_t run = stretto_runs_find(memory[k], base[k] + i);
			size_t stop = stretto_runs_stop(memory[k], run) - base[k];
			order[k] = memory[k]->list[run].order;
			next = stop < next ? stop : next;
		}
		if (order[0] != order[1])
			stretto_check_fail(
				check,
				"rank %d: OUT[%zu] was combined in another order than on rank 0",
				rank, i);
		i = next;
	}
}

/* An algorithm that says so must have combined a span in the canonical order. */
static void expect_canonical(struct stretto_check *check, int rank, struct stretto_span span)
{
	const struct stretto_schedule *schedule = &check->schedules[rank];
	const struct stretto_algorithm *algorithm =
		stretto_algorithm_find(schedule->shape.collective, schedule->algorithm);
	size_t base = stretto_check_position(&schedule->shape, span.buffer, span.first);
	const struct stretto_runs *memory = &check->memory[rank];

	if (!algorithm || !algorithm->canonical)
		return;
	for (size_t where = base; where < base + span.count;) {
		size_t run = stretto_runs_find(memory, where);

		if (memory->list[run].order != check->order)
			stretto_check_fail(check,
					   "rank %d: %s[%zu] was not combined in the canonical "
					   "order",
					   rank, stretto_check_buffer_name(span.buffer),
					   span.first + where - base);
		where = stretto_runs_stop(memory, run);
	}
}

/* OUT must hold a block of every rank. */
static void expect_blocks(struct stretto_check *check, int rank)
{
	const struct stretto_shape *shape = &check->schedules[rank].shape;
	bool ours = stretto_traits_of(shape->collective)->in == STRETTO_BLOCKS;

	for (int b = 0; b < check->size; b++) {
		struct stretto_run want = {
			.element = stretto_check_element(shape, ours ? rank : b),
			.sum = check->shares[b],
		};

		expect(check, rank, stretto_block(shape, STRETTO_BUF_OUT, b), want);
	}
}

/* The result of one rank. */
static void expect_result(struct stretto_check *check, int rank)
{
	const struct stretto_shape *shape = &check->schedules[rank].shape;
	const struct stretto_traits *traits = stretto_traits_of(shape->collective);
	enum stretto_extent extent = stretto_traits_out(shape->collective, rank == shape->root);
	struct stretto_span out = stretto_own(shape, STRETTO_BUF_OUT);
	bool alone = check->size == 1 && shape->in_place; /* the average of one is there already */
	struct stretto_run want = {.sum = check->full, .finals = alone ? 0 : 1};

	if (extent == STRETTO_NOTHING)
		return;
	if (extent == STRETTO_BLOCKS) {
		expect_blocks(check, rank);
		return;
	}
	if (!traits->reduces)
		want = (struct stretto_run){.sum = check->shares[shape->root]};
	if (traits->in == STRETTO_BLOCKS)
		want.element = stretto_check_element(shape, rank);
	if (shape->in_place && stretto_traits_into_block(shape->collective))
		out = stretto_own(shape, STRETTO_BUF_IN);
	expect(check, rank, out, want);
	if (shape->collective == STRETTO_ALLREDUCE)
		expect_same_order(check, rank);
	if (traits->reduces)
		expect_canonical(check, rank, out);
}

/*
 * A rank must not be done before it can know that others entered: all, or for a rank that is not
 * the root of a collective that has one, the root.
 */
static void expect_known(struct stretto_check *check, int rank)
{
	const struct stretto_shape *shape = &check->schedules[rank].shape;
	const uint64_t *set = stretto_check_known(check, rank);

	for (int r = 0; r < check->size; r++) {
		bool needed = !stretto_traits_of(shape->collective)->rooted ||
			      rank == shape->root || r == shape->root;
		if (needed && r != rank && !((set[r / 64] >> (r % 64)) & 1))
			stretto_check_fail(check, "rank %d: can be done before rank %d has entered",
					   rank, r);
	}
}

/* --- Setting up --- */

/* The schedules must be those of one operation. */
static void check_shapes(struct stretto_check *check)
{
	const struct stretto_shape *first = &check->schedules[0].shape;
	for (int r = 0; r < check->size; r++) {
		const struct stretto_shape *shape = &check->schedules[r].shape;
		if (shape->rank != r || shape->size != check->size)
			stretto_check_fail(check, "schedule %d of %d is that of rank %d of %d", r,
					   check->size, shape->rank, shape->size);
		else if (shape->collective != first->collective || shape->count != first->count ||
			 shape->root != first->root)
			stretto_check_fail(
				check,
				"rank %d: its collective, count or root is not that of rank 0", r);
	}
}

/* Lists all steps of all ranks. */
static bool list_nodes(struct stretto_check *check)
{
	size_t n = 0;
	check->base = malloc((size_t)check->size * sizeof(*check->base));
	if (!check->base)
		return false;
	for (int r = 0; r < check->size; r++) {
		check->base[r] = n;
		n += (size_t)check->schedules[r].step_count;
	}
	check->node_count = n;
	check->nodes = calloc(n + 1, sizeof(*check->nodes));
	if (!check->nodes)
		return false;
	for (int r = 0; r < check->size; r++)
		for (int i = 0; i < check->schedules[r].step_count; i++)
			check->nodes[check->base[r] + (size_t)i] = (struct stretto_node){
				.step = &check->schedules[r].steps[i], .rank = r, .index = i};
	return true;
}

/* Combines the shares of all ranks in the order that algorithm.h calls canonical; uses them up. */
static uint64_t canonical_order(uint64_t *shares, int size)
{
	int left = 1;

	while (2 * left <= size)
		left *= 2;
	int extras = size - left;

	for (int i = 0; i < left; i++)
		shares[i] = i < extras ? stretto_check_mix(shares[2 * i], shares[2 * i + 1])
				       : shares[i + extras];
	for (; left > 1; left /= 2)
		for (int i = 0; i < left / 2; i++)
			shares[i] = stretto_check_mix(shares[2 * i], shares[2 * i + 1]);
	return shares[0];
}

/* Gives every rank a random share of a sum. */
static void draw_shares(struct stretto_check *check)
{
	size_t bytes = (size_t)check->size * sizeof(*check->shares);

	for (int r = 0; r < check->size; r++) {
		check->shares[r] = stretto_check_random(check);
		check->full += check->shares[r];
	}
	uint64_t *copy = malloc(bytes);
	stretto_check_need(check, copy != NULL);
	if (copy) {
		memcpy(copy, check->shares, bytes);
		check->order = canonical_order(copy, check->size);
	}
	free(copy);
}

static bool allocate(struct stretto_check *check)
{
	size_t size = (size_t)check->size;
	if (!list_nodes(check))
		return false;
	check->known_words = (size + 63) / 64;
	check->shares = malloc(size * sizeof(*check->shares));
	check->memory = calloc(size, sizeof(*check->memory));
	check->actions = malloc((2 * check->node_count + 1) * sizeof(*check->actions));
	check->known =
		malloc((check->node_count + size) * check->known_words * sizeof(*check->known));
	return check->shares && check->memory && check->actions && check->known;
}

static void release(struct stretto_check *check)
{
	for (size_t i = 0; check->nodes && i < check->node_count; i++)
		stretto_runs_fini(&check->nodes[i].payload);
	for (int r = 0; check->memory && r < check->size; r++)
		stretto_runs_fini(&check->memory[r]);
	stretto_runs_fini(&check->left);
	stretto_runs_fini(&check->right);
	stretto_runs_fini(&check->result);
	free(check->nodes);
	free(check->base);
	free(check->shares);
	free(check->memory);
	free(check->actions);
	free(check->known);
}

/* --- Messages --- */

#define NO_PARTNER SIZE_MAX

/*
 * Lays the sends out by (sender, receiver, ordinal): sends[first[sender * size + receiver] +
 * ordinal]. first has size * size + 1 zeros and sends one place a node.
 */
static void list_sends(struct stretto_check *check, size_t *first, size_t *sends)
{
	size_t size = (size_t)check->size;

	for (size_t i = 0; i < check->node_count; i++) {
		struct stretto_node *node = &check->nodes[i];
		node->partner = NO_PARTNER;
		if (node->step->kind == STRETTO_STEP_SEND)
			first[(size_t)node->rank * size + (size_t)node->step->peer + 1]++;
	}
	for (size_t pair = 0; pair < size * size; pair++)
		first[pair + 1] += first[pair];
	for (size_t i = 0; i < check->node_count; i++) {
		const struct stretto_node *node = &check->nodes[i];
		size_t pair = (size_t)node->rank * size + (size_t)node->step->peer;
		if (node->step->kind == STRETTO_STEP_SEND)
			sends[first[pair] + node->step->ordinal] = i;
	}
}

/* Joins a receive and its send. */
static void join(struct stretto_check *check, struct stretto_node *recv, size_t send)
{
	char text[200];
	struct stretto_node *node = &check->nodes[send];

	recv->partner = send;
	node->partner = (size_t)(recv - check->nodes);
	if (node->step->a.count != recv->step->dst.count)
		stretto_check_fail(check,
				   "rank %d, step %s: receives %zu elements, but rank %d sends %zu",
				   recv->rank,
				   stretto_step_text(&check->schedules[recv->rank], recv->index,
						     text, sizeof(text)),
				   recv->step->dst.count, node->rank, node->step->a.count);
}

/* Fails for a message that has only one end. */
static void report_single(struct stretto_check *check, const struct stretto_node *node)
{
	char text[200];
	stretto_check_fail(
		check, "rank %d, step %s: rank %d has no %s that meets it", node->rank,
		stretto_step_text(&check->schedules[node->rank], node->index, text, sizeof(text)),
		node->step->peer, node->step->kind == STRETTO_STEP_SEND ? "receive" : "send");
}

/* The n-th send of a rank to another must meet the n-th receive there, of the same length. */
static void match_messages(struct stretto_check *check)
{
	size_t size = (size_t)check->size;
	size_t *first = calloc(size * size + 1, sizeof(*first));
	size_t *sends = malloc((check->node_count + 1) * sizeof(*sends));

	stretto_check_need(check, first && sends);
	if (check->status == STRETTO_OK)
		list_sends(check, first, sends);
	for (size_t i = 0; check->status == STRETTO_OK && i < check->node_count; i++) {
		struct stretto_node *node = &check->nodes[i];
		if (node->step->kind != STRETTO_STEP_RECV)
			continue;
		size_t pair = (size_t)node->step->peer * size + (size_t)node->rank;
		if (node->step->ordinal < first[pair + 1] - first[pair])
			join(check, node, sends[first[pair] + node->step->ordinal]);
		else
			report_single(check, node);
	}
	for (size_t i = 0; check->status == STRETTO_OK && i < check->node_count; i++)
		if (check->nodes[i].step->kind == STRETTO_STEP_SEND &&
		    check->nodes[i].partner == NO_PARTNER)
			report_single(check, &check->nodes[i]);
	free(first);
	free(sends);
}

/* --- The whole --- */

/* The ways to execute; the rest is random. */
static const struct {
	bool eager;
	bool fused;
} ways[] = {{false, false}, {true, false}, {false, true}};

static void check_results(struct stretto_check *check)
{
	for (int r = 0; check->status == STRETTO_OK && r < check->size; r++) {
		expect_result(check, r);
		expect_known(check, r);
	}
}

/* Schedules without messages: one execution finds all that could race, see checker_mapped.c. */
static void check_mapped(struct stretto_check *check)
{
	for (int r = 0; r < check->size; r++)
		if (!check->schedules[r].mapped)
			stretto_check_fail(check, "rank %d: sends messages, rank 0 does not", r);
	if (check->status == STRETTO_OK)
		stretto_check_execute_mapped(check);
	check_results(check);
}

static void check_all(struct stretto_check *check)
{
	check_shapes(check);
	if (check->status == STRETTO_OK && check->schedules[0].mapped) {
		check_mapped(check);
		return;
	}
	for (int r = 0; check->status == STRETTO_OK && r < check->size; r++)
		check->status =
			stretto_conflicts_check(&check->schedules[r], check->why, check->why_size);
	if (check->status == STRETTO_OK)
		match_messages(check);
	for (size_t k = 0; check->status == STRETTO_OK && k < sizeof(ways) / sizeof(*ways); k++) {
		check->eager = ways[k].eager;
		check->fused = ways[k].fused;
		stretto_check_execute(check);
		check_results(check);
	}
}

stretto_status stretto_check(const struct stretto_schedule *schedules, int size, uint64_t seed,
			     char *why, size_t why_size)
{
	struct stretto_check check = {.schedules = schedules,
				      .size = size,
				      .seed = seed,
				      .why = why,
				      .why_size = why_size};

	snprintf(why, why_size, "no memory");
	if (allocate(&check)) {
		snprintf(why, why_size, "%s", "");
		draw_shares(&check);
		check_all(&check);
	} else {
		check.status = STRETTO_NO_MEMORY;
	}
	release(&check);
	return check.status;
}
