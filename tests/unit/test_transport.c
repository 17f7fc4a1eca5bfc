/* SPDX-License-Identifier: BSD-3-Clause */
/* test_transport.c: the transport contract over the transports that need no device, and pacing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/clock.h"
#include "tests/lib/transport_cases.h"

/* Lower bounds only: a slow machine is never too fast. */
static void paced_takes_the_time_of_the_link(void **state)
{
	static const char *const settings[] = {"STRETTO_PACE=10MB:3ms", NULL};
	const struct transport_over over = {"slow", &stretto_transport_shm, {settings, settings}};
	struct pair pair;
	struct message message[2];
	uint64_t start;

	(void)state;
	pair_open(&pair, &over);
	message_init(&message[0], 70000, 8, NULL);
	message_send(&pair, &message[0]);
	message_receive(&pair, &message[0]);
	message_settle(&pair, &message[0]);
	message_fini(&message[0]);
	for (uint32_t i = 0; i < 2; i++) {
		message_init(&message[i], i, 50000, NULL);
		message_receive(&pair, &message[i]);
	}
	start = stretto_now();
	message_send(&pair, &message[0]);
	message_send(&pair, &message[1]);
	message_settle(&pair, &message[0]);
	/* 50000 bytes at 10 MB/s, and the latency */
	assert_true(stretto_now() - start >= 5000000 + 3000000);
	message_settle(&pair, &message[1]);
	/* the second waited for the link, not for the first one's latency */
	assert_true(stretto_now() - start >= 10000000 + 3000000);
	for (int i = 0; i < 2; i++) {
		message_check(&message[i]);
		message_fini(&message[i]);
	}
	pair_close(&pair);
}

/* A message that became due after the last poll, and before the sleep, must not be slept over. */
static void paced_wakes_for_what_is_due_and_was_not_tried(void **state)
{
	static const char *const settings[] = {"STRETTO_PACE=10MB:1ms", NULL};
	const struct transport_over over = {"slow", &stretto_transport_shm, {settings, settings}};
	struct pair pair;
	struct message message;
	struct stretto_device *device;
	uint64_t start;

	(void)state;
	pair_open(&pair, &over);
	message_init(&message, 0, 8, NULL);
	message_send(&pair, &message);
	message_receive(&pair, &message);
	device = pair.a->device;
	start = stretto_now();
	while (stretto_now() - start < 2000000)
		continue;
	assert_true(device->transport->arm(device) <= stretto_now());
	message_settle(&pair, &message);
	message_check(&message);
	message_fini(&message);
	pair_close(&pair);
}

static const char *const no_cma[] = {"STRETTO_SHM_CMA=no", NULL};
static const char *const no_eager[] = {"STRETTO_SHM_EAGER=0", NULL};
static const char *const fast_pace[] = {"STRETTO_PACE=100gbit:1us", NULL};

static const struct transport_over overs[] = {
	{"self", &stretto_transport_self, {NULL, NULL}},
	{"shm", &stretto_transport_shm, {NULL, NULL}},
	{"shm without process_vm_readv", &stretto_transport_shm, {no_cma, no_cma}},
	{"shm without eager", &stretto_transport_shm, {no_eager, no_eager}},
	{"paced", &stretto_transport_shm, {fast_pace, fast_pace}},
};

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paced_takes_the_time_of_the_link),
		cmocka_unit_test(paced_wakes_for_what_is_due_and_was_not_tried),
	};
	int failures = transport_cases_run(overs, sizeof overs / sizeof *overs);

	return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
