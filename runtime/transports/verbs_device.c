/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_device.c: the device and the transport table. See verbs.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

static bool verbs_usable(const struct stretto_config *config, char *why, size_t size)
{
	struct verbs_port port;

	return verbs_choose(config, 0, &port, why, size);
}

static stretto_status broken(const struct verbs_device *device, const char *call)
{
	int error = errno;

	stretto_error("verbs: %s on %s: %s%s", call, device->port.device, strerror(error),
		      error == ENOMEM ? "; the device is out of resources, or RLIMIT_MEMLOCK "
					"(ulimit -l) is too low"
				      : "");
	return error == ENOMEM ? STRETTO_NO_MEMORY : STRETTO_SYSTEM;
}

static struct ibv_context *open_context(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	errno = ENODEV;
	for (struct ibv_device **it = devices; it && *it && !context; it++)
		if (strcmp(ibv_get_device_name(*it), name) == 0)
			context = ibv_open_device(*it);
	if (devices)
		ibv_free_device_list(devices);
	return context;
}

static stretto_status watch(struct verbs_device *device, int fd)
{
	const struct stretto_device_env *env = device->base.env;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return broken(device, "fcntl");
	return env->watch(env->context, fd);
}

/* Entries that the shared receive queue needs if this rank connects to all others. */
static uint32_t most_slots(const struct verbs_device *device, uint32_t limit)
{
	uint64_t most = (uint64_t)device->base.env->size * VERBS_PER_ENDPOINT + VERBS_ANNOUNCED +
			VERBS_SLACK;

	return most < limit ? (uint32_t)most : limit;
}

/* The queues that all endpoints share. */
static stretto_status make_queues(struct verbs_device *device)
{
	struct ibv_srq_init_attr attributes = {.attr = {.max_sge = 1}};
	struct ibv_device_attr limits;

	if (ibv_query_device(device->context, &limits) != 0)
		return broken(device, "ibv_query_device");
	device->srq_depth = most_slots(device, (uint32_t)limits.max_srq_wr);
	device->cq_most = (uint32_t)limits.max_cqe;
	device->cq_wanted = device->srq_depth;
	device->cq_depth = device->srq_depth + 4 * VERBS_SEND_DEPTH;
	if (device->cq_depth > device->cq_most)
		device->cq_depth = device->cq_most;
	device->pd = ibv_alloc_pd(device->context);
	if (!device->pd)
		return broken(device, "ibv_alloc_pd");
	device->completions = ibv_create_comp_channel(device->context);
	if (!device->completions)
		return broken(device, "ibv_create_comp_channel");
	device->cq =
		ibv_create_cq(device->context, (int)device->cq_depth, NULL, device->completions, 0);
	if (!device->cq)
		return broken(device, "ibv_create_cq");
	attributes.attr.max_wr = device->srq_depth;
	device->srq = ibv_create_srq(device->pd, &attributes);
	if (!device->srq)
		return broken(device, "ibv_create_srq");
	return watch(device, device->completions->fd);
}

static stretto_status make_address(struct verbs_device *device)
{
	struct verbs_address *address = &device->address;
	const struct verbs_port *port = &device->port;

	*address = (struct verbs_address){
		.magic = VERBS_MAGIC,
		.version = VERBS_VERSION,
		.link_layer = port->link_layer,
		.port = port->number,
		.mtu = port->mtu,
		.eager = (uint32_t)device->base.env->config->verbs_eager_bytes,
		.lid = port->lid,
		.oob = device->base.env->config->verbs_oob,
		.ips = port->ips,
	};
	memcpy(address->device, port->device, sizeof address->device);
	gethostname(address->host, sizeof address->host - 1);
	if (getrandom(address->secret, sizeof address->secret, 0) < 0)
		return broken(device, "getrandom");
	return STRETTO_OK;
}

static void verbs_close(struct stretto_device *base);

static stretto_status make(struct verbs_device *device)
{
	stretto_status status;

	device->context = open_context(device->port.device);
	if (!device->context)
		return broken(device, "ibv_open_device");
	status = make_address(device);
	if (status == STRETTO_OK)
		status = watch(device, device->context->async_fd);
	if (status == STRETTO_OK)
		status = make_queues(device);
	if (status == STRETTO_OK)
		status = verbs_way_of(device)->open(device);
	return status;
}

/*
 * fork() in the application: where the kernel copies pinned pages for the child nothing is needed;
 * elsewhere pages must be marked, which is possible only before memory is registered.
 */
static void prepare_for_fork(void)
{
	int error = ibv_is_fork_initialized() == IBV_FORK_DISABLED ? ibv_fork_init() : 0;

	if (error)
		stretto_warn("verbs: fork() is not safe in this process: ibv_fork_init: %s; set "
			     "RDMAV_FORK_SAFE=1, or initialize before other RDMA libraries",
			     strerror(error));
}

static stretto_status verbs_open(const struct stretto_device_env *env, struct stretto_device **out)
{
	struct verbs_device *device = calloc(1, sizeof *device);
	char why[1024];
	stretto_status status;

	if (!device)
		return STRETTO_NO_MEMORY;
	device->base.transport = &stretto_transport_verbs;
	device->base.env = env;
	stretto_list_init(&device->endpoints);
	stretto_list_init(&device->visitors);
	stretto_list_init(&device->spare_transfers);
	for (int i = 0; i < VERBS_ANNOUNCED; i++)
		device->receives[i].next = (uint16_t)(i + 1);
	if (!verbs_choose(env->config, env->channel, &device->port, why, sizeof why)) {
		stretto_error("verbs: %s", why);
		free(device);
		return STRETTO_SYSTEM;
	}
	stretto_info("verbs: channel %d: %s", env->channel, why);
	device->base.speed = (uint32_t)(device->port.speed / 1000000 / device->port.sharers);
	prepare_for_fork();
	status = make(device);
	if (status != STRETTO_OK) {
		verbs_close(&device->base);
		return status;
	}
	*out = &device->base;
	return STRETTO_OK;
}

static void unwatch(const struct verbs_device *device, int fd)
{
	device->base.env->unwatch(device->base.env->context, fd);
}

static void free_transfers(struct stretto_list *list)
{
	while (!stretto_list_empty(list)) {
		struct stretto_list *first = list->next;

		stretto_list_remove(first);
		free(stretto_container_of(first, struct verbs_transfer, link));
	}
}

/* Also of a device that was not made completely. */
static void verbs_close(struct stretto_device *base)
{
	struct verbs_device *device = verbs_device_of(base);

	verbs_end_old(device);
	verbs_way_of(device)->close(device);
	if (device->srq)
		ibv_destroy_srq(device->srq);
	if (device->cq) {
		ibv_ack_cq_events(device->cq, device->events_to_ack);
		ibv_destroy_cq(device->cq);
	}
	if (device->completions) {
		unwatch(device, device->completions->fd);
		ibv_destroy_comp_channel(device->completions);
	}
	verbs_free_slabs(device);
	for (size_t i = 0; i < device->region_count; i++)
		if (device->regions[i].mr)
			ibv_dereg_mr(device->regions[i].mr);
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	if (device->context) {
		unwatch(device, device->context->async_fd);
		ibv_close_device(device->context);
	}
	free_transfers(&device->spare_transfers);
	free(device->regions);
	free(device);
}

static size_t verbs_address(const struct stretto_device *base, void *blob)
{
	const struct verbs_device *device =
		stretto_container_of(base, const struct verbs_device, base);

	memcpy(blob, &device->address, sizeof device->address);
	return sizeof device->address;
}

static bool verbs_reaches(const struct stretto_device *base, int peer, const void *blob,
			  size_t bytes)
{
	const struct verbs_device *device =
		stretto_container_of(base, const struct verbs_device, base);
	struct verbs_address address;
	struct verbs_pair pair;

	if (bytes != sizeof address)
		return false;
	memcpy(&address, blob, sizeof address);
	return address.magic == VERBS_MAGIC && address.version == VERBS_VERSION &&
	       address.link_layer == device->address.link_layer &&
	       address.oob == device->address.oob && verbs_good_ips(&address.ips) &&
	       (!verbs_needs_ips(device) || verbs_pair_with(device, peer, &address, &pair));
}

static bool verbs_told(const struct stretto_device *base)
{
	const struct verbs_device *device =
		stretto_container_of(base, const struct verbs_device, base);

	STRETTO_LIST_FOR (it, &device->endpoints) {
		const struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		if (endpoint->state == VERBS_CONNECTING ||
		    (endpoint->state == VERBS_READY &&
		     (!stretto_list_empty(&endpoint->queued) ||
		      endpoint->completed < endpoint->notice_end)))
			return false;
	}
	return true;
}

static void verbs_publish(struct stretto_device *base, const struct stretto_peer_state *state)
{
	struct verbs_device *device = verbs_device_of(base);

	device->state = *state;
	device->state_version++;
}

static bool verbs_peer_state(const struct stretto_endpoint *base, struct stretto_peer_state *state)
{
	const struct verbs_endpoint *endpoint =
		stretto_container_of(base, const struct verbs_endpoint, base);

	if (endpoint->has_peer_state)
		*state = endpoint->peer_state;
	return endpoint->has_peer_state;
}

const struct stretto_transport stretto_transport_verbs = {
	.name = "verbs",
	.probe = verbs_usable,
	.open = verbs_open,
	.close = verbs_close,
	.address = verbs_address,
	.reaches = verbs_reaches,
	.connect = verbs_connect,
	.disconnect = verbs_disconnect,
	.add_region = verbs_add_region,
	.drop_region = verbs_drop_region,
	.post_send = verbs_post_send,
	.post_recv = verbs_post_recv,
	.cancel = verbs_cancel,
	.settled = verbs_settled,
	.notify = verbs_notify,
	.poll = verbs_poll,
	.events = verbs_events,
	.arm = verbs_arm,
	.told = verbs_told,
	.publish = verbs_publish,
	.peer_state = verbs_peer_state,
};
