/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/lib/transport_pair.h"

/* A channel looks at events now and then while it polls; so many passes are that here. */
enum { EVENTS_EVERY = 16 };

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

stretto_status side_open(struct side *side, const struct transport_over *over, int rank)
{
	stretto_status status;

	memset(side, 0, sizeof *side);
	assert_int_equal(stretto_config_load(&side->config, over->settings[rank]), STRETTO_OK);
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
	status = over->transport->open(&side->env, &side->device);
	if (status == STRETTO_OK && side->config.pace.bytes_per_second > 0)
		status = stretto_paced_open(&side->config.pace, side->device, &side->device);
	return status;
}

stretto_status side_connect(struct side *from, struct side *to)
{
	unsigned char address[STRETTO_ADDRESS_MAX];
	size_t bytes = to->device->transport->address(to->device, address);

	assert_true(bytes > 0 && bytes <= sizeof address);
	assert_true(from->device->transport->reaches(from->device, to->env.rank, address, bytes));
	/* another length is not an address of this transport */
	assert_false(from->device->transport->reaches(from->device, to->env.rank, address, 3));
	return from->device->transport->connect(from->device, to->env.rank, address, bytes,
						&from->endpoint);
}

bool pair_readable(struct side *side)
{
	struct epoll_event event;

	return epoll_wait(side->epoll, &event, 1, 0) == 1;
}

void pair_poll_side(struct side *side)
{
	const struct stretto_transport *transport = side->device->transport;

	transport->poll(side->device);
	if (++side->passes % EVENTS_EVERY == 0 && transport->events && pair_readable(side))
		transport->events(side->device);
}

void pair_poll(struct pair *pair)
{
	pair_poll_side(pair->a);
	if (pair->b != pair->a)
		pair_poll_side(pair->b);
}

bool pair_waits(struct pair *pair, bool condition)
{
	if (!condition || (pair->deadline && stretto_now() > pair->deadline)) {
		pair->deadline = 0;
		return false;
	}
	if (!pair->deadline)
		pair->deadline = stretto_now() + PAIR_PATIENCE;
	pair_poll(pair);
	return true;
}

void pair_open(struct pair *pair, const struct transport_over *over)
{
	bool self = over->transport == &stretto_transport_self;

	pair->deadline = 0;
	pair->a = &pair->side[0];
	pair->b = self ? pair->a : &pair->side[1];
	assert_int_equal(side_open(pair->a, over, 0), STRETTO_OK);
	if (!self)
		assert_int_equal(side_open(pair->b, over, 1), STRETTO_OK);
	assert_int_equal(side_connect(pair->a, pair->b), STRETTO_OK);
	if (!self)
		assert_int_equal(side_connect(pair->b, pair->a), STRETTO_OK);
}

void side_close(struct side *side)
{
	if (side->endpoint)
		side->endpoint->transport->disconnect(side->endpoint);
	if (side->device)
		side->device->transport->close(side->device);
	close(side->env.wake_fd);
	close(side->epoll);
}

void pair_close(struct pair *pair)
{
	side_close(pair->a);
	if (pair->b != pair->a)
		side_close(pair->b);
}

void pair_drain(struct side *side)
{
	uint64_t value;

	while (read(side->env.wake_fd, &value, sizeof value) > 0)
		;
	if (side->device->transport->events)
		side->device->transport->events(side->device);
}

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

const struct stretto_signature pair_signature = {.count = 7, .collective = 1, .type = 2};

/* A message whose bytes depend on its ordinal. The source is a region of its own if given. */
void message_init(struct message *message, uint32_t ordinal, size_t bytes,
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
		.signature = pair_signature,
		.data = message->from,
		.bytes = bytes,
		.region = region,
		.done = send_done,
	};
	message->recv = (struct stretto_recv){
		.key = message->send.key,
		.signature = pair_signature,
		.data = message->to,
		.bytes = bytes,
		.done = recv_done,
	};
	stretto_list_init(&message->send.link);
	stretto_list_init(&message->recv.link);
}

void message_fini(struct message *message)
{
	if (!message->send.region)
		free(message->from);
	free(message->to);
}

void message_use_sink(struct message *message)
{
	message->recv.sink = sink;
}

void message_send(struct pair *pair, struct message *message)
{
	struct stretto_endpoint *endpoint = pair->a->endpoint;
	stretto_status status;

	do
		status = endpoint->transport->post_send(endpoint, &message->send);
	while (pair_waits(pair, status == STRETTO_AGAIN));
	assert_int_equal(status, STRETTO_OK);
}

void message_receive(struct pair *pair, struct message *message)
{
	struct stretto_endpoint *endpoint = pair->b->endpoint;

	assert_int_equal(endpoint->transport->post_recv(endpoint, &message->recv), STRETTO_OK);
}

void message_settle(struct pair *pair, const struct message *message)
{
	while (pair_waits(pair, !(message->sent && message->received)))
		;
	assert_int_equal(message->sent, 1);
	assert_int_equal(message->received, 1);
}

void message_check(const struct message *message)
{
	assert_int_equal(message->send_status, STRETTO_OK);
	assert_int_equal(message->recv_status, STRETTO_OK);
	assert_memory_equal(message->to, message->from, message->send.bytes);
	assert_int_equal(message->to[message->send.bytes], 0x5a);
	assert_true(message->in_order);
}
