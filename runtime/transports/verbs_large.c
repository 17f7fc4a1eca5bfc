/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_large.c: payloads that are written straight into announced receives. See verbs.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/transports/verbs.h"

/* A transfer from the spare ones, or a new one. NULL: out of memory. */
static struct verbs_transfer *new_transfer(struct verbs_endpoint *endpoint,
					   const struct stretto_key *key,
					   const struct stretto_signature *signature, size_t bytes)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_transfer *transfer;

	if (stretto_list_empty(&device->spare_transfers)) {
		transfer = malloc(sizeof *transfer);
		if (!transfer)
			return NULL;
	} else {
		transfer = stretto_container_of(device->spare_transfers.next, struct verbs_transfer,
						link);
		stretto_list_remove(&transfer->link);
	}
	*transfer = (struct verbs_transfer){.key = *key, .signature = *signature, .bytes = bytes};
	return transfer;
}

void verbs_spare_transfers(struct verbs_device *device)
{
	for (int i = 0; i < VERBS_SPARE_TRANSFERS; i++) {
		struct verbs_transfer *transfer = malloc(sizeof *transfer);

		if (!transfer)
			return;
		stretto_list_append(&device->spare_transfers, &transfer->link);
	}
}

void verbs_free_transfer(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer)
{
	stretto_list_remove(&transfer->link);
	verbs_unregister(&transfer->memory);
	stretto_list_append(&verbs_device_at(endpoint)->spare_transfers, &transfer->link);
}

static struct verbs_transfer *find_transfer(struct stretto_list *list,
					    const struct stretto_key *key)
{
	STRETTO_LIST_FOR (it, list) {
		struct verbs_transfer *transfer =
			stretto_container_of(it, struct verbs_transfer, link);

		if (stretto_key_equal(&transfer->key, key))
			return transfer;
	}
	return NULL;
}

static void give_up_send(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer,
			 stretto_status status)
{
	struct stretto_send *send = transfer->send;

	verbs_free_transfer(endpoint, transfer);
	send->done(send, status);
}

/*
 * Send and announcement have met in `transfer`, which is in no list of interest: starts to write, or
 * refuses. The peer's receive is of `signature` and `bytes`.
 */
static void begin_transfer(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer,
			   const struct stretto_signature *signature, size_t bytes)
{
	struct stretto_send *send = transfer->send;
	stretto_status status;

	stretto_list_remove(&transfer->link);
	stretto_list_init(&transfer->link);
	if (!verbs_same(signature, &send->signature) || bytes != send->bytes) {
		struct verbs_header header =
			verbs_header_of(VERBS_REFUSE, &send->key, &send->signature, send->bytes);

		header.number = transfer->number;
		verbs_control(endpoint, &header, NULL);
		verbs_check(endpoint, &send->key, signature);
		give_up_send(endpoint, transfer, STRETTO_MISMATCH);
		return;
	}
	transfer->bytes = bytes;
	status = verbs_register_source(verbs_device_at(endpoint), send, &transfer->memory);
	if (status != STRETTO_OK) {
		give_up_send(endpoint, transfer, status);
		return;
	}
	stretto_list_append(&endpoint->ready, &transfer->link);
}

stretto_status verbs_send_large(struct verbs_endpoint *endpoint, struct stretto_send *send)
{
	struct verbs_transfer *transfer;

	transfer = find_transfer(&endpoint->cleared, &send->key);
	if (!transfer) {
		transfer = new_transfer(endpoint, &send->key, &send->signature, send->bytes);
		if (!transfer)
			return STRETTO_NO_MEMORY;
		transfer->send = send;
		stretto_list_append(&endpoint->waiting, &transfer->link);
		return STRETTO_OK;
	}
	transfer->send = send;
	begin_transfer(endpoint, transfer, &transfer->signature, transfer->bytes);
	verbs_push(endpoint);
	return STRETTO_OK;
}

struct verbs_receive *verbs_receive_of(const struct verbs_endpoint *endpoint, uint32_t number)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_receive *receive = &device->receives[number % VERBS_ANNOUNCED];

	if (receive->endpoint != endpoint || receive->generation != number >> 16)
		return NULL;
	return receive;
}

void verbs_free_receive(struct verbs_receive *receive)
{
	struct verbs_device *device = verbs_device_at(receive->endpoint);

	verbs_unregister(&receive->memory);
	receive->recv = NULL;
	receive->endpoint = NULL;
	receive->next = device->free_receive;
	device->free_receive = (uint16_t)(receive - device->receives);
	device->announced--;
}

bool verbs_announce(struct verbs_endpoint *endpoint, struct stretto_recv *recv)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_header header =
		verbs_header_of(VERBS_CLEAR, &recv->key, &recv->signature, recv->bytes);
	struct verbs_receive *receive;
	struct verbs_memory memory;
	stretto_status status;

	if (device->free_receive == VERBS_ANNOUNCED || !verbs_can_send(endpoint, 0) ||
	    !stretto_list_empty(&endpoint->queued))
		return false;
	stretto_list_remove(&recv->link);
	stretto_list_init(&recv->link);
	status = verbs_register_target(device, recv, &memory);
	if (status != STRETTO_OK) {
		recv->done(recv, status);
		return true;
	}
	receive = &device->receives[device->free_receive];
	header.number = (uint32_t)++receive->generation << 16 | device->free_receive;
	header.address = (uintptr_t)recv->data;
	header.rkey = memory.mr->rkey;
	device->free_receive = receive->next;
	device->announced++;
	device->counters.announcements++;
	receive->recv = recv;
	receive->endpoint = endpoint;
	receive->memory = memory;
	receive->key = recv->key;
	receive->revoked = 0;
	recv->scratch[0] = header.number;
	stretto_list_append(&endpoint->announced, &recv->link);
	verbs_keep_promise(device); /* its immediate takes a slot */
	verbs_send(endpoint, &header, NULL, 0, false);
	return true;
}

struct stretto_recv *verbs_posted_large(const struct verbs_endpoint *endpoint,
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

void verbs_take_clear(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct verbs_transfer *transfer = find_transfer(&endpoint->waiting, &header->key);
	bool waits = transfer != NULL;

	if (!waits) {
		/* finds ranks that both receive */
		if (!verbs_check(endpoint, &header->key, &header->signature))
			return;
		transfer = new_transfer(endpoint, &header->key, &header->signature, header->bytes);
		if (!transfer) {
			verbs_fail(endpoint, "no memory for its announcements");
			return;
		}
		stretto_list_append(&endpoint->cleared, &transfer->link);
	}
	transfer->number = header->number;
	transfer->address = header->address;
	transfer->rkey = header->rkey;
	if (waits)
		begin_transfer(endpoint, transfer, &header->signature, header->bytes);
}

static void end_receive(struct verbs_receive *receive, stretto_status status)
{
	struct stretto_recv *recv = receive->recv;

	verbs_free_receive(receive);
	if (!recv)
		return; /* cancelled */
	stretto_list_remove(&recv->link);
	recv->received = recv->bytes;
	recv->done(recv, status);
}

void verbs_take_refuse(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct verbs_receive *receive = verbs_receive_of(endpoint, header->number);

	if (!receive)
		return;
	if (receive->recv)
		verbs_check(endpoint, &header->key, &header->signature);
	else
		verbs_device_at(endpoint)->revoked--;
	end_receive(receive, STRETTO_MISMATCH);
}

void verbs_take_immediate(struct verbs_endpoint *endpoint, uint32_t number)
{
	struct verbs_receive *receive = verbs_receive_of(endpoint, number);

	if (!receive) {
		verbs_fail(endpoint, "it wrote to a receive that does not exist");
		return;
	}
	if (!receive->recv)
		verbs_device_at(endpoint)->revoked--;
	end_receive(receive, STRETTO_OK);
}

void verbs_take_ask(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct stretto_recv *recv;

	if (verbs_posted_large(endpoint, &header->key))
		return; /* its announcement is on the way */
	/* here it is a small one: the lengths differ */
	recv = stretto_match_posted(&endpoint->match, &header->key);
	verbs_check(endpoint, &header->key, &header->signature);
	if (recv)
		recv->done(recv, STRETTO_MISMATCH);
}

void verbs_ask(struct verbs_endpoint *endpoint)
{
	const struct verbs_transfer *transfer;
	struct verbs_header header;

	if (stretto_list_empty(&endpoint->waiting) || !verbs_can_send(endpoint, 0))
		return;
	transfer = stretto_container_of(endpoint->waiting.next, struct verbs_transfer, link);
	header = verbs_header_of(VERBS_ASK, &transfer->key, &transfer->signature, transfer->bytes);
	verbs_send(endpoint, &header, NULL, 0, false);
}

void verbs_finish_writes(struct verbs_endpoint *endpoint)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->writing) {
		struct verbs_transfer *transfer =
			stretto_container_of(it, struct verbs_transfer, link);

		if (transfer->end > endpoint->completed)
			break; /* they are over in order */
		if (transfer->dropped)
			verbs_free_transfer(endpoint, transfer);
		else
			give_up_send(endpoint, transfer, STRETTO_OK);
	}
}
