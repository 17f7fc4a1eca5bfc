/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self.c: messages of a rank to itself. The smallest complete transport, and the one to copy.
 *
 * A send waits in the match table as an arrival whose body is the pointer to the send; when its
 * receive is posted (or was before), the payload is copied once and both are done. Nothing can be
 * in flight while nobody looks, so there is nothing to poll and nothing to arm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/match.h"
#include "runtime/transport.h"

struct self_device {
	struct stretto_device base;
};

struct self_endpoint {
	struct stretto_endpoint base;
	struct stretto_match match;
};

/* Tells this process from others; a rank reaches itself only. */
struct self_address {
	int64_t pid;
	int32_t rank;
	int32_t unused; /* zero */
};

static bool self_probe(const struct stretto_config *config, char *why, size_t size)
{
	(void)config;
	snprintf(why, size, "always usable, for messages of a rank to itself");
	return true;
}

static stretto_status self_open(const struct stretto_device_env *env, struct stretto_device **out)
{
	struct self_device *device = calloc(1, sizeof *device);

	if (!device)
		return STRETTO_NO_MEMORY;
	device->base.transport = &stretto_transport_self;
	device->base.env = env;
	*out = &device->base;
	return STRETTO_OK;
}

static void self_close(struct stretto_device *device)
{
	free(stretto_container_of(device, struct self_device, base));
}

static size_t self_address(const struct stretto_device *device, void *blob)
{
	struct self_address address = {.pid = getpid(), .rank = device->env->rank};

	memcpy(blob, &address, sizeof address);
	return sizeof address;
}

static bool self_reaches(const struct stretto_device *device, int peer, const void *blob,
			 size_t bytes)
{
	(void)blob;
	return bytes == sizeof(struct self_address) && peer == device->env->rank;
}

static stretto_status self_connect(struct stretto_device *device, int peer, const void *blob,
				   size_t bytes, struct stretto_endpoint **out)
{
	struct self_endpoint *endpoint = calloc(1, sizeof *endpoint);

	(void)blob;
	(void)bytes;
	if (!endpoint)
		return STRETTO_NO_MEMORY;
	endpoint->base.transport = &stretto_transport_self;
	endpoint->base.device = device;
	endpoint->base.peer = peer;
	stretto_match_init(&endpoint->match);
	*out = &endpoint->base;
	return STRETTO_OK;
}

static void self_disconnect(struct stretto_endpoint *base)
{
	struct self_endpoint *endpoint = stretto_container_of(base, struct self_endpoint, base);

	stretto_match_fini(&endpoint->match);
	free(endpoint);
}

/* The one copy. */
static void deliver(struct stretto_send *send, struct stretto_recv *recv)
{
	stretto_status status = STRETTO_OK;

	if (memcmp(&send->signature, &recv->signature, sizeof send->signature) != 0 ||
	    send->bytes != recv->bytes)
		status = STRETTO_MISMATCH;
	else if (recv->sink)
		recv->sink(recv, 0, send->data, send->bytes);
	else if (send->bytes)
		memcpy(recv->data, send->data, send->bytes);
	send->done(send, status);
	recv->done(recv, status);
}

static stretto_status self_post_send(struct stretto_endpoint *base, struct stretto_send *send)
{
	struct self_endpoint *endpoint = stretto_container_of(base, struct self_endpoint, base);
	struct stretto_recv *recv = stretto_match_posted(&endpoint->match, &send->key);
	struct stretto_arrival *arrival;

	if (recv) {
		deliver(send, recv);
		return STRETTO_OK;
	}
	arrival = stretto_match_keep(&endpoint->match, &send->key, &send->signature);
	if (!arrival)
		return STRETTO_NO_MEMORY;
	arrival->body[0] = (uintptr_t)send;
	return STRETTO_OK;
}

static stretto_status self_post_recv(struct stretto_endpoint *base, struct stretto_recv *recv)
{
	struct self_endpoint *endpoint = stretto_container_of(base, struct self_endpoint, base);
	struct stretto_arrival *arrival = stretto_match_post(&endpoint->match, recv);

	if (!arrival)
		return STRETTO_OK;
	stretto_match_recycle(&endpoint->match, arrival);
	deliver((struct stretto_send *)(uintptr_t)arrival->body[0], recv);
	return STRETTO_OK;
}

static void self_cancel(struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	struct self_endpoint *endpoint = stretto_container_of(base, struct self_endpoint, base);

	stretto_match_cancel(&endpoint->match, comm, sequence);
	STRETTO_LIST_FOR_SAFE (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (stretto_key_is_of(&arrival->key, comm, sequence)) {
			stretto_list_remove(it);
			stretto_match_recycle(&endpoint->match, arrival);
		}
	}
}

static void self_notify(struct stretto_endpoint *endpoint, const struct stretto_notice *notice)
{
	(void)endpoint;
	(void)notice; /* this rank knows */
}

static size_t self_poll(struct stretto_device *device)
{
	(void)device;
	return 0;
}

static uint64_t self_arm(struct stretto_device *device)
{
	(void)device;
	return UINT64_MAX;
}

const struct stretto_transport stretto_transport_self = {
	.name = "self",
	.limits = {.sinks = true, .same_node = true},
	.probe = self_probe,
	.open = self_open,
	.close = self_close,
	.address = self_address,
	.reaches = self_reaches,
	.connect = self_connect,
	.disconnect = self_disconnect,
	.post_send = self_post_send,
	.post_recv = self_post_recv,
	.cancel = self_cancel,
	.notify = self_notify,
	.poll = self_poll,
	.arm = self_arm,
};
