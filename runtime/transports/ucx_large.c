/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_large.c: payloads that go straight into announced receives. See ucx.h. */
#include <stdlib.h>

#include "runtime/transports/ucx.h"

/* The tag of a receive of the rank with that secret. */
static ucp_tag_t tag_of(uint64_t secret, uint64_t number)
{
	return secret << 32 | (number & UINT32_MAX);
}

/* A transfer from the spare ones, or a new one. NULL: out of memory, and the endpoint is broken. */
static struct ucx_transfer *new_transfer(struct ucx_endpoint *endpoint,
					 const struct stretto_key *key,
					 const struct stretto_signature *signature, size_t bytes)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct ucx_transfer *transfer;

	if (stretto_list_empty(&device->spare_transfers)) {
		transfer = malloc(sizeof *transfer);
		if (!transfer) {
			ucx_break(endpoint, "no memory for a transfer");
			return NULL;
		}
	} else {
		transfer = stretto_container_of(device->spare_transfers.next, struct ucx_transfer,
						link);
		stretto_list_remove(&transfer->link);
	}
	*transfer = (struct ucx_transfer){
		.endpoint = endpoint, .key = *key, .signature = *signature, .bytes = bytes};
	return transfer;
}

void ucx_free_transfer(struct ucx_device *device, struct ucx_transfer *transfer)
{
	stretto_list_remove(&transfer->link);
	if (transfer->dropped)
		device->dropped--;
	transfer->endpoint = NULL;
	transfer->memory = NULL;
	stretto_list_append(&device->spare_transfers, &transfer->link);
}

static struct ucx_transfer *find_transfer(struct stretto_list *list, const struct stretto_key *key)
{
	STRETTO_LIST_FOR (it, list) {
		struct ucx_transfer *transfer = stretto_container_of(it, struct ucx_transfer, link);

		if (stretto_key_equal(&transfer->key, key))
			return transfer;
	}
	return NULL;
}

/* UCX has sent a payload, or cannot. One without endpoint is freed with its device. */
static void payload_sent(void *request, ucs_status_t status, void *user_data)
{
	struct ucx_transfer *transfer = user_data;
	struct ucx_endpoint *endpoint = transfer->endpoint;
	struct stretto_send *send = transfer->send;

	ucp_request_free(request);
	if (!endpoint) {
		transfer->memory = NULL;
		return;
	}
	ucx_free_transfer(ucx_device_at(endpoint), transfer);
	if (status != UCS_OK)
		ucx_break_by(endpoint, "a payload could not be sent", status);
	else if (send)
		send->done(send, STRETTO_OK);
}

/* Send and announcement have met in `transfer`, and are alike. */
static void send_payload(struct ucx_endpoint *endpoint, struct ucx_transfer *transfer)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct stretto_send *send = transfer->send;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = payload_sent,
		.user_data = transfer,
	};
	ucs_status_ptr_t request;

	transfer->memory = ucx_memory_of(device, send->region);
	if (transfer->memory) {
		param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
		param.memh = transfer->memory;
	}
	request = ucp_tag_send_nbx(endpoint->link->ep, send->data, send->bytes,
				   tag_of(endpoint->peer.secret, transfer->number), &param);
	if (UCS_PTR_IS_ERR(request)) {
		ucx_free_transfer(device, transfer); /* its operation ends with the endpoint */
		ucx_break_by(endpoint, "a payload could not be sent", UCS_PTR_STATUS(request));
		return;
	}
	endpoint->sent++;
	if (request) {
		stretto_list_append(&endpoint->sending, &transfer->link);
		return;
	}
	ucx_free_transfer(device, transfer);
	send->done(send, STRETTO_OK);
}

/* Send and announcement have met. The peer's receive is of `signature` and `bytes`. */
static void begin_transfer(struct ucx_endpoint *endpoint, struct ucx_transfer *transfer,
			   const struct stretto_signature *signature, size_t bytes)
{
	struct stretto_send *send = transfer->send;
	struct ucx_header header;

	stretto_list_remove(&transfer->link);
	if (ucx_same(signature, &send->signature) && bytes == send->bytes) {
		send_payload(endpoint, transfer);
		return;
	}
	header = ucx_header_of(UCX_REFUSE, &send->key, &send->signature, send->bytes);
	header.number = transfer->number;
	ucx_control(endpoint, &header, NULL);
	ucx_check(endpoint, &send->key, signature);
	ucx_free_transfer(ucx_device_at(endpoint), transfer);
	send->done(send, STRETTO_MISMATCH);
}

stretto_status ucx_send_large(struct ucx_endpoint *endpoint, struct stretto_send *send)
{
	struct ucx_transfer *transfer;

	if (endpoint->why[0] != '\0')
		return STRETTO_AGAIN; /* it ends at the next pass */
	transfer = find_transfer(&endpoint->cleared, &send->key);
	if (transfer) {
		transfer->send = send;
		begin_transfer(endpoint, transfer, &transfer->signature, transfer->bytes);
		return STRETTO_OK;
	}
	transfer = new_transfer(endpoint, &send->key, &send->signature, send->bytes);
	if (!transfer)
		return STRETTO_NO_MEMORY;
	transfer->send = send;
	stretto_list_append(&endpoint->waiting, &transfer->link);
	return STRETTO_OK;
}

struct ucx_receive *ucx_receive_of(const struct ucx_endpoint *endpoint, uint64_t number)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct ucx_receive *receive = &device->receives[(uint16_t)number % UCX_ANNOUNCED];

	if (!receive->request || receive->endpoint != endpoint ||
	    receive->generation != number >> 16)
		return NULL;
	return receive;
}

static void free_receive(struct ucx_receive *receive)
{
	struct ucx_device *device = receive->device;

	if (receive->revoked)
		device->revoked--;
	receive->recv = NULL;
	receive->endpoint = NULL;
	receive->request = NULL;
	receive->memory = NULL;
	receive->next = device->free_receive;
	device->free_receive = (uint16_t)(receive - device->receives);
}

/* A payload is in its receive; or UCX has given the receive up. */
static void payload_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
			     void *user_data)
{
	struct ucx_receive *receive = user_data;
	struct ucx_endpoint *endpoint = receive->endpoint;
	struct stretto_recv *recv = receive->recv;

	ucp_request_free(request);
	free_receive(receive);
	if (!endpoint || endpoint->state == UCX_FAILED)
		return;
	if (status == UCS_ERR_CANCELED)
		return; /* by us */
	if (status != UCS_OK) {
		ucx_break_by(endpoint, "a payload could not be received", status);
		return;
	}
	endpoint->received++;
	if (!recv)
		return; /* cancelled */
	if (info->length != recv->bytes) {
		ucx_break(endpoint, "it sent a payload of %zu bytes for %zu", info->length,
			  recv->bytes);
		return;
	}
	stretto_list_remove(&recv->link);
	recv->received = recv->bytes;
	recv->done(recv, STRETTO_OK);
}

/* Posts the receive to UCX. false: the endpoint is broken. */
static bool post_receive(struct ucx_endpoint *endpoint, struct ucx_receive *receive,
			 struct stretto_recv *recv, uint64_t number)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = payload_received,
		.user_data = receive,
	};
	ucs_status_ptr_t request;

	receive->memory = ucx_memory_of(device, recv->region);
	if (receive->memory) {
		param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
		param.memh = receive->memory;
	}
	request = ucp_tag_recv_nbx(device->worker, recv->data, recv->bytes,
				   tag_of(device->address.secret, number), UINT64_MAX, &param);
	if (UCS_PTR_IS_PTR(request)) {
		receive->request = request;
		return true;
	}
	receive->memory = NULL;
	ucx_break_by(endpoint, "a receive could not be posted", UCS_PTR_STATUS(request));
	return false;
}

bool ucx_announce(struct ucx_endpoint *endpoint, struct stretto_recv *recv)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct ucx_header header =
		ucx_header_of(UCX_CLEAR, &recv->key, &recv->signature, recv->bytes);
	struct ucx_receive *receive;

	if (device->free_receive == UCX_ANNOUNCED || !ucx_can_send(endpoint))
		return false;
	receive = &device->receives[device->free_receive];
	header.number = (uint32_t)(uint16_t)(receive->generation + 1) << 16 | device->free_receive;
	if (!post_receive(endpoint, receive, recv, header.number))
		return false;
	device->free_receive = receive->next;
	receive->generation++;
	receive->device = device;
	receive->recv = recv;
	receive->endpoint = endpoint;
	receive->key = recv->key;
	receive->revoked = 0;
	receive->gone = false;
	recv->scratch[0] = header.number;
	stretto_list_remove(&recv->link);
	stretto_list_append(&endpoint->announced, &recv->link);
	ucx_send(endpoint, &header, NULL, 0);
	return true;
}

struct stretto_recv *ucx_posted_large(const struct ucx_endpoint *endpoint,
				      const struct stretto_key *key)
{
	const struct stretto_list *lists[] = {&endpoint->unannounced, &endpoint->announced};

	for (size_t i = 0; i < 2; i++)
		STRETTO_LIST_FOR (it, lists[i]) {
			struct stretto_recv *recv =
				stretto_container_of(it, struct stretto_recv, link);

			if (stretto_key_equal(&recv->key, key))
				return recv;
		}
	return NULL;
}

void ucx_send_gone(struct ucx_endpoint *endpoint, uint64_t number)
{
	struct ucx_header header = {.kind = UCX_GONE, .number = number};

	ucx_control(endpoint, &header, NULL);
}

void ucx_take_clear(struct ucx_endpoint *endpoint, const struct ucx_header *header)
{
	struct ucx_transfer *transfer = find_transfer(&endpoint->waiting, &header->key);

	if (transfer) {
		transfer->number = header->number;
		begin_transfer(endpoint, transfer, &header->signature, header->bytes);
		return;
	}
	/* finds ranks that both receive */
	if (!ucx_check(endpoint, &header->key, &header->signature)) {
		ucx_send_gone(endpoint, header->number);
		return;
	}
	transfer = new_transfer(endpoint, &header->key, &header->signature, header->bytes);
	if (!transfer)
		return;
	transfer->number = header->number;
	stretto_list_append(&endpoint->cleared, &transfer->link);
}

void ucx_take_refuse(struct ucx_endpoint *endpoint, const struct ucx_header *header)
{
	struct ucx_receive *receive = ucx_receive_of(endpoint, header->number);
	struct stretto_recv *recv;

	if (!receive)
		return;
	recv = receive->recv;
	receive->recv = NULL;
	ucp_request_cancel(ucx_device_at(endpoint)->worker, receive->request);
	if (!recv)
		return; /* cancelled */
	stretto_list_remove(&recv->link);
	ucx_check(endpoint, &header->key, &header->signature);
	recv->done(recv, STRETTO_MISMATCH);
}

void ucx_take_ask(struct ucx_endpoint *endpoint, const struct ucx_header *header)
{
	struct stretto_recv *recv;

	if (ucx_posted_large(endpoint, &header->key))
		return; /* its announcement is on the way */
	/* here it is a small one: the lengths differ */
	recv = stretto_match_posted(&endpoint->match, &header->key);
	ucx_check(endpoint, &header->key, &header->signature);
	if (recv)
		recv->done(recv, STRETTO_MISMATCH);
}

void ucx_ask(struct ucx_endpoint *endpoint)
{
	const struct ucx_transfer *transfer;
	struct ucx_header header;

	if (stretto_list_empty(&endpoint->waiting) || !ucx_can_send(endpoint))
		return;
	transfer = stretto_container_of(endpoint->waiting.next, struct ucx_transfer, link);
	header = ucx_header_of(UCX_ASK, &transfer->key, &transfer->signature, transfer->bytes);
	ucx_send(endpoint, &header, NULL, 0);
}
