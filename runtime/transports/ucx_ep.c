/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_ep.c: endpoints, from the first message to their end. See ucx.h.
 *
 *   rank 0                            rank 1
 *   connect()
 *   UCX endpoint, HELLO  ---------->  wanted(): the channel connects too
 *   ready                <----------  UCX endpoint, HELLO; ready: it has heard of rank 0
 *
 * A rank is ready once it has heard of the other, so no payload reaches a rank that has no endpoint
 * to take it. disconnect() says PART; so the other end need not wait for UCX to notice.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/ucx.h"

/*
 * How long UCX may take to report an error that a send has already met. UCX 1.13 aborts the process
 * if a TCP connection that was refused is closed by force before it has.
 */
#define REPORT_SECONDS 0.2

/* UCX has found that a connection is broken. */
static void on_error(void *argument, ucp_ep_h ep, ucs_status_t status)
{
	struct ucx_link *link = argument;

	(void)ep;
	link->failed = true;
	if (link->endpoint)
		ucx_break_by(link->endpoint, "the connection is broken", status);
}

void ucx_break(struct ucx_endpoint *endpoint, const char *format, ...)
{
	va_list arguments;

	if (endpoint->state == UCX_FAILED || endpoint->why[0] != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(endpoint->why, sizeof endpoint->why, format, arguments);
	va_end(arguments);
	ucx_device_at(endpoint)->attention = true;
}

void ucx_break_by(struct ucx_endpoint *endpoint, const char *what, ucs_status_t status)
{
	ucx_break(endpoint, "%s: %s; %s", what, ucs_status_string(status), ucx_meaning(status));
}

static void free_link(struct ucx_link *link)
{
	stretto_list_remove(&link->link);
	free(link);
}

/* Closes a UCX endpoint; by force: what is under way is lost, and touches memory no more. */
static void close_now(struct ucx_link *link, bool force)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
	};
	ucs_status_ptr_t request = ucp_ep_close_nbx(link->ep, &param);

	if (UCS_PTR_IS_PTR(request))
		link->closing = request;
	else
		free_link(link);
}

static void go_on_closing(struct ucx_link *link)
{
	if (!link->closing) {
		if (link->failed || stretto_now() >= link->close_at)
			close_now(link, true);
	} else if (ucp_request_check_status(link->closing) != UCS_INPROGRESS) {
		ucp_request_free(link->closing);
		free_link(link);
	}
}

bool ucx_reap(struct ucx_device *device)
{
	STRETTO_LIST_FOR_SAFE (it, &device->closing)
		go_on_closing(stretto_container_of(it, struct ucx_link, link));
	return stretto_list_empty(&device->closing);
}

/* Gives the UCX endpoint up; by force as soon as that is safe. */
static void close_link(struct ucx_endpoint *endpoint, bool force)
{
	struct ucx_link *link = endpoint->link;

	if (!link)
		return;
	endpoint->link = NULL;
	link->endpoint = NULL;
	stretto_list_append(&ucx_device_at(endpoint)->closing, &link->link);
	if (force && !endpoint->parting)
		link->close_at = stretto_after(stretto_now(), REPORT_SECONDS);
	else
		close_now(link, force);
}

/* Makes the UCX endpoint. NULL: the endpoint is broken. */
static struct ucx_link *open_link(struct ucx_endpoint *endpoint)
{
	struct ucx_link *link = calloc(1, sizeof *link);
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const ucp_address_t *)(const void *)endpoint->worker_address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = on_error, .arg = link},
	};
	ucs_status_t status;

	if (!link) {
		ucx_break(endpoint, "no memory for the endpoint");
		return NULL;
	}
	stretto_list_init(&link->link);
	link->endpoint = endpoint;
	status = ucp_ep_create(ucx_device_at(endpoint)->worker, &params, &link->ep);
	if (status == UCS_OK)
		return link;
	free(link);
	ucx_break_by(endpoint, "ucp_ep_create", status);
	return NULL;
}

static void begin(struct ucx_endpoint *endpoint)
{
	struct ucx_header hello = ucx_header_of(UCX_HELLO, NULL, NULL, 0);
	uint8_t known = ucx_device_at(endpoint)->known[endpoint->base.peer];

	if (known == UCX_PARTED) {
		ucx_break(endpoint, "it has closed its end already");
		return;
	}
	endpoint->link = open_link(endpoint);
	if (endpoint->link && ucx_send(endpoint, &hello, NULL, 0) && known == UCX_HEARD)
		ucx_established(endpoint);
}

void ucx_established(struct ucx_endpoint *endpoint)
{
	if (endpoint->state != UCX_CONNECTING)
		return;
	if (!endpoint->link) { /* it is quicker than our begin() */
		ucx_device_at(endpoint)->known[endpoint->base.peer] = UCX_HEARD;
		return;
	}
	endpoint->state = UCX_READY;
	endpoint->received_since = stretto_now();
	ucx_device_at(endpoint)->connecting--;
	stretto_debug("ucx: connected to rank %d on %s", endpoint->base.peer, endpoint->peer.host);
	ucx_send_queued(endpoint);
	ucx_push(endpoint);
}

/* Ends an endpoint that is broken. */
static void fail(struct ucx_endpoint *endpoint)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct ucx_device *device = ucx_device_at(endpoint);
	char why[UCX_WHY + 160];

	if (endpoint->state == UCX_CONNECTING)
		device->connecting--;
	endpoint->state = UCX_FAILED;
	endpoint->ended = stretto_now();
	ucx_forget(endpoint);
	close_link(endpoint, true);
	snprintf(why, sizeof why,
		 "%s (UCX, there %s). Usual causes: its process or node has ended, or the network "
		 "between is down",
		 endpoint->why, endpoint->peer.host);
	env->failed(env->context, endpoint->base.peer, why);
}

size_t ucx_attend(struct ucx_device *device)
{
	size_t count = 0;

	if (!device->attention)
		return 0;
	device->attention = false;
	STRETTO_LIST_FOR_SAFE (it, &device->endpoints) {
		struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		if (endpoint->state == UCX_CONNECTING && !endpoint->link &&
		    endpoint->why[0] == '\0') {
			begin(endpoint);
			count++;
		}
		if (endpoint->state != UCX_FAILED && endpoint->why[0] != '\0') {
			fail(endpoint);
			count++;
		}
	}
	return count;
}

/* The blob has been checked by reaches(), but its text may lack its end. */
static void take_address(struct ucx_endpoint *endpoint, const void *blob)
{
	const struct ucx_device *device = ucx_device_at(endpoint);

	memcpy(&endpoint->peer, blob, sizeof endpoint->peer);
	memcpy(endpoint->worker_address, (const char *)blob + sizeof endpoint->peer,
	       endpoint->peer.worker_bytes);
	endpoint->peer.host[sizeof endpoint->peer.host - 1] = '\0';
	endpoint->eager = device->address.eager < endpoint->peer.eager ? device->address.eager
								       : endpoint->peer.eager;
}

stretto_status ucx_connect(struct stretto_device *base, int peer, const void *blob, size_t bytes,
			   struct stretto_endpoint **out)
{
	struct ucx_device *device = ucx_device_of(base);
	struct ucx_endpoint *endpoint;

	if (bytes <= sizeof endpoint->peer || bytes > STRETTO_ADDRESS_MAX)
		return STRETTO_INTERNAL;
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return STRETTO_NO_MEMORY;
	endpoint->base.transport = &stretto_transport_ucx;
	endpoint->base.device = base;
	endpoint->base.peer = peer;
	take_address(endpoint, blob);
	endpoint->started = stretto_now();
	stretto_match_init(&endpoint->match);
	struct stretto_list *lists[] = {&endpoint->underway,  &endpoint->unannounced,
					&endpoint->announced, &endpoint->cleared,
					&endpoint->waiting,   &endpoint->sending,
					&endpoint->queued};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		stretto_list_init(lists[i]);
	stretto_list_append(&device->endpoints, &endpoint->in_device);
	device->by_rank[peer] = endpoint;
	device->connecting++;
	/* soon: not now, since a failure would be told before the caller has the endpoint */
	device->attention = true;
	*out = &endpoint->base;
	return STRETTO_OK;
}

void ucx_disconnect(struct stretto_endpoint *base)
{
	struct ucx_endpoint *endpoint = ucx_endpoint_of(base);
	struct ucx_device *device = ucx_device_at(endpoint);
	struct ucx_header part = ucx_header_of(UCX_PART, NULL, NULL, 0);
	bool good = endpoint->state != UCX_FAILED && endpoint->why[0] == '\0';

	if (endpoint->state == UCX_CONNECTING)
		device->connecting--;
	part.number = endpoint->sent;
	if (good && endpoint->link)
		good = ucx_send(endpoint, &part, NULL, 0);
	ucx_forget_all(endpoint);
	ucx_orphan_messages(endpoint);
	/* not by force: what is under way leaves first; but a peer that has parted takes nothing */
	close_link(endpoint, !good || endpoint->parting);
	device->by_rank[endpoint->base.peer] = NULL;
	device->known[endpoint->base.peer] = UCX_UNHEARD;
	stretto_match_fini(&endpoint->match);
	stretto_list_remove(&endpoint->in_device);
	free(endpoint);
}
