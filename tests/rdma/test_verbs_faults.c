/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_verbs_faults.c: what no software device does by itself. Every allocation and every creating
 * call of libibverbs and librdmacm fails in turn while two devices are opened, connected and used;
 * and devices report what only broken hardware reports.
 *
 * The functions in test_verbs_faults.wrap are replaced by the linker: they count, and one call of
 * them fails. Leaks are found by comparing descriptors, and memory where AddressSanitizer is on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/transports/verbs.h"
#include "tests/lib/transport_pair.h"

enum { SIDES = 2, FEW_CALLS = 30 };

static bool counting;
static int calls;         /* since counting began */
static int failing;       /* number of the call that fails; 0: none */
static const char *fault; /* the function that failed */

static bool fails(const char *function)
{
	if (!counting || ++calls != failing)
		return false;
	fault = function;
	errno = ENOMEM;
	return true;
}

/* A replacement: the real function, but for the call that fails, which returns `bad`. */
#define WRAP(type, name, bad, parameters, arguments)                                               \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return fails(#name) ? (bad) : __real_##name arguments;                             \
	}

WRAP(void *, calloc, NULL, (size_t count, size_t size), (count, size))
WRAP(void *, malloc, NULL, (size_t size), (size))
WRAP(void *, realloc, NULL, (void *old, size_t size), (old, size))
WRAP(void *, aligned_alloc, NULL, (size_t alignment, size_t size), (alignment, size))
WRAP(struct ibv_context *, ibv_open_device, NULL, (struct ibv_device * device), (device))
WRAP(int, ibv_query_device, ENOMEM, (struct ibv_context * context, struct ibv_device_attr *attr),
     (context, attr))
WRAP(struct ibv_pd *, ibv_alloc_pd, NULL, (struct ibv_context * context), (context))
WRAP(struct ibv_comp_channel *, ibv_create_comp_channel, NULL, (struct ibv_context * context),
     (context))
WRAP(struct ibv_cq *, ibv_create_cq, NULL,
     (struct ibv_context * context, int cqe, void *user, struct ibv_comp_channel *channel,
      int vector),
     (context, cqe, user, channel, vector))
WRAP(struct ibv_srq *, ibv_create_srq, NULL,
     (struct ibv_pd * pd, struct ibv_srq_init_attr *attributes), (pd, attributes))
WRAP(struct ibv_qp *, ibv_create_qp, NULL,
     (struct ibv_pd * pd, struct ibv_qp_init_attr *attributes), (pd, attributes))
WRAP(struct ibv_ah *, ibv_create_ah, NULL, (struct ibv_pd * pd, struct ibv_ah_attr *attributes),
     (pd, attributes))
WRAP(int, ibv_modify_qp, ENOMEM, (struct ibv_qp * qp, struct ibv_qp_attr *attributes, int mask),
     (qp, attributes, mask))
#undef ibv_reg_mr
WRAP(struct ibv_mr *, ibv_reg_mr, NULL, (struct ibv_pd * pd, void *base, size_t bytes, int access),
     (pd, base, bytes, access))
WRAP(struct ibv_mr *, ibv_reg_mr_iova2, NULL,
     (struct ibv_pd * pd, void *base, size_t bytes, uint64_t iova, unsigned access),
     (pd, base, bytes, iova, access))
WRAP(struct rdma_event_channel *, rdma_create_event_channel, NULL, (void), ())
WRAP(int, rdma_create_id, -1,
     (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
      enum rdma_port_space space),
     (channel, id, context, space))
WRAP(int, rdma_bind_addr, -1, (struct rdma_cm_id * id, struct sockaddr *address), (id, address))
WRAP(int, rdma_listen, -1, (struct rdma_cm_id * id, int backlog), (id, backlog))
WRAP(int, rdma_resolve_addr, -1,
     (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int timeout),
     (id, from, to, timeout))
WRAP(int, rdma_resolve_route, -1, (struct rdma_cm_id * id, int timeout), (id, timeout))
WRAP(int, rdma_init_qp_attr, -1,
     (struct rdma_cm_id * id, struct ibv_qp_attr *attributes, int *mask), (id, attributes, mask))
WRAP(int, rdma_connect, -1, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
WRAP(int, rdma_accept, -1, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
WRAP(int, rdma_establish, -1, (struct rdma_cm_id * id), (id))

/* An event that the next look at `reporter` finds. */
static struct ibv_async_event report;
static const struct ibv_context *reporter;

int __real_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (context != reporter)
		return __real_ibv_get_async_event(context, event);
	*event = report;
	reporter = NULL;
	return 0;
}

void __real_ibv_ack_async_event(struct ibv_async_event *event);
void __wrap_ibv_ack_async_event(struct ibv_async_event *event);
void __wrap_ibv_ack_async_event(struct ibv_async_event *event)
{
	if (memcmp(event, &report, sizeof *event) != 0)
		__real_ibv_ack_async_event(event);
}

static char devices[SIDES][96];

static struct transport_over over_of(const char *const settings[SIDES][3])
{
	return (struct transport_over){
		"verbs", &stretto_transport_verbs, {settings[0], settings[1]}};
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Until a message of each kind has arrived, or a side has failed. */
static void exchange(struct pair *pair)
{
	static const size_t sizes[] = {8, 300000};
	struct stretto_endpoint *from = pair->a->endpoint, *to = pair->b->endpoint;
	uint64_t deadline = stretto_now() + PAIR_PATIENCE;

	for (uint32_t i = 0; i < 2 && pair->a->failures + pair->b->failures == 0; i++) {
		struct message message;
		stretto_status status;

		counting = false; /* the test's own memory does not fail */
		message_init(&message, i, sizes[i], NULL);
		counting = true;
		status = to->transport->post_recv(to, &message.recv);
		if (status != STRETTO_OK) {
			message_fini(&message);
			return;
		}
		status = STRETTO_AGAIN;
		while (!(message.sent && message.received) &&
		       pair->a->failures + pair->b->failures == 0) {
			if (status == STRETTO_AGAIN)
				status = from->transport->post_send(from, &message.send);
			if (status != STRETTO_OK && status != STRETTO_AGAIN)
				break; /* refused for want of memory */
			if (message.recv_status != STRETTO_OK || message.send_status != STRETTO_OK)
				break; /* likewise, of one side */
			pair_poll(pair);
			assert_true(stretto_now() < deadline);
		}
		if (message.sent && message.received && message.recv_status == STRETTO_OK &&
		    message.send_status == STRETTO_OK)
			message_check(&message);
		from->transport->cancel(from, message.send.key.comm, 0);
		to->transport->cancel(to, message.send.key.comm, 0);
		message_fini(&message);
	}
}

/* Opens, connects and uses two devices, with one call failing; returns how many calls there were. */
static int attempt(const struct transport_over *over, int number)
{
	struct pair pair = {.deadline = 0};
	bool opened;

	pair.a = &pair.side[0];
	pair.b = &pair.side[1];
	fault = NULL;
	calls = 0;
	failing = number;
	counting = true;
	opened = side_open(pair.a, over, 0) == STRETTO_OK;
	if (!opened)
		pair.a->device = NULL;
	if (opened) {
		opened = side_open(pair.b, over, 1) == STRETTO_OK;
		if (!opened)
			pair.b->device = NULL;
	}
	if (opened && side_connect(pair.a, pair.b) == STRETTO_OK &&
	    side_connect(pair.b, pair.a) == STRETTO_OK)
		exchange(&pair);
	counting = false;
	if (!fault) /* nothing failed: so must nothing have */
		assert_int_equal(opened ? pair.a->failures + pair.b->failures : -1, 0);
	if (pair.b->env.config)
		side_close(pair.b);
	side_close(pair.a);
	return calls;
}

static void each_call_fails_in_turn(const char *way)
{
	const char *const settings[SIDES][3] = {{devices[0], way, NULL}, {devices[1], way, NULL}};
	struct transport_over over = over_of(settings);
	int before, number = 1, most;

	attempt(&over, 0); /* libraries keep what they opened first */
	before = descriptors();
	most = attempt(&over, 0);
	assert_true(most > FEW_CALLS);
	do {
		fault = NULL;
		most = attempt(&over, number);
		if (fault && getenv("STRETTO_TEST_VERBOSE"))
			print_message("call %d: %s failed\n", number, fault);
		assert_int_equal(descriptors(), before);
		number++;
	} while (fault);
	print_message("%d calls failed in turn\n", number - 2);
	assert_true(number > FEW_CALLS);
}

static void each_call_fails_in_turn_cm(void **state)
{
	(void)state;
	each_call_fails_in_turn("STRETTO_VERBS_CONNECT=cm");
}

static void each_call_fails_in_turn_oob(void **state)
{
	(void)state;
	each_call_fails_in_turn("STRETTO_VERBS_CONNECT=oob");
}

/* What hardware reports, and whether the connection survives it. */
static void hardware_reports(void **state)
{
	static const struct {
		enum ibv_event_type type;
		int failures;
	} reports[] = {
		{IBV_EVENT_DEVICE_FATAL, 1},      {IBV_EVENT_CQ_ERR, 1},
		{IBV_EVENT_SRQ_ERR, 1},           {IBV_EVENT_QP_FATAL, 1},
		{IBV_EVENT_QP_ACCESS_ERR, 1},     {IBV_EVENT_GID_CHANGE, 0},
		{IBV_EVENT_SM_CHANGE, 0},         {IBV_EVENT_PORT_ERR, 0},
		{IBV_EVENT_SRQ_LIMIT_REACHED, 0}, {IBV_EVENT_COMM_EST, 0},
	};
	const char *const settings[SIDES][3] = {{devices[0], NULL}, {devices[1], NULL}};
	struct transport_over over = over_of(settings);

	(void)state;
	for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
		struct pair pair;
		struct verbs_device *device;

		pair_open(&pair, &over);
		exchange(&pair);
		device = verbs_device_of(pair.a->device);
		memset(&report, 0, sizeof report);
		report.event_type = reports[i].type;
		if (reports[i].type == IBV_EVENT_PORT_ERR)
			report.element.port_num = 1;
		else if (reports[i].type == IBV_EVENT_QP_FATAL ||
			 reports[i].type == IBV_EVENT_QP_ACCESS_ERR)
			report.element.qp = verbs_endpoint_of(pair.a->endpoint)->qp;
		reporter = device->context;
		pair.a->device->transport->events(pair.a->device);
		assert_null(reporter);
		assert_int_equal(pair.a->failures, reports[i].failures);
		assert_int_equal(device->port_down != 0, reports[i].type == IBV_EVENT_PORT_ERR);
		if (reports[i].failures == 0)
			exchange(&pair);
		assert_int_equal(pair.a->failures, reports[i].failures);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn_cm),
		cmocka_unit_test(each_call_fails_in_turn_oob),
		cmocka_unit_test(hardware_reports),
	};
	const char *given = getenv("STRETTO_TEST_DEVICES");
	char device[SIDES][32] = {"", ""};

	if (given && sscanf(given, "%31s %31s", device[0], device[1]) != SIDES) {
		fprintf(stderr, "STRETTO_TEST_DEVICES='%s' must name two devices\n", given);
		return 2;
	}
	for (int side = 0; side < SIDES; side++)
		snprintf(devices[side], sizeof devices[side], "STRETTO_VERBS_DEVICES=%.31s",
			 device[side]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
