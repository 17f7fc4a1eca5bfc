/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/sched_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/traits.h"
#include "tools/lib/options.h"

/* A round that was not found yet. */
enum { UNKNOWN = -1 };

void *sched_allocate(size_t count, size_t size)
{
	void *memory = calloc(count + 1, size);
	if (!memory)
		tool_die(1, "out of memory");
	return memory;
}

static int find_round(struct sched_group *group, int r, int i);

/* The round in which the data of a RECV of rank `r` leaves the peer. */
static int round_of_message(struct sched_group *group, int r, const struct stretto_step *recv)
{
	const struct stretto_schedule *peer = &group->all[recv->peer];
	for (int s = 0; s < peer->step_count; s++)
		if (peer->steps[s].kind == STRETTO_STEP_SEND && peer->steps[s].peer == r &&
		    peer->steps[s].ordinal == recv->ordinal)
			return find_round(group, recv->peer, s);
	return 0;
}

/*
 * The round of a step, counted from 1: a SEND is one round behind the last message that its rank
 * had to wait for; all else is in the round of the message it gets or works on. A cycle, which only
 * a broken schedule has, counts as nothing.
 */
static int find_round(struct sched_group *group, int r, int i)
{
	const struct stretto_step *step = &group->all[r].steps[i];
	int *round = &group->rounds[r][i];

	if (*round != UNKNOWN)
		return *round;
	*round = 0;
	int latest = 0;
	for (int k = 0; k < 2; k++) {
		int before = step->after[k];
		if (before == STRETTO_NO_STEP)
			continue;
		int at = find_round(group, r, before);
		if (group->all[r].steps[before].kind == STRETTO_STEP_SEND)
			at--; /* its end, not what it waited for */
		latest = at > latest ? at : latest;
	}
	if (step->kind == STRETTO_STEP_SEND)
		latest++;
	if (step->kind == STRETTO_STEP_RECV) {
		int at = round_of_message(group, r, step);
		latest = at > latest ? at : latest;
	}
	*round = latest;
	return latest;
}

/* Without messages the steps follow each other, and a round is the phase that was met last. */
static void find_phases(const struct stretto_schedule *schedule, int *rounds)
{
	int phase = 0;

	for (int i = 0; i < schedule->step_count; i++) {
		phase = schedule->steps[i].phase > phase ? schedule->steps[i].phase : phase;
		rounds[i] = phase;
	}
}

void sched_find_rounds(struct sched_group *group)
{
	group->rounds = sched_allocate((size_t)group->size, sizeof(*group->rounds));
	for (int r = 0; r < group->size; r++) {
		group->rounds[r] = sched_allocate((size_t)group->all[r].step_count, sizeof(int));
		for (int i = 0; i < group->all[r].step_count; i++)
			group->rounds[r][i] = UNKNOWN;
	}
	for (int r = 0; r < group->size; r++)
		if (group->all[r].mapped)
			find_phases(&group->all[r], group->rounds[r]);
	for (int r = 0; r < group->size; r++)
		for (int i = 0; i < group->all[r].step_count; i++)
			find_round(group, r, i);
}

/* The most that any rank has of something. */
struct totals {
	int rounds;
	int messages; /* sent */
	size_t sent;  /* elements */
	size_t far;   /* of them, to other nodes */
	size_t tmp;   /* elements of scratch */
	size_t read;  /* elements, without messages */
	size_t written;
};

/* Adds what a step without messages reads and writes, of its own and of others' memory. */
static void add_passes(const struct stretto_step *step, int size, struct totals *totals)
{
	size_t reduces = step->kind == STRETTO_STEP_REDUCE_ALL ? (size_t)size : 1;
	size_t writes = step->flags & STRETTO_STEP_TO_ALL ? (size_t)size : 1;

	totals->read += reduces * step->dst.count;
	totals->written += writes * step->dst.count;
}

static struct totals find_totals(const struct sched_group *group)
{
	struct totals most = {0};

	for (int r = 0; r < group->size; r++) {
		const struct stretto_schedule *schedule = &group->all[r];
		const int *node = schedule->shape.node;
		struct totals passes = {0};
		int messages = 0;
		size_t sent = 0, far = 0;
		for (int i = 0; i < schedule->step_count; i++) {
			const struct stretto_step *step = &schedule->steps[i];
			int round = group->rounds[r][i];
			if (step->kind == STRETTO_STEP_SEND) {
				messages++;
				sent += step->a.count;
				far += node && node[r] != node[step->peer] ? step->a.count : 0;
			}
			most.rounds = round > most.rounds ? round : most.rounds;
			if (schedule->mapped)
				add_passes(step, group->size, &passes);
		}
		most.read = passes.read > most.read ? passes.read : most.read;
		most.written = passes.written > most.written ? passes.written : most.written;
		most.messages = messages > most.messages ? messages : most.messages;
		most.sent = sent > most.sent ? sent : most.sent;
		most.far = far > most.far ? far : most.far;
		most.tmp = schedule->tmp_count > most.tmp ? schedule->tmp_count : most.tmp;
	}
	return most;
}

/* "8", or "3,0,5": rank 0 knows all lengths, as what it has for all or as what it gets from all. */
static void print_count(const struct stretto_shape *shape)
{
	const struct stretto_counts *counts = shape->counts;

	if (!counts)
		printf("%zu", shape->count);
	for (int b = 0; counts && b < shape->size; b++)
		printf("%s%zu", b > 0 ? "," : "",
		       (counts->in_counts ? counts->in_counts : counts->out_counts)[b]);
}

void sched_print_header(const struct sched_group *group)
{
	const struct stretto_shape *shape = &group->all[0].shape;
	struct totals most = find_totals(group);

	printf("%s, algorithm %s: %d ranks, ", stretto_collective_name(shape->collective),
	       group->all[0].algorithm, shape->size);
	print_count(shape);
	printf(" elements%s", group->all[shape->root].shape.in_place ? ", in place" : "");
	if (stretto_traits_of(shape->collective)->rooted)
		printf(", root %d", shape->root);
	if (group->all[0].mapped)
		printf("\ncost: %d meetings; a rank reads at most %zu elements and writes %zu; "
		       "scratch of %zu elements\n",
		       most.rounds, most.read, most.written, most.tmp);
	else
		printf("\ncost: %d rounds; a rank sends at most %d messages, %zu elements; scratch "
		       "of %zu elements\n",
		       most.rounds, most.messages, most.sent, most.tmp);
	printf("chosen: window %zu elements, estimated %.4g us (%s)\n", group->choice.window,
	       1e6 * group->choice.seconds, group->choice.reason);
	if (shape->node)
		printf("%d nodes: a rank sends at most %zu elements to others\n", shape->nodes,
		       most.far);
}

static const char *span_text(const struct stretto_span *span, char *buf, size_t size)
{
	static const char *const names[STRETTO_BUF_COUNT] = {"IN", "OUT", "TMP"};
	snprintf(buf, size, "%s[%zu,%zu)", names[span->buffer], span->first,
		 span->first + span->count);
	return buf;
}

/* An operand: a span, or the data of the fused RECV. */
static const char *operand_text(const struct stretto_step *recv, const struct stretto_span *span,
				char *buf, size_t size)
{
	bool received = recv && span->buffer == STRETTO_BUF_TMP && span->first == recv->dst.first;
	return received ? "received" : span_text(span, buf, size);
}

/* What a step without messages does. */
static void mapped_text(const struct stretto_step *step, char *buf, size_t size)
{
	char dst[56];
	char a[56];
	const char *whose = step->flags & STRETTO_STEP_TO_ALL ? " of all" : "";

	span_text(&step->dst, dst, sizeof(dst));
	span_text(&step->a, a, sizeof(a));
	if (step->phase > 0)
		snprintf(buf, size, "phase %d", step->phase);
	else if (step->dst.count == 0)
		snprintf(buf, size, "(nothing)");
	else if (step->kind == STRETTO_STEP_REDUCE_ALL)
		snprintf(buf, size, "%s%s = sum of %s of all", dst, whose, a);
	else
		snprintf(buf, size, "%s = %s", dst, a);
}

/* What a step does, as an assignment; `recv` is the RECV fused with a REDUCE, or NULL. */
static void action_text(const struct stretto_step *step, const struct stretto_step *recv, char *buf,
			size_t size)
{
	char dst[56];
	char a[56];
	char b[56];
	bool sends = step->kind == STRETTO_STEP_SEND;
	bool empty = (sends ? step->a.count : step->dst.count) == 0;

	span_text(&step->dst, dst, sizeof(dst));
	if (empty)
		snprintf(buf, size, "(nothing)");
	else if (sends)
		span_text(&step->a, buf, size);
	else if (step->kind == STRETTO_STEP_RECV)
		snprintf(buf, size, "%s = received", dst);
	else if (step->kind == STRETTO_STEP_COPY)
		snprintf(buf, size, "%s = %s", dst, span_text(&step->a, a, sizeof(a)));
	else
		snprintf(buf, size, "%s = %s + %s", dst, operand_text(recv, &step->a, a, sizeof(a)),
			 operand_text(recv, &step->b, b, sizeof(b)));
	size_t used = strlen(buf);
	if (step->flags & STRETTO_STEP_FINAL)
		snprintf(buf + used, size - used, "  final");
}

/* "2, 5": the steps it waits for, that of its fused RECV left out and its waits put in. */
static void waits_text(const struct stretto_step *step, const struct stretto_step *recv, char *buf,
		       size_t size)
{
	int list[4];
	int n = 0;

	for (int k = 0; recv && k < 2; k++)
		if (recv->after[k] != STRETTO_NO_STEP)
			list[n++] = recv->after[k];
	for (int k = 0; k < 2; k++)
		if (step->after[k] != STRETTO_NO_STEP && !(recv && step->after[k] == step->fused))
			list[n++] = step->after[k];
	buf[0] = '\0';
	for (int k = 0; k < n; k++) {
		size_t used = strlen(buf);
		snprintf(buf + used, size - used, "%s%d", k > 0 ? ", " : "", list[k]);
	}
}

/* One step as a line; the round is shown where it changes. */
static void print_step(const struct stretto_schedule *schedule, int i, int round, bool show_round)
{
	const struct stretto_step *step = &schedule->steps[i];
	const struct stretto_step *recv = NULL;
	char number[32];
	char peer[24] = "";
	char round_text[16] = "";
	char action[200];
	char waits[64];

	snprintf(number, sizeof(number), "%d", i);
	if (step->fused != STRETTO_NO_STEP) {
		recv = &schedule->steps[step->fused];
		snprintf(number, sizeof(number), "%d+%d", step->fused, i);
	}
	if (step->kind == STRETTO_STEP_SEND)
		snprintf(peer, sizeof(peer), "--> %d", step->peer);
	else if (step->kind == STRETTO_STEP_SIGNAL)
		snprintf(peer, sizeof(peer), "--> all");
	else if (step->peer >= 0 || recv)
		snprintf(peer, sizeof(peer), "<-- %d", recv ? recv->peer : step->peer);
	if (show_round)
		snprintf(round_text, sizeof(round_text), "%d", round);
	if (schedule->mapped)
		mapped_text(step, action, sizeof(action));
	else
		action_text(step, recv, action, sizeof(action));
	waits_text(step, recv, waits, sizeof(waits));
	printf("  %5s  %7s  %-8s  %-*s%s%s\n", round_text, number, peer, waits[0] ? 36 : 0, action,
	       waits[0] ? "  after " : "", waits);
}

/* The steps of one rank by round, those of a round in the order of the schedule. */
void sched_print_rank(const struct sched_group *group, int r)
{
	const struct stretto_schedule *schedule = &group->all[r];
	const struct totals most = find_totals(group);

	printf("\nrank %d\n  round     step  peer      what\n", r);
	for (int round = 0; round <= most.rounds; round++) {
		bool first = true;
		for (int i = 0; i < schedule->step_count; i++) {
			const struct stretto_step *step = &schedule->steps[i];
			bool hidden = step->kind == STRETTO_STEP_RECV &&
				      step->fused != STRETTO_NO_STEP; /* shown by its REDUCE */
			if (group->rounds[r][i] != round || hidden)
				continue;
			print_step(schedule, i, round, first);
			first = false;
		}
	}
}
