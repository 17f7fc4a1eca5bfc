/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_renew.c: lost connections are made anew. See runtime/recovery.h.
 *
 * When the epoch of the world is raised, all connections of a device end, those that work too: so a
 * queue pair belongs to one epoch, and nothing of an earlier one can be written or taken in. The
 * hello carries the epoch; a call of another one is refused.
 *
 * Some devices never send again after they have tried to while their port was down, for the
 * connection manager neither; so nothing is said while it is, and a moment longer.
 */
#include <stdatomic.h>

#include "runtime/clock.h"
#include "runtime/transports/verbs.h"

#define LOOK_SECONDS 0.2 /* what a port that has just gone down takes to say so */

void verbs_keep_old(struct verbs_device *device, struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (device->old_count == VERBS_OLD)
		verbs_end_old(device);
	device->old[device->old_count++] = id;
}

void verbs_end_old(struct verbs_device *device)
{
	while (device->old_count > 0)
		rdma_destroy_id(device->old[--device->old_count]);
}

bool verbs_may_connect(const struct verbs_device *device, uint64_t now)
{
	return device->epoch == 0 || (!device->port_down && now >= device->quiet_until);
}

bool verbs_same_epoch(const struct verbs_device *device, const struct verbs_hello *hello)
{
	const struct stretto_device_env *env = device->base.env;

	if (env->epoch && hello->epoch > device->epoch)
		env->renewed(env->context, hello->rank, hello->epoch);
	return hello->epoch == device->epoch;
}

/* As it was before there was a queue pair; that is gone, and so are its registrations' users. */
static void reset(struct verbs_endpoint *endpoint)
{
	endpoint->up = endpoint->warned = false;
	endpoint->peer_number = 0;
	endpoint->posted = endpoint->signalled = endpoint->completed = 0;
	endpoint->credits = endpoint->owed = 0;
	endpoint->staged_first = endpoint->staged_count = 0;
	endpoint->notice_end = endpoint->state_sent = 0;
	endpoint->has_peer_state = false;
	endpoint->seen_completed = endpoint->seen_received = endpoint->received = 0;
	endpoint->started = stretto_now();
}

void verbs_begin_again(struct verbs_endpoint *endpoint)
{
	verbs_way_of(verbs_device_at(endpoint))->drop(endpoint);
	verbs_unmake_queue(endpoint);
	endpoint->up = false;
}

static void renew_endpoint(struct verbs_endpoint *endpoint)
{
	struct verbs_device *device = verbs_device_at(endpoint);

	if (endpoint->state == VERBS_FAILED)
		return;
	if (endpoint->state == VERBS_CONNECTING)
		device->connecting--;
	endpoint->state = VERBS_LOST; /* what is taken in until the queue pair is gone is dropped */
	verbs_begin_again(endpoint);
	verbs_forget(endpoint, true);
	verbs_hold(endpoint, false);
	reset(endpoint);
	endpoint->state = VERBS_CONNECTING;
	device->connecting++;
}

void verbs_renew(struct verbs_device *device)
{
	const struct stretto_device_env *env = device->base.env;
	struct ibv_port_attr port;
	uint32_t epoch;

	if (!env->epoch)
		return;
	/* seq_cst: partner is who raises it, and kicks the channel */
	epoch = atomic_load(env->epoch);
	if (epoch == device->epoch)
		return;
	device->epoch = epoch;
	device->quiet_until = stretto_after(stretto_now(), LOOK_SECONDS);
	if (!device->port_down &&
	    ibv_query_port(device->context, device->port.number, &port) == 0 &&
	    port.state != IBV_PORT_ACTIVE)
		device->port_down = stretto_now();
	STRETTO_LIST_FOR_SAFE (it, &device->endpoints)
		renew_endpoint(stretto_container_of(it, struct verbs_endpoint, link));
	device->next_tick = 0;
}
