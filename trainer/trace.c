/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/trace.h"

#include <stdlib.h>

stretto_status stretto_trace_init(struct stretto_trace *trace, size_t capacity)
{
	*trace = (struct stretto_trace){.capacity = capacity};
	trace->events = calloc(capacity, sizeof(*trace->events));
	return trace->events ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_trace_fini(struct stretto_trace *trace)
{
	free(trace->events);
	trace->events = NULL;
}

void stretto_trace_step(struct stretto_trace *trace, size_t step)
{
	if (trace)
		trace->step = (uint32_t)step;
}

void stretto_trace_add(struct stretto_trace *trace, enum stretto_trace_kind kind, size_t slice,
		       uint64_t start)
{
	struct stretto_trace_event *event;

	if (!trace)
		return;
	event = &trace->events[trace->recorded % trace->capacity];
	if (trace->recorded >= trace->capacity)
		trace->lost = event->step;
	*event = (struct stretto_trace_event){.start = start,
					      .end = stretto_now(),
					      .step = trace->step,
					      .kind = (uint16_t)kind,
					      .slice = (uint16_t)slice};
	trace->recorded++;
}
