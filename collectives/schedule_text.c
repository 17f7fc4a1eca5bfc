/* SPDX-License-Identifier: BSD-3-Clause */
/* A step as one line, for messages. */
#include <stdio.h>
#include <string.h>

#include "collectives/schedule.h"

static const char *span_text(const struct stretto_span *span, char *buf, size_t size)
{
	static const char *const names[STRETTO_BUF_COUNT] = {"IN", "OUT", "TMP"};
	if (span->count == 0)
		return "nothing";
	snprintf(buf, size, "%s[%zu,%zu)", names[span->buffer], span->first,
		 span->first + span->count);
	return buf;
}

/* The part of a step's text between its number and its dependencies. */
static void action_text(const struct stretto_schedule *schedule, const struct stretto_step *step,
			char *buf, size_t size)
{
	char dst[56];
	char a[56];
	char b[56];
	bool fused = step->fused != STRETTO_NO_STEP;
	const struct stretto_step *recv = fused ? &schedule->steps[step->fused] : NULL;

	span_text(&step->dst, dst, sizeof(dst));
	const char *dst_text = step->dst.count > 0 ? dst : "nothing";
	const char *a_text = span_text(&step->a, a, sizeof(a));
	const char *to_all = step->flags & STRETTO_STEP_TO_ALL ? " of all" : "";
	const char *b_text = span_text(&step->b, b, sizeof(b));
	switch (step->kind) {
	case STRETTO_STEP_SEND:
		snprintf(buf, size, "SEND  to %d  %s", step->peer, a_text);
		return;
	case STRETTO_STEP_RECV:
		snprintf(buf, size, "RECV  from %d  %s", step->peer, dst_text);
		return;
	case STRETTO_STEP_COPY:
		snprintf(buf, size, "COPY  %s = %s", dst_text, a_text);
		return;
	case STRETTO_STEP_REDUCE:
		if (!fused)
			snprintf(buf, size, "REDUCE  %s = %s + %s", dst_text, a_text, b_text);
		else
			snprintf(buf, size, "RECV+REDUCE  from %d  %s = %s + %s", recv->peer,
				 dst_text,
				 stretto_same_span(&recv->dst, &step->a) ? "recv" : a_text,
				 stretto_same_span(&recv->dst, &step->b) ? "recv" : b_text);
		return;
	case STRETTO_STEP_SIGNAL:
		snprintf(buf, size, "SIGNAL  phase %d", step->phase);
		return;
	case STRETTO_STEP_AWAIT:
		snprintf(buf, size, "AWAIT  %d  phase %d", step->peer, step->phase);
		return;
	case STRETTO_STEP_REDUCE_ALL:
		snprintf(buf, size, "REDUCE  %s%s = sum of all %s", dst_text, to_all, a_text);
		return;
	case STRETTO_STEP_PULL:
		snprintf(buf, size, "PULL  from %d  %s = its %s", step->peer, dst_text, a_text);
		return;
	}
}

/* "  after 1, 4": what the step waits for; a fused REDUCE waits for what its RECV waits for. */
static void after_text(const struct stretto_schedule *schedule, const struct stretto_step *step,
		       char *buf, size_t size)
{
	const struct stretto_step *steps[] = {step, step};
	size_t used = 0;

	if (step->kind == STRETTO_STEP_REDUCE && step->fused != STRETTO_NO_STEP)
		steps[0] = &schedule->steps[step->fused];
	buf[0] = '\0';
	for (int k = steps[0] == step ? 2 : 0; k < 4; k++) {
		int before = steps[k / 2]->after[k % 2];
		if (before == STRETTO_NO_STEP || before == step->fused)
			continue;
		int n = snprintf(buf + used, size - used, "%s%d", used == 0 ? "  after " : ", ",
				 before);
		used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
	}
}

const char *stretto_step_text(const struct stretto_schedule *schedule, int index, char *buf,
			      size_t size)
{
	const struct stretto_step *step = &schedule->steps[index];
	char action[200];
	char after[80];
	char within[24] = "";

	action_text(schedule, step, action, sizeof(action));
	after_text(schedule, step, after, sizeof(after));
	if (step->kind == STRETTO_STEP_RECV && step->fused != STRETTO_NO_STEP)
		snprintf(within, sizeof(within), "  in %d", step->fused);
	snprintf(buf, size, "%d: %s%s%s%s", index, action, within,
		 step->flags & STRETTO_STEP_FINAL ? "  final" : "", after);
	return buf;
}
