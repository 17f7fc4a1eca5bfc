/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_data.c: how sends and receives become messages and writes. See verbs.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

static struct verbs_header header_of(enum verbs_kind kind, const struct stretto_key *key,
				     const struct stretto_signature *signature, size_t bytes)
{
	struct verbs_header header = {.kind = (uint8_t)kind, .bytes = bytes};

	if (key)
		header.key = *key;
	if (signature)
		header.signature = *signature;
	return header;
}

static bool same(const struct stretto_signature *a, const struct stretto_signature *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static bool check(const struct verbs_endpoint *endpoint, const struct stretto_key *key,
		  const struct stretto_signature *signature)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	return env->check(env->context, endpoint->base.peer, key, signature);
}

void verbs_control(struct verbs_endpoint *endpoint, const struct verbs_header *header,
		   const struct verbs_notice_body *body)
{
	size_t bytes = body ? sizeof *body : 0;
	struct verbs_header copy = *header;
	struct verbs_queued *queued;

	if (endpoint->state == VERBS_FAILED)
		return;
	if (stretto_list_empty(&endpoint->queued) && verbs_can_send(endpoint, bytes)) {
		verbs_send(endpoint, &copy, body, bytes, body != NULL);
		if (body)
			endpoint->notice_end = endpoint->posted;
		return;
	}
	queued = malloc(sizeof *queued);
	if (!queued) {
		verbs_fail(endpoint, "no memory for a control message");
		return;
	}
	queued->header = *header;
	queued->body_bytes = (uint32_t)bytes;
	if (body)
		queued->body = *body;
	stretto_list_append(&endpoint->queued, &queued->link);
	if (endpoint->state == VERBS_READY)
		verbs_hold(endpoint, true);
}

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
	if (!same(signature, &send->signature) || bytes != send->bytes) {
		struct verbs_header header =
			header_of(VERBS_REFUSE, &send->key, &send->signature, send->bytes);

		header.number = transfer->number;
		verbs_control(endpoint, &header, NULL);
		check(endpoint, &send->key, signature);
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

static stretto_status send_eager(struct verbs_endpoint *endpoint, struct stretto_send *send)
{
	struct verbs_header header =
		header_of(VERBS_EAGER, &send->key, &send->signature, send->bytes);

	if (!verbs_can_send(endpoint, send->bytes))
		return STRETTO_AGAIN;
	verbs_device_at(endpoint)->counters.copied_out += send->bytes;
	verbs_send(endpoint, &header, send->data, send->bytes, false);
	send->done(send, STRETTO_OK);
	return STRETTO_OK;
}

stretto_status verbs_post_send(struct stretto_endpoint *base, struct stretto_send *send)
{
	struct verbs_endpoint *endpoint = verbs_endpoint_of(base);
	struct verbs_transfer *transfer;

	if (endpoint->state != VERBS_READY)
		return endpoint->state == VERBS_FAILED ? STRETTO_PEER_FAILED : STRETTO_AGAIN;
	if (send->bytes <= endpoint->eager)
		return send_eager(endpoint, send);
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

/* Announces a receive. false: there is no room now. */
static bool announce(struct verbs_endpoint *endpoint, struct stretto_recv *recv)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct verbs_header header =
		header_of(VERBS_CLEAR, &recv->key, &recv->signature, recv->bytes);
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

/* Gives a payload that lies in a slot to its receive. */
static void deliver(struct verbs_endpoint *endpoint, struct stretto_recv *recv,
		    const struct verbs_header *header)
{
	if (!same(&header->signature, &recv->signature) || header->bytes != recv->bytes) {
		check(endpoint, &header->key, &header->signature);
		recv->done(recv, STRETTO_MISMATCH);
		return;
	}
	recv->received = recv->bytes;
	if (recv->bytes) {
		verbs_device_at(endpoint)->counters.copied_in += recv->bytes;
		memcpy(recv->data, header + 1, recv->bytes);
	}
	recv->done(recv, STRETTO_OK);
}

static struct verbs_slot *slot_of(const struct stretto_arrival *arrival)
{
	return (struct verbs_slot *)(uintptr_t)arrival->body[0];
}

static stretto_status post_small(struct verbs_endpoint *endpoint, struct stretto_recv *recv)
{
	struct stretto_arrival *arrival = stretto_match_post(&endpoint->match, recv);
	struct verbs_slot *slot;

	if (!arrival && endpoint->state == VERBS_FAILED) {
		stretto_list_remove(&recv->link);
		return STRETTO_PEER_FAILED;
	}
	if (!arrival)
		return STRETTO_OK;
	slot = slot_of(arrival);
	stretto_match_recycle(&endpoint->match, arrival);
	deliver(endpoint, recv, slot->header);
	verbs_free_slot(verbs_device_at(endpoint), slot);
	return STRETTO_OK;
}

/* Whether a payload that is here already meets a receive that is too large for it. */
static bool meets_small(struct verbs_endpoint *endpoint, struct stretto_recv *recv)
{
	STRETTO_LIST_FOR (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (!stretto_key_equal(&arrival->key, &recv->key))
			continue;
		check(endpoint, &arrival->key, &arrival->signature);
		verbs_free_slot(verbs_device_at(endpoint), slot_of(arrival));
		stretto_list_remove(it);
		stretto_match_recycle(&endpoint->match, arrival);
		recv->done(recv, STRETTO_MISMATCH);
		return true;
	}
	return false;
}

stretto_status verbs_post_recv(struct stretto_endpoint *base, struct stretto_recv *recv)
{
	struct verbs_endpoint *endpoint = verbs_endpoint_of(base);
	bool small = recv->bytes <= endpoint->eager;

	if (endpoint->state == VERBS_FAILED && !small)
		return STRETTO_PEER_FAILED;
	recv->received = 0;
	recv->scratch[0] = 0; /* its number, once it is announced */
	if (small)
		return post_small(endpoint, recv);
	if (meets_small(endpoint, recv))
		return STRETTO_OK;
	stretto_list_append(&endpoint->unannounced, &recv->link);
	if (endpoint->state == VERBS_READY &&
	    endpoint->unannounced.next == &recv->link) /* in order: others wait for room */
		announce(endpoint, recv);
	return STRETTO_OK;
}

void verbs_notify(struct stretto_endpoint *base, const struct stretto_notice *notice)
{
	struct stretto_key key = {.comm = notice->comm, .sequence = notice->sequence};
	struct verbs_header header = header_of(VERBS_NOTICE, &key, &notice->signature, 0);
	struct verbs_notice_body body = {
		.origin = notice->origin,
		.other = notice->other,
		.status = notice->status,
		.other_signature = notice->other_signature,
	};

	verbs_control(verbs_endpoint_of(base), &header, &body);
}

/* The large receive with a key, NULL for none. */
static struct stretto_recv *posted_large(const struct verbs_endpoint *endpoint,
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

/* A payload: to its receive, or kept. true: the slot is kept. */
static bool take_eager(struct verbs_endpoint *endpoint, struct verbs_slot *slot, size_t bytes)
{
	const struct verbs_header *header = slot->header;
	struct stretto_recv *recv;
	struct stretto_arrival *arrival;

	if (header->bytes != bytes) {
		verbs_fail(endpoint, "it sent a malformed message");
		return false;
	}
	recv = stretto_match_posted(&endpoint->match, &header->key);
	if (recv) {
		deliver(endpoint, recv, header);
		return false;
	}
	if (!check(endpoint, &header->key, &header->signature))
		return false;
	recv = posted_large(endpoint, &header->key);
	if (recv) {
		verbs_give_up_receive(endpoint, recv);
		recv->done(recv, STRETTO_MISMATCH);
		return false;
	}
	arrival = stretto_match_keep(&endpoint->match, &header->key, &header->signature);
	if (!arrival) {
		verbs_fail(endpoint, "no memory for its messages");
		return false;
	}
	arrival->body[0] = (uintptr_t)slot;
	return true;
}

/* A receive of the peer's: to its send, or kept. */
static void take_clear(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct verbs_transfer *transfer = find_transfer(&endpoint->waiting, &header->key);
	bool waits = transfer != NULL;

	if (!waits) {
		/* finds ranks that both receive */
		if (!check(endpoint, &header->key, &header->signature))
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

static void take_refuse(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct verbs_receive *receive = verbs_receive_of(endpoint, header->number);

	if (!receive)
		return;
	if (receive->recv)
		check(endpoint, &header->key, &header->signature);
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

/* The peer's send waits for a receive: is there one that will never meet it? */
static void take_ask(struct verbs_endpoint *endpoint, const struct verbs_header *header)
{
	struct stretto_recv *recv;

	if (posted_large(endpoint, &header->key))
		return; /* its announcement is on the way */
	/* here it is a small one: the lengths differ */
	recv = stretto_match_posted(&endpoint->match, &header->key);
	check(endpoint, &header->key, &header->signature);
	if (recv)
		recv->done(recv, STRETTO_MISMATCH);
}

static void take_notice(struct verbs_endpoint *endpoint, const struct verbs_header *header,
			size_t bytes)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct verbs_notice_body body;
	struct stretto_notice notice = {
		.comm = header->key.comm,
		.sequence = header->key.sequence,
		.signature = header->signature,
	};

	if (bytes != sizeof body) {
		verbs_fail(endpoint, "it sent a malformed notice");
		return;
	}
	memcpy(&body, header + 1, sizeof body);
	notice.origin = body.origin;
	notice.other = body.other;
	notice.status = (uint8_t)body.status;
	notice.other_signature = body.other_signature;
	env->notice(env->context, endpoint->base.peer, &notice);
}

bool verbs_take_message(struct verbs_endpoint *endpoint, struct verbs_slot *slot, size_t bytes)
{
	const struct verbs_header *header = slot->header;

	if (bytes < sizeof *header) {
		verbs_fail(endpoint, "it sent a message without header");
		return false;
	}
	bytes -= sizeof *header;
	endpoint->credits += header->credits;
	if (header->kind != VERBS_CREDIT)
		endpoint->owed++;
	switch (header->kind) {
	case VERBS_EAGER:
		return take_eager(endpoint, slot, bytes);
	case VERBS_CLEAR:
		take_clear(endpoint, header);
		break;
	case VERBS_REFUSE:
		take_refuse(endpoint, header);
		break;
	case VERBS_REVOKE:
		verbs_take_revoke(endpoint, header->number);
		break;
	case VERBS_GONE:
		verbs_take_gone(endpoint, header->number);
		break;
	case VERBS_ASK:
		take_ask(endpoint, header);
		break;
	case VERBS_STATE:
		endpoint->has_peer_state = true;
		endpoint->peer_state = (struct stretto_peer_state){
			.comm = header->key.comm,
			.sequence = header->key.sequence,
			.signature = header->signature,
		};
		break;
	case VERBS_NOTICE:
		take_notice(endpoint, header, bytes);
		break;
	case VERBS_CREDIT:
		break;
	default:
		verbs_fail(endpoint, "it sent a message of unknown kind %u", header->kind);
	}
	return false;
}

void verbs_ask(struct verbs_endpoint *endpoint)
{
	const struct verbs_transfer *transfer;
	struct verbs_header header;

	if (stretto_list_empty(&endpoint->waiting) || !verbs_can_send(endpoint, 0))
		return;
	transfer = stretto_container_of(endpoint->waiting.next, struct verbs_transfer, link);
	header = header_of(VERBS_ASK, &transfer->key, &transfer->signature, transfer->bytes);
	verbs_send(endpoint, &header, NULL, 0, false);
}

void verbs_send_state(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	struct stretto_key key = {.comm = device->state.comm, .sequence = device->state.sequence};
	struct verbs_header header = header_of(VERBS_STATE, &key, &device->state.signature, 0);

	if (!verbs_can_send(endpoint, 0))
		return;
	endpoint->state_sent = device->state_version;
	verbs_send(endpoint, &header, NULL, 0, false);
}

static size_t push_queued(struct verbs_endpoint *endpoint)
{
	size_t count = 0;

	while (!stretto_list_empty(&endpoint->queued)) {
		struct verbs_queued *queued =
			stretto_container_of(endpoint->queued.next, struct verbs_queued, link);

		if (!verbs_can_send(endpoint, queued->body_bytes))
			break;
		stretto_list_remove(&queued->link);
		verbs_send(endpoint, &queued->header, &queued->body, queued->body_bytes,
			   queued->body_bytes > 0);
		if (queued->body_bytes)
			endpoint->notice_end = endpoint->posted;
		free(queued);
		count++;
	}
	verbs_hold(endpoint, !stretto_list_empty(&endpoint->queued));
	return count;
}

size_t verbs_push(struct verbs_endpoint *endpoint)
{
	size_t count = 0;

	if (endpoint->state != VERBS_READY)
		return 0;
	if (!stretto_list_empty(&endpoint->queued) || endpoint->holds)
		count += push_queued(endpoint);
	while (!stretto_list_empty(&endpoint->unannounced)) {
		if (!announce(endpoint, stretto_container_of(endpoint->unannounced.next,
							     struct stretto_recv, link)))
			break;
		count++;
	}
	while (endpoint->state == VERBS_READY && !stretto_list_empty(&endpoint->ready)) {
		struct verbs_transfer *transfer =
			stretto_container_of(endpoint->ready.next, struct verbs_transfer, link);
		uint64_t before = endpoint->posted;
		bool all = verbs_write(endpoint, transfer);

		count += endpoint->posted != before;
		if (!all)
			break; /* the queue is full; or it has failed, and the transfer is gone */
		stretto_list_remove(&transfer->link);
		stretto_list_append(&endpoint->writing, &transfer->link);
	}
	if (endpoint->owed >= VERBS_OWED)
		verbs_return_credits(endpoint);
	return count;
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

bool verbs_waits(const struct verbs_endpoint *endpoint)
{
	return !stretto_list_empty(&endpoint->match.posted) ||
	       !stretto_list_empty(&endpoint->unannounced) ||
	       !stretto_list_empty(&endpoint->announced) ||
	       !stretto_list_empty(&endpoint->waiting) || !stretto_list_empty(&endpoint->ready) ||
	       !stretto_list_empty(&endpoint->writing) || !stretto_list_empty(&endpoint->queued);
}
