/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_cancel.c: giving operations up.
 *
 * What is cancelled may be half way: a peer may send to a receive that it was told of, and UCX may
 * read memory that it was given. That memory belongs to the application again once ucx_settled()
 * says so:
 *
 *   a receive that was announced   REVOKE goes to the peer. If the payload is not under way the
 *                                  answer is GONE, and UCX is told to cancel the receive; if it is,
 *                                  it comes. Without either in time the connection is given up.
 *   a send that UCX has            UCX has no way to cancel it: its end is waited for, and if it
 *                                  does not come in time the connection is given up
 */
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/transports/ucx.h"

/* What UCX calls back from within may free the entry. */
static void cancel_request(const struct ucx_receive *receive)
{
	ucp_request_cancel(receive->device->worker, receive->request);
}

void ucx_give_up_receive(struct ucx_endpoint *endpoint, struct stretto_recv *recv)
{
	struct ucx_receive *receive = ucx_receive_of(endpoint, recv->scratch[0]);
	struct ucx_header header = {.kind = UCX_REVOKE, .number = recv->scratch[0]};

	stretto_list_remove(&recv->link);
	if (!receive || receive->recv != recv)
		return; /* it was not announced */
	receive->recv = NULL;
	receive->revoked = stretto_now();
	receive->device->revoked++;
	if (receive->gone)
		cancel_request(receive);
	else
		ucx_control(endpoint, &header, NULL);
}

void ucx_take_gone(struct ucx_endpoint *endpoint, uint64_t number)
{
	struct ucx_receive *receive = ucx_receive_of(endpoint, number);

	if (!receive)
		return;
	receive->gone = true;
	if (!receive->recv)
		cancel_request(receive);
}

void ucx_take_revoke(struct ucx_endpoint *endpoint, uint64_t number)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->cleared) {
		struct ucx_transfer *transfer = stretto_container_of(it, struct ucx_transfer, link);

		if (transfer->number != number)
			continue;
		ucx_free_transfer(ucx_device_at(endpoint), transfer);
		ucx_send_gone(endpoint, number);
		return;
	}
	/* it is answered already: by its payload, REFUSE or GONE */
}

static bool is_of(struct stretto_list *link, uint64_t comm, uint32_t sequence)
{
	return stretto_key_is_of(&stretto_container_of(link, struct ucx_transfer, link)->key, comm,
				 sequence);
}

static void drop_transfers(struct ucx_endpoint *endpoint, uint64_t comm, uint32_t sequence)
{
	struct ucx_device *device = ucx_device_at(endpoint);

	STRETTO_LIST_FOR_SAFE (it, &endpoint->waiting)
		if (is_of(it, comm, sequence))
			ucx_free_transfer(device,
					  stretto_container_of(it, struct ucx_transfer, link));
	STRETTO_LIST_FOR_SAFE (it, &endpoint->cleared)
		if (is_of(it, comm, sequence)) {
			struct ucx_transfer *transfer =
				stretto_container_of(it, struct ucx_transfer, link);

			ucx_send_gone(endpoint, transfer->number);
			ucx_free_transfer(device, transfer);
		}
	STRETTO_LIST_FOR (it, &endpoint->sending) {
		struct ucx_transfer *transfer = stretto_container_of(it, struct ucx_transfer, link);

		if (!is_of(it, comm, sequence) || transfer->dropped)
			continue;
		transfer->send = NULL;
		transfer->dropped = stretto_now();
		device->dropped++;
	}
}

/* All of them if `all` is set. */
static void drop_arrivals(struct ucx_endpoint *endpoint, bool all, uint64_t comm, uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (!all && !stretto_key_is_of(&arrival->key, comm, sequence))
			continue;
		ucx_release(ucx_device_at(endpoint), arrival);
		stretto_list_remove(it);
		stretto_match_recycle(&endpoint->match, arrival);
	}
}

static void drop_receives(struct ucx_endpoint *endpoint, struct stretto_list *list, uint64_t comm,
			  uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, list) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (stretto_key_is_of(&recv->key, comm, sequence))
			ucx_give_up_receive(endpoint, recv);
	}
}

void ucx_cancel(struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	struct ucx_endpoint *endpoint = ucx_endpoint_of(base);

	stretto_match_cancel(&endpoint->match, comm, sequence);
	drop_arrivals(endpoint, false, comm, sequence);
	drop_transfers(endpoint, comm, sequence);
	drop_receives(endpoint, &endpoint->unannounced, comm, sequence);
	drop_receives(endpoint, &endpoint->announced, comm, sequence);
}

/* Whether UCX has nothing left of an endpoint that has failed. */
static bool ended(const struct ucx_endpoint *endpoint)
{
	const struct ucx_device *device = ucx_device_at(endpoint);

	if (stretto_now() > stretto_after(endpoint->ended, UCX_CONFIRM_SECONDS))
		return true; /* UCX has closed the connection by then: nothing comes by it */
	for (size_t i = 0; i < UCX_ANNOUNCED; i++)
		if (device->receives[i].request && device->receives[i].endpoint == endpoint)
			return false;
	return stretto_list_empty(&endpoint->sending);
}

bool ucx_settled(const struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	const struct ucx_endpoint *endpoint =
		stretto_container_of(base, const struct ucx_endpoint, base);
	const struct ucx_device *device = ucx_device_at(endpoint);

	if (endpoint->state == UCX_FAILED)
		return ended(endpoint);
	STRETTO_LIST_FOR (it, &endpoint->sending)
		if (is_of(it, comm, sequence))
			return false;
	for (size_t i = 0; device->revoked > 0 && i < UCX_ANNOUNCED; i++) {
		const struct ucx_receive *receive = &device->receives[i];

		if (receive->request && receive->endpoint == endpoint && !receive->recv &&
		    stretto_key_is_of(&receive->key, comm, sequence))
			return false;
	}
	return true;
}

static void empty(struct stretto_list *list)
{
	while (!stretto_list_empty(list))
		stretto_list_remove(list->next);
}

void ucx_forget(struct ucx_endpoint *endpoint)
{
	struct ucx_device *device = ucx_device_at(endpoint);
	struct stretto_list *idle[] = {&endpoint->waiting, &endpoint->cleared};

	for (size_t i = 0; i < 2; i++)
		STRETTO_LIST_FOR_SAFE (it, idle[i])
			ucx_free_transfer(device,
					  stretto_container_of(it, struct ucx_transfer, link));
	STRETTO_LIST_FOR (it, &endpoint->sending)
		stretto_container_of(it, struct ucx_transfer, link)->send = NULL;
	STRETTO_LIST_FOR_SAFE (it, &endpoint->queued) {
		stretto_list_remove(it);
		free(stretto_container_of(it, struct ucx_queued, link));
	}
	empty(&endpoint->match.posted);
	empty(&endpoint->unannounced);
	empty(&endpoint->announced);
	for (size_t i = 0; i < UCX_ANNOUNCED; i++) {
		struct ucx_receive *receive = &device->receives[i];

		if (!receive->request || receive->endpoint != endpoint)
			continue;
		receive->recv = NULL;
		cancel_request(receive);
	}
}

void ucx_forget_all(struct ucx_endpoint *endpoint)
{
	struct ucx_device *device = ucx_device_at(endpoint);

	ucx_forget(endpoint);
	drop_arrivals(endpoint, true, 0, 0);
	STRETTO_LIST_FOR_SAFE (it, &endpoint->sending) {
		struct ucx_transfer *transfer = stretto_container_of(it, struct ucx_transfer, link);

		stretto_list_remove(it);
		stretto_list_append(&device->orphans, it);
		transfer->endpoint = NULL;
		if (transfer->dropped)
			device->dropped--;
		transfer->dropped = 0;
	}
	for (size_t i = 0; i < UCX_ANNOUNCED; i++)
		if (device->receives[i].endpoint == endpoint)
			device->receives[i].endpoint = NULL;
}

void ucx_watch_cancelled(struct ucx_device *device, uint64_t now)
{
	for (size_t i = 0; i < UCX_ANNOUNCED && device->revoked > 0; i++) {
		const struct ucx_receive *receive = &device->receives[i];

		if (receive->request && receive->endpoint && receive->revoked &&
		    now > stretto_after(receive->revoked, UCX_CONFIRM_SECONDS))
			ucx_break(receive->endpoint,
				  "an operation was given up, and it does not confirm that it "
				  "sends nothing more to its memory");
	}
	if (device->dropped == 0)
		return;
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct ucx_endpoint *endpoint =
			stretto_container_of(it, struct ucx_endpoint, in_device);

		STRETTO_LIST_FOR (sending, &endpoint->sending) {
			const struct ucx_transfer *transfer =
				stretto_container_of(sending, struct ucx_transfer, link);

			if (transfer->dropped &&
			    now > stretto_after(transfer->dropped, UCX_CONFIRM_SECONDS))
				ucx_break(endpoint, "an operation was given up, and what was being "
						    "sent for it does not end");
		}
	}
}
