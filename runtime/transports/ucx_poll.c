/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_poll.c: progress, sleep, and what time brings. See ucx.h. */
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/ucx.h"

#define TICK_SECONDS   0.1
#define SILENT_SECONDS 1.0  /* after which a peer is asked what became of its receive */
#define WARN_SECONDS   20.0 /* without an answer of a peer that we connect to */

/* Passes in which UCX may find that it is not ready for sleep. */
enum { ARM_PASSES = 16 };

void ucx_hold(struct ucx_device *device, bool hold)
{
	const struct stretto_device_env *env = device->base.env;

	if (device->holds != hold)
		env->hold(env->context, hold ? 1 : -1);
	device->holds = hold;
}

static void look_at_silence(struct ucx_endpoint *endpoint, uint64_t now)
{
	if (endpoint->received != endpoint->seen_received ||
	    stretto_list_empty(&endpoint->waiting)) {
		endpoint->seen_received = endpoint->received;
		endpoint->received_since = now;
	} else if (now > stretto_after(endpoint->received_since, SILENT_SECONDS)) {
		endpoint->received_since = now;
		ucx_ask(endpoint);
	}
}

static void look_at_connecting(struct ucx_endpoint *endpoint, uint64_t now)
{
	if (endpoint->warned || now < stretto_after(endpoint->started, WARN_SECONDS))
		return;
	endpoint->warned = true;
	stretto_warn("ucx: rank %d on %s has not answered for %g s; it may be stopped, or the "
		     "network between drops what UCX sends",
		     endpoint->base.peer, endpoint->peer.host, WARN_SECONDS);
}

static void tick(struct ucx_device *device, uint64_t now)
{
	bool settled = device->state_version == device->state_seen;

	device->state_seen = device->state_version;
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		if (endpoint->state == UCX_CONNECTING)
			look_at_connecting(endpoint, now);
		if (endpoint->state != UCX_READY)
			continue;
		look_at_silence(endpoint, now);
		if (settled && endpoint->state_sent != device->state_version)
			ucx_send_state(endpoint);
	}
	ucx_watch_cancelled(device, now);
	device->next_tick = stretto_after(now, TICK_SECONDS);
}

static void tick_if_due(struct ucx_device *device)
{
	uint64_t now = stretto_now();

	if (now >= device->next_tick)
		tick(device, now);
}

/* Sends what waits for room; returns how much. */
static size_t push_all(struct ucx_device *device, bool *underway)
{
	size_t count = 0;

	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		if (endpoint->state != UCX_READY)
			continue;
		count += ucx_push(endpoint);
		*underway |= endpoint->underway_count > 0;
	}
	return count;
}

size_t ucx_poll(struct stretto_device *base)
{
	struct ucx_device *device = ucx_device_of(base);
	bool underway = false;
	size_t count = 0;

	/*
	 * All peers of this rank are reached otherwise, or are yet to be met: ucx_events() is
	 * enough for who calls, and the poll of the others' transports is not slowed down.
	 */
	if (stretto_list_empty(&device->endpoints) && stretto_list_empty(&device->closing))
		return 0;
	while (count < UCX_PASSES && ucp_worker_progress(device->worker) != 0)
		count++;
	count += push_all(device, &underway);
	count += ucx_attend(device);
	ucx_hold(device, underway);
	if (!stretto_list_empty(&device->closing))
		ucx_reap(device);
	if (count == 0)
		tick_if_due(device);
	return count;
}

/* Ready for sleep? UCX wants to have been polled until nothing is left. */
static bool arm_worker(struct ucx_device *device)
{
	for (int i = 0; i < ARM_PASSES; i++) {
		ucs_status_t status = ucp_worker_arm(device->worker);

		if (status == UCS_OK)
			return true;
		if (status != UCS_ERR_BUSY)
			return false;
		ucp_worker_progress(device->worker);
	}
	return false;
}

void ucx_events(struct stretto_device *base)
{
	struct ucx_device *device = ucx_device_of(base);

	arm_worker(device); /* takes the event */
	tick_if_due(device);
}

uint64_t ucx_arm(struct stretto_device *base)
{
	struct ucx_device *device = ucx_device_of(base);
	bool ticks = device->connecting > 0 || device->revoked > 0 || device->dropped > 0 ||
		     !stretto_list_empty(&device->closing) ||
		     device->state_seen != device->state_version;

	if (!arm_worker(device) || device->attention)
		return 0; /* at once */
	STRETTO_LIST_FOR (it, &device->endpoints) {
		const struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		if (endpoint->state == UCX_READY)
			ticks |= ucx_waits(endpoint) ||
				 endpoint->state_sent != device->state_version;
	}
	return ticks ? device->next_tick : STRETTO_NEVER;
}
