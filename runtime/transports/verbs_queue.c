/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_queue.c: posting work requests.
 *
 * Work requests of a queue pair are numbered from 1, and over in that order. Few are signalled; a
 * completion says that all up to its number are over. Invariants:
 *
 *   posted - completed <= VERBS_SEND_DEPTH      the send queue cannot overflow
 *   posted - signalled <  VERBS_SIGNAL          whoever waits for room gets a completion
 *   messages sent - credits returned <= VERBS_CREDITS    the peer has a slot for each
 */
#include <errno.h>
#include <string.h>

#include "runtime/transports/verbs.h"

_Static_assert(VERBS_SIGNAL <= VERBS_STAGED / 2 && VERBS_SIGNAL <= VERBS_SEND_DEPTH / 4,
	       "a full queue or staging memory has a signalled work request in it");
_Static_assert(VERBS_CHAIN <= VERBS_SEND_DEPTH - VERBS_SEND_RESERVE, "a chain fits");

static size_t stride_of(const struct verbs_endpoint *endpoint)
{
	return (sizeof(struct verbs_header) + endpoint->eager + 63) / 64 * 64;
}

static uint32_t room(const struct verbs_endpoint *endpoint)
{
	return VERBS_SEND_DEPTH - (uint32_t)(endpoint->posted - endpoint->completed);
}

static bool fits_inline(const struct verbs_endpoint *endpoint, size_t bytes)
{
	return sizeof(struct verbs_header) + bytes <= endpoint->max_inline;
}

bool verbs_can_send(const struct verbs_endpoint *endpoint, size_t bytes)
{
	return endpoint->state == VERBS_READY && endpoint->credits > 0 &&
	       room(endpoint) > VERBS_SEND_RESERVE &&
	       (fits_inline(endpoint, bytes) || endpoint->staged_count < VERBS_STAGED);
}

/* Numbers the next work request and decides whether it is signalled. */
static void number(struct verbs_endpoint *endpoint, struct ibv_send_wr *request, bool signal)
{
	request->wr_id = ++endpoint->posted << 1;
	if (signal || endpoint->posted - endpoint->signalled >= VERBS_SIGNAL) {
		endpoint->signalled = endpoint->posted;
		request->send_flags |= IBV_SEND_SIGNALED;
	}
}

static void post(struct verbs_endpoint *endpoint, struct ibv_send_wr *requests)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(endpoint->qp, requests, &bad);

	verbs_device_at(endpoint)->counters.doorbells++;
	if (error != 0)
		verbs_fail(endpoint, "ibv_post_send: %s", strerror(error));
}

/* Copies a message to the staging memory; returns where. */
static char *stage(struct verbs_endpoint *endpoint, const struct verbs_header *header,
		   const void *payload, size_t bytes)
{
	uint32_t index = (endpoint->staged_first + endpoint->staged_count++) % VERBS_STAGED;
	char *place = endpoint->staged + index * stride_of(endpoint);

	endpoint->staged_position[index] = endpoint->posted + 1;
	memcpy(place, header, sizeof *header);
	if (bytes)
		memcpy(place + sizeof *header, payload, bytes);
	return place;
}

static void post_message(struct verbs_endpoint *endpoint, struct verbs_header *header,
			 const void *payload, size_t bytes, bool signal)
{
	struct ibv_sge pieces[2] = {
		{(uintptr_t)header, sizeof *header, 0},
		{(uintptr_t)payload, (uint32_t)bytes, 0},
	};
	struct ibv_send_wr request = {
		.sg_list = pieces, .num_sge = bytes ? 2 : 1, .opcode = IBV_WR_SEND};

	verbs_device_at(endpoint)->counters.messages++;
	header->credits = endpoint->owed;
	endpoint->owed = 0;
	if (fits_inline(endpoint, bytes)) {
		request.send_flags = IBV_SEND_INLINE;
	} else {
		pieces[0].addr = (uintptr_t)stage(endpoint, header, payload, bytes);
		pieces[0].length += (uint32_t)bytes;
		pieces[0].lkey = endpoint->staged_mr->lkey;
		request.num_sge = 1;
	}
	number(endpoint, &request, signal);
	post(endpoint, &request);
}

void verbs_send(struct verbs_endpoint *endpoint, struct verbs_header *header, const void *payload,
		size_t bytes, bool signal)
{
	endpoint->credits--;
	post_message(endpoint, header, payload, bytes, signal);
}

void verbs_return_credits(struct verbs_endpoint *endpoint)
{
	struct verbs_header header = {.kind = VERBS_CREDIT};

	/* The first ones staged are never credits: those fit inline, or there is memory left. */
	if (endpoint->state == VERBS_READY && room(endpoint) > 1 &&
	    (fits_inline(endpoint, 0) || endpoint->staged_count < VERBS_STAGED))
		post_message(endpoint, &header, NULL, 0, false);
}

void verbs_probe(struct verbs_endpoint *endpoint)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE};

	if (endpoint->state != VERBS_READY || room(endpoint) < 1)
		return;
	number(endpoint, &request, true);
	post(endpoint, &request);
}

bool verbs_write(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer)
{
	struct ibv_send_wr requests[VERBS_CHAIN];
	struct ibv_sge pieces[VERBS_CHAIN];
	const char *data = transfer->send->data;
	size_t longest = verbs_device_at(endpoint)->port.max_message;
	int count = 0;

	while (count < VERBS_CHAIN && room(endpoint) > VERBS_SEND_RESERVE &&
	       transfer->offset < transfer->bytes) {
		size_t bytes = transfer->bytes - transfer->offset;
		bool last = bytes <= longest;

		bytes = last ? bytes : longest;
		pieces[count] = (struct ibv_sge){(uintptr_t)(data + transfer->offset),
						 (uint32_t)bytes, transfer->memory.mr->lkey};
		requests[count] = (struct ibv_send_wr){
			.next = &requests[count + 1],
			.sg_list = &pieces[count],
			.num_sge = 1,
			.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			.imm_data = last ? transfer->number : 0,
			.wr.rdma = {transfer->address + transfer->offset, transfer->rkey},
		};
		number(endpoint, &requests[count++], last);
		transfer->offset += bytes;
	}
	if (count > 0) {
		requests[count - 1].next = NULL;
		transfer->end = endpoint->posted;
		verbs_device_at(endpoint)->counters.writes += (uint64_t)count;
		post(endpoint, requests);
	}
	return endpoint->state == VERBS_READY && transfer->offset == transfer->bytes;
}

void verbs_completed(struct verbs_endpoint *endpoint, uint64_t position)
{
	if (position <= endpoint->completed)
		return;
	endpoint->completed = position;
	while (endpoint->staged_count > 0 &&
	       endpoint->staged_position[endpoint->staged_first] <= position) {
		endpoint->staged_first = (endpoint->staged_first + 1) % VERBS_STAGED;
		endpoint->staged_count--;
	}
	verbs_finish_writes(endpoint);
}
