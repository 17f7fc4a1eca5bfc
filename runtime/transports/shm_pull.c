/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_pull.c: receivers read large messages out of their senders' memory, piece by piece. See shm.h. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "runtime/log.h"
#include "runtime/transports/shm.h"

/* What a receive keeps in stretto_recv.scratch while it is being read from its sender. */
enum { SOURCE, ENDPOINT, NUMBER };

struct shm_endpoint *shm_pulled_from(const struct stretto_recv *recv)
{
	return (struct shm_endpoint *)(uintptr_t)recv->scratch[ENDPOINT];
}

static void finish_recv(struct shm_endpoint *endpoint, struct stretto_recv *recv,
			stretto_status status)
{
	struct shm_cell cell = {.kind = SHM_CELL_FINISH};

	cell.body.answer.send = (uint32_t)recv->scratch[NUMBER];
	cell.body.answer.status = (uint32_t)status;
	if (!shm_send_control(endpoint, &cell))
		shm_out_of_memory(endpoint);
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
		shm_out_of_memory(endpoint);
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

/* The source is a pointer if mapped, else an address in the peer. */
void shm_accept_offer(struct shm_endpoint *endpoint, struct stretto_recv *recv,
		      const union shm_body *body)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
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
	struct shm_device *device = shm_device_of(endpoint->base.device);
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
		if (error == ESRCH)
			return STRETTO_PEER_FAILED;
		/* info: a peer that gave up and freed its memory says why in a notice */
		stretto_info("shm: process_vm_readv of %zu bytes from rank %d: %s", bytes,
			     endpoint->base.peer, got == 0 ? "nothing read" : strerror(error));
		return STRETTO_SYSTEM;
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

/* One piece of one transfer. When it ends it moves to `over`, its status in scratch[SOURCE]. */
static void pull_piece(struct stretto_recv *recv, struct stretto_list *over)
{
	struct shm_endpoint *endpoint = shm_pulled_from(recv);
	size_t bytes = recv->bytes - recv->received;
	stretto_status status = STRETTO_OK;

	if (bytes > SHM_PIECE)
		bytes = SHM_PIECE;
	if (recv->scratch[NUMBER] >> 32)
		status = read_piece(endpoint, recv, bytes);
	else
		shm_take(recv, recv->received,
			 (const char *)(uintptr_t)recv->scratch[SOURCE] + recv->received, bytes);
	if (status == STRETTO_OK && recv->received < recv->bytes)
		return;
	stretto_list_remove(&recv->link);
	recv->scratch[NUMBER] &= UINT32_MAX;
	if (status == STRETTO_AGAIN) {
		ask_for_stream(endpoint, recv);
		return;
	}
	recv->scratch[SOURCE] = (uint64_t)status;
	stretto_list_append(over, &recv->link);
}

bool shm_reads_from(const struct stretto_recv *recv, const struct shm_endpoint *endpoint,
		    uintptr_t first, uintptr_t end)
{
	return shm_pulled_from(recv) == endpoint && recv->scratch[NUMBER] >> 32 == 0 &&
	       recv->scratch[SOURCE] >= first && recv->scratch[SOURCE] < end;
}

size_t shm_pull(struct shm_device *device)
{
	struct stretto_list over; /* but not yet believed */
	size_t count = 0;

	stretto_list_init(&over);
	STRETTO_LIST_FOR_SAFE (it, &device->pulls) {
		pull_piece(stretto_container_of(it, struct stretto_recv, link), &over);
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
	STRETTO_LIST_FOR (it, &over)
		shm_receive(shm_pulled_from(stretto_container_of(it, struct stretto_recv, link)));
	while (!stretto_list_empty(&over)) {
		struct stretto_recv *recv =
			stretto_container_of(over.next, struct stretto_recv, link);

		stretto_list_remove(over.next);
		finish_recv(shm_pulled_from(recv), recv, (stretto_status)recv->scratch[SOURCE]);
	}
	return count;
}
