/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_data.c: how sends and receives use cells, slots and the peer's memory. See shm.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "runtime/log.h"
#include "runtime/transports/shm.h"

/* What a receive keeps in stretto_recv.scratch while it is being read from its sender. */
enum { SOURCE, ENDPOINT, NUMBER };
/* What a send keeps in stretto_send.scratch: its number, and when streaming the receive's and the
 * bytes sent. */
enum { SEND_NUMBER, STREAM };

static struct shm_device *device_of(struct shm_endpoint *endpoint)
{
	return shm_device_of(endpoint->base.device);
}

static void out_of_memory(struct shm_endpoint *endpoint)
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

/* Payload that lies readable in this process goes to its receive. */
static void take(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes)
{
	if (recv->sink)
		recv->sink(recv, offset, source, bytes);
	else if (bytes)
		memcpy((char *)recv->data + offset, source, bytes);
	recv->received += bytes;
}

static void finish_recv(struct shm_endpoint *endpoint, struct stretto_recv *recv,
			stretto_status status)
{
	struct shm_cell cell = {.kind = SHM_CELL_FINISH};

	cell.body.answer.send = (uint32_t)recv->scratch[NUMBER];
	cell.body.answer.status = (uint32_t)status;
	if (!shm_send_control(endpoint, &cell))
		out_of_memory(endpoint);
	recv->done(recv, status);
}

/* The receiver cannot read the sender's memory: asks for a stream. */
static void ask_for_stream(struct shm_endpoint *endpoint, struct stretto_recv *recv)
{
	struct shm_cell cell = {.kind = SHM_CELL_PULL};
	uint32_t number = shm_table_add(&endpoint->streams, recv);

	cell.body.answer.send = (uint32_t)recv->scratch[NUMBER];
	cell.body.answer.recv = number;
	recv->scratch[NUMBER] = number;
	if (number == 0 || !shm_send_control(endpoint, &cell))
		out_of_memory(endpoint);
}

static void say_no_cma(struct shm_device *device, int error)
{
	if (device->cma_refused)
		return;
	device->cma_refused = true;
	stretto_info(
		"shm: process_vm_readv of a peer is not permitted (%s); unregistered memory is "
		"copied through slots instead",
		strerror(error));
}

/* Starts to read an offer. The source is a pointer if mapped, else an address in the peer. */
static void accept_offer(struct shm_endpoint *endpoint, struct stretto_recv *recv,
			 const union shm_body *body)
{
	struct shm_device *device = device_of(endpoint);
	struct shm_remote_region *region = NULL;
	uint64_t address = body->offer.address;

	recv->received = 0;
	recv->scratch[ENDPOINT] = (uintptr_t)endpoint;
	recv->scratch[NUMBER] = body->offer.send;
	recv->scratch[SOURCE] = 0;
	if (body->offer.region)
		region = shm_remote_region(endpoint, body->offer.region);
	if (region && address >= region->address && address - region->address <= region->bytes &&
	    recv->bytes <= region->bytes - (address - region->address)) {
		recv->scratch[SOURCE] = (uintptr_t)(region->base + (address - region->address));
	} else if (endpoint->cma) {
		recv->scratch[SOURCE] = address;
		recv->scratch[NUMBER] |= (uint64_t)1 << 32; /* by process_vm_readv */
	} else {
		ask_for_stream(endpoint, recv);
		return;
	}
	stretto_list_append(&device->pulls, &recv->link);
}

/* Reads one piece with process_vm_readv. STRETTO_AGAIN: not permitted after all. */
static stretto_status read_piece(struct shm_endpoint *endpoint, struct stretto_recv *recv,
				 size_t bytes)
{
	struct shm_device *device = device_of(endpoint);
	void *target = recv->sink ? device->bounce : (char *)recv->data + recv->received;
	struct iovec local = {target, bytes};
	struct iovec remote = {(void *)(uintptr_t)(recv->scratch[SOURCE] + recv->received), bytes};
	ssize_t got = process_vm_readv(endpoint->peer_pid, &local, 1, &remote, 1, 0);

	if (got <= 0) {
		int error = errno;

		if (recv->received == 0 && error == EPERM) {
			endpoint->cma = false;
			say_no_cma(device, error);
			return STRETTO_AGAIN;
		}
		if (error != ESRCH)
			stretto_error("shm: process_vm_readv of %zu bytes from rank %d: %s", bytes,
				      endpoint->base.peer, strerror(error));
		return error == ESRCH ? STRETTO_PEER_FAILED : STRETTO_SYSTEM;
	}
	if (recv->sink && (size_t)got < bytes)
		got -= got % 16; /* a sink takes whole elements */
	if (got == 0)
		return STRETTO_SYSTEM;
	if (recv->sink)
		recv->sink(recv, recv->received, device->bounce, (size_t)got);
	recv->received += (size_t)got;
	return STRETTO_OK;
}

/* One piece of one transfer; takes it off the list when it ends. */
static void pull_piece(struct stretto_recv *recv, struct stretto_list *read)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)(uintptr_t)recv->scratch[ENDPOINT];
	size_t bytes = recv->bytes - recv->received;
	stretto_status status = STRETTO_OK;

	if (bytes > SHM_PIECE)
		bytes = SHM_PIECE;
	if (recv->scratch[NUMBER] >> 32)
		status = read_piece(endpoint, recv, bytes);
	else
		take(recv, recv->received,
		     (const char *)(uintptr_t)recv->scratch[SOURCE] + recv->received, bytes);
	if (status == STRETTO_OK && recv->received < recv->bytes)
		return;
	stretto_list_remove(&recv->link);
	recv->scratch[NUMBER] &= UINT32_MAX;
	if (status == STRETTO_AGAIN)
		ask_for_stream(endpoint, recv);
	else if (status == STRETTO_OK)
		stretto_list_append(read, &recv->link);
	else
		finish_recv(endpoint, recv, status);
}

bool shm_reads_from(const struct stretto_recv *recv, const struct shm_endpoint *endpoint,
		    uintptr_t first, uintptr_t end)
{
	return recv->scratch[ENDPOINT] == (uintptr_t)endpoint && recv->scratch[NUMBER] >> 32 == 0 &&
	       recv->scratch[SOURCE] >= first && recv->scratch[SOURCE] < end;
}

static struct shm_endpoint *endpoint_of(const struct stretto_recv *recv)
{
	return (struct shm_endpoint *)(uintptr_t)recv->scratch[ENDPOINT];
}

size_t shm_pull(struct shm_device *device)
{
	struct stretto_list read; /* complete, but not yet believed */
	size_t count = 0;

	stretto_list_init(&read);
	STRETTO_LIST_FOR_SAFE (it, &device->pulls) {
		pull_piece(stretto_container_of(it, struct stretto_recv, link), &read);
		count++;
	}
	/*
	 * A sender that gave its operation up says so in the ring before its memory is used for
	 * anything else. So what was read is the message unless such a notice is there by now; then
	 * the communicator is broken when the receives are done, and the executor goes no further.
	 */
#ifndef __SANITIZE_THREAD__ /* which knows no fences, and sees other processes' memory as plain */
	/* What was read was read before the look. */
	atomic_thread_fence(memory_order_acquire);
#endif
	STRETTO_LIST_FOR (it, &read)
		shm_receive(endpoint_of(stretto_container_of(it, struct stretto_recv, link)));
	while (!stretto_list_empty(&read)) {
		struct stretto_recv *recv =
			stretto_container_of(read.next, struct stretto_recv, link);

		stretto_list_remove(read.next);
		finish_recv(endpoint_of(recv), recv, STRETTO_OK);
	}
	return count;
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
		take(recv, 0, cell->body.bytes, cell->length);
		recv->done(recv, STRETTO_OK);
		break;
	case SHM_CELL_EAGER:
		take(recv, 0, endpoint->rx->eager[cell->body.eager.slot], cell->body.eager.bytes);
		discard(endpoint, cell);
		recv->done(recv, STRETTO_OK);
		break;
	default:
		accept_offer(endpoint, recv, &cell->body);
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
		out_of_memory(endpoint);
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
		take(recv, recv->received, endpoint->rx->stream[slot], bytes);
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

static bool of_operation(const struct stretto_key *key, uint64_t comm, uint32_t sequence)
{
	return key->comm == comm && key->sequence == sequence;
}

static void cancel_arrivals(struct shm_endpoint *endpoint, uint64_t comm, uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, &endpoint->match.unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);
		struct shm_cell cell;

		if (!of_operation(&arrival->key, comm, sequence))
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

		if (of_operation(&recv->key, comm, sequence) &&
		    recv->scratch[ENDPOINT] == (uintptr_t)endpoint)
			stretto_list_remove(it);
	}
	STRETTO_LIST_FOR_SAFE (it, &endpoint->streaming) {
		struct stretto_send *send = stretto_container_of(it, struct stretto_send, link);

		if (of_operation(&send->key, comm, sequence))
			stretto_list_remove(it);
	}
	for (uint32_t i = 0; i < endpoint->sends.capacity; i++) {
		struct stretto_send *send = endpoint->sends.entries[i].object;

		if (send && of_operation(&send->key, comm, sequence))
			endpoint->sends.entries[i].object = NULL;
	}
	for (uint32_t i = 0; i < endpoint->streams.capacity; i++) {
		struct stretto_recv *recv = endpoint->streams.entries[i].object;

		if (recv && of_operation(&recv->key, comm, sequence))
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
		out_of_memory(endpoint);
}
