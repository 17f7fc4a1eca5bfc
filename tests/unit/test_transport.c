/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_transport.c: the transport contract, the same cases over every transport.
 *
 * Two devices in one process, polled by hand: no channel, no thread. A case is a function of two
 * connected endpoints; the table at the end runs each over self, shm (with and without
 * process_vm_readv) and paced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/transport.h"
#include "tests/lib/ranks.h"

/* One side: a device, what its upcalls said, and its endpoint to the other side. */
struct side {
	struct stretto_config config;
	struct stretto_device_env env;
	struct stretto_device *device;
	struct stretto_endpoint *endpoint;
	int epoll;
	int checks;   /* calls of check() */
	bool refuse;  /* what check() answers */
	int failures; /* calls of failed() */
	int held;     /* sum of the changes told to hold() */
	int notices;
	struct stretto_notice notice; /* the last one */
};

struct pair {
	struct side side[2]; /* of self only the first exists, and side[1] is a view of it */
	struct side *a, *b;
};

static bool check(void *context, int peer, const struct stretto_key *key,
		  const struct stretto_signature *signature)
{
	struct side *side = context;

	(void)peer;
	(void)key;
	(void)signature;
	side->checks++;
	return !side->refuse;
}

static void notice(void *context, int peer, const struct stretto_notice *what)
{
	struct side *side = context;

	(void)peer;
	side->notices++;
	side->notice = *what;
}

static void wanted(void *context, int peer)
{
	(void)context;
	(void)peer;
}

static void failed(void *context, int peer, const char *why)
{
	struct side *side = context;

	(void)peer;
	assert_true(why[0] != '\0');
	side->failures++;
}

static stretto_status watch(void *context, int fd)
{
	struct side *side = context;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(side->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? STRETTO_OK : STRETTO_SYSTEM;
}

static void unwatch(void *context, int fd)
{
	struct side *side = context;

	epoll_ctl(side->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void hold(void *context, int change)
{
	struct side *side = context;

	side->held += change;
}

/* What a case runs over. */
struct over {
	const struct stretto_transport *transport;
	const char *const *settings;
};

static void open_side(struct side *side, const struct over *over, int rank)
{
	memset(side, 0, sizeof *side);
	assert_int_equal(stretto_config_load(&side->config, over->settings), STRETTO_OK);
	side->epoll = epoll_create1(EPOLL_CLOEXEC);
	side->env = (struct stretto_device_env){
		.config = &side->config,
		.rank = rank,
		.size = 2,
		.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
		.context = side,
		.check = check,
		.notice = notice,
		.wanted = wanted,
		.failed = failed,
		.watch = watch,
		.unwatch = unwatch,
		.hold = hold,
	};
	assert_int_equal(watch(side, side->env.wake_fd), STRETTO_OK);
	assert_int_equal(over->transport->open(&side->env, &side->device), STRETTO_OK);
	if (side->config.pace.bytes_per_second > 0)
		assert_int_equal(
			stretto_paced_open(&side->config.pace, side->device, &side->device),
			STRETTO_OK);
}

static void connect_sides(struct side *from, struct side *to)
{
	unsigned char address[STRETTO_ADDRESS_MAX];
	size_t bytes = to->device->transport->address(to->device, address);

	assert_true(bytes > 0 && bytes <= sizeof address);
	assert_true(from->device->transport->reaches(from->device, to->env.rank, address, bytes));
	/* another length is not an address of this transport */
	assert_false(from->device->transport->reaches(from->device, to->env.rank, address, 3));
	assert_int_equal(from->device->transport->connect(from->device, to->env.rank, address,
							  bytes, &from->endpoint),
			 STRETTO_OK);
}

static void poll_both(struct pair *pair)
{
	pair->a->device->transport->poll(pair->a->device);
	if (pair->b != pair->a)
		pair->b->device->transport->poll(pair->b->device);
}

static void open_pair(struct pair *pair, const struct over *over)
{
	bool self = over->transport == &stretto_transport_self;

	pair->a = &pair->side[0];
	pair->b = self ? pair->a : &pair->side[1];
	open_side(pair->a, over, 0);
	if (!self)
		open_side(pair->b, over, 1);
	connect_sides(pair->a, pair->b);
	if (!self)
		connect_sides(pair->b, pair->a);
}

static void close_side(struct side *side)
{
	if (side->endpoint)
		side->endpoint->transport->disconnect(side->endpoint);
	side->device->transport->close(side->device);
	close(side->env.wake_fd);
	close(side->epoll);
}

static void close_pair(struct pair *pair)
{
	close_side(pair->a);
	if (pair->b != pair->a)
		close_side(pair->b);
}

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

static void send_done(struct stretto_send *send, stretto_status status)
{
	struct message *message = stretto_container_of(send, struct message, send);

	message->sent++;
	message->send_status = status;
}

static void recv_done(struct stretto_recv *recv, stretto_status status)
{
	struct message *message = stretto_container_of(recv, struct message, recv);

	message->received++;
	message->recv_status = status;
}

static void sink(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes)
{
	struct message *message = stretto_container_of(recv, struct message, recv);

	message->in_order &= offset == message->sunk;
	/* whole elements, but for the last piece */
	message->in_order &= bytes % 16 == 0 || offset + bytes == recv->bytes;
	memcpy(message->to + offset, source, bytes);
	message->sunk += bytes;
}

static const struct stretto_signature some_signature = {.count = 7, .collective = 1, .type = 2};

/* A message whose bytes depend on its ordinal. The source is a region of its own if given. */
static void make_message(struct message *message, uint32_t ordinal, size_t bytes,
			 struct stretto_region *region)
{
	memset(message, 0, sizeof *message);
	message->from = region ? (unsigned char *)region->base : malloc(bytes + 1);
	message->to = calloc(1, bytes + 1);
	assert_non_null(message->from);
	assert_non_null(message->to);
	message->in_order = true;
	for (size_t i = 0; i < bytes; i++)
		message->from[i] = (unsigned char)(i * 7 + i / 251 + ordinal);
	message->to[bytes] = 0x5a;
	message->send = (struct stretto_send){
		.key = {.comm = 3, .sequence = 9, .ordinal = ordinal},
		.signature = some_signature,
		.data = message->from,
		.bytes = bytes,
		.region = region,
		.done = send_done,
	};
	message->recv = (struct stretto_recv){
		.key = message->send.key,
		.signature = some_signature,
		.data = message->to,
		.bytes = bytes,
		.done = recv_done,
	};
	stretto_list_init(&message->send.link);
	stretto_list_init(&message->recv.link);
}

static void free_message(struct message *message)
{
	if (!message->send.region)
		free(message->from);
	free(message->to);
}

/* Posts until it is taken; bounded, so that a transport that never takes it fails the test. */
static void post_send(struct pair *pair, struct message *message)
{
	struct stretto_endpoint *endpoint = pair->a->endpoint;
	stretto_status status = STRETTO_AGAIN;

	for (int tries = 0; status == STRETTO_AGAIN && tries < 1000000; tries++) {
		status = endpoint->transport->post_send(endpoint, &message->send);
		if (status == STRETTO_AGAIN)
			poll_both(pair);
	}
	assert_int_equal(status, STRETTO_OK);
}

static void post_recv(struct pair *pair, struct message *message)
{
	struct stretto_endpoint *endpoint = pair->b->endpoint;

	assert_int_equal(endpoint->transport->post_recv(endpoint, &message->recv), STRETTO_OK);
}

/* Polls until the message is complete at both ends. */
static void settle(struct pair *pair, const struct message *message)
{
	for (int tries = 0; tries < 10000000 && !(message->sent && message->received); tries++)
		poll_both(pair);
	assert_int_equal(message->sent, 1);
	assert_int_equal(message->received, 1);
}

static void check_message(const struct message *message)
{
	assert_int_equal(message->send_status, STRETTO_OK);
	assert_int_equal(message->recv_status, STRETTO_OK);
	assert_memory_equal(message->to, message->from, message->send.bytes);
	assert_int_equal(message->to[message->send.bytes], 0x5a);
	assert_true(message->in_order);
}

static const size_t sizes[] = {0, 1, 24, 25, 4000, 8192, 8193, 65537, 1000003};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void one_message(struct pair *pair, uint32_t ordinal, size_t bytes, unsigned variant)
{
	struct stretto_memory memory;
	struct stretto_region *region = NULL;
	struct message message;

	stretto_memory_init(&memory);
	if (variant & 1)
		assert_int_equal(stretto_memory_alloc(&memory, bytes + 1, &region), STRETTO_OK);
	/* ids are unique in a process's world; each of these memories starts anew */
	if (region)
		region->id = ordinal + 1;
	make_message(&message, ordinal, bytes, region);
	if (variant & 2)
		message.recv.sink = sink;
	if (variant & 4) {
		post_recv(pair, &message);
		post_send(pair, &message);
	} else {
		post_send(pair, &message);
		for (int i = 0; i < 5; i++)
			poll_both(pair);
		assert_int_equal(message.received, 0);
		post_recv(pair, &message);
	}
	settle(pair, &message);
	check_message(&message);
	if (variant & 2)
		assert_int_equal(message.sunk, bytes);
	if (region && pair->a->device->transport->drop_region)
		pair->a->device->transport->drop_region(pair->a->device, region);
	free_message(&message);
	stretto_memory_fini(&memory);
}

static void messages_of_all_sizes_arrive(struct pair *pair)
{
	uint32_t ordinal = 0;

	for (int i = 0; i < SIZES; i++)
		for (unsigned variant = 0; variant < 8; variant++)
			one_message(pair, ordinal++, sizes[i], variant);
	assert_int_equal(pair->a->failures + pair->b->failures, 0);
}

enum { MANY = 600 };

/* More messages than there is room for, received in the opposite order. */
static void many_messages_in_any_order(struct pair *pair)
{
	struct message *messages = calloc(MANY, sizeof *messages);

	assert_non_null(messages);
	for (uint32_t i = 0; i < MANY; i++)
		make_message(&messages[i], i, sizes[i % SIZES] % 10000, NULL);
	for (int i = 0; i < MANY; i++)
		post_send(pair, &messages[i]);
	for (int i = MANY - 1; i >= 0; i--)
		post_recv(pair, &messages[i]);
	for (int i = 0; i < MANY; i++) {
		settle(pair, &messages[i]);
		check_message(&messages[i]);
		free_message(&messages[i]);
	}
	free(messages);
}

static void another_signature_or_length_is_a_mismatch(struct pair *pair)
{
	for (int i = 0; i < SIZES; i++) {
		struct message signature, length;

		make_message(&signature, (uint32_t)i, sizes[i], NULL);
		signature.recv.signature.count++;
		make_message(&length, (uint32_t)(1000 + i), sizes[i], NULL);
		length.recv.bytes++;
		post_recv(pair, &signature);
		post_send(pair, &signature);
		post_send(pair, &length);
		post_recv(pair, &length);
		for (int tries = 0; tries < 10000000 && !(signature.received && length.received);
		     tries++)
			poll_both(pair);
		assert_int_equal(signature.recv_status, STRETTO_MISMATCH);
		assert_int_equal(length.recv_status, STRETTO_MISMATCH);
		pair->a->endpoint->transport->cancel(pair->a->endpoint, 3, 9);
		pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, 9);
		free_message(&signature);
		free_message(&length);
	}
}

static void cancelled_messages_are_forgotten(struct pair *pair)
{
	struct message lost[2 * SIZES], kept;

	for (uint32_t i = 0; i < 2 * SIZES; i++) {
		make_message(&lost[i], i, sizes[i % SIZES], NULL);
		if (i < SIZES)
			post_send(pair, &lost[i]);
		else
			post_recv(pair, &lost[i]);
	}
	for (int i = 0; i < 10; i++)
		poll_both(pair);
	pair->a->endpoint->transport->cancel(pair->a->endpoint, 3, 9);
	pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, 9);
	for (int i = 0; i < 2 * SIZES; i++) {
		assert_int_equal(lost[i].received, 0);
		free_message(&lost[i]);
	}
	/* another operation is not touched by that */
	make_message(&kept, 0, 100000, NULL);
	kept.send.key.sequence = kept.recv.key.sequence = 10;
	post_send(pair, &kept);
	post_recv(pair, &kept);
	settle(pair, &kept);
	check_message(&kept);
	free_message(&kept);
}

static void early_messages_are_reported(struct pair *pair)
{
	struct message message;

	make_message(&message, 0, 10, NULL);
	post_send(pair, &message);
	for (int tries = 0; tries < 1000000 && pair->b->checks == 0; tries++)
		poll_both(pair);
	assert_int_equal(pair->b->checks, 1);
	post_recv(pair, &message);
	settle(pair, &message);
	free_message(&message);
	/* one for a broken communicator is dropped */
	pair->b->refuse = true;
	make_message(&message, 1, 1000, NULL);
	post_send(pair, &message);
	for (int tries = 0; tries < 1000000 && pair->b->checks == 1; tries++)
		poll_both(pair);
	post_recv(pair, &message);
	for (int i = 0; i < 100; i++)
		poll_both(pair);
	assert_int_equal(message.received, 0);
	pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, 9);
	free_message(&message);
}

/* Both connected: a message has gone each way. */
static void connect_now(struct pair *pair)
{
	one_message(pair, 70000, 8, 0);
}

static void notices_and_states_reach_the_peer(struct pair *pair)
{
	struct stretto_notice told = {.comm = 5,
				      .sequence = 6,
				      .origin = 0,
				      .other = 1,
				      .status = STRETTO_MISMATCH,
				      .signature = some_signature,
				      .other_signature = {.count = 8, .root = 3}};
	struct stretto_peer_state entered = {
		.comm = 5, .sequence = 44, .signature = some_signature};
	struct stretto_peer_state seen;

	connect_now(pair);
	pair->a->endpoint->transport->notify(pair->a->endpoint, &told);
	for (int tries = 0; tries < 1000 && pair->b->notices == 0; tries++)
		poll_both(pair);
	assert_int_equal(pair->b->notices, 1);
	assert_int_equal(pair->b->notice.comm, 5);
	assert_int_equal(pair->b->notice.sequence, 6);
	assert_int_equal(pair->b->notice.other, 1);
	assert_int_equal(pair->b->notice.status, STRETTO_MISMATCH);
	assert_memory_equal(&pair->b->notice.signature, &told.signature, 16);
	assert_memory_equal(&pair->b->notice.other_signature, &told.other_signature, 16);
	pair->a->device->transport->publish(pair->a->device, &entered);
	assert_true(pair->b->endpoint->transport->peer_state(pair->b->endpoint, &seen));
	assert_memory_equal(&seen, &entered, sizeof seen);
}

static bool readable(struct side *side)
{
	struct epoll_event event;

	return epoll_wait(side->epoll, &event, 1, 0) == 1;
}

static void drain(struct side *side)
{
	uint64_t value;

	while (read(side->env.wake_fd, &value, sizeof value) > 0)
		;
	if (side->device->transport->events)
		side->device->transport->events(side->device);
}

static void an_armed_device_is_woken(struct pair *pair)
{
	struct message message;

	connect_now(pair);
	drain(pair->b);
	assert_false(readable(pair->b));
	/* awake: nobody writes the descriptor */
	make_message(&message, 0, 8, NULL);
	post_recv(pair, &message);
	post_send(pair, &message);
	settle(pair, &message);
	assert_false(readable(pair->b));
	free_message(&message);
	/* armed: the first message does, once */
	pair->b->device->transport->arm(pair->b->device);
	make_message(&message, 1, 8, NULL);
	post_recv(pair, &message);
	post_send(pair, &message);
	for (int tries = 0; tries < 10000000 && !readable(pair->b); tries++)
		pair->a->device->transport->poll(pair->a->device);
	assert_true(readable(pair->b));
	settle(pair, &message);
	free_message(&message);
}

static void a_peer_that_goes_away_is_noticed(struct pair *pair)
{
	const struct stretto_transport *transport = pair->b->endpoint->transport;
	struct message message;
	stretto_status status;

	connect_now(pair);
	pair->a->endpoint->transport->disconnect(pair->a->endpoint);
	pair->a->endpoint = NULL;
	for (int tries = 0; tries < 1000 && pair->b->failures == 0; tries++)
		transport->events(pair->b->device);
	assert_int_equal(pair->b->failures, 1);
	/* at once, or from a send that was queued */
	make_message(&message, 0, 8, NULL);
	status = transport->post_send(pair->b->endpoint, &message.send);
	for (int tries = 0; status == STRETTO_OK && tries < 10000000 && !message.sent; tries++)
		pair->b->device->transport->poll(pair->b->device);
	assert_int_equal(status == STRETTO_OK ? message.send_status : status, STRETTO_PEER_FAILED);
	free_message(&message);
}

/* Lower bounds only: a slow machine is never too fast. */
static void paced_takes_the_time_of_the_link(void **state)
{
	const struct over over = {
		&stretto_transport_shm,
		(const char *const[]){"STRETTO_PACE=10MB:3ms", NULL},
	};
	struct pair pair;
	struct message message[2];
	uint64_t start;

	(void)state;
	open_pair(&pair, &over);
	connect_now(&pair);
	for (uint32_t i = 0; i < 2; i++) {
		make_message(&message[i], i, 50000, NULL);
		post_recv(&pair, &message[i]);
	}
	start = stretto_now();
	post_send(&pair, &message[0]);
	post_send(&pair, &message[1]);
	settle(&pair, &message[0]);
	/* 50000 bytes at 10 MB/s, and the latency */
	assert_true(stretto_now() - start >= 5000000 + 3000000);
	settle(&pair, &message[1]);
	/* the second waited for the link, not for the first one's latency */
	assert_true(stretto_now() - start >= 10000000 + 3000000);
	for (int i = 0; i < 2; i++) {
		check_message(&message[i]);
		free_message(&message[i]);
	}
	close_pair(&pair);
}

static const struct over overs[] = {
	{&stretto_transport_self, NULL},
	{&stretto_transport_shm, NULL},
	{&stretto_transport_shm, (const char *const[]){"STRETTO_SHM_CMA=no", NULL}},
	{&stretto_transport_shm, (const char *const[]){"STRETTO_SHM_EAGER=0", NULL}},
	{&stretto_transport_shm, (const char *const[]){"STRETTO_PACE=100gbit:1us", NULL}},
};

/* Runs a case over all transports, from `first` on (self knows of no peers). */
static void run_over(void (*test)(struct pair *pair), size_t first)
{
	for (size_t i = first; i < sizeof overs / sizeof *overs; i++) {
		struct pair pair;

		open_pair(&pair, &overs[i]);
		test(&pair);
		close_pair(&pair);
	}
}

#define CASE(name, first)                                                                          \
	static void over_all_##name(void **state)                                                  \
	{                                                                                          \
		(void)state;                                                                       \
		run_over(name, first);                                                             \
	}

CASE(messages_of_all_sizes_arrive, 0)
CASE(many_messages_in_any_order, 0)
CASE(another_signature_or_length_is_a_mismatch, 0)
CASE(cancelled_messages_are_forgotten, 0)
CASE(early_messages_are_reported, 1)
CASE(notices_and_states_reach_the_peer, 1)
CASE(an_armed_device_is_woken, 1)
CASE(a_peer_that_goes_away_is_noticed, 1)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_all_messages_of_all_sizes_arrive),
		cmocka_unit_test(over_all_many_messages_in_any_order),
		cmocka_unit_test(over_all_another_signature_or_length_is_a_mismatch),
		cmocka_unit_test(over_all_cancelled_messages_are_forgotten),
		cmocka_unit_test(over_all_early_messages_are_reported),
		cmocka_unit_test(over_all_notices_and_states_reach_the_peer),
		cmocka_unit_test(over_all_an_armed_device_is_woken),
		cmocka_unit_test(over_all_a_peer_that_goes_away_is_noticed),
		cmocka_unit_test(paced_takes_the_time_of_the_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
