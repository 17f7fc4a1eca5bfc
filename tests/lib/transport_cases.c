/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "tests/lib/transport_cases.h"

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
	message_init(&message, ordinal, bytes, region);
	if (variant & 2)
		message_use_sink(&message);
	if (variant & 4) {
		message_receive(pair, &message);
		message_send(pair, &message);
	} else {
		message_send(pair, &message);
		for (int i = 0; i < 5; i++)
			pair_poll(pair);
		assert_int_equal(message.received, 0);
		message_receive(pair, &message);
	}
	message_settle(pair, &message);
	message_check(&message);
	if (variant & 2 && pair->b->device->transport->limits.sinks)
		assert_int_equal(message.sunk, bytes);
	if (region && pair->a->device->transport->drop_region)
		pair->a->device->transport->drop_region(pair->a->device, region);
	message_fini(&message);
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
		message_init(&messages[i], i, sizes[i % SIZES] % 10000, NULL);
	for (int i = 0; i < MANY; i++)
		message_send(pair, &messages[i]);
	for (int i = MANY - 1; i >= 0; i--)
		message_receive(pair, &messages[i]);
	for (int i = 0; i < MANY; i++) {
		message_settle(pair, &messages[i]);
		message_check(&messages[i]);
		message_fini(&messages[i]);
	}
	free(messages);
}

static void another_signature_or_length_is_a_mismatch(struct pair *pair)
{
	for (int i = 0; i < SIZES; i++) {
		struct message signature, length;

		message_init(&signature, (uint32_t)i, sizes[i], NULL);
		signature.recv.signature.count++;
		message_init(&length, (uint32_t)(1000 + i), sizes[i], NULL);
		length.recv.bytes++;
		message_receive(pair, &signature);
		message_send(pair, &signature);
		message_send(pair, &length);
		message_receive(pair, &length);
		while (pair_waits(pair, !(signature.received && length.received)))
			;
		assert_int_equal(signature.recv_status, STRETTO_MISMATCH);
		assert_int_equal(length.recv_status, STRETTO_MISMATCH);
		pair->a->endpoint->transport->cancel(pair->a->endpoint, 3, 9);
		pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, 9);
		message_fini(&signature);
		message_fini(&length);
	}
}

/* With sequence 0 all operations of the communicator. */
static void cancel_and_go_on(struct pair *pair, uint32_t sequence)
{
	struct message lost[2 * SIZES], kept;

	for (uint32_t i = 0; i < 2 * SIZES; i++) {
		message_init(&lost[i], i, sizes[i % SIZES], NULL);
		if (i < SIZES)
			message_send(pair, &lost[i]);
		else
			message_receive(pair, &lost[i]);
	}
	for (int i = 0; i < 10; i++)
		pair_poll(pair);
	pair->a->endpoint->transport->cancel(pair->a->endpoint, 3, sequence);
	pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, sequence);
	for (int i = 0; i < 2 * SIZES; i++) {
		assert_int_equal(lost[i].received, 0);
		message_fini(&lost[i]);
	}
	/* another operation, or another communicator, is not touched by that */
	message_init(&kept, 0, 100000, NULL);
	kept.send.key.sequence += sequence;
	kept.send.key.comm += sequence == 0;
	kept.recv.key = kept.send.key;
	message_send(pair, &kept);
	message_receive(pair, &kept);
	message_settle(pair, &kept);
	message_check(&kept);
	message_fini(&kept);
}

static void cancelled_messages_are_forgotten(struct pair *pair)
{
	cancel_and_go_on(pair, 9);
	cancel_and_go_on(pair, 0);
}

static void early_messages_are_reported(struct pair *pair)
{
	struct message message;

	message_init(&message, 0, 10, NULL);
	message_send(pair, &message);
	while (pair_waits(pair, pair->b->checks == 0))
		;
	assert_int_equal(pair->b->checks, 1);
	message_receive(pair, &message);
	message_settle(pair, &message);
	message_fini(&message);
	/* one for a broken communicator is dropped */
	pair->b->refuse = true;
	message_init(&message, 1, 1000, NULL);
	message_send(pair, &message);
	while (pair_waits(pair, pair->b->checks == 1))
		;
	message_receive(pair, &message);
	for (int i = 0; i < 100; i++)
		pair_poll(pair);
	assert_int_equal(message.received, 0);
	pair->b->endpoint->transport->cancel(pair->b->endpoint, 3, 9);
	message_fini(&message);
}

/* Both connected: a message has gone each way. */
static void connect_now(struct pair *pair)
{
	one_message(pair, 70000, 8, 0);
}

static bool knows_state(const struct side *side, const struct stretto_peer_state *state)
{
	struct stretto_peer_state seen;

	return side->endpoint->transport->peer_state(side->endpoint, &seen) &&
	       memcmp(&seen, state, sizeof seen) == 0;
}

enum { ANSWERED = 400 };

static int received_of(const struct message *messages, int *sent)
{
	int received = 0;

	*sent = 0;
	for (int i = 0; i < ANSWERED; i++) {
		received += messages[i].received;
		*sent += messages[i].sent;
	}
	return received;
}

/* Sends and receives all; the sender looks rarely. */
static void exchange_without_looking(struct pair *pair, struct message *messages)
{
	struct stretto_endpoint *from = pair->a->endpoint;
	uint64_t deadline = stretto_now() + PAIR_PATIENCE;
	unsigned passes = 0;

	for (uint32_t i = 0; i < ANSWERED; i++) {
		message_init(&messages[i], i, 10000, NULL);
		message_receive(pair, &messages[i]);
		while (from->transport->post_send(from, &messages[i].send) == STRETTO_AGAIN) {
			pair_poll_side(++passes % 20 == 0 ? pair->a : pair->b);
			assert_true(stretto_now() < deadline);
		}
	}
	for (int i = 0; i < 1000; i++)
		pair_poll_side(pair->b);
}

/*
 * The receiver has all it wants, and its channel polls on only because hold() says that answers are
 * still to leave.
 */
static void an_idle_side_still_answers(struct pair *pair)
{
	struct message *messages = calloc(ANSWERED, sizeof *messages);
	uint64_t deadline = stretto_now() + PAIR_PATIENCE;
	int sent = 0;

	assert_non_null(messages);
	connect_now(pair);
	exchange_without_looking(pair, messages);
	while (received_of(messages, &sent) < ANSWERED || sent < ANSWERED) {
		pair_poll_side(pair->a);
		if (received_of(messages, &sent) < ANSWERED || pair->b->held > 0)
			pair_poll_side(pair->b);
		assert_true(stretto_now() < deadline);
	}
	assert_int_equal(pair->a->held, 0);
	assert_int_equal(pair->b->held, 0);
	for (int i = 0; i < ANSWERED; i++) {
		message_check(&messages[i]);
		message_fini(&messages[i]);
	}
	free(messages);
}

static void notices_and_states_reach_the_peer(struct pair *pair)
{
	struct stretto_notice told = {.comm = 5,
				      .sequence = 6,
				      .origin = 0,
				      .other = 1,
				      .status = STRETTO_MISMATCH,
				      .signature = pair_signature,
				      .other_signature = {.count = 8, .root = 3}};
	struct stretto_peer_state entered = {
		.comm = 5, .sequence = 44, .signature = pair_signature};

	connect_now(pair);
	pair->a->endpoint->transport->notify(pair->a->endpoint, &told);
	while (pair_waits(pair, pair->b->notices == 0))
		;
	assert_int_equal(pair->b->notices, 1);
	assert_int_equal(pair->b->notice.comm, 5);
	assert_int_equal(pair->b->notice.sequence, 6);
	assert_int_equal(pair->b->notice.other, 1);
	assert_int_equal(pair->b->notice.status, STRETTO_MISMATCH);
	assert_memory_equal(&pair->b->notice.signature, &told.signature, 16);
	assert_memory_equal(&pair->b->notice.other_signature, &told.other_signature, 16);
	pair->a->device->transport->publish(pair->a->device, &entered);
	while (pair_waits(pair, !knows_state(pair->b, &entered)))
		;
	assert_true(knows_state(pair->b, &entered));
}

/*
 * Whether the descriptor is not readable once what has come was polled: UCX may send words of its
 * own after a message. What was written to wake a sleeper stays: polling does not read it.
 */
static bool is_quiet(struct pair *pair)
{
	uint64_t deadline = stretto_now() + PAIR_PATIENCE;

	while (pair_readable(pair->b) && stretto_now() < deadline) {
		pair->a->device->transport->poll(pair->a->device);
		pair->b->device->transport->poll(pair->b->device);
	}
	return !pair_readable(pair->b);
}

static void an_armed_device_is_woken(struct pair *pair)
{
	uint64_t deadline = stretto_now() + PAIR_PATIENCE;
	struct message message;

	connect_now(pair);
	pair_drain(pair->b);
	assert_true(is_quiet(pair));
	/* awake: nobody writes the descriptor */
	message_init(&message, 0, 8, NULL);
	message_receive(pair, &message);
	message_send(pair, &message);
	message_settle(pair, &message);
	assert_true(is_quiet(pair));
	message_fini(&message);
	/* armed: the first message does, once */
	pair->b->device->transport->arm(pair->b->device);
	message_init(&message, 1, 8, NULL);
	message_receive(pair, &message);
	message_send(pair, &message);
	while (!pair_readable(pair->b) && stretto_now() < deadline)
		pair->a->device->transport->poll(pair->a->device);
	assert_true(pair_readable(pair->b));
	message_settle(pair, &message);
	message_fini(&message);
}

static void a_peer_that_goes_away_is_noticed(struct pair *pair)
{
	const struct stretto_transport *transport = pair->b->endpoint->transport;
	struct message message;
	stretto_status status;

	connect_now(pair);
	pair->a->endpoint->transport->disconnect(pair->a->endpoint);
	pair->a->endpoint = NULL;
	while (pair_waits(pair, pair->b->failures == 0))
		;
	assert_int_equal(pair->b->failures, 1);
	/* at once, or from a send that was queued */
	message_init(&message, 0, 8, NULL);
	status = transport->post_send(pair->b->endpoint, &message.send);
	while (pair_waits(pair, status == STRETTO_OK && !message.sent))
		;
	assert_int_equal(status == STRETTO_OK ? message.send_status : status, STRETTO_PEER_FAILED);
	message_fini(&message);
}

static const struct transport_case {
	const char *name;
	void (*run)(struct pair *pair);
	bool has_peer; /* needs two devices: not for self */
} cases[] = {
	{"messages_of_all_sizes_arrive", messages_of_all_sizes_arrive, false},
	{"many_messages_in_any_order", many_messages_in_any_order, false},
	{"another_signature_or_length_is_a_mismatch", another_signature_or_length_is_a_mismatch,
	 false},
	{"cancelled_messages_are_forgotten", cancelled_messages_are_forgotten, false},
	{"early_messages_are_reported", early_messages_are_reported, true},
	{"notices_and_states_reach_the_peer", notices_and_states_reach_the_peer, true},
	{"an_idle_side_still_answers", an_idle_side_still_answers, true},
	{"an_armed_device_is_woken", an_armed_device_is_woken, true},
	{"a_peer_that_goes_away_is_noticed", a_peer_that_goes_away_is_noticed, true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* One test: a case over something. */
struct combination {
	const struct transport_case *test;
	const struct transport_over *over;
	char name[100];
};

static void run_combination(void **state)
{
	const struct combination *combination = *state;
	struct pair pair;

	pair_open(&pair, combination->over);
	combination->test->run(&pair);
	pair_close(&pair);
}

int transport_cases_run(const struct transport_over *overs, size_t count)
{
	struct combination *combinations = calloc(count * CASES, sizeof *combinations);
	struct CMUnitTest *tests = calloc(count * CASES, sizeof *tests);
	/* such as "*cancelled*": these alone */
	const char *only = getenv("STRETTO_TEST_CASES");
	size_t used = 0;
	int failures;

	if (!combinations || !tests)
		abort();
	for (size_t i = 0; i < count * CASES; i++) {
		struct combination *combination = &combinations[used];

		combination->test = &cases[i % CASES];
		combination->over = &overs[i / CASES];
		if (combination->test->has_peer &&
		    combination->over->transport == &stretto_transport_self)
			continue;
		snprintf(combination->name, sizeof combination->name, "%s: %s",
			 combination->over->name, combination->test->name);
		if (only && fnmatch(only, combination->name, 0) != 0)
			continue;
		tests[used++] = (struct CMUnitTest){
			.name = combination->name,
			.test_func = run_combination,
			.initial_state = combination,
		};
	}
	if (only && used == 0) {
		fprintf(stderr, "STRETTO_TEST_CASES='%s' is the name of no case\n", only);
		free(tests);
		free(combinations);
		return 1;
	}
	failures = _cmocka_run_group_tests("transport cases", tests, used, NULL, NULL);
	free(tests);
	free(combinations);
	return failures;
}
