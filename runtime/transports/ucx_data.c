/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_data.c: sends and receives, and what messages mean. See ucx.h. */
#include <stdlib.h>

#include "runtime/log.h"
#include "runtime/transports/ucx.h"

bool ucx_check(const struct ucx_endpoint *endpoint, const struct stretto_key *key,
	       const struct stretto_signature *signature)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	return env->check(env->context, endpoint->base.peer, key, signature);
}

static stretto_status send_eager(struct ucx_endpoint *endpoint, struct stretto_send *send)
{
	struct ucx_header header =
		ucx_header_of(UCX_EAGER, &send->key, &send->signature, send->bytes);

	if (!ucx_can_send(endpoint) || !ucx_send(endpoint, &header, send->data, send->bytes))
		return STRETTO_AGAIN;
	send->done(send, STRETTO_OK);
	return STRETTO_OK;
}

stretto_status ucx_post_send(struct stretto_endpoint *base, struct stretto_send *send)
{
	struct ucx_endpoint *endpoint = ucx_endpoint_of(base);

	if (endpoint->state != UCX_READY)
		return endpoint->state == UCX_FAILED ? STRETTO_PEER_FAILED : STRETTO_AGAIN;
	if (send->bytes <= endpoint->eager)
		return send_eager(endpoint, send);
	return ucx_send_large(endpoint, send);
}

/* Gives a payload to its receive. */
static void deliver(struct ucx_endpoint *endpoint, struct stretto_recv *recv,
		    const struct ucx_header *header, const void *payload)
{
	if (!ucx_same(&header->signature, &recv->signature) || header->bytes != recv->bytes) {
		ucx_check(endpoint, &header->key, &header->signature);
		recv->done(recv, STRETTO_MISMATCH);
		return;
	}
	recv->received = recv->bytes;
	if (recv->bytes)
		memcpy(recv->data, payload, recv->bytes);
	recv->done(recv, STRETTO_OK);
}

/* What an arrival needs besides where its payload lies. */
enum { BYTES = 2 };

static stretto_status post_small(struct ucx_endpoint *endpoint, struct stretto_recv *recv)
{
	struct stretto_arrival *arrival = stretto_match_post(&endpoint->match, recv);
	struct ucx_header header;

	if (!arrival && endpoint->state == UCX_FAILED) {
		stretto_list_remove(&recv->link);
		return STRETTO_PEER_FAILED;
	}
	if (!arrival)
		return STRETTO_OK;
	header = ucx_header_of(UCX_EAGER, &arrival->key, &arrival->signature, arrival->body[BYTES]);
	deliver(endpoint, recv, &header, (const void *)(uintptr_t)arrival->body[0]);
	ucx_release(ucx_device_at(endpoint), arrival);
	stretto_match_recycle(&endpoint->match, arrival);
	return STRETTO_OK;
}

/* Whether a payload that is here already meets a receive that is too large for it. */
static bool meets_small(struct ucx_endpoint *endpoint, struct stretto_recv *recv)
{
	STRETTO_LIST_FOR (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (!stretto_key_equal(&arrival->key, &recv->key))
			continue;
		ucx_check(endpoint, &arrival->key, &arrival->signature);
		ucx_release(ucx_device_at(endpoint), arrival);
		stretto_list_remove(it);
		stretto_match_recycle(&endpoint->match, arrival);
		recv->done(recv, STRETTO_MISMATCH);
		return true;
	}
	return false;
}

stretto_status ucx_post_recv(struct stretto_endpoint *base, struct stretto_recv *recv)
{
	struct ucx_endpoint *endpoint = ucx_endpoint_of(base);
	bool small = recv->bytes <= endpoint->eager;

	if (endpoint->state == UCX_FAILED && !small)
		return STRETTO_PEER_FAILED;
	recv->received = 0;
	recv->scratch[0] = 0; /* its number, once it is announced */
	if (small)
		return post_small(endpoint, recv);
	if (meets_small(endpoint, recv))
		return STRETTO_OK;
	stretto_list_append(&endpoint->unannounced, &recv->link);
	if (endpoint->unannounced.next == &recv->link) /* in order: others wait for room */
		ucx_announce(endpoint, recv);
	return STRETTO_OK;
}

void ucx_notify(struct stretto_endpoint *base, const struct stretto_notice *notice)
{
	struct stretto_key key = {.comm = notice->comm, .sequence = notice->sequence};
	struct ucx_header header = ucx_header_of(UCX_NOTICE, &key, &notice->signature, 0);
	struct ucx_notice_body body = {
		.origin = notice->origin,
		.other = notice->other,
		.status = notice->status,
		.other_signature = notice->other_signature,
	};

	ucx_control(ucx_endpoint_of(base), &header, &body);
}

/* A payload: to its receive, or kept. */
static bool take_eager(struct ucx_endpoint *endpoint, const struct ucx_header *header,
		       const void *payload, struct stretto_arrival **kept)
{
	struct stretto_recv *recv = stretto_match_posted(&endpoint->match, &header->key);

	if (recv) {
		deliver(endpoint, recv, header, payload);
		return false;
	}
	if (!ucx_check(endpoint, &header->key, &header->signature))
		return false;
	recv = ucx_posted_large(endpoint, &header->key);
	if (recv) {
		ucx_give_up_receive(endpoint, recv);
		recv->done(recv, STRETTO_MISMATCH);
		return false;
	}
	*kept = stretto_match_keep(&endpoint->match, &header->key, &header->signature);
	if (!*kept) {
		ucx_break(endpoint, "no memory for its messages");
		return false;
	}
	(*kept)->body[BYTES] = header->bytes;
	return true;
}

static void take_notice(const struct ucx_endpoint *endpoint, const struct ucx_header *header,
			const void *payload)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct ucx_notice_body body;
	struct stretto_notice notice = {
		.comm = header->key.comm,
		.sequence = header->key.sequence,
		.signature = header->signature,
	};

	memcpy(&body, payload, sizeof body);
	notice.origin = body.origin;
	notice.other = body.other;
	notice.status = (uint8_t)body.status;
	notice.other_signature = body.other_signature;
	env->notice(env->context, endpoint->base.peer, &notice);
}

/* Messages may overtake each other: an older state tells nothing. */
static void take_state(struct ucx_endpoint *endpoint, const struct ucx_header *header)
{
	if (header->number <= endpoint->state_heard)
		return;
	endpoint->state_heard = header->number;
	endpoint->peer_state = (struct stretto_peer_state){
		.comm = header->key.comm,
		.sequence = header->key.sequence,
		.signature = header->signature,
	};
}

/* Whether a message has as long a payload as its kind has. */
static bool well_formed(const struct ucx_endpoint *endpoint, const struct ucx_header *header,
			size_t bytes)
{
	switch (header->kind) {
	case UCX_EAGER:
		return bytes == header->bytes && bytes <= endpoint->eager;
	case UCX_NOTICE:
		return bytes == sizeof(struct ucx_notice_body);
	default:
		return bytes == 0;
	}
}

bool ucx_take_message(struct ucx_endpoint *endpoint, const struct ucx_header *header,
		      const void *payload, size_t bytes, struct stretto_arrival **kept)
{
	if (!well_formed(endpoint, header, bytes)) {
		ucx_break(endpoint, "it sent a malformed message");
		return false;
	}
	switch (header->kind) {
	case UCX_HELLO:
		break;
	case UCX_PART:
		endpoint->parting = true;
		endpoint->part_after = header->number;
		ucx_device_at(endpoint)->attention = true;
		break;
	case UCX_EAGER:
		return take_eager(endpoint, header, payload, kept);
	case UCX_CLEAR:
		ucx_take_clear(endpoint, header);
		break;
	case UCX_REFUSE:
		ucx_take_refuse(endpoint, header);
		break;
	case UCX_REVOKE:
		ucx_take_revoke(endpoint, header->number);
		break;
	case UCX_GONE:
		ucx_take_gone(endpoint, header->number);
		break;
	case UCX_ASK:
		ucx_take_ask(endpoint, header);
		break;
	case UCX_STATE:
		take_state(endpoint, header);
		break;
	case UCX_NOTICE:
		take_notice(endpoint, header, payload);
		break;
	default:
		ucx_break(endpoint, "it sent a message of unknown kind %u", header->kind);
	}
	return false;
}

void ucx_send_state(struct ucx_endpoint *endpoint)
{
	const struct ucx_device *device = ucx_device_at(endpoint);
	struct stretto_key key = {.comm = device->state.comm, .sequence = device->state.sequence};
	struct ucx_header header = ucx_header_of(UCX_STATE, &key, &device->state.signature, 0);

	if (!ucx_can_send(endpoint))
		return;
	endpoint->state_sent = header.number = device->state_version;
	ucx_send(endpoint, &header, NULL, 0);
}

size_t ucx_push(struct ucx_endpoint *endpoint)
{
	size_t count = 0;

	if (endpoint->parting && endpoint->received >= endpoint->part_after)
		ucx_break(endpoint, "it has closed its end");
	while (!stretto_list_empty(&endpoint->unannounced)) {
		if (!ucx_announce(endpoint, stretto_container_of(endpoint->unannounced.next,
								 struct stretto_recv, link)))
			break;
		count++;
	}
	return count;
}

bool ucx_waits(const struct ucx_endpoint *endpoint)
{
	return !stretto_list_empty(&endpoint->match.posted) ||
	       !stretto_list_empty(&endpoint->unannounced) ||
	       !stretto_list_empty(&endpoint->announced) ||
	       !stretto_list_empty(&endpoint->waiting) || !stretto_list_empty(&endpoint->sending) ||
	       !stretto_list_empty(&endpoint->underway);
}
