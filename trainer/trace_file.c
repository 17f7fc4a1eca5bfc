/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/trace_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/log.h"
#include "trainer/json.h"

/* Barriers that compare the clocks, and the longest name of a host. */
enum { MEETINGS = 32, HOST = 64 };

/* Words of 64 bits that a meeting and an event are gathered as. */
enum { MEETING_WORDS = 2, EVENT_WORDS = 3 };
_Static_assert(sizeof(struct stretto_trace_meeting) == MEETING_WORDS * 8, "no padding");
_Static_assert(sizeof(struct stretto_trace_event) == EVENT_WORDS * 8, "no padding");

static const char *const words[STRETTO_TRACE_KINDS] = {
#define X(name, word) [name] = word,
	STRETTO_TRACE_MAP(X)
#undef X
};

/* What rank 0 gathers; on the others only what is their own. */
struct gathered {
	size_t ranks;
	size_t most;                            /* events of a rank */
	uint32_t first;                         /* step */
	uint32_t last;                          /* step */
	uint64_t count;                         /* own events */
	struct stretto_trace_meeting *meetings; /* [ranks][MEETINGS] */
	struct stretto_trace_event *own;        /* [most] */
	struct stretto_trace_event *events;     /* [ranks][most] */
	uint64_t *counts;                       /* [ranks] */
	char *hosts;                            /* [ranks][HOST]; "": nothing is known of it */
};

int64_t stretto_trace_offset(const struct stretto_trace_meeting *root,
			     const struct stretto_trace_meeting *other, size_t count,
			     uint64_t *error)
{
	int64_t low = INT64_MIN, high = INT64_MAX;

	for (size_t i = 0; i < count; i++) {
		int64_t least = (int64_t)(other[i].entered - root[i].left);
		int64_t most = (int64_t)(other[i].left - root[i].entered);

		low = least > low ? least : low;
		high = most < high ? most : high;
	}
	*error = 0;
	if (low <= 0 && high >= 0)
		return 0;
	*error = (uint64_t)(high - low + 1) / 2;
	return low + (high - low) / 2;
}

uint32_t stretto_trace_first(const struct stretto_trace *trace, size_t steps)
{
	uint32_t first = trace->step > steps ? trace->step - (uint32_t)steps + 1 : 1;

	return trace->lost >= first ? trace->lost + 1 : first;
}

stretto_status stretto_trace_open(struct stretto_comm *comm, struct stretto_trace *trace,
				  size_t capacity, bool *there)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	bool mine = stretto_trace_init(trace, capacity) == STRETTO_OK;
	int32_t first = mine ? size : rank;
	stretto_status status =
		stretto_allreduce(comm, &first, &first, 1, STRETTO_I32, STRETTO_MIN);

	if (status == STRETTO_OK && first == size) {
		*there = true;
		return STRETTO_OK;
	}
	if (status == STRETTO_OK && rank == 0)
		stretto_warn("no memory for a trace of %zu spans on rank %d; the training goes on "
			     "without one",
			     capacity, (int)first);
	if (mine)
		stretto_trace_fini(trace);
	if (status == STRETTO_OK)
		*there = false;
	return status;
}

/* Copies the events since `first` into `events`, if it is not NULL; their number. */
static size_t take(const struct stretto_trace *trace, uint32_t first,
		   struct stretto_trace_event *events)
{
	uint64_t oldest = trace->recorded > trace->capacity ? trace->recorded - trace->capacity : 0;
	size_t count = 0;

	for (uint64_t i = oldest; i < trace->recorded; i++) {
		const struct stretto_trace_event *event = &trace->events[i % trace->capacity];

		if (event->step < first)
			continue;
		if (events)
			events[count] = *event;
		count++;
	}
	return count;
}

/* Agrees on the steps and how many events there are at most, and allocates. */
static stretto_status prepare(struct stretto_comm *comm, const struct stretto_trace *trace,
			      size_t steps, struct gathered *all)
{
	uint32_t first = stretto_trace_first(trace, steps);
	int32_t enough;
	uint64_t most;
	stretto_status status =
		stretto_allreduce(comm, &first, &all->first, 1, STRETTO_U32, STRETTO_MAX);

	if (status != STRETTO_OK)
		return status;
	all->ranks = (size_t)stretto_comm_size(comm);
	all->last = trace->step;
	all->count = take(trace, all->first, NULL);
	status = stretto_allreduce(comm, &all->count, &most, 1, STRETTO_U64, STRETTO_MAX);
	if (status != STRETTO_OK)
		return status;
	all->most = most > 0 ? (size_t)most : 1;
	all->meetings = calloc(all->ranks * MEETINGS, sizeof(*all->meetings));
	all->own = calloc(all->most, sizeof(*all->own));
	all->events = calloc(stretto_comm_rank(comm) == 0 ? all->ranks * all->most : 1,
			     sizeof(*all->events));
	all->counts = calloc(all->ranks, sizeof(*all->counts));
	all->hosts = calloc(all->ranks, HOST);
	enough = all->meetings && all->own && all->events && all->counts && all->hosts;
	status = stretto_allreduce(comm, &enough, &enough, 1, STRETTO_I32, STRETTO_MIN);
	return status == STRETTO_OK && !enough ? STRETTO_NO_MEMORY : status;
}

static stretto_status meet(struct stretto_comm *comm, struct gathered *all)
{
	struct stretto_trace_meeting mine[MEETINGS];
	stretto_status status = STRETTO_OK;

	for (size_t i = 0; i < MEETINGS && status == STRETTO_OK; i++) {
		mine[i].entered = stretto_now();
		status = stretto_barrier(comm);
		mine[i].left = stretto_now();
	}
	if (status != STRETTO_OK)
		return status;
	return stretto_gather(comm, mine, all->meetings, (size_t)MEETINGS * MEETING_WORDS,
			      STRETTO_U64, 0);
}

/* The name of this host; never "". */
static void name_host(char host[HOST])
{
	memset(host, 0, HOST);
	if (gethostname(host, HOST - 1) != 0 || host[0] == '\0')
		memcpy(host, "?", sizeof("?"));
}

static stretto_status gather(struct stretto_comm *comm, const struct stretto_trace *trace,
			     struct gathered *all)
{
	char host[HOST];
	stretto_status status = meet(comm, all);

	name_host(host);
	take(trace, all->first, all->own);
	if (status == STRETTO_OK)
		status = stretto_gather(comm, host, all->hosts, HOST, STRETTO_U8, 0);
	if (status == STRETTO_OK)
		status = stretto_gather(comm, &all->count, all->counts, 1, STRETTO_U64, 0);
	if (status == STRETTO_OK)
		status = stretto_gather(comm, all->own, all->events, all->most * EVENT_WORDS,
					STRETTO_U64, 0);
	return status;
}

/* An event of `rank`; `zero` is taken off its clock. */
static void put_event(FILE *file, size_t rank, const struct stretto_trace_event *event,
		      uint64_t zero, uint64_t *id)
{
	double start = (double)(int64_t)(event->start - zero) * 1e-3;
	double end = (double)(int64_t)(event->end - zero) * 1e-3;
	const char *word = words[event->kind];

	if (event->kind != STRETTO_TRACE_HIDDEN && event->kind != STRETTO_TRACE_WAITED) {
		fprintf(file,
			",\n{\"name\":\"%s\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":%zu,\"tid\":0,"
			"\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%" PRIu32 "}}",
			word, rank, start, end - start, event->step);
		return;
	}
	/* Flights overlap, so they are asynchronous spans with a number each. */
	fprintf(file,
		",\n{\"name\":\"average\",\"cat\":\"flight\",\"ph\":\"b\",\"id\":%" PRIu64
		",\"pid\":%zu,\"tid\":1,\"ts\":%.3f,\"args\":{\"slice\":%u,\"end\":\"%s\"}}"
		",\n{\"name\":\"average\",\"cat\":\"flight\",\"ph\":\"e\",\"id\":%" PRIu64
		",\"pid\":%zu,\"tid\":1,\"ts\":%.3f}",
		*id, rank, start, (unsigned)event->slice, word, *id, rank, end);
	++*id;
}

/* Events of a rank are in the order of their ends, so the earliest start is looked for. */
static uint64_t earliest(const struct gathered *all, const int64_t *offsets)
{
	uint64_t zero = UINT64_MAX;

	for (size_t r = 0; r < all->ranks; r++)
		for (size_t i = 0; i < all->counts[r]; i++) {
			uint64_t start =
				all->events[r * all->most + i].start - (uint64_t)offsets[r];

			zero = start < zero ? start : zero;
		}
	return zero;
}

static void put_ranks(FILE *file, const struct gathered *all)
{
	const char *before = "";

	for (size_t r = 0; r < all->ranks; r++) {
		char name[HOST + 40];

		if (all->hosts[r * HOST] == '\0')
			continue;
		snprintf(name, sizeof(name), "rank %zu on %s", r, all->hosts + r * HOST);
		fprintf(file,
			"%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%zu,\"tid\":0,"
			"\"args\":{\"name\":",
			before, r);
		stretto_json_put_text(file, name);
		fputs("}}", file);
		before = ",";
	}
}

/* All of the file; offsets[r] of the clock of rank r, `error` ns wrong at most. */
static void put_all(FILE *file, const struct gathered *all, const int64_t *offsets, uint64_t error)
{
	uint64_t zero = earliest(all, offsets), id = 1;

	fprintf(file,
		"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"ranks\":%zu,\"first_step\":%" PRIu32
		",\"last_step\":%" PRIu32 ",\"clock_error_us\":%.3f},\n\"traceEvents\":[",
		all->ranks, all->first, all->last, (double)error * 1e-3);
	put_ranks(file, all);
	for (size_t r = 0; r < all->ranks; r++)
		for (size_t i = 0; i < all->counts[r]; i++)
			put_event(file, r, &all->events[r * all->most + i],
				  zero + (uint64_t)offsets[r], &id);
	fputs("\n]}\n", file);
}

/* Aligns the clocks and writes the file; says why it could not. */
static void write_file(const struct gathered *all, const char *path)
{
	int64_t *offsets = calloc(all->ranks, sizeof(*offsets));
	FILE *file = offsets ? fopen(path, "we") : NULL;
	uint64_t error = 0;
	bool failed = !file;

	for (size_t r = 1; r < all->ranks && file; r++) {
		uint64_t wrong;

		offsets[r] = stretto_trace_offset(all->meetings, all->meetings + r * MEETINGS,
						  MEETINGS, &wrong);
		error = wrong > error ? wrong : error;
	}
	if (file) {
		put_all(file, all, offsets, error);
		failed = ferror(file) != 0;
		failed |= fclose(file) != 0;
	}
	if (failed)
		stretto_warn("trace %s: cannot write it: %s", path, strerror(errno));
	free(offsets);
}

static void release(struct gathered *all)
{
	free(all->meetings);
	free(all->own);
	free(all->events);
	free(all->counts);
	free(all->hosts);
}

stretto_status stretto_trace_write(struct stretto_comm *comm, const struct stretto_trace *trace,
				   size_t steps, const char *path)
{
	struct gathered all = {0};
	stretto_status status = prepare(comm, trace, steps, &all);

	if (status == STRETTO_OK)
		status = gather(comm, trace, &all);
	if (status == STRETTO_OK && stretto_comm_rank(comm) == 0) {
		uint32_t wanted = trace->step > steps ? trace->step - (uint32_t)steps + 1 : 1;

		if (all.first > wanted)
			stretto_warn("trace %s: steps %" PRIu32 " to %" PRIu32
				     " are left out: a rank did not have room for their events",
				     path, wanted, all.first - 1);
		write_file(&all, path);
	}
	release(&all);
	return status;
}

void stretto_trace_write_own(struct stretto_comm *comm, const struct stretto_trace *trace,
			     size_t steps, const char *path)
{
	struct gathered all = {
		.ranks = (size_t)stretto_comm_size(comm),
		.first = stretto_trace_first(trace, steps),
		.last = trace->step,
	};

	if (stretto_comm_rank(comm) != 0 || trace->recorded == 0)
		return;
	all.most = take(trace, all.first, NULL);
	all.meetings = calloc(all.ranks * MEETINGS, sizeof(*all.meetings));
	/* Of rank 0, which are the first. */
	all.events = calloc(all.most + 1, sizeof(*all.events));
	all.counts = calloc(all.ranks, sizeof(*all.counts));
	all.hosts = calloc(all.ranks, HOST);
	if (all.meetings && all.events && all.counts && all.hosts) {
		name_host(all.hosts);
		all.counts[0] = take(trace, all.first, all.events);
		stretto_warn("trace %s: of rank 0 alone, as the others cannot be asked any more",
			     path);
		write_file(&all, path);
	}
	release(&all);
}
