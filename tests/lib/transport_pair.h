/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_pair.h: two devices of a transport in one process, connected, polled by hand.
 *
 * No channel, no thread: what a test does not poll does not move. Every wait is bounded, and one
 * that is in vain fails the test. One thread.
 */
#ifndef STRETTO_TESTS_TRANSPORT_PAIR_H
#define STRETTO_TESTS_TRANSPORT_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/transport.h"

/* Nanoseconds after which what has not come is taken for lost. */
#define PAIR_PATIENCE UINT64_C(20000000000)

/* What a pair is made of. */
struct transport_over {
	const char *name; /* for the names of tests */
	const struct stretto_transport *transport;
	const char *const *settings[2]; /* of each side, ended by NULL; or NULL */
};

/* One side: a device, what its upcalls said, and its endpoint to the other side. */
struct side {
	struct stretto_config config;
	struct stretto_device_env env;
	struct stretto_device *device;
	struct stretto_endpoint *endpoint;
	int epoll;
	unsigned passes; /* of polling */
	int checks;      /* calls of check() */
	bool refuse;     /* what check() answers */
	int failures;    /* calls of failed() */
	int held;        /* sum of what hold() was told */
	int notices;
	struct stretto_notice notice; /* the last one */
};

struct pair {
	struct side side[2]; /* of self only the first exists */
	struct side *a, *b;  /* messages go from a to b */
	uint64_t deadline;   /* of the wait that goes on, or 0 */
};

/* The steps of pair_open(), for tests in which they may fail; a side that was not opened is closed too. */
stretto_status side_open(struct side *side, const struct transport_over *over, int rank);
stretto_status side_connect(struct side *from, struct side *to);
void side_close(struct side *side);
void pair_open(struct pair *pair, const struct transport_over *over);
void pair_close(struct pair *pair);
/* One pass over one of them. */
void pair_poll_side(struct side *side);
/* One pass over both. */
void pair_poll(struct pair *pair);
/*
 * For loops that wait: while (pair_waits(pair, what is not yet so)). Polls and returns true while the
 * condition holds, until that has taken PAIR_PATIENCE.
 */
bool pair_waits(struct pair *pair, bool condition);
/* Whether a descriptor of the side that would end a sleep is readable. */
bool pair_readable(struct side *side);
/* Reads what is readable. */
void pair_drain(struct side *side);

/* A message with both ends, and what became of it. */
struct message {
	struct stretto_send send;
	struct stretto_recv recv;
	int sent;
	int received; /* calls of done */
	stretto_status send_status, recv_status;
	unsigned char *from, *to;
	size_t sunk; /* bytes that came through the sink */
	bool in_order;
};

/* The signature of all messages. */
extern const struct stretto_signature pair_signature;
/* A message whose bytes depend on its ordinal. The source is a region of its own if given. */
void message_init(struct message *message, uint32_t ordinal, size_t bytes,
		  struct stretto_region *region);
void message_fini(struct message *message);
/* Posts, until it is taken. */
void message_send(struct pair *pair, struct message *message);
void message_receive(struct pair *pair, struct message *message);
/* Lets the receive take its payload through a sink. */
void message_use_sink(struct message *message);
/* Polls until the message is complete at both ends. */
void message_settle(struct pair *pair, const struct message *message);
/* It is complete, and right. */
void message_check(const struct message *message);

#endif
