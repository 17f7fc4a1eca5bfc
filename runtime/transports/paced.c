/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paced.c: delivers as a link of given bandwidth and latency would, at no CPU cost.
 *
 * Wraps another device. A send of b bytes leaves when the link is free, occupies it for b / rate,
 * and is handed to the wrapped device `latency` after that, which then delivers at once. So the
 * time is spent asleep, by this rank, in one queue ordered by due time (all messages share the
 * link, so due times are in order of posting). Receives pass straight through. Each rank's outgoing
 * link is modelled; what several ranks send to one at the same time is not slowed down further.
 *
 *   post_send at t:  start = max(t, free);  free = start + b / rate;  due = free + latency
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/match.h"
#include "runtime/transport.h"

struct paced_device {
	struct stretto_device base;
	struct stretto_transport table; /* the inner transport's facts with our functions */
	struct stretto_device *inner;   /* owned */
	double seconds_per_byte;
	double latency;            /* seconds */
	uint64_t free;             /* when the link has sent all that was posted */
	uint64_t tried;            /* stretto_now() of the last look for what is due */
	struct stretto_list queue; /* struct stretto_send that wait, by due time */
};

struct paced_endpoint {
	struct stretto_endpoint base;
	struct stretto_endpoint *inner; /* owned */
};

/* What a waiting send keeps in stretto_send.scratch. */
enum { DUE, ENDPOINT };

static struct paced_device *device_of(const struct stretto_device *device)
{
	return stretto_container_of(device, struct paced_device, base);
}

static struct stretto_endpoint *inner_of(const struct stretto_endpoint *endpoint)
{
	return stretto_container_of(endpoint, struct paced_endpoint, base)->inner;
}

static void paced_close(struct stretto_device *base)
{
	struct paced_device *device = device_of(base);

	device->inner->transport->close(device->inner);
	free(device);
}

static size_t paced_address(const struct stretto_device *base, void *blob)
{
	const struct stretto_device *inner = device_of(base)->inner;

	return inner->transport->address(inner, blob);
}

static bool paced_reaches(const struct stretto_device *base, int peer, const void *blob,
			  size_t bytes)
{
	const struct stretto_device *inner = device_of(base)->inner;

	return inner->transport->reaches(inner, peer, blob, bytes);
}

static stretto_status paced_connect(struct stretto_device *base, int peer, const void *blob,
				    size_t bytes, struct stretto_endpoint **out)
{
	struct paced_device *device = device_of(base);
	struct paced_endpoint *endpoint = calloc(1, sizeof *endpoint);
	stretto_status status;

	if (!endpoint)
		return STRETTO_NO_MEMORY;
	endpoint->base.transport = &device->table;
	endpoint->base.device = base;
	endpoint->base.peer = peer;
	status = device->inner->transport->connect(device->inner, peer, blob, bytes,
						   &endpoint->inner);
	if (status != STRETTO_OK) {
		free(endpoint);
		return status;
	}
	*out = &endpoint->base;
	return STRETTO_OK;
}

static void paced_disconnect(struct stretto_endpoint *base)
{
	struct paced_endpoint *endpoint = stretto_container_of(base, struct paced_endpoint, base);

	endpoint->inner->transport->disconnect(endpoint->inner);
	free(endpoint);
}

static stretto_status paced_add_region(struct stretto_device *base, struct stretto_region *region)
{
	struct stretto_device *inner = device_of(base)->inner;

	return inner->transport->add_region ? inner->transport->add_region(inner, region)
					    : STRETTO_OK;
}

static void paced_drop_region(struct stretto_device *base, struct stretto_region *region)
{
	struct stretto_device *inner = device_of(base)->inner;

	if (inner->transport->drop_region)
		inner->transport->drop_region(inner, region);
}

static stretto_status paced_post_send(struct stretto_endpoint *endpoint, struct stretto_send *send)
{
	struct paced_device *device = device_of(endpoint->device);
	uint64_t now = stretto_now();
	uint64_t start = device->free > now ? device->free : now;

	device->free = stretto_after(start, (double)send->bytes * device->seconds_per_byte);
	send->scratch[DUE] = stretto_after(device->free, device->latency);
	send->scratch[ENDPOINT] = (uintptr_t)inner_of(endpoint);
	stretto_list_append(&device->queue, &send->link);
	return STRETTO_OK;
}

static stretto_status paced_post_recv(struct stretto_endpoint *endpoint, struct stretto_recv *recv)
{
	struct stretto_endpoint *inner = inner_of(endpoint);

	return inner->transport->post_recv(inner, recv);
}

static void paced_cancel(struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence)
{
	struct paced_device *device = device_of(endpoint->device);
	struct stretto_endpoint *inner = inner_of(endpoint);

	STRETTO_LIST_FOR_SAFE (it, &device->queue) {
		struct stretto_send *send = stretto_container_of(it, struct stretto_send, link);

		if (stretto_key_is_of(&send->key, comm, sequence) &&
		    send->scratch[ENDPOINT] == (uintptr_t)inner)
			stretto_list_remove(it);
	}
	inner->transport->cancel(inner, comm, sequence);
}

static bool paced_settled(const struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence)
{
	const struct stretto_endpoint *inner = inner_of(endpoint);

	return !inner->transport->settled || inner->transport->settled(inner, comm, sequence);
}

static void paced_notify(struct stretto_endpoint *endpoint, const struct stretto_notice *notice)
{
	struct stretto_endpoint *inner = inner_of(endpoint);

	inner->transport->notify(inner, notice);
}

/* Hands one due send to the wrapped device; false if it must be tried again. */
static bool release(struct stretto_send *send)
{
	struct stretto_endpoint *inner =
		(struct stretto_endpoint *)(uintptr_t)send->scratch[ENDPOINT];
	stretto_status status;

	stretto_list_remove(&send->link);
	status = inner->transport->post_send(inner, send);
	if (status == STRETTO_AGAIN)
		return false;
	if (status != STRETTO_OK)
		send->done(send, status);
	return true;
}

/* Sends that one peer holds up (AGAIN) do not hold up those to others. */
static size_t release_due(struct paced_device *device)
{
	struct stretto_list held;
	uint64_t now;
	size_t count = 0;

	if (stretto_list_empty(&device->queue))
		return 0;
	stretto_list_init(&held);
	now = stretto_now();
	device->tried = now;
	while (!stretto_list_empty(&device->queue)) {
		struct stretto_send *send =
			stretto_container_of(device->queue.next, struct stretto_send, link);
		uint64_t endpoint = send->scratch[ENDPOINT], due = send->scratch[DUE];

		if (due > now)
			break;
		if (release(send)) {
			count++;
			continue;
		}
		send->scratch[ENDPOINT] = endpoint;
		send->scratch[DUE] = due;
		stretto_list_append(&held, &send->link);
	}
	while (!stretto_list_empty(&held)) {
		struct stretto_list *last = held.prev;

		stretto_list_remove(last);
		stretto_list_append(device->queue.next, last); /* before the first: at the head */
	}
	return count;
}

static size_t paced_poll(struct stretto_device *base)
{
	struct paced_device *device = device_of(base);
	size_t count = release_due(device);

	return count + device->inner->transport->poll(device->inner);
}

static void paced_events(struct stretto_device *base)
{
	struct stretto_device *inner = device_of(base)->inner;

	if (inner->transport->events)
		inner->transport->events(inner);
}

static uint64_t paced_arm(struct stretto_device *base)
{
	struct paced_device *device = device_of(base);
	uint64_t next = device->inner->transport->arm(device->inner);

	STRETTO_LIST_FOR (it, &device->queue) {
		uint64_t due = stretto_container_of(it, struct stretto_send, link)->scratch[DUE];

		/* One that was tried waits for its peer, who will wake us. */
		if (due > device->tried)
			return due < next ? due : next;
	}
	return next;
}

static void paced_disarm(struct stretto_device *base)
{
	struct stretto_device *inner = device_of(base)->inner;

	if (inner->transport->disarm)
		inner->transport->disarm(inner);
}

static bool paced_told(const struct stretto_device *base)
{
	const struct stretto_device *inner = device_of(base)->inner;

	return !inner->transport->told || inner->transport->told(inner);
}

static void paced_publish(struct stretto_device *base, const struct stretto_peer_state *state)
{
	struct stretto_device *inner = device_of(base)->inner;

	if (inner->transport->publish)
		inner->transport->publish(inner, state);
}

static bool paced_peer_state(const struct stretto_endpoint *endpoint,
			     struct stretto_peer_state *state)
{
	const struct stretto_endpoint *inner = inner_of(endpoint);

	return inner->transport->peer_state && inner->transport->peer_state(inner, state);
}

static const struct stretto_transport paced = {
	.close = paced_close,
	.address = paced_address,
	.reaches = paced_reaches,
	.connect = paced_connect,
	.disconnect = paced_disconnect,
	.add_region = paced_add_region,
	.drop_region = paced_drop_region,
	.post_send = paced_post_send,
	.post_recv = paced_post_recv,
	.cancel = paced_cancel,
	.settled = paced_settled,
	.notify = paced_notify,
	.poll = paced_poll,
	.events = paced_events,
	.arm = paced_arm,
	.disarm = paced_disarm,
	.told = paced_told,
	.publish = paced_publish,
	.peer_state = paced_peer_state,
};

stretto_status stretto_paced_open(const struct stretto_pace *pace, struct stretto_device *inner,
				  struct stretto_device **out)
{
	struct paced_device *device = calloc(1, sizeof *device);

	if (!device)
		return STRETTO_NO_MEMORY;
	device->table = paced;
	device->table.name = inner->transport->name; /* what peers know it by */
	device->table.limits = inner->transport->limits;
	device->base.transport = &device->table;
	device->base.env = inner->env;
	device->inner = inner;
	device->seconds_per_byte =
		pace->bytes_per_second > 0
			? (double)inner->env->config->channels / pace->bytes_per_second
			: 0;
	device->latency = pace->latency_seconds;
	stretto_list_init(&device->queue);
	*out = &device->base;
	return STRETTO_OK;
}
