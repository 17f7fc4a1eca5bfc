/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/tagger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	STREAMS = 2, /* stdout and stderr */
	TAG = 16,    /* bytes of the longest "[rank] " */
	/* Most that one read can add: every byte a line of its own, each with its tag. */
	ROOM = TAGGER_LINE * (TAG + 2),
	SINK = 2 * ROOM,
	WRITE = 4096, /* PIPE_BUF: a pipe that is writable takes as much without blocking */
};

/* Where a stream of all ranks goes. */
struct sink {
	int fd;      /* borrowed; -1 when its reader has gone away */
	size_t used; /* bytes that wait in text */
	char text[SINK];
};

/* A stream of one rank. */
struct source {
	int fd;      /* owned; -1 when it has ended */
	size_t used; /* bytes of the unfinished line */
	char line[TAGGER_LINE];
};

struct tagger {
	struct sink sinks[STREAMS];
	size_t count;            /* of sources: source i is stream i % 2 of rank i / 2 */
	struct source sources[]; /* see count */
};

struct tagger *tagger_new(size_t ranks)
{
	size_t count = ranks * STREAMS;
	struct tagger *tagger = calloc(1, sizeof *tagger + count * sizeof tagger->sources[0]);

	if (!tagger)
		return NULL;
	tagger->count = count;
	tagger->sinks[0].fd = STDOUT_FILENO;
	tagger->sinks[1].fd = STDERR_FILENO;
	for (size_t i = 0; i < count; i++)
		tagger->sources[i].fd = -1;
	return tagger;
}

void tagger_free(struct tagger *tagger)
{
	if (!tagger)
		return;
	for (size_t i = 0; i < tagger->count; i++)
		if (tagger->sources[i].fd >= 0)
			close(tagger->sources[i].fd);
	free(tagger);
}

void tagger_add(struct tagger *tagger, size_t rank, int stdout_pipe, int stderr_pipe)
{
	fcntl(stdout_pipe, F_SETFL, O_NONBLOCK);
	fcntl(stderr_pipe, F_SETFL, O_NONBLOCK);
	tagger->sources[rank * STREAMS].fd = stdout_pipe;
	tagger->sources[rank * STREAMS + 1].fd = stderr_pipe;
}

size_t tagger_polls(const struct tagger *tagger)
{
	return STREAMS + tagger->count;
}

static bool has_room(const struct sink *sink)
{
	return SINK - sink->used >= ROOM;
}

void tagger_prepare(struct tagger *tagger, struct pollfd *polls)
{
	for (size_t i = 0; i < STREAMS; i++) {
		const struct sink *sink = &tagger->sinks[i];

		polls[i] = (struct pollfd){.fd = sink->used ? sink->fd : -1, .events = POLLOUT};
	}
	for (size_t i = 0; i < tagger->count; i++) {
		bool room = has_room(&tagger->sinks[i % STREAMS]);

		polls[STREAMS + i] =
			(struct pollfd){.fd = room ? tagger->sources[i].fd : -1, .events = POLLIN};
	}
}

static void put(struct sink *sink, const char *text, size_t length)
{
	if (sink->fd < 0)
		return;
	memcpy(sink->text + sink->used, text, length);
	sink->used += length;
}

static void put_line(struct tagger *tagger, size_t index, size_t length)
{
	struct sink *sink = &tagger->sinks[index % STREAMS];
	char tag[TAG];
	int tag_length = snprintf(tag, sizeof tag, "[%zu] ", index / STREAMS);

	put(sink, tag, (size_t)tag_length);
	put(sink, tagger->sources[index].line, length);
	put(sink, "\n", 1);
}

/* Ends a source; needs has_room(). */
static void end_source(struct tagger *tagger, size_t index)
{
	struct source *source = &tagger->sources[index];

	if (source->fd < 0)
		return;
	close(source->fd);
	source->fd = -1;
	if (source->used > 0)
		put_line(tagger, index, source->used);
	source->used = 0;
}

/* Hands on the whole lines of a source, and one that fills the buffer. */
static void put_lines(struct tagger *tagger, size_t index)
{
	struct source *source = &tagger->sources[index];
	const char *end;

	while ((end = memchr(source->line, '\n', source->used))) {
		size_t length = (size_t)(end - source->line);

		put_line(tagger, index, length);
		source->used -= length + 1;
		memmove(source->line, end + 1, source->used);
	}
	if (source->used == TAGGER_LINE) {
		put_line(tagger, index, source->used);
		source->used = 0;
	}
}

static void read_source(struct tagger *tagger, size_t index)
{
	struct source *source = &tagger->sources[index];
	ssize_t got =
		read(source->fd, source->line + source->used, sizeof source->line - source->used);

	if (got > 0) {
		source->used += (size_t)got;
		put_lines(tagger, index);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		end_source(tagger, index);
	}
}

static void write_sink(struct tagger *tagger, size_t index)
{
	struct sink *sink = &tagger->sinks[index];
	ssize_t written = write(sink->fd, sink->text, sink->used < WRITE ? sink->used : WRITE);

	if (written >= 0) {
		sink->used -= (size_t)written;
		memmove(sink->text, sink->text + written, sink->used);
	} else if (errno != EAGAIN && errno != EINTR) {
		sink->fd = -1;
		sink->used = 0;
		for (size_t i = index; i < tagger->count; i += STREAMS)
			end_source(tagger, i);
	}
}

void tagger_turn(struct tagger *tagger, const struct pollfd *polls)
{
	for (size_t i = 0; i < STREAMS; i++)
		if (polls[i].fd >= 0 && polls[i].revents != 0)
			write_sink(tagger, i);
	for (size_t i = 0; i < tagger->count; i++)
		if (polls[STREAMS + i].revents != 0 && tagger->sources[i].fd >= 0 &&
		    has_room(&tagger->sinks[i % STREAMS]))
			read_source(tagger, i);
}

void tagger_end(struct tagger *tagger)
{
	for (size_t i = 0; i < tagger->count; i++) {
		/* a full sink has no place for the last half lines, which then are lost */
		if (!has_room(&tagger->sinks[i % STREAMS]))
			tagger->sources[i].used = 0;
		end_source(tagger, i);
	}
}

bool tagger_done(const struct tagger *tagger)
{
	for (size_t i = 0; i < tagger->count; i++)
		if (tagger->sources[i].fd >= 0)
			return false;
	return tagger->sinks[0].used == 0 && tagger->sinks[1].used == 0;
}
