/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_message.c: active messages, which carry small payloads and all control. See ucx.h. */
#include <stdlib.h>

#include "runtime/log.h"
#include "runtime/transports/ucx.h"

/* Where an arrival's payload lies, in stretto_arrival.body. */
enum { DATA, FROM_UCX };

struct ucx_header ucx_header_of(enum ucx_kind kind, const struct stretto_key *key,
				const struct stretto_signature *signature, size_t bytes)
{
	struct ucx_header header = {.kind = (uint8_t)kind, .bytes = bytes};

	if (key)
		header.key = *key;
	if (signature)
		header.signature = *signature;
	return header;
}

static struct ucx_message *new_message(struct ucx_device *device)
{
	struct ucx_message *message = device->spare_messages;

	if (message) {
		device->spare_messages = message->next;
		return message;
	}
	message = malloc(sizeof *message + device->address.eager);
	if (!message)
		return NULL;
	stretto_list_init(&message->link);
	message->next_made = device->messages;
	device->messages = message;
	return message;
}

static void recycle(struct ucx_device *device, struct ucx_message *message)
{
	message->endpoint = NULL;
	message->next = device->spare_messages;
	device->spare_messages = message;
}

/* UCX has taken a message. One without endpoint is freed with its device. */
static void taken(void *request, ucs_status_t status, void *user_data)
{
	struct ucx_message *message = user_data;
	struct ucx_endpoint *endpoint = message->endpoint;

	ucp_request_free(request);
	if (!endpoint)
		return;
	stretto_list_remove(&message->link);
	endpoint->underway_count--;
	recycle(ucx_device_at(endpoint), message);
	if (status != UCS_OK)
		ucx_break_by(endpoint, "a message could not be sent", status);
}

void ucx_orphan_messages(struct ucx_endpoint *endpoint)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->underway) {
		stretto_list_remove(it);
		stretto_container_of(it, struct ucx_message, link)->endpoint = NULL;
	}
	endpoint->underway_count = 0;
}

bool ucx_can_send(const struct ucx_endpoint *endpoint)
{
	return endpoint->state == UCX_READY && endpoint->why[0] == '\0' &&
	       endpoint->underway_count < UCX_UNDERWAY;
}

bool ucx_send(struct ucx_endpoint *endpoint, struct ucx_header *header, const void *payload,
	      size_t bytes)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct ucx_message *message = new_message(device);
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
				UCP_OP_ATTR_FIELD_USER_DATA,
		.flags = UCP_AM_SEND_FLAG_EAGER,
		.cb.send = taken,
		.user_data = message,
	};
	ucs_status_ptr_t request;

	if (!message) {
		ucx_break(endpoint, "no memory for a message");
		return false;
	}
	header->rank = device->base.env->rank;
	header->secret = endpoint->peer.secret;
	message->header = *header;
	if (bytes)
		memcpy(message->payload, payload, bytes);
	request = ucp_am_send_nbx(endpoint->link->ep, UCX_MESSAGE, &message->header,
				  sizeof message->header, message->payload, bytes, &param);
	if (UCS_PTR_IS_ERR(request)) {
		recycle(device, message);
		ucx_break_by(endpoint, "a message could not be sent", UCS_PTR_STATUS(request));
		return false;
	}
	endpoint->sent += header->kind != UCX_HELLO && header->kind != UCX_PART;
	if (!request) {
		recycle(device, message);
		return true;
	}
	message->endpoint = endpoint;
	stretto_list_append(&endpoint->underway, &message->link);
	endpoint->underway_count++;
	return true;
}

void ucx_control(struct ucx_endpoint *endpoint, struct ucx_header *header,
		 const struct ucx_notice_body *body)
{
	size_t bytes = body ? sizeof *body : 0;
	struct ucx_queued *queued;

	if (endpoint->state == UCX_FAILED || endpoint->why[0] != '\0')
		return;
	if (endpoint->state == UCX_READY) {
		ucx_send(endpoint, header, body, bytes);
		ucx_hold(ucx_device_at(endpoint), true);
		return;
	}
	queued = malloc(sizeof *queued);
	if (!queued) {
		ucx_break(endpoint, "no memory for a message");
		return;
	}
	queued->header = *header;
	queued->body_bytes = (uint32_t)bytes;
	if (body)
		queued->body = *body;
	stretto_list_append(&endpoint->queued, &queued->link);
}

void ucx_send_queued(struct ucx_endpoint *endpoint)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->queued) {
		struct ucx_queued *queued = stretto_container_of(it, struct ucx_queued, link);

		stretto_list_remove(it);
		ucx_send(endpoint, &queued->header, &queued->body, queued->body_bytes);
		free(queued);
	}
}

/* From a rank without endpoint here: one that wants to be connected to, or whose end is closed. */
static void hear_of(struct ucx_device *device, const struct ucx_header *header)
{
	const struct stretto_device_env *env = device->base.env;

	if (header->kind == UCX_PART)
		device->known[header->rank] = UCX_PARTED;
	if (header->kind != UCX_HELLO)
		return; /* we have closed our end: it is told so, or knows */
	device->known[header->rank] = UCX_HEARD;
	env->wanted(env->context, header->rank);
}

/* Whether a message is from a rank of this job. What is not is dropped, and said once. */
static bool ours(struct ucx_device *device, const void *bytes, size_t length,
		 struct ucx_header *header)
{
	if (length == sizeof *header) {
		memcpy(header, bytes, sizeof *header);
		if (header->secret == device->address.secret && header->rank >= 0 &&
		    header->rank < device->base.env->size && header->rank != device->base.env->rank)
			return true;
	}
	if (!device->warned)
		stretto_warn("ucx: dropped a message of %zu bytes that is not this job's", length);
	device->warned = true;
	return false;
}

/* Keeps a payload, where UCX has it or as a copy; returns what UCX is to be told. */
static ucs_status_t keep(struct ucx_endpoint *endpoint, struct stretto_arrival *arrival,
			 const ucp_am_recv_param_t *param, size_t bytes)
{
	const void *data = (const void *)(uintptr_t)arrival->body[DATA];
	void *copy;

	if (bytes == 0) {
		arrival->body[DATA] = arrival->body[FROM_UCX] = 0;
		return UCS_OK;
	}
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) {
		arrival->body[FROM_UCX] = 1;
		return UCS_INPROGRESS;
	}
	arrival->body[FROM_UCX] = 0;
	copy = malloc(bytes);
	arrival->body[DATA] = (uintptr_t)copy;
	if (copy) {
		memcpy(copy, data, bytes);
		return UCS_OK;
	}
	stretto_list_remove(&arrival->link);
	stretto_match_recycle(&endpoint->match, arrival);
	ucx_break(endpoint, "no memory for its messages");
	return UCS_OK;
}

void ucx_release(struct ucx_device *device, struct stretto_arrival *arrival)
{
	void *data = (void *)(uintptr_t)arrival->body[DATA];

	if (arrival->body[FROM_UCX])
		ucp_am_data_release(device->worker, data);
	else
		free(data);
}

ucs_status_t ucx_arrived(void *context, const void *bytes, size_t length, void *data,
			 size_t data_bytes, const ucp_am_recv_param_t *param)
{
	struct ucx_device *device = context;
	struct stretto_arrival *arrival = NULL;
	struct ucx_endpoint *endpoint;
	struct ucx_header header;

	if (!ours(device, bytes, length, &header))
		return UCS_OK;
	endpoint = device->by_rank[header.rank];
	if (!endpoint) {
		hear_of(device, &header);
		return UCS_OK;
	}
	if (endpoint->state == UCX_FAILED)
		return UCS_OK;
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		ucx_break(endpoint, "it sent a message by rendezvous");
		return UCS_OK;
	}
	ucx_established(endpoint);
	endpoint->received += header.kind != UCX_HELLO && header.kind != UCX_PART;
	if (!ucx_take_message(endpoint, &header, data, data_bytes, &arrival))
		return UCS_OK;
	arrival->body[DATA] = (uintptr_t)data;
	return keep(endpoint, arrival, param, data_bytes);
}
