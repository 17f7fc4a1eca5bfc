/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_poll.c: what comes from the device, and what time brings. See verbs.h. */
#include <errno.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

#define TICK_SECONDS       0.1
#define CONNECTING_SECONDS 0.02 /* between ticks while a connection is being made */
#define PROBE_SECONDS      1.0  /* of silence, after which a peer that we wait for is probed */
#define SLACK_SECONDS      2.0  /* beyond what the device should take to find a peer dead */

#define QUIET_SECONDS 0.5 /* addresses and routes come a moment after the port is active */

enum { ACK_EVENTS = 64 };

bool verbs_grow_queue(struct verbs_device *device)
{
	uint32_t wanted = device->cq_wanted + VERBS_SEND_DEPTH;
	uint32_t depth =
		2 * device->cq_depth < device->cq_most ? 2 * device->cq_depth : device->cq_most;

	if (wanted <= device->cq_depth)
		return true;
	if (wanted > depth || ibv_resize_cq(device->cq, (int)depth) != 0)
		return false;
	device->cq_depth = depth;
	return true;
}

/* A message or an immediate. */
static void arrived(struct verbs_device *device, struct verbs_endpoint *endpoint,
		    const struct ibv_wc *completion)
{
	struct verbs_slot *slot =
		(struct verbs_slot *)(uintptr_t)(completion->wr_id & ~UINT64_C(1));
	bool kept = false;

	device->slots_posted--;
	if (endpoint && endpoint->state < VERBS_LOST && completion->status == IBV_WC_SUCCESS) {
		verbs_established(endpoint);
		endpoint->received++;
		device->counters.arrivals++;
		if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			verbs_take_immediate(endpoint, completion->imm_data);
		else
			kept = verbs_take_message(endpoint, slot, completion->byte_len);
	} else if (endpoint && completion->status != IBV_WC_SUCCESS &&
		   completion->status != IBV_WC_WR_FLUSH_ERR) {
		verbs_fail(endpoint, "a receive ended with %s, vendor code 0x%x",
			   ibv_wc_status_str(completion->status), completion->vendor_err);
	}
	if (!kept)
		verbs_free_slot(device, slot);
}

/* A work request that we posted to a queue pair, and all before it. */
static void ended(struct verbs_device *device, struct verbs_endpoint *endpoint,
		  const struct ibv_wc *completion)
{
	device->counters.completions++;
	if (!endpoint)
		return;
	if (completion->status == IBV_WC_RETRY_EXC_ERR ||
	    completion->status == IBV_WC_LOC_QP_OP_ERR)
		verbs_lose(endpoint, "what was sent to it ended with %s, vendor code 0x%x",
			   ibv_wc_status_str(completion->status), completion->vendor_err);
	else if (completion->status != IBV_WC_SUCCESS && completion->status != IBV_WC_WR_FLUSH_ERR)
		verbs_fail(endpoint, "what was sent to it ended with %s, vendor code 0x%x",
			   ibv_wc_status_str(completion->status), completion->vendor_err);
	else if (completion->status != IBV_WC_SUCCESS)
		verbs_lose(endpoint, "its queue pair is in the error state");
	verbs_completed(endpoint, completion->wr_id >> 1);
}

size_t verbs_poll_completions(struct verbs_device *device)
{
	struct ibv_wc completions[VERBS_BATCH];
	int count = ibv_poll_cq(device->cq, VERBS_BATCH, completions);

	for (int i = 0; i < count; i++) {
		struct verbs_endpoint *endpoint = verbs_find(device, completions[i].qp_num);

		if (completions[i].wr_id & 1)
			arrived(device, endpoint, &completions[i]);
		else
			ended(device, endpoint, &completions[i]);
	}
	return count > 0 ? (size_t)count : 0;
}

static bool since(uint64_t time, uint64_t now, double seconds)
{
	return now > stretto_after(time, seconds);
}

/*
 * A device can leave posted work without completion, and a queue pair that sends nothing hears nothing
 * of its peer's end.
 */
static void look_whether_alive(struct verbs_endpoint *endpoint, uint64_t now)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	double retry = device->base.env->config->verbs_retry_seconds;

	if (endpoint->signalled == endpoint->completed ||
	    endpoint->completed != endpoint->seen_completed) {
		endpoint->seen_completed = endpoint->completed;
		endpoint->completed_since = now;
	} else if (since(endpoint->completed_since, now, 1.5 * retry + SLACK_SECONDS)) {
		verbs_lose(endpoint, "the device does not complete what was posted %.1f s ago",
			   (double)(now - endpoint->completed_since) / 1e9);
		return;
	}
	if (device->port_down && verbs_waits(endpoint) && since(device->port_down, now, retry)) {
		verbs_lose(endpoint, "the port has been down for %g s", retry);
		return;
	}
	if (endpoint->received != endpoint->seen_received || !verbs_waits(endpoint)) {
		endpoint->seen_received = endpoint->received;
		endpoint->received_since = now;
	} else if (since(endpoint->received_since, now, PROBE_SECONDS)) {
		endpoint->received_since = now;
		verbs_ask(endpoint);
		verbs_probe(endpoint);
	}
}

static void tick(struct verbs_device *device, uint64_t now)
{
	bool settled = device->state_version == device->state_seen;

	device->state_seen = device->state_version;
	STRETTO_LIST_FOR_SAFE (it, &device->endpoints) {
		struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		if (endpoint->state == VERBS_CONNECTING && verbs_may_connect(device, now))
			verbs_way_of(device)->go_on(endpoint, now);
		else if (endpoint->state == VERBS_READY)
			look_whether_alive(endpoint, now);
		if (endpoint->state == VERBS_READY && settled &&
		    endpoint->state_sent != device->state_version)
			verbs_send_state(endpoint);
	}
	if (verbs_may_connect(device, now))
		verbs_end_old(device);
	verbs_watch_revoked(device, now);
	device->next_tick =
		stretto_after(now, device->connecting ? CONNECTING_SECONDS : TICK_SECONDS);
}

static void fail_all(struct verbs_device *device, const char *why)
{
	STRETTO_LIST_FOR_SAFE (it, &device->endpoints)
		verbs_fail(stretto_container_of(it, struct verbs_endpoint, link), "%s", why);
}

static void fail_queue(struct verbs_device *device, const struct ibv_qp *qp, const char *why)
{
	struct verbs_endpoint *endpoint = verbs_find(device, qp->qp_num);

	if (endpoint && endpoint->qp == qp)
		verbs_fail(endpoint, "%s", why);
}

static void port_changed(struct verbs_device *device, int port, bool down)
{
	if (port != device->port.number)
		return;
	if (down && !device->port_down)
		stretto_warn("verbs: %s port %d is down; waiting %g s for it", device->port.device,
			     port, device->base.env->config->verbs_retry_seconds);
	else if (!down && device->port_down)
		stretto_info("verbs: %s port %d is active again", device->port.device, port);
	device->port_down = down ? stretto_now() : 0;
	device->quiet_until = stretto_after(stretto_now(), QUIET_SECONDS);
}

static void hear_device(struct verbs_device *device, const struct ibv_async_event *event)
{
	const char *what = ibv_event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		port_changed(device, event->element.port_num,
			     event->event_type == IBV_EVENT_PORT_ERR);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		fail_queue(device, event->element.qp, what);
		break;
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		fail_all(device, what);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		verbs_refill(device);
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		break;
	default: /* GID, LID, P_Key and SM changes: what they break shows in completions */
		stretto_info("verbs: %s: %s", device->port.device, what);
	}
}

void verbs_events(struct stretto_device *base)
{
	struct verbs_device *device = verbs_device_of(base);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;
	uint64_t now;

	while (ibv_get_cq_event(device->completions, &cq, &context) == 0) {
		if (cq != device->cq)
			verbs_oob_event(device);
		else if (++device->events_to_ack == ACK_EVENTS) {
			ibv_ack_cq_events(cq, device->events_to_ack);
			device->events_to_ack = 0;
		}
	}
	while (ibv_get_async_event(device->context, &event) == 0) {
		hear_device(device, &event);
		ibv_ack_async_event(&event);
	}
	verbs_way_of(device)->events(device);
	now = stretto_now();
	if (now >= device->next_tick)
		tick(device, now);
}

size_t verbs_poll(struct stretto_device *base)
{
	struct verbs_device *device = verbs_device_of(base);
	size_t count;

	verbs_renew(device);
	count = verbs_poll_completions(device);
	verbs_keep_promise(device);
	STRETTO_LIST_FOR (it, &device->endpoints)
		count += verbs_push(stretto_container_of(it, struct verbs_endpoint, link));
	if (device->mailbox)
		count += verbs_way_of(device)->events(device);
	if (count == 0) {
		uint64_t now = stretto_now();

		if (now >= device->next_tick)
			tick(device, now);
	}
	return count;
}

uint64_t verbs_arm(struct stretto_device *base)
{
	struct verbs_device *device = verbs_device_of(base);
	bool ticks = device->connecting > 0 || device->revoked > 0 ||
		     device->state_seen != device->state_version;

	ibv_req_notify_cq(device->cq, 0);
	if (device->mailbox)
		verbs_oob_arm(device);
	STRETTO_LIST_FOR (it, &device->endpoints) {
		const struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		if (endpoint->state == VERBS_READY)
			ticks |= verbs_waits(endpoint) ||
				 endpoint->state_sent != device->state_version;
		else if (endpoint->state == VERBS_FAILED)
			ticks |= !verbs_flushed(endpoint);
	}
	return ticks ? device->next_tick : STRETTO_NEVER;
}
