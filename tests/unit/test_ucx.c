/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_ucx.c: the UCX transport on one machine, over TCP: the transport contract, what only it has,
 * the collective matrix, and ranks that die.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "runtime/clock.h"
#include "tests/lib/matrix.h"
#include "tests/lib/ranks.h"
#include "tests/lib/transport_cases.h"

#ifndef STRETTO_HAVE_UCX
int main(void)
{
	puts("skip test_ucx: built without UCX");
	return 77;
}
#else

#include "runtime/transports/ucx_wire.h"

static const struct transport_over plain = {"ucx", &stretto_transport_ucx, {NULL, NULL}};

static size_t open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void exchange(struct pair *pair, uint32_t ordinal, size_t bytes)
{
	struct message message;

	message_init(&message, ordinal, bytes, NULL);
	message_receive(pair, &message);
	message_send(pair, &message);
	message_settle(pair, &message);
	message_check(&message);
	message_fini(&message);
}

static void closing_leaves_no_descriptor(void **state)
{
	size_t before = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct pair pair;

		pair_open(&pair, &plain);
		exchange(&pair, 0, 100);
		exchange(&pair, 1, 1000003);
		pair_close(&pair);
		if (i == 0)
			before = open_descriptors(); /* UCX keeps some for the process */
	}
	assert_int_equal(open_descriptors(), before);
}

static void a_damaged_address_is_refused(void **state)
{
	const struct stretto_transport *ucx = &stretto_transport_ucx;
	unsigned char blob[STRETTO_ADDRESS_MAX];
	struct side side;
	size_t bytes;

	(void)state;
	assert_int_equal(side_open(&side, &plain, 0), STRETTO_OK);
	bytes = ucx->address(side.device, blob);
	assert_true(bytes > sizeof(struct ucx_address) && bytes <= sizeof blob);
	assert_true(ucx->reaches(side.device, 1, blob, bytes));
	assert_false(ucx->reaches(side.device, 1, blob, bytes - 1));
	for (size_t i = sizeof(struct ucx_address); i < bytes; i++) {
		blob[i] ^= 1;
		assert_false(ucx->reaches(side.device, 1, blob, bytes));
		blob[i] ^= 1;
	}
	side_close(&side);
}

/* One that knows where we are but not our secret: as another job's rank on a reused port. */
static void a_stranger_is_not_heard(void **state)
{
	const struct stretto_transport *ucx = &stretto_transport_ucx;
	unsigned char blob[STRETTO_ADDRESS_MAX];
	struct ucx_address address;
	struct message message;
	struct pair pair;
	size_t bytes;

	(void)state;
	pair.a = &pair.side[0];
	pair.b = &pair.side[1];
	assert_int_equal(side_open(pair.a, &plain, 0), STRETTO_OK);
	assert_int_equal(side_open(pair.b, &plain, 1), STRETTO_OK);
	assert_int_equal(side_connect(pair.b, pair.a), STRETTO_OK);
	bytes = ucx->address(pair.b->device, blob);
	memcpy(&address, blob, sizeof address);
	address.secret++;
	memcpy(blob, &address, sizeof address);
	assert_int_equal(ucx->connect(pair.a->device, 1, blob, bytes, &pair.a->endpoint),
			 STRETTO_OK);
	message_init(&message, 0, 8, NULL);
	message_receive(&pair, &message);
	for (uint64_t end = stretto_after(stretto_now(), 0.3); stretto_now() < end;)
		pair_poll(&pair);
	assert_int_equal(ucx->post_send(pair.b->endpoint, &message.send), STRETTO_AGAIN);
	assert_int_equal(message.received + pair.b->checks + pair.b->failures, 0);
	ucx->cancel(pair.b->endpoint, 3, 0);
	message_fini(&message);
	pair_close(&pair);
}

/* The payload of a cancelled receive is not written to it, wherever it is when it is cancelled. */
static void a_cancelled_receive_is_not_written(void **state)
{
	enum { BYTES = 3000000 };
	const struct stretto_transport *ucx = &stretto_transport_ucx;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	exchange(&pair, 0, 8);
	for (int passes = 0; passes < 40; passes++) {
		struct message message;
		unsigned char *copy = malloc(BYTES);

		assert_non_null(copy);
		message_init(&message, (uint32_t)passes + 1, BYTES, NULL);
		message_receive(&pair, &message);
		message_send(&pair, &message);
		for (int i = 0; i < passes && !message.received; i++)
			pair_poll(&pair);
		ucx->cancel(pair.b->endpoint, 3, 9);
		while (pair_waits(&pair, !ucx->settled(pair.b->endpoint, 3, 9)))
			;
		assert_true(ucx->settled(pair.b->endpoint, 3, 9));
		memcpy(copy, message.to, BYTES);
		for (int i = 0; i < 50; i++)
			pair_poll(&pair);
		assert_memory_equal(copy, message.to, BYTES);
		ucx->cancel(pair.a->endpoint, 3, 9);
		while (pair_waits(&pair, !ucx->settled(pair.a->endpoint, 3, 9)))
			;
		message_fini(&message);
		free(copy);
	}
	assert_int_equal(pair.a->failures + pair.b->failures, 0);
	exchange(&pair, 100, BYTES);
	pair_close(&pair);
}

/* Receives without sends and sends without receives: another message passes them all. */
static void what_waits_holds_up_nothing(void **state)
{
	enum { WAITING = 1500 }; /* more than are announced at a time */
	const struct stretto_transport *ucx = &stretto_transport_ucx;
	struct message *messages = calloc(WAITING, sizeof *messages);
	struct pair pair;

	(void)state;
	assert_non_null(messages);
	pair_open(&pair, &plain);
	exchange(&pair, 5000, 8);
	for (uint32_t i = 0; i < WAITING; i++) {
		message_init(&messages[i], i, 9000, NULL);
		if (i % 2 && i < 1000)
			message_receive(&pair, &messages[i]);
		else
			message_send(&pair, &messages[i]);
	}
	exchange(&pair, 5001, 8);
	exchange(&pair, 5002, 1000003);
	ucx->cancel(pair.a->endpoint, 3, 9);
	ucx->cancel(pair.b->endpoint, 3, 9);
	while (pair_waits(&pair, !ucx->settled(pair.b->endpoint, 3, 9)))
		;
	for (int i = 0; i < WAITING; i++)
		message_fini(&messages[i]);
	free(messages);
	exchange(&pair, 5003, 1000003);
	pair_close(&pair);
}

static void matrix_over_ucx(void **state)
{
	struct matrix matrix = {.large = 30011, .brief = true};

	(void)state;
	for (int size = 2; size <= (TEST_SLOW ? 2 : 4); size++)
		run_ranks(size, (const char *const[]){"STRETTO_TRANSPORTS=self,ucx", NULL},
			  matrix_rank, &matrix);
}

/* A wake-up that is lost shows as an operation that takes until its deadline. */
static void matrix_of_sleepers(void **state)
{
	struct matrix matrix = {.large = 3001, .brief = true};

	(void)state;
	run_ranks(3,
		  (const char *const[]){"STRETTO_TRANSPORTS=self,ucx", "STRETTO_SPIN_SECONDS=0",
					"STRETTO_TIMEOUT_SECONDS=20", NULL},
		  matrix_rank, &matrix);
}

static void many_at_a_time_over_ucx(void **state)
{
	int rounds = 10;

	(void)state;
	run_ranks(3, (const char *const[]){"STRETTO_TRANSPORTS=self,ucx", NULL}, interleave_rank,
		  &rounds);
}

/* A rank is killed after so many operations; 0: before anyone has connected to it. */
struct killing {
	int after;
	size_t count; /* elements of each */
};

/* Rank 1 is killed in the middle; the others learn that it was, and soon. */
static void killed_rank(struct stretto_comm *world, void *argument)
{
	const struct killing *killing = argument;
	float *data = calloc(killing->count, sizeof *data);
	stretto_status status = STRETTO_OK;
	uint64_t start = 0;

	require(data);
	for (int i = 0; status == STRETTO_OK; i++) {
		if (stretto_comm_rank(world) == 1 && i == killing->after)
			raise(SIGKILL);
		start = stretto_now();
		status = stretto_allreduce(world, data, data, killing->count, STRETTO_F32,
					   STRETTO_SUM);
	}
	require(status == STRETTO_PEER_FAILED);
	require(stretto_now() - start < UINT64_C(10000000000));
	free(data);
}

static void a_killed_rank_fails_the_others(void **state)
{
	static struct killing killings[] = {{0, 10}, {20, 10}, {20, 300000}};

	(void)state;
	for (size_t i = 0; i < sizeof killings / sizeof *killings; i++)
		assert_int_equal(run_processes(5,
					       (const char *const[]){"STRETTO_TRANSPORTS=self,ucx",
								     "STRETTO_LOG=error", NULL},
					       killed_rank, &killings[i], 60),
				 1);
}

int main(int count, char **arguments)
{
	static const char *const small[] = {"STRETTO_UCX_EAGER=1K", NULL};
	static const char *const paced[] = {"STRETTO_PACE=100gbit:1us", NULL};
	static const struct transport_over overs[] = {
		{"ucx", &stretto_transport_ucx, {NULL, NULL}},
		{"ucx, more is announced", &stretto_transport_ucx, {small, small}},
		{"ucx, another limit on each side", &stretto_transport_ucx, {small, NULL}},
		{"ucx, paced", &stretto_transport_ucx, {paced, paced}},
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closing_leaves_no_descriptor),
		cmocka_unit_test(a_damaged_address_is_refused),
		cmocka_unit_test(a_stranger_is_not_heard),
		cmocka_unit_test(a_cancelled_receive_is_not_written),
		cmocka_unit_test(what_waits_holds_up_nothing),
		cmocka_unit_test(matrix_over_ucx),
		cmocka_unit_test(matrix_of_sleepers),
		cmocka_unit_test(many_at_a_time_over_ucx),
	};
	/* first: it forks, which UCX does not survive once it is in use */
	const struct CMUnitTest forking[] = {cmocka_unit_test(a_killed_rank_fails_the_others)};
	int failures;

	(void)count;
	use_ucx_over_tcp(arguments);
	setvbuf(stdout, NULL, _IOLBF, 0);
	failures = cmocka_run_group_tests(forking, NULL, NULL);
	failures += transport_cases_run(overs, sizeof overs / sizeof *overs);
	return failures + cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
