/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_cancel.c: giving operations up.
 *
 * What is cancelled may be half way: a peer may write to memory that it was told of, and the device
 * may read memory whose writes are posted. That memory belongs to the application again once
 * verbs_settled() says so:
 *
 *   a receive that was announced   REVOKE goes to the peer, which answers GONE. A queue pair delivers
 *                                  in order, so what the peer had posted has been written by then.
 *                                  Without an answer in time the connection is given up: a queue pair
 *                                  in the error state takes no writes.
 *   a send that was posted in part its writes are waited for
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/transports/verbs.h"

/* How long the peer may take to confirm, and a queue pair in the error state to flush. */
#define CONFIRM_SECONDS 1.0

void verbs_give_up_receive(struct verbs_endpoint *endpoint, struct stretto_recv *recv)
{
	struct verbs_receive *receive = verbs_receive_of(endpoint, (uint32_t)recv->scratch[0]);
	struct verbs_header header = {.kind = VERBS_REVOKE, .number = (uint32_t)recv->scratch[0]};

	stretto_list_remove(&recv->link);
	if (!receive || receive->recv != recv)
		return; /* it was not announced */
	receive->recv = NULL;
	receive->revoked = stretto_now();
	verbs_device_at(endpoint)->revoked++;
	verbs_control(endpoint, &header, NULL);
}

/* If its writes have been posted in part, the rest is not; its memory is in use until they are over. */
static void drop_transfer(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer)
{
	if (transfer->offset == 0) {
		verbs_free_transfer(endpoint, transfer);
		return;
	}
	transfer->send = NULL;
	transfer->dropped = true;
	stretto_list_remove(&transfer->link);
	stretto_list_append(&endpoint->writing, &transfer->link);
}

static void drop_transfers(struct verbs_endpoint *endpoint, struct stretto_list *list,
			   uint64_t comm, uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, list) {
		struct verbs_transfer *transfer =
			stretto_container_of(it, struct verbs_transfer, link);

		if (stretto_key_is_of(&transfer->key, comm, sequence))
			drop_transfer(endpoint, transfer);
	}
}

/* All of them if `all` is set. */
static void drop_arrivals(struct verbs_endpoint *endpoint, bool all, uint64_t comm,
			  uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (!all && !stretto_key_is_of(&arrival->key, comm, sequence))
			continue;
		verbs_free_slot(verbs_device_at(endpoint),
				(struct verbs_slot *)(uintptr_t)arrival->body[0]);
		stretto_list_remove(it);
		stretto_match_recycle(&endpoint->match, arrival);
	}
}

static void drop_receives(struct verbs_endpoint *endpoint, struct stretto_list *list, uint64_t comm,
			  uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, list) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (stretto_key_is_of(&recv->key, comm, sequence))
			verbs_give_up_receive(endpoint, recv);
	}
}

void verbs_cancel(struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	struct verbs_endpoint *endpoint = verbs_endpoint_of(base);

	stretto_match_cancel(&endpoint->match, comm, sequence);
	drop_arrivals(endpoint, false, comm, sequence);
	drop_transfers(endpoint, &endpoint->waiting, comm, sequence);
	drop_transfers(endpoint, &endpoint->cleared, comm, sequence);
	drop_transfers(endpoint, &endpoint->ready, comm, sequence);
	STRETTO_LIST_FOR (it, &endpoint->writing) {
		struct verbs_transfer *transfer =
			stretto_container_of(it, struct verbs_transfer, link);

		if (stretto_key_is_of(&transfer->key, comm, sequence)) {
			transfer->send = NULL;
			transfer->dropped = true;
		}
	}
	drop_receives(endpoint, &endpoint->unannounced, comm, sequence);
	drop_receives(endpoint, &endpoint->announced, comm, sequence);
}

bool verbs_flushed(const struct verbs_endpoint *endpoint)
{
	return endpoint->completed == endpoint->posted ||
	       stretto_now() > stretto_after(endpoint->ended, CONFIRM_SECONDS);
}

bool verbs_settled(const struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	const struct verbs_endpoint *endpoint =
		stretto_container_of(base, const struct verbs_endpoint, base);
	const struct verbs_device *device = verbs_device_at(endpoint);

	if (endpoint->state == VERBS_FAILED)
		return verbs_flushed(endpoint);
	STRETTO_LIST_FOR (it, &endpoint->writing)
		if (stretto_key_is_of(&stretto_container_of(it, struct verbs_transfer, link)->key,
				      comm, sequence))
			return false;
	if (device->revoked == 0)
		return true;
	for (size_t i = 0; i < VERBS_ANNOUNCED; i++) {
		const struct verbs_receive *receive = &device->receives[i];

		if (receive->endpoint == endpoint && !receive->recv &&
		    stretto_key_is_of(&receive->key, comm, sequence))
			return false;
	}
	return true;
}

/* The transfer that an announcement of the peer became; NULL if it is over or dropped. */
static struct verbs_transfer *announced_as(struct verbs_endpoint *endpoint, uint32_t number)
{
	struct stretto_list *lists[] = {&endpoint->cleared, &endpoint->ready};

	for (size_t i = 0; i < 2; i++)
		STRETTO_LIST_FOR (it, lists[i]) {
			struct verbs_transfer *transfer =
				stretto_container_of(it, struct verbs_transfer, link);

			if (transfer->number == number)
				return transfer;
		}
	return NULL;
}

void verbs_take_revoke(struct verbs_endpoint *endpoint, uint32_t number)
{
	struct verbs_transfer *transfer = announced_as(endpoint, number);
	struct verbs_header header = {.kind = VERBS_GONE, .number = number};

	if (transfer) {
		struct stretto_send *send = transfer->send;

		drop_transfer(endpoint, transfer);
		if (send)
			send->done(send,
				   STRETTO_ABORTED); /* why is in the notice that came before */
	}
	verbs_control(endpoint, &header, NULL);
}

void verbs_take_gone(struct verbs_endpoint *endpoint, uint32_t number)
{
	struct verbs_receive *receive = verbs_receive_of(endpoint, number);

	if (!receive || receive->recv)
		return; /* its last write came before that, and the number may be another's */
	verbs_device_at(endpoint)->revoked--;
	verbs_free_receive(receive);
}

void verbs_forget(struct verbs_endpoint *endpoint, bool arrivals)
{
	struct verbs_device *device = verbs_device_at(endpoint);
	struct stretto_list *transfers[] = {&endpoint->waiting, &endpoint->cleared,
					    &endpoint->ready, &endpoint->writing};

	for (size_t i = 0; i < 4; i++)
		STRETTO_LIST_FOR_SAFE (it, transfers[i])
			verbs_free_transfer(endpoint,
					    stretto_container_of(it, struct verbs_transfer, link));
	STRETTO_LIST_FOR_SAFE (it, &endpoint->queued) {
		stretto_list_remove(it);
		free(stretto_container_of(it, struct verbs_queued, link));
	}
	STRETTO_LIST_FOR_SAFE (it, &endpoint->unannounced)
		stretto_list_remove(it);
	STRETTO_LIST_FOR_SAFE (it, &endpoint->announced)
		stretto_list_remove(it);
	for (size_t i = 0; i < VERBS_ANNOUNCED; i++) {
		struct verbs_receive *receive = &device->receives[i];

		if (receive->endpoint != endpoint)
			continue;
		device->revoked -= receive->recv == NULL;
		verbs_free_receive(receive);
	}
	if (arrivals)
		drop_arrivals(endpoint, true, 0, 0);
}

void verbs_watch_revoked(struct verbs_device *device, uint64_t now)
{
	for (size_t i = 0; i < VERBS_ANNOUNCED && device->revoked > 0; i++) {
		struct verbs_receive *receive = &device->receives[i];

		if (receive->endpoint && !receive->recv &&
		    now > stretto_after(receive->revoked, CONFIRM_SECONDS))
			verbs_fail(receive->endpoint,
				   "an operation was given up, and it does not confirm that it "
				   "writes no more to its memory");
	}
}
