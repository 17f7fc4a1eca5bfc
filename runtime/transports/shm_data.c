/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_data.c: how sends and receives use cells, slots and the peer's memory. See shm.h. */
#include <string.h>

#include "runtime/transports/shm.h"

/* What a send keeps in stretto_send.scratch: its number, and when streaming the receive's and the
 * bytes sent. */
enum { SEND_NUMBER, STREAM };

static struct shm_device *device_of(struct shm_endpoint *endpoint)
{
	return shm_device_of(endpoint->base.device);
}

void shm_out_of_memory(struct shm_endpoint *endpoint)
{
	shm_fail(endpoint, "out of memory for control messages");
}

/* The head of a cell about an operation's message. */
static void fill(struct shm_cell *cell, enum shm_kind kind, const struct stretto_send *send)
{
	memset(cell, 0, sizeof *cell);
	cell->kind = (uint8_t)kind;
	cell->key = send->key;
	cell->signature = send->signature;
}

static stretto_status send_eager(struct shm_endpoint *endpoint, struct stretto_send *send, int slot)
{
	struct shm_cell cell;

	fill(&cell, SHM_CELL_EAGER, send);
	memcpy(endpoint->tx->eager[slot], send->data, send->bytes);
	cell.body.eager.slot = (uint32_t)slot;
	cell.body.eager.bytes = (uint32_t)send->bytes;
	shm_send_cell(endpoint, &cell);
	send->done(send, STRETTO_OK);
	return STRETTO_OK;
}

static stretto_status send_inline(struct shm_endpoint *endpoint, struct stretto_send *send)
{
	struct shm_cell cell;

	fill(&cell, SHM_CELL_INLINE, send);
	if (send->bytes)
		memcpy(cell.body.bytes, send->data, send->bytes);
	cell.length = (uint8_t)send->bytes;
	shm_send_cell(endpoint, &cell);
	send->done(send, STRETTO_OK);
	return STRETTO_OK;
}

static stretto_status send_offer(struct shm_endpoint *endpoint, struct stretto_send *send)
{
	struct shm_cell cell;
	uint32_t number;

	fill(&cell, SHM_CELL_OFFER, send);
	if (send->region && send->region->fd >= 0) {
		stretto_status status = shm_share_region(endpoint, send->region);

		if (status != STRETTO_OK)
			return status;
		cell.body.offer.region = send->region->id;
	}
	number = shm_table_add(&endpoint->sends, send);
	if (number == 0)
		return STRETTO_NO_MEMORY;
	send->scratch[SEND_NUMBER] = number;
	cell.body.offer.address = (uintptr_t)send->data;
	cell.body.offer.bytes = send->bytes;
	cell.body.offer.send = number;
	shm_send_cell(endpoint, &cell);
	return STRETTO_OK;
}

stretto_status shm_post_send(struct stretto_endpoint *base, struct stretto_send *send)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);
	size_t eager = base->device->env->config->shm_eager_bytes;
	int slot;

	if (endpoint->state != SHM_READY)
		return endpoint->state == SHM_FAILED ? STRETTO_PEER_FAILED : STRETTO_AGAIN;
	if (!shm_can_send(endpoint))
		return STRETTO_AGAIN;
	if (send->bytes <= SHM_INLINE)
		return send_inline(endpoint, send);
	if (send->bytes <= eager) {
		slot = shm_take_slot(endpoint->tx->eager_state, SHM_EAGER_SLOTS,
				     &endpoint->eager_next);
		if (slot >= 0)
			return send_eager(endpoint, send, slot);
	}
	return send_offer(endpoint, send);
}

void shm_take(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes)
{
	if (recv->sink)
		recv->sink(recv, offset, source, bytes);
	else if (bytes)
		memcpy((char *)recv->data + offset, source, bytes);
	recv->received += bytes;
}

/* Bytes of the message that a cell announces. */
static size_t announced(const struct shm_cell *cell)
{
	switch (cell->kind) {
	case SHM_CELL_INLINE:
		return cell->length;
	case SHM_CELL_EAGER:
		return cell->body.eager.bytes;
	default:
		return cell->body.offer.bytes;
	}
}

static bool well_formed(const struct shm_cell *cell)
{
	switch (cell->kind) {
	case SHM_CELL_INLINE:
		return cell->length <= SHM_INLINE;
	case SHM_CELL_EAGER:
		return cell->body.eager.slot < SHM_EAGER_SLOTS &&
		       cell->body.eager.bytes <= SHM_EAGER_BYTES;
	default:
		return true;
	}
}

/* Frees what a message holds that nobody will receive. */
static void discard(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	if (cell->kind == SHM_CELL_EAGER)
		shm_release_slot(&endpoint->rx->eager_state[cell->body.eager.slot]);
}

/* Brings a message and its receive together. */
static void deliver(struct shm_endpoint *endpoint, struct stretto_recv *recv,
		    const struct shm_cell *cell)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	recv->received = 0;
	if (memcmp(&cell->signature, &recv->signature, sizeof recv->signature) != 0 ||
	    announced(cell) != recv->bytes) {
		env->check(env->context, endpoint->base.peer, &cell->key, &cell->signature);
		discard(endpoint, cell);
		recv->done(recv, STRETTO_MISMATCH);
		return;
	}
	switch (cell->kind) {
	case SHM_CELL_INLINE:
		shm_take(recv, 0, cell->body.bytes, cell->length);
		recv->done(recv, STRETTO_OK);
		break;
	case SHM_CELL_EAGER:
		shm_take(recv, 0, endpoint->rx->eager[cell->body.eager.slot],
			 cell->body.eager.bytes);
		discard(endpoint, cell);
		recv->done(recv, STRETTO_OK);
		break;
	default:
		shm_accept_offer(endpoint, recv, &cell->body);
	}
}

stretto_status shm_post_recv(struct stretto_endpoint *base, struct stretto_recv *recv)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);
	struct stretto_arrival *arrival;
	struct shm_cell cell;

	arrival = stretto_match_post(&endpoint->match, recv);
	if (!arrival && endpoint->state == SHM_FAILED) {
		stretto_list_remove(&recv->link);
		return STRETTO_PEER_FAILED;
	}
	if (!arrival)
		return STRETTO_OK;
	cell.kind = (uint8_t)arrival->body[0];
	cell.length = (uint8_t)(arrival->body[0] >> 8);
	cell.key = arrival->key;
	cell.signature = arrival->signature;
	memcpy(&cell.body, &arrival->body[1], sizeof cell.body);
	stretto_match_recycle(&endpoint->match, arrival);
	deliver(endpoint, recv, &cell);
	return STRETTO_OK;
}

static void receive_message(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct stretto_recv *recv;
	struct stretto_arrival *arrival;

	if (!well_formed(cell)) {
		shm_fail(endpoint, "it sent a malformed cell");
		return;
	}
	recv = stretto_match_posted(&endpoint->match, &cell->key);
	if (recv) {
		deliver(endpoint, recv, cell);
		return;
	}
	if (!env->check(env->context, endpoint->base.peer, &cell->key, &cell->signature)) {
		discard(endpoint, cell);
		return;
	}
	arrival = stretto_match_keep(&endpoint->match, &cell->key, &cell->signature);
	if (!arrival) {
		shm_out_of_memory(endpoint);
		return;
	}
	arrival->body[0] = (uint64_t)cell->length << 8 | cell->kind;
	memcpy(&arrival->body[1], &cell->body, sizeof cell->body);
}

static void receive_finish(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	struct stretto_send *send = shm_table_get(&endpoint->sends, cell->body.answer.send);

	if (!send)
		return; /* cancelled meanwhile */
	shm_table_remove(&endpoint->sends, cell->body.answer.send);
	send->done(send, cell->body.answer.status == 0 ? STRETTO_OK : STRETTO_PEER_FAILED);
}

static void receive_pull(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	struct stretto_send *send = shm_table_get(&endpoint->sends, cell->body.answer.send);

	if (!send)
		return; /* cancelled meanwhile */
	shm_table_remove(&endpoint->sends, cell->body.answer.send);
	send->scratch[SEND_NUMBER] = cell->body.answer.recv;
	send->scratch[STREAM] = 0;
	stretto_list_append(&endpoint->streaming, &send->link);
}

static void receive_fragment(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	struct stretto_recv *recv = shm_table_get(&endpoint->streams, cell->body.fragment.recv);
	uint32_t slot = cell->body.fragment.slot;
	uint32_t bytes = cell->body.fragment.bytes;

	if (slot >= SHM_STREAM_SLOTS || bytes > SHM_STREAM_BYTES) {
		shm_fail(endpoint, "it sent a malformed fragment");
		return;
	}
	if (recv && (cell->body.fragment.offset != recv->received ||
		     bytes > recv->bytes - recv->received)) {
		shm_fail(endpoint, "it sent a fragment out of place");
		return;
	}
	if (recv)
		shm_take(recv, recv->received, endpoint->rx->stream[slot], bytes);
	shm_release_slot(&endpoint->rx->stream_state[slot]);
	if (recv && recv->received == recv->bytes) {
		shm_table_remove(&endpoint->streams, cell->body.fragment.recv);
		recv->done(recv, STRETTO_OK);
	}
}

static void receive_notice(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct stretto_notice notice = {
		.comm = cell->key.comm,
		.sequence = cell->key.sequence,
		.origin = cell->body.notice.origin,
		.other = (int32_t)(cell->body.notice.other_status >> 8) - 1,
		.status = (uint8_t)cell->body.notice.other_status,
		.signature = cell->signature,
		.other_signature = cell->body.notice.other_signature,
	};

	env->notice(env->context, endpoint->base.peer, &notice);
}

static void receive_cell(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	switch (cell->kind) {
	case SHM_CELL_INLINE:
	case SHM_CELL_EAGER:
	case SHM_CELL_OFFER:
		receive_message(endpoint, cell);
		break;
	case SHM_CELL_FINISH:
		receive_finish(endpoint, cell);
		break;
	case SHM_CELL_PULL:
		receive_pull(endpoint, cell);
		break;
	case SHM_CELL_FRAGMENT:
		receive_fragment(endpoint, cell);
		break;
	case SHM_CELL_GONE:
		shm_drop_remote_region(endpoint, cell->body.gone.region);
		break;
	case SHM_CELL_NOTICE:
		receive_notice(endpoint, cell);
		break;
	default:
		shm_fail(endpoint, "it sent a cell of unknown kind");
	}
}

size_t shm_receive(struct shm_endpoint *endpoint)
{
	const struct shm_cell *cell;
	size_t count = 0;

	while (count < SHM_CELLS && (cell = shm_next_cell(endpoint))) {
		receive_cell(endpoint, cell);
		shm_consumed(endpoint);
		count++;
	}
	return count;
}

/* Sends the next piece of one stream; false if there is no room. */
static bool stream_piece(struct shm_endpoint *endpoint, struct stretto_send *send)
{
	struct shm_cell cell = {.kind = SHM_CELL_FRAGMENT};
	size_t offset = send->scratch[STREAM];
	size_t bytes = send->bytes - offset;
	int slot;

	if (!shm_can_send(endpoint))
		return false;
	slot = shm_take_slot(endpoint->tx->stream_state, SHM_STREAM_SLOTS, &endpoint->stream_next);
	if (slot < 0) {
		device_of(endpoint)->starved = true;
		return false;
	}
	if (bytes > SHM_STREAM_BYTES)
		bytes = SHM_STREAM_BYTES;
	memcpy(endpoint->tx->stream[slot], (const char *)send->data + offset, bytes);
	cell.body.fragment.recv = (uint32_t)send->scratch[SEND_NUMBER];
	cell.body.fragment.slot = (uint32_t)slot;
	cell.body.fragment.offset = offset;
	cell.body.fragment.bytes = (uint32_t)bytes;
	shm_send_cell(endpoint, &cell);
	send->scratch[STREAM] = offset + bytes;
	return true;
}

size_t shm_stream(struct shm_endpoint *endpoint)
{
	size_t count = 0;

	STRETTO_LIST_FOR_SAFE (it, &endpoint->streaming) {
		struct stretto_send *send = stretto_container_of(it, struct stretto_send, link);

		if (!stream_piece(endpoint, send))
			break;
		count++;
		if (send->scratch[STREAM] == send->bytes) {
			stretto_list_remove(it);
			send->done(send, STRETTO_OK);
		}
	}
	return count;
}

static void cancel_arrivals(struct shm_endpoint *endpoint, uint64_t comm, uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);
		struct shm_cell cell;

		if (!stretto_key_is_of(&arrival->key, comm, sequence))
			continue;
		cell.kind = (uint8_t)arrival->body[0];
		memcpy(&cell.body, &arrival->body[1], sizeof cell.body);
		discard(endpoint, &cell);
		stretto_list_remove(it);
		stretto_match_recycle(&endpoint->match, arrival);
	}
}

void shm_cancel(struct stretto_endpoint *base, uint64_t comm, uint32_t sequence)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);

	stretto_match_cancel(&endpoint->match, comm, sequence);
	if (endpoint->rx)
		cancel_arrivals(endpoint, comm, sequence);
	STRETTO_LIST_FOR_SAFE (it, &device_of(endpoint)->pulls) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (stretto_key_is_of(&recv->key, comm, sequence) &&
		    shm_pulled_from(recv) == endpoint)
			stretto_list_remove(it);
	}
	STRETTO_LIST_FOR_SAFE (it, &endpoint->streaming) {
		struct stretto_send *send = stretto_container_of(it, struct stretto_send, link);

		if (stretto_key_is_of(&send->key, comm, sequence))
			stretto_list_remove(it);
	}
	for (uint32_t i = 0; i < endpoint->sends.capacity; i++) {
		struct stretto_send *send = endpoint->sends.entries[i].object;

		if (send && stretto_key_is_of(&send->key, comm, sequence))
			endpoint->sends.entries[i].object = NULL;
	}
	for (uint32_t i = 0; i < endpoint->streams.capacity; i++) {
		struct stretto_recv *recv = endpoint->streams.entries[i].object;

		if (recv && stretto_key_is_of(&recv->key, comm, sequence))
			endpoint->streams.entries[i].object = NULL;
	}
}

void shm_notify(struct stretto_endpoint *base, const struct stretto_notice *notice)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);
	struct shm_cell cell = {.kind = SHM_CELL_NOTICE};

	cell.key.comm = notice->comm;
	cell.key.sequence = notice->sequence;
	cell.signature = notice->signature;
	cell.body.notice.origin = notice->origin;
	cell.body.notice.other_status = (uint32_t)(notice->other + 1) << 8 | notice->status;
	cell.body.notice.other_signature = notice->other_signature;
	if (!shm_send_control(endpoint, &cell))
		shm_out_of_memory(endpoint);
}
