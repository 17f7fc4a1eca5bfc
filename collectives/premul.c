/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/premul.h"

#include <stdlib.h>

#include "collectives/traits.h"
#include "runtime/log.h"

/* Own elements that were copied, scaled, so as to be sent. */
struct staged {
	struct stretto_span own;
	struct stretto_span copy;
	int step; /* that copies */
};

struct rewriter {
	const struct stretto_schedule *plain;
	struct stretto_schedule *scaled;
	int *index;                   /* of the plain schedule's steps in the scaled one */
	struct stretto_span *written; /* spans of the input that are not own any more */
	int written_count;
	struct staged *staged;
	int staged_count;
	bool mixed; /* a step reads own and other elements as one */
};

/* Whether this rank's input lies in the buffer. In place there is only one. */
static bool is_input(const struct rewriter *rewriter, enum stretto_buffer buffer)
{
	return buffer != STRETTO_BUF_TMP &&
	       (rewriter->plain->shape.in_place || buffer == STRETTO_BUF_IN);
}

/* The end of a written span that holds the element, or the element if there is none. */
static size_t written_from(const struct rewriter *rewriter, size_t element)
{
	for (int i = 0; i < rewriter->written_count; i++) {
		const struct stretto_span *span = &rewriter->written[i];

		if (span->first <= element && element < span->first + span->count)
			return span->first + span->count;
	}
	return element;
}

/* Whether an element of the span was written. */
static bool is_touched(const struct rewriter *rewriter, const struct stretto_span *span)
{
	for (int i = 0; i < rewriter->written_count; i++) {
		const struct stretto_span *other = &rewriter->written[i];

		if (span->first < other->first + other->count &&
		    other->first < span->first + span->count)
			return true;
	}
	return false;
}

/* Whether all elements of an operand are own. Some of them: the rewriter is marked. */
static bool is_own(struct rewriter *rewriter, const struct stretto_span *span)
{
	size_t end = span->first + span->count, at = span->first;

	if (span->count == 0 || !is_input(rewriter, span->buffer))
		return false;
	if (!is_touched(rewriter, span))
		return true;
	while (at < end) {
		size_t next = written_from(rewriter, at);

		if (next == at) {
			rewriter->mixed = true;
			return false;
		}
		at = next;
	}
	return false;
}

static void note_written(struct rewriter *rewriter, const struct stretto_span *span)
{
	if (span->count > 0 && is_input(rewriter, span->buffer))
		rewriter->written[rewriter->written_count++] = *span;
}

static int moved(const struct rewriter *rewriter, int after)
{
	return after == STRETTO_NO_STEP ? STRETTO_NO_STEP : rewriter->index[after];
}

static void add_flags(struct stretto_schedule *schedule, int step, unsigned flags)
{
	if (step != STRETTO_NO_STEP)
		schedule->steps[step].flags |= flags;
}

/* The copy of an own span that was made before, if the step can wait for that too. */
static const struct staged *find_staged(const struct rewriter *rewriter,
					const struct stretto_step *step)
{
	for (int i = 0; i < rewriter->staged_count; i++) {
		const struct staged *staged = &rewriter->staged[i];

		if (staged->own.buffer == step->a.buffer && staged->own.first == step->a.first &&
		    staged->own.count == step->a.count && step->after[1] == STRETTO_NO_STEP)
			return staged;
	}
	return NULL;
}

/* A SEND of own elements: of a scaled copy of them. */
static int send_copy(struct rewriter *rewriter, const struct stretto_step *step)
{
	struct stretto_schedule *scaled = rewriter->scaled;
	const struct staged *have = find_staged(rewriter, step);
	struct staged *made;

	if (have)
		return stretto_schedule_send(scaled, step->peer, have->copy, have->step,
					     moved(rewriter, step->after[0]));
	made = &rewriter->staged[rewriter->staged_count++];
	made->own = step->a;
	made->copy = stretto_schedule_tmp(scaled, step->a.count);
	made->step =
		stretto_schedule_copy(scaled, made->copy, step->a, moved(rewriter, step->after[0]),
				      moved(rewriter, step->after[1]));
	add_flags(scaled, made->step, STRETTO_STEP_OWN_A);
	return stretto_schedule_send(scaled, step->peer, made->copy, made->step, STRETTO_NO_STEP);
}

/* One step of the plain schedule; returns its index in the scaled one. */
static int rewrite_step(struct rewriter *rewriter, const struct stretto_step *step)
{
	struct stretto_schedule *scaled = rewriter->scaled;
	int first = moved(rewriter, step->after[0]), second = moved(rewriter, step->after[1]);
	bool own_a = step->kind != STRETTO_STEP_RECV && is_own(rewriter, &step->a);
	bool own_b = step->kind == STRETTO_STEP_REDUCE && is_own(rewriter, &step->b);
	int made;

	switch (step->kind) {
	case STRETTO_STEP_SEND:
		return own_a ? send_copy(rewriter, step)
			     : stretto_schedule_send(scaled, step->peer, step->a, first, second);
	case STRETTO_STEP_RECV:
		made = stretto_schedule_recv(scaled, step->peer, step->dst, first, second);
		break;
	case STRETTO_STEP_COPY:
		made = stretto_schedule_copy(scaled, step->dst, step->a, first, second);
		break;
	default:
		made = stretto_schedule_reduce(scaled, step->dst, step->a, step->b, first, second);
	}
	add_flags(scaled, made,
		  step->flags | (own_a ? (unsigned)STRETTO_STEP_OWN_A : 0) |
			  (own_b ? (unsigned)STRETTO_STEP_OWN_B : 0));
	note_written(rewriter, &step->dst);
	return made;
}

/* One rank in place has no steps to multiply in: out and back. */
static void rewrite_alone(struct stretto_schedule *scaled)
{
	bool into_block = stretto_traits_into_block(scaled->shape.collective);
	struct stretto_span all =
		stretto_own(&scaled->shape, into_block ? STRETTO_BUF_IN : STRETTO_BUF_OUT);
	struct stretto_span tmp = stretto_schedule_tmp(scaled, all.count);
	int copy;

	copy = stretto_schedule_copy(scaled, tmp, all, STRETTO_NO_STEP, STRETTO_NO_STEP);
	add_flags(scaled, copy, STRETTO_STEP_OWN_A);
	stretto_schedule_final(scaled,
			       stretto_schedule_copy(scaled, all, tmp, copy, STRETTO_NO_STEP));
}

static void rewrite_all(struct rewriter *rewriter)
{
	const struct stretto_schedule *plain = rewriter->plain;

	if (plain->shape.size == 1 && plain->shape.in_place) {
		rewrite_alone(rewriter->scaled);
		return;
	}
	for (int i = 0; i < plain->step_count; i++)
		rewriter->index[i] = rewrite_step(rewriter, &plain->steps[i]);
}

stretto_status stretto_premul_rewrite(const struct stretto_schedule *plain,
				      struct stretto_schedule *scaled)
{
	size_t steps = (size_t)plain->step_count + 1;
	struct rewriter rewriter = {
		.plain = plain,
		.scaled = scaled,
		.index = calloc(steps, sizeof *rewriter.index),
		.written = calloc(steps, sizeof *rewriter.written),
		.staged = calloc(steps, sizeof *rewriter.staged),
	};
	stretto_status status = STRETTO_NO_MEMORY;

	stretto_schedule_init(scaled, &plain->shape, plain->algorithm);
	scaled->shape.scaled = true;
	scaled->tmp_count = plain->tmp_count;
	if (rewriter.index && rewriter.written && rewriter.staged) {
		rewrite_all(&rewriter);
		status = stretto_schedule_seal(scaled);
	}
	if (status == STRETTO_OK && rewriter.mixed) {
		stretto_error("%s on rank %d of %d reads own and received elements as one: it "
			      "cannot scale its input",
			      plain->algorithm, plain->shape.rank, plain->shape.size);
		status = STRETTO_INTERNAL;
	}
	free(rewriter.index);
	free(rewriter.written);
	free(rewriter.staged);
	return status;
}
