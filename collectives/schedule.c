/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule.h"

#include <stdio.h>
#include <stdlib.h>

#include "collectives/traits.h"
#include "runtime/log.h"

/* One use of TMP by a step, for finding the receives that nobody else looks at. */
struct tmp_use {
	size_t first; /* element */
	size_t end;   /* element after the last */
	int step;     /* that reads or writes it */
};

void stretto_schedule_init(struct stretto_schedule *schedule, const struct stretto_shape *shape,
			   const char *algorithm)
{
	*schedule = (struct stretto_schedule){
		.shape = *shape,
		.algorithm = algorithm,
		.published = {{STRETTO_BUF_IN, 0, 0}, {STRETTO_BUF_OUT, 0, 0}},
	};
}

void stretto_schedule_fini(struct stretto_schedule *schedule)
{
	free(schedule->steps);
	free(schedule->followers);
	schedule->steps = NULL;
	schedule->followers = NULL;
	schedule->step_count = 0;
	schedule->capacity = 0;
}

/* Makes room for one more step, or marks the schedule as failed. */
static bool grow(struct stretto_schedule *schedule)
{
	if (schedule->step_count < schedule->capacity)
		return true;
	int capacity = schedule->capacity == 0 ? 16 : 2 * schedule->capacity;
	struct stretto_step *steps =
		realloc(schedule->steps, (size_t)capacity * sizeof(struct stretto_step));
	if (!steps) {
		schedule->failed = true;
		return false;
	}
	schedule->steps = steps;
	schedule->capacity = capacity;
	return true;
}

/* Appends `step` with its dependencies, the same one never twice. */
static int append(struct stretto_schedule *schedule, struct stretto_step step, int after0,
		  int after1)
{
	if (schedule->failed || !grow(schedule))
		return STRETTO_NO_STEP;
	if (after0 == STRETTO_NO_STEP) {
		after0 = after1;
		after1 = STRETTO_NO_STEP;
	}
	step.after[0] = after0;
	step.after[1] = after1 == after0 ? STRETTO_NO_STEP : after1;
	step.fused = STRETTO_NO_STEP;
	schedule->steps[schedule->step_count] = step;
	return schedule->step_count++;
}

int stretto_schedule_send(struct stretto_schedule *schedule, int peer, struct stretto_span a,
			  int after0, int after1)
{
	return append(schedule,
		      (struct stretto_step){.kind = STRETTO_STEP_SEND, .peer = peer, .a = a},
		      after0, after1);
}

int stretto_schedule_recv(struct stretto_schedule *schedule, int peer, struct stretto_span dst,
			  int after0, int after1)
{
	return append(schedule,
		      (struct stretto_step){.kind = STRETTO_STEP_RECV, .peer = peer, .dst = dst},
		      after0, after1);
}

int stretto_schedule_copy(struct stretto_schedule *schedule, struct stretto_span dst,
			  struct stretto_span a, int after0, int after1)
{
	return append(
		schedule,
		(struct stretto_step){.kind = STRETTO_STEP_COPY, .peer = -1, .dst = dst, .a = a},
		after0, after1);
}

int stretto_schedule_reduce(struct stretto_schedule *schedule, struct stretto_span dst,
			    struct stretto_span a, struct stretto_span b, int after0, int after1)
{
	struct stretto_step step = {
		.kind = STRETTO_STEP_REDUCE, .peer = -1, .dst = dst, .a = a, .b = b};
	return append(schedule, step, after0, after1);
}

static int append_next(struct stretto_schedule *schedule, struct stretto_step step)
{
	schedule->mapped = true;
	return append(schedule, step, STRETTO_NO_STEP, STRETTO_NO_STEP);
}

void stretto_schedule_publish(struct stretto_schedule *schedule, struct stretto_span in,
			      struct stretto_span out)
{
	schedule->published[0] = in;
	schedule->published[1] = out;
}

struct stretto_span stretto_schedule_on_board(struct stretto_schedule *schedule, size_t count)
{
	struct stretto_span shown = stretto_schedule_tmp(schedule, count);

	schedule->on_board = true;
	stretto_schedule_publish(schedule, shown, shown);
	return shown;
}

int stretto_schedule_signal(struct stretto_schedule *schedule, int phase)
{
	return append_next(
		schedule,
		(struct stretto_step){.kind = STRETTO_STEP_SIGNAL, .peer = -1, .phase = phase});
}

int stretto_schedule_await(struct stretto_schedule *schedule, int peer, int phase)
{
	return append_next(
		schedule,
		(struct stretto_step){.kind = STRETTO_STEP_AWAIT, .peer = peer, .phase = phase});
}

void stretto_schedule_meet(struct stretto_schedule *schedule, int phase)
{
	const struct stretto_shape *shape = &schedule->shape;

	stretto_schedule_signal(schedule, phase);
	for (int k = 1; k < shape->size; k++)
		stretto_schedule_await(schedule, (shape->rank + k) % shape->size, phase);
}

int stretto_schedule_reduce_all(struct stretto_schedule *schedule, struct stretto_span dst,
				struct stretto_span a, struct stretto_span own, unsigned flags)
{
	return append_next(schedule, (struct stretto_step){.kind = STRETTO_STEP_REDUCE_ALL,
							   .flags = flags,
							   .peer = -1,
							   .dst = dst,
							   .a = a,
							   .b = own});
}

int stretto_schedule_pull(struct stretto_schedule *schedule, int peer, struct stretto_span dst,
			  struct stretto_span a)
{
	return append_next(
		schedule,
		(struct stretto_step){.kind = STRETTO_STEP_PULL, .peer = peer, .dst = dst, .a = a});
}

void stretto_schedule_final(struct stretto_schedule *schedule, int step)
{
	if (step != STRETTO_NO_STEP)
		schedule->steps[step].flags |= STRETTO_STEP_FINAL;
}

struct stretto_span stretto_schedule_tmp(struct stretto_schedule *schedule, size_t count)
{
	struct stretto_span span = {STRETTO_BUF_TMP, schedule->tmp_count, count};
	schedule->tmp_count += count;
	return span;
}

/* Elements of a buffer that is one vector: where blocks vary, as many as in this rank's block. */
static size_t vector_count(const struct stretto_shape *shape)
{
	const struct stretto_counts *counts = shape->counts;

	if (!counts)
		return shape->count;
	return (counts->out_counts ? counts->out_counts : counts->in_counts)[shape->rank];
}

/* Elements of a buffer that holds `extent`: blocks reach to the end of the last. */
static size_t extent_count(const struct stretto_shape *shape, enum stretto_buffer buffer,
			   enum stretto_extent extent)
{
	size_t end = 0;

	if (extent == STRETTO_NOTHING)
		return 0;
	if (extent == STRETTO_VECTOR)
		return vector_count(shape);
	if (!shape->counts)
		return (size_t)(shape->size - 1) * shape->stride + shape->count;
	for (int b = 0; b < shape->size; b++) {
		struct stretto_span block = stretto_block(shape, buffer, b);

		if (block.first + block.count > end)
			end = block.first + block.count;
	}
	return end;
}

size_t stretto_shape_in_count(const struct stretto_shape *shape)
{
	if (shape->in_place && !stretto_traits_into_block(shape->collective))
		return 0;
	return extent_count(shape, STRETTO_BUF_IN,
			    stretto_traits_in(shape->collective, shape->rank == shape->root));
}

size_t stretto_shape_out_count(const struct stretto_shape *shape)
{
	if (shape->in_place && stretto_traits_into_block(shape->collective))
		return 0;
	return extent_count(shape, STRETTO_BUF_OUT,
			    stretto_traits_out(shape->collective, shape->rank == shape->root));
}

struct stretto_span stretto_block(const struct stretto_shape *shape, enum stretto_buffer buffer,
				  int b)
{
	const struct stretto_counts *counts = shape->counts;

	if (!counts)
		return (struct stretto_span){buffer, (size_t)b * shape->stride, shape->count};
	if (buffer == STRETTO_BUF_IN)
		return (struct stretto_span){buffer, counts->in_firsts[b], counts->in_counts[b]};
	return (struct stretto_span){buffer, counts->out_firsts[b], counts->out_counts[b]};
}

struct stretto_span stretto_own(const struct stretto_shape *shape, enum stretto_buffer buffer)
{
	const struct stretto_traits *traits = stretto_traits_of(shape->collective);
	enum stretto_extent extent = buffer == STRETTO_BUF_IN ? traits->in : traits->out;

	if (extent == STRETTO_BLOCKS)
		return stretto_block(shape, buffer, shape->rank);
	return (struct stretto_span){buffer, 0, vector_count(shape)};
}

struct stretto_span stretto_part(enum stretto_buffer buffer, size_t count, int parts, int b)
{
	size_t n = (size_t)parts;
	size_t i = (size_t)b;
	size_t longer = count % n; /* the first parts take one element more */
	struct stretto_span span = {
		.buffer = buffer,
		.first = i * (count / n) + (i < longer ? i : longer),
		.count = count / n + (i < longer ? 1 : 0),
	};
	return span;
}

struct stretto_span stretto_aligned_part(enum stretto_buffer buffer, size_t count, int parts, int b)
{
	const size_t unit = 64;
	struct stretto_span units = stretto_part(buffer, (count + unit - 1) / unit, parts, b);
	size_t first = units.first * unit, stop = first + units.count * unit;

	if (first > count)
		first = count;
	if (stop > count)
		stop = count;
	return (struct stretto_span){buffer, first, stop - first};
}

static bool spans_overlap(const struct stretto_span *x, const struct stretto_span *y)
{
	return x->buffer == y->buffer && x->first < y->first + y->count &&
	       y->first < x->first + x->count;
}

/* Whether a span of a buffer of blocks is within the window of one of them. */
static bool in_one_block(const struct stretto_shape *shape, const struct stretto_span *span)
{
	if (!shape->counts)
		return shape->stride == shape->count ||
		       span->first % shape->stride + span->count <= shape->count;
	for (int b = 0; b < shape->size; b++) {
		struct stretto_span block = stretto_block(shape, span->buffer, b);

		if (block.first <= span->first &&
		    span->first + span->count <= block.first + block.count)
			return true;
	}
	return false;
}

/* Whether the span is within its buffer, and in a buffer of blocks within the window of a block. */
static bool span_fits(const struct stretto_schedule *schedule, const struct stretto_span *span)
{
	const struct stretto_shape *shape = &schedule->shape;
	const struct stretto_traits *traits = stretto_traits_of(shape->collective);
	bool in_blocks = (traits->out == STRETTO_BLOCKS && span->buffer == STRETTO_BUF_OUT) ||
			 (traits->in == STRETTO_BLOCKS && span->buffer == STRETTO_BUF_IN);
	size_t size = span->buffer == STRETTO_BUF_IN    ? stretto_shape_in_count(shape)
		      : span->buffer == STRETTO_BUF_OUT ? stretto_shape_out_count(shape)
							: schedule->tmp_count;

	if (span->count == 0)
		return true;
	if (span->first > size || span->count > size - span->first)
		return false;
	return !in_blocks || in_one_block(shape, span);
}

/* NULL, or what is wrong with the spans of a step. */
static const char *spans_fault(const struct stretto_schedule *schedule,
			       const struct stretto_step *step)
{
	bool writes = step->kind != STRETTO_STEP_SEND;
	bool reads = step->kind != STRETTO_STEP_RECV;
	bool reduces = step->kind == STRETTO_STEP_REDUCE;

	if ((writes && !span_fits(schedule, &step->dst)) ||
	    (reads && !span_fits(schedule, &step->a)) ||
	    (reduces && !span_fits(schedule, &step->b)))
		return "a span leaves its buffer or its window";
	if ((writes && reads && step->dst.count != step->a.count) ||
	    (reduces && step->dst.count != step->b.count))
		return "its spans differ in length";
	if (step->kind == STRETTO_STEP_COPY && spans_overlap(&step->dst, &step->a))
		return "it copies a span onto itself";
	if (reduces &&
	    ((spans_overlap(&step->dst, &step->a) && !stretto_same_span(&step->dst, &step->a)) ||
	     (spans_overlap(&step->dst, &step->b) && !stretto_same_span(&step->dst, &step->b))))
		return "its result overlaps a part of an operand";
	return NULL;
}

/* The same for the steps between ranks with mapped memory; spans in peers' buffers are the checker's. */
static const char *mapped_fault(const struct stretto_schedule *schedule,
				const struct stretto_step *step)
{
	bool one_peer = step->kind == STRETTO_STEP_AWAIT || step->kind == STRETTO_STEP_PULL;
	bool phased = step->kind == STRETTO_STEP_AWAIT || step->kind == STRETTO_STEP_SIGNAL;

	if (step->kind < STRETTO_STEP_REDUCE)
		return "a schedule has messages or mapped memory, not both";
	if (one_peer && (step->peer < 0 || step->peer >= schedule->shape.size))
		return "its peer is no rank of the group";
	if (phased && (step->phase < 1 || step->phase > STRETTO_PHASE_MAX))
		return "there is no such phase";
	if (step->kind == STRETTO_STEP_COPY)
		return spans_fault(schedule, step);
	if (!span_fits(schedule, &step->dst) || !span_fits(schedule, &step->b))
		return "a span leaves its buffer or its window";
	if (step->dst.count != step->a.count ||
	    (step->kind == STRETTO_STEP_REDUCE_ALL && step->dst.count != step->b.count))
		return "its spans differ in length";
	return NULL;
}

/* NULL, or what is wrong with step number `i`. */
static const char *step_fault(const struct stretto_schedule *schedule, int i)
{
	const struct stretto_step *step = &schedule->steps[i];
	bool message = step->kind == STRETTO_STEP_SEND || step->kind == STRETTO_STEP_RECV;

	if (schedule->mapped)
		return mapped_fault(schedule, step);
	for (int k = 0; k < 2; k++)
		if (step->after[k] != STRETTO_NO_STEP &&
		    (step->after[k] < 0 || step->after[k] >= i))
			return "it waits for a step that is not an earlier one";
	if (message && (step->peer < 0 || step->peer >= schedule->shape.size))
		return "its peer is no rank of the group";
	if (message && step->peer == schedule->shape.rank)
		return "its peer is the rank itself";
	return spans_fault(schedule, step);
}

/* Numbers the messages of each kind and peer. */
static stretto_status number_messages(struct stretto_schedule *schedule)
{
	size_t size = (size_t)schedule->shape.size;
	uint32_t *seen = calloc(2 * size, sizeof(*seen)); /* sends to each rank, then receives */
	if (!seen)
		return STRETTO_NO_MEMORY;
	for (int i = 0; i < schedule->step_count; i++) {
		struct stretto_step *step = &schedule->steps[i];
		if (step->kind <= STRETTO_STEP_RECV)
			step->ordinal = seen[(size_t)step->kind * size + (size_t)step->peer]++;
	}
	for (int i = 0; i < schedule->step_count; i++) {
		struct stretto_step *step = &schedule->steps[i];
		if (step->kind <= STRETTO_STEP_RECV)
			step->pitch = seen[(size_t)step->kind * size + (size_t)step->peer];
	}
	free(seen);
	return STRETTO_OK;
}

/* Fills in the followers of every step: the steps that wait for it, in order. */
static stretto_status link_followers(struct stretto_schedule *schedule)
{
	struct stretto_step *steps = schedule->steps;
	int total = 0;

	for (int i = 0; i < schedule->step_count; i++)
		steps[i].successor_count = 0;
	for (int i = 0; i < schedule->step_count; i++)
		for (int k = 0; k < 2; k++)
			if (steps[i].after[k] != STRETTO_NO_STEP)
				steps[steps[i].after[k]].successor_count++;
	for (int i = 0; i < schedule->step_count; i++) {
		steps[i].successors = total;
		total += steps[i].successor_count;
		steps[i].successor_count = 0;
	}
	free(schedule->followers);
	schedule->followers = malloc((size_t)(total + 1) * sizeof(int));
	if (!schedule->followers)
		return STRETTO_NO_MEMORY;
	for (int i = 0; i < schedule->step_count; i++)
		for (int k = 0; k < 2; k++)
			if (steps[i].after[k] != STRETTO_NO_STEP) {
				struct stretto_step *before = &steps[steps[i].after[k]];
				schedule->followers[before->successors +
						    before->successor_count++] = i;
			}
	return STRETTO_OK;
}

static int compare_uses(const void *left, const void *right)
{
	const struct tmp_use *x = left;
	const struct tmp_use *y = right;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->step - y->step;
}

/* Lists every use of elements of TMP, sorted by position; *uses is the caller's to free. */
static stretto_status list_tmp_uses(const struct stretto_schedule *schedule, struct tmp_use **uses,
				    size_t *use_count)
{
	size_t n = 0;
	struct tmp_use *list = malloc((3 * (size_t)schedule->step_count + 1) * sizeof(*list));
	if (!list)
		return STRETTO_NO_MEMORY;
	for (int i = 0; i < schedule->step_count; i++) {
		const struct stretto_step *step = &schedule->steps[i];
		const struct stretto_span *spans[] = {&step->dst, &step->a, &step->b};
		for (int k = 0; k < 3; k++) /* a span that the kind does not use is empty */
			if (spans[k]->buffer == STRETTO_BUF_TMP && spans[k]->count > 0)
				list[n++] = (struct tmp_use){spans[k]->first,
							     spans[k]->first + spans[k]->count, i};
	}
	qsort(list, n, sizeof(*list), compare_uses);
	*uses = list;
	*use_count = n;
	return STRETTO_OK;
}

/*
 * Fuses RECV `r` with REDUCE `s`, the only two users of a span, if that leaves the meaning as it
 * is. The fused receive is posted only when the REDUCE's other dependency is complete. If that is a
 * SEND, the peer may be waiting in the same way and neither would ever post: such a pair stays
 * apart.
 */
static void try_fuse(struct stretto_schedule *schedule, int r, int s)
{
	struct stretto_step *recv = &schedule->steps[r];
	struct stretto_step *reduce = &schedule->steps[s];

	if (recv->kind != STRETTO_STEP_RECV || reduce->kind != STRETTO_STEP_REDUCE)
		return;
	if (recv->successor_count != 1 || schedule->followers[recv->successors] != s)
		return;
	int other = reduce->after[0] == r ? reduce->after[1] : reduce->after[0];
	if (other != STRETTO_NO_STEP && schedule->steps[other].kind == STRETTO_STEP_SEND)
		return;
	if (stretto_same_span(&recv->dst, &reduce->a) ==
		    stretto_same_span(&recv->dst, &reduce->b) ||
	    spans_overlap(&recv->dst, &reduce->dst))
		return;
	recv->fused = s;
	reduce->fused = r;
}

/* Finds the spans of TMP that exactly two steps use, and fuses what can be. */
static stretto_status fuse(struct stretto_schedule *schedule)
{
	struct tmp_use *uses = NULL;
	size_t count = 0;
	stretto_status status = list_tmp_uses(schedule, &uses, &count);

	for (int i = 0; i < schedule->step_count; i++)
		schedule->steps[i].fused = STRETTO_NO_STEP;
	/* Uses from `start` to `end` hang together: each overlaps one before it. */
	for (size_t start = 0, end; start < count; start = end) {
		size_t reach = uses[start].end;
		for (end = start + 1; end < count && uses[end].first < reach; end++)
			if (uses[end].end > reach)
				reach = uses[end].end;
		if (end - start == 2)
			try_fuse(schedule, uses[start].step, uses[start + 1].step);
	}
	free(uses);
	return status;
}

stretto_status stretto_schedule_seal(struct stretto_schedule *schedule)
{
	if (schedule->failed) {
		stretto_error("no memory for a schedule of %d steps", schedule->step_count);
		return STRETTO_NO_MEMORY;
	}
	for (int i = 0; i < schedule->step_count; i++) {
		const char *fault = step_fault(schedule, i);
		char text[160];
		if (fault) {
			stretto_error("%s on rank %d of %d: bad step %s: %s", schedule->algorithm,
				      schedule->shape.rank, schedule->shape.size,
				      stretto_step_text(schedule, i, text, sizeof(text)), fault);
			return STRETTO_INTERNAL;
		}
	}
	stretto_status status = number_messages(schedule);
	if (status == STRETTO_OK)
		status = link_followers(schedule);
	if (status == STRETTO_OK)
		status = fuse(schedule);
	if (status == STRETTO_NO_MEMORY)
		stretto_error("no memory to seal a schedule of %d steps", schedule->step_count);
	return status;
}
