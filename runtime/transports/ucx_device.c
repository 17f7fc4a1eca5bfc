/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_device.c: the device and the transport table. See ucx.h.
 *
 * The environment of UCX (UCX_TLS, UCX_NET_DEVICES, ...) is read by UCX and not changed. What we
 * choose where it says nothing is in our own copy of the configuration: connections over TCP are
 * made without blocking; and a worker address that is longer than the bootstrap carries is asked
 * for without what reaches only this node, then, unless UCX_TLS is set, of fewer transports.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/ucx.h"

/* How long close() waits for UCX to close its endpoints. */
#define CLOSE_SECONDS 0.5

const char *ucx_meaning(ucs_status_t status)
{
	switch (status) {
	case UCS_ERR_NO_MEMORY:
	case UCS_ERR_EXCEEDS_LIMIT:
		return "memory or RLIMIT_MEMLOCK (ulimit -l) is too low";
	case UCS_ERR_NO_RESOURCE:
	case UCS_ERR_BUSY:
		return "a device or the kernel is out of resources";
	case UCS_ERR_NO_DEVICE:
	case UCS_ERR_SOME_CONNECTS_FAILED:
		return "no network device is usable; see UCX_NET_DEVICES and UCX_TLS, and ucx_info "
		       "-d";
	case UCS_ERR_UNREACHABLE:
		return "nothing answers there, or no transport in UCX_TLS reaches it";
	case UCS_ERR_CONNECTION_RESET:
	case UCS_ERR_NOT_CONNECTED:
		return "the peer's end of the connection is gone";
	case UCS_ERR_ENDPOINT_TIMEOUT:
	case UCS_ERR_TIMED_OUT:
		return "the peer is gone, or does not answer";
	case UCS_ERR_REJECTED:
		return "nothing listens there any more, or a firewall refuses it";
	case UCS_ERR_IO_ERROR:
		return "the network device reports an error";
	case UCS_ERR_UNSUPPORTED:
	case UCS_ERR_NOT_IMPLEMENTED:
		return "this UCX, or a transport in UCX_TLS, cannot do it";
	case UCS_ERR_INVALID_PARAM:
	case UCS_ERR_INVALID_ADDR:
		return "ranks run different versions of UCX, or a value in UCX's environment is "
		       "wrong";
	case UCS_ERR_MESSAGE_TRUNCATED:
		return "a payload is longer than its receive";
	default:
		return "UCX_LOG_LEVEL=info says more";
	}
}

static stretto_status broken(const char *call, ucs_status_t status)
{
	stretto_error("ucx: %s: %s; %s", call, ucs_status_string(status), ucx_meaning(status));
	return status == UCS_ERR_NO_MEMORY ? STRETTO_NO_MEMORY : STRETTO_SYSTEM;
}

/*
 * connect() must not hold the channel up until the kernel gives a dead node up. (And UCX 1.13
 * sometimes aborts the process when one that may block is refused.) UCX warns of a setting that
 * nothing uses, so it is made only where TCP may be.
 */
static void connect_without_blocking(ucp_config_t *config, const char *tls)
{
	bool tcp = !tls || *tls == '^' || strstr(tls, "tcp") || strstr(tls, "all");

	if (tcp && !getenv("UCX_TCP_CONN_NB") &&
	    ucp_config_modify(config, "CONN_NB", "y") != UCS_OK)
		stretto_debug("ucx: this UCX has no UCX_TCP_CONN_NB");
}

/* `tls` replaces UCX_TLS; NULL: it does not. */
static ucs_status_t make_context(const char *tls, int size, ucp_context_h *context)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = size > 1 ? (size_t)size - 1 : 1,
	};
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	connect_without_blocking(config, tls ? tls : getenv("UCX_TLS"));
	if (tls)
		status = ucp_config_modify(config, "TLS", tls);
	if (status == UCS_OK)
		status = ucp_init(&params, config, context);
	ucp_config_release(config);
	return status;
}

static bool ucx_usable(const struct stretto_config *config, char *why, size_t size)
{
	const char *tls = getenv("UCX_TLS");
	ucp_context_h context;
	ucs_status_t status;

	if (config->transports[0] == '\0' && config->size > 0 &&
	    config->local_size == config->size) {
		snprintf(why, size,
			 "all ranks are on this node; name it in STRETTO_TRANSPORTS to use it");
		return false;
	}
	status = make_context(NULL, config->size, &context);
	if (status != UCS_OK) {
		snprintf(why, size, "UCX %s: %s; %s", ucp_get_version_string(),
			 ucs_status_string(status), ucx_meaning(status));
		return false;
	}
	ucp_cleanup(context);
	snprintf(why, size, "UCX %s, transports: %s", ucp_get_version_string(), tls ? tls : "all");
	return true;
}

static stretto_status make_worker(struct ucx_device *device, const char *tls)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
		/* what a peer that died half way leaves is given back with the worker, silently */
		.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
	};
	const ucp_am_handler_param_t handler = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
			      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = UCX_MESSAGE,
		.flags = UCP_AM_FLAG_WHOLE_MSG,
		.cb = ucx_arrived,
		.arg = device,
	};
	ucs_status_t status = make_context(tls, device->base.env->size, &device->context);

	if (status != UCS_OK)
		return broken("ucp_init", status);
	status = ucp_worker_create(device->context, &params, &device->worker);
	if (status != UCS_OK)
		return broken("ucp_worker_create", status);
	status = ucp_worker_set_am_recv_handler(device->worker, &handler);
	return status == UCS_OK ? STRETTO_OK : broken("ucp_worker_set_am_recv_handler", status);
}

static void unmake_worker(struct ucx_device *device)
{
	if (device->worker)
		ucp_worker_destroy(device->worker);
	if (device->context)
		ucp_cleanup(device->context);
	device->worker = NULL;
	device->context = NULL;
}

static uint32_t checksum_of(const unsigned char *bytes, size_t count)
{
	uint32_t sum = 2166136261; /* FNV-1a */

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * 16777619;
	return sum;
}

/* Keeps the worker's address if it is short enough; returns its length, 0 for a failure of UCX. */
static size_t take_worker_address(struct ucx_device *device, uint32_t flags)
{
	ucp_worker_attr_t attr = {
		.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
		.address_flags = flags,
	};

	if (ucp_worker_query(device->worker, &attr) != UCS_OK)
		return 0;
	if (attr.address_length <= sizeof device->worker_address) {
		memcpy(device->worker_address, attr.address, attr.address_length);
		device->address.worker_bytes = (uint16_t)attr.address_length;
		device->address.checksum = checksum_of(device->worker_address, attr.address_length);
	}
	ucp_worker_release_address(device->worker, attr.address);
	return attr.address_length;
}

/* A worker whose address fits. */
static stretto_status make_worker_that_fits(struct ucx_device *device)
{
	static const char *const choices[] = {NULL, "rc,tcp,self", "tcp,self"};
	const size_t count = getenv("UCX_TLS") ? 1 : sizeof choices / sizeof *choices;
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		stretto_status status = make_worker(device, choices[i]);

		if (status != STRETTO_OK)
			return status;
		length = take_worker_address(device, 0);
		if (!device->address.worker_bytes)
			length = take_worker_address(device, UCP_WORKER_ADDRESS_FLAG_NET_ONLY);
		if (device->address.worker_bytes) {
			stretto_info("ucx: channel %d: UCX %s, a worker address of %zu bytes%s%s",
				     device->base.env->channel, ucp_get_version_string(), length,
				     i ? ", of transports " : "", i ? choices[i] : "");
			return STRETTO_OK;
		}
		unmake_worker(device);
	}
	stretto_error("ucx: the worker's address has %zu bytes, more than the %d that fit; name "
		      "fewer devices in UCX_NET_DEVICES or fewer transports in UCX_TLS",
		      length, UCX_WORKER_ADDRESS_MAX);
	return STRETTO_UNSUPPORTED;
}

static stretto_status make(struct ucx_device *device)
{
	const struct stretto_device_env *env = device->base.env;
	struct ucx_address *address = &device->address;
	stretto_status status;
	ucs_status_t found;
	int fd;

	device->by_rank = calloc((size_t)env->size, sizeof(struct ucx_endpoint *));
	device->known = calloc((size_t)env->size, 1);
	if (!device->by_rank || !device->known)
		return STRETTO_NO_MEMORY;
	address->magic = UCX_MAGIC;
	address->version = UCX_VERSION;
	address->eager = (uint32_t)env->config->ucx_eager_bytes;
	gethostname(address->host, sizeof address->host - 1);
	if (getrandom(&address->secret, sizeof address->secret, 0) !=
	    (ssize_t)sizeof address->secret) {
		stretto_error("ucx: getrandom gives no bytes");
		return STRETTO_SYSTEM;
	}
	status = make_worker_that_fits(device);
	if (status != STRETTO_OK)
		return status;
	found = ucp_worker_get_efd(device->worker, &fd);
	if (found != UCS_OK)
		return broken("ucp_worker_get_efd", found);
	status = env->watch(env->context, fd);
	if (status == STRETTO_OK)
		device->fd = fd;
	return status;
}

static void ucx_close(struct stretto_device *base);

static stretto_status ucx_open(const struct stretto_device_env *env, struct stretto_device **out)
{
	struct ucx_device *device = calloc(1, sizeof *device);
	stretto_status status;

	if (!device)
		return STRETTO_NO_MEMORY;
	device->base.transport = &stretto_transport_ucx;
	device->base.env = env;
	device->fd = -1;
	stretto_list_init(&device->endpoints);
	stretto_list_init(&device->closing);
	stretto_list_init(&device->spare_transfers);
	stretto_list_init(&device->orphans);
	for (int i = 0; i < UCX_ANNOUNCED; i++) {
		device->receives[i].device = device;
		device->receives[i].next = (uint16_t)(i + 1);
	}
	status = make(device);
	if (status != STRETTO_OK) {
		ucx_close(&device->base);
		return status;
	}
	*out = &device->base;
	return STRETTO_OK;
}

static void free_transfers(struct stretto_list *list)
{
	while (!stretto_list_empty(list)) {
		struct stretto_list *first = list->next;

		stretto_list_remove(first);
		free(stretto_container_of(first, struct ucx_transfer, link));
	}
}

static void free_messages(struct ucx_device *device)
{
	while (device->messages) {
		struct ucx_message *message = device->messages;

		device->messages = message->next_made;
		free(message);
	}
}

/*
 * Lets UCX close its endpoints: what was sent last leaves. Over TCP it waits for the peer's answer,
 * which a peer that is outside the library does not give; what the kernel has is delivered anyway.
 */
static void finish_closing(struct ucx_device *device)
{
	uint64_t until = stretto_after(stretto_now(), CLOSE_SECONDS);
	struct pollfd event = {.fd = device->fd, .events = POLLIN};

	while (!ucx_reap(device) && stretto_now() < until)
		if (ucp_worker_progress(device->worker) == 0 &&
		    ucp_worker_arm(device->worker) == UCS_OK)
			poll(&event, 1, 10);
}

static void free_links(struct ucx_device *device)
{
	while (!stretto_list_empty(&device->closing)) {
		struct stretto_list *first = device->closing.next;
		struct ucx_link *link;

		stretto_list_remove(first);
		link = stretto_container_of(first, struct ucx_link, link);
		if (link->closing)
			ucp_request_free(link->closing);
		free(link);
	}
}

/* Also of a device that was not made completely. */
static void ucx_close(struct stretto_device *base)
{
	struct ucx_device *device = ucx_device_of(base);

	finish_closing(device);
	free_links(device); /* those that UCX has not closed go with the worker */
	ucx_hold(device, false);
	if (device->fd >= 0)
		base->env->unwatch(base->env->context, device->fd);
	if (device->worker)
		ucp_worker_destroy(device->worker); /* its last callbacks come now */
	device->worker = NULL;
	ucx_unmap_all(device);
	unmake_worker(device);
	free_messages(device);
	free_transfers(&device->orphans);
	free_transfers(&device->spare_transfers);
	free(device->by_rank);
	free(device->known);
	free(device);
}

static size_t ucx_address(const struct stretto_device *base, void *blob)
{
	const struct ucx_device *device = stretto_container_of(base, const struct ucx_device, base);

	memcpy(blob, &device->address, sizeof device->address);
	memcpy((char *)blob + sizeof device->address, device->worker_address,
	       device->address.worker_bytes);
	return sizeof device->address + device->address.worker_bytes;
}

static bool ucx_reaches(const struct stretto_device *base, int peer, const void *blob, size_t bytes)
{
	struct ucx_address address;

	(void)base;
	(void)peer;
	if (bytes <= sizeof address || bytes > STRETTO_ADDRESS_MAX)
		return false;
	memcpy(&address, blob, sizeof address);
	return address.magic == UCX_MAGIC && address.version == UCX_VERSION &&
	       bytes == sizeof address + address.worker_bytes &&
	       address.checksum == checksum_of((const unsigned char *)blob + sizeof address,
					       address.worker_bytes);
}

static bool ucx_told(const struct stretto_device *base)
{
	const struct ucx_device *device = stretto_container_of(base, const struct ucx_device, base);

	STRETTO_LIST_FOR (it, &device->endpoints) {
		const struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		if (endpoint->state == UCX_CONNECTING ||
		    (endpoint->state == UCX_READY && endpoint->underway_count > 0))
			return false;
	}
	return true;
}

static void ucx_publish(struct stretto_device *base, const struct stretto_peer_state *state)
{
	struct ucx_device *device = ucx_device_of(base);

	device->state = *state;
	device->state_version++;
}

static bool ucx_peer_state(const struct stretto_endpoint *base, struct stretto_peer_state *state)
{
	const struct ucx_endpoint *endpoint =
		stretto_container_of(base, const struct ucx_endpoint, base);

	if (endpoint->state_heard)
		*state = endpoint->peer_state;
	return endpoint->state_heard != 0;
}

const struct stretto_transport stretto_transport_ucx = {
	.name = "ucx",
	.probe = ucx_usable,
	.open = ucx_open,
	.close = ucx_close,
	.address = ucx_address,
	.reaches = ucx_reaches,
	.connect = ucx_connect,
	.disconnect = ucx_disconnect,
	.add_region = ucx_add_region,
	.drop_region = ucx_drop_region,
	.post_send = ucx_post_send,
	.post_recv = ucx_post_recv,
	.cancel = ucx_cancel,
	.settled = ucx_settled,
	.notify = ucx_notify,
	.poll = ucx_poll,
	.events = ucx_events,
	.arm = ucx_arm,
	.told = ucx_told,
	.publish = ucx_publish,
	.peer_state = ucx_peer_state,
};
