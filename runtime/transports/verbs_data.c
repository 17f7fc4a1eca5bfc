/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_data.c: sends and receives; messages, which carry small payloads and all control. See verbs.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

struct verbs_header verbs_header_of(enum verbs_kind kind, const struct stretto_key *key,
				    const struct stretto_signature *signature, size_t bytes)
{
	struct verbs_header header = {.kind = (uint8_t)kind, .bytes = bytes};

	if (key)
		header.key = *key;
	if (signature)
		header.signature = *signature;
	return header;
}

bool verbs_check(const struct verbs_endpoint *endpoint, const struct stretto_key *key,
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

	if (endpoint->state >= VERBS_LOST)
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

static stretto_status send_eager(struct verbs_endpoint *endpoint, struct stretto_send *send)
{
	struct verbs_header header =
		verbs_header_of(VERBS_EAGER, &send->key, &send->signature, send->bytes);

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

	if (endpoint->state != VERBS_READY)
		return endpoint->state == VERBS_FAILED ? STRETTO_PEER_FAILED : STRETTO_AGAIN;
	if (send->bytes <= endpoint->eager)
		return send_eager(endpoint, send);
	return verbs_send_large(endpoint, send);
}

/* Gives a payload that lies in a slot to its receive. */
static void deliver(struct verbs_endpoint *endpoint, struct stretto_recv *recv,
		    const struct verbs_header *header)
{
	if (!verbs_same(&header->signature, &recv->signature) || header->bytes != recv->bytes) {
		verbs_check(endpoint, &header->key, &header->signature);
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
		verbs_check(endpoint, &arrival->key, &arrival->signature);
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
		verbs_announce(endpoint, recv);
	return STRETTO_OK;
}

void verbs_notify(struct stretto_endpoint *base, const struct stretto_notice *notice)
{
	struct stretto_key key = {.comm = notice->comm, .sequence = notice->sequence};
	struct verbs_header header = verbs_header_of(VERBS_NOTICE, &key, &notice->signature, 0);
	struct verbs_notice_body body = {
		.origin = notice->origin,
		.other = notice->other,
		.status = notice->status,
		.other_signature = notice->other_signature,
	};

	verbs_control(verbs_endpoint_of(base), &header, &body);
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
	if (!verbs_check(endpoint, &header->key, &header->signature))
		return false;
	recv = verbs_posted_large(endpoint, &header->key);
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
		verbs_take_clear(endpoint, header);
		break;
	case VERBS_REFUSE:
		verbs_take_refuse(endpoint, header);
		break;
	case VERBS_REVOKE:
		verbs_take_revoke(endpoint, header->number);
		break;
	case VERBS_GONE:
		verbs_take_gone(endpoint, header->number);
		break;
	case VERBS_ASK:
		verbs_take_ask(endpoint, header);
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

void verbs_send_state(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = verbs_device_at(endpoint);
	struct stretto_key key = {.comm = device->state.comm, .sequence = device->state.sequence};
	struct verbs_header header =
		verbs_header_of(VERBS_STATE, &key, &device->state.signature, 0);

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
		if (!verbs_announce(endpoint, stretto_container_of(endpoint->unannounced.next,
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

bool verbs_waits(const struct verbs_endpoint *endpoint)
{
	return !stretto_list_empty(&endpoint->match.posted) ||
	       !stretto_list_empty(&endpoint->unannounced) ||
	       !stretto_list_empty(&endpoint->announced) ||
	       !stretto_list_empty(&endpoint->waiting) || !stretto_list_empty(&endpoint->ready) ||
	       !stretto_list_empty(&endpoint->writing) || !stretto_list_empty(&endpoint->queued);
}
