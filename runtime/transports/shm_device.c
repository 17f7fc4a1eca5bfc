/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_device.c: a channel's device, and the transport table. See shm.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/shm.h"

/* How soon to look again when a ring or the slots were full: their consumer does not wake us. */
#define STARVED_SECONDS 100e-6

static bool shm_probe(const struct stretto_config *config, char *why, size_t size)
{
	int fd = memfd_create("stretto", MFD_CLOEXEC);

	(void)config;
	if (fd < 0) {
		snprintf(why, size, "memfd_create: %s", strerror(errno));
		return false;
	}
	close(fd);
	snprintf(why, size, "usable, for ranks of the same node");
	return true;
}

static stretto_status make_page(struct shm_device *device)
{
	void *page;

	device->page_fd = memfd_create("stretto-page", MFD_CLOEXEC);
	if (device->page_fd < 0 || ftruncate(device->page_fd, sizeof(struct shm_page)) != 0)
		goto fail;
	page = mmap(NULL, sizeof(struct shm_page), PROT_READ | PROT_WRITE, MAP_SHARED,
		    device->page_fd, 0);
	if (page == MAP_FAILED)
		goto fail;
	device->page = page;
	return STRETTO_OK;

fail:
	stretto_error("shm: making the page of this rank: %s", strerror(errno));
	return STRETTO_NO_MEMORY;
}

static void close_device(struct stretto_device *base)
{
	struct shm_device *device = shm_device_of(base);

	STRETTO_LIST_FOR_SAFE (it, &device->visitors)
		shm_drop_visitor(device, stretto_container_of(it, struct shm_visitor, link));
	if (device->listener >= 0) {
		base->env->unwatch(base->env->context, device->listener);
		close(device->listener);
	}
	if (device->page)
		munmap(device->page, sizeof(struct shm_page));
	if (device->page_fd >= 0)
		close(device->page_fd);
	free(device->bounce);
	free(device);
}

static stretto_status open_device(const struct stretto_device_env *env, struct stretto_device **out)
{
	struct shm_device *device = calloc(1, sizeof *device);
	stretto_status status;

	if (!device)
		return STRETTO_NO_MEMORY;
	device->base.transport = &stretto_transport_shm;
	device->base.env = env;
	device->listener = -1;
	device->page_fd = -1;
	stretto_list_init(&device->endpoints);
	stretto_list_init(&device->visitors);
	stretto_list_init(&device->pulls);
	device->bounce = malloc(SHM_PIECE);
	if (!device->bounce || getrandom(&device->nonce, sizeof device->nonce, 0) < 0 ||
	    getrandom(device->address.name, sizeof device->address.name, 0) < 0 ||
	    getrandom(device->address.secret, sizeof device->address.secret, 0) < 0) {
		close_device(&device->base);
		return STRETTO_NO_MEMORY;
	}
	status = stretto_node_identify(env->config, &device->address.node);
	if (status == STRETTO_OK)
		status = make_page(device);
	if (status == STRETTO_OK)
		status = shm_listen(device);
	if (status != STRETTO_OK) {
		close_device(&device->base);
		return status;
	}
	*out = &device->base;
	return STRETTO_OK;
}

static size_t shm_get_address(const struct stretto_device *device, void *blob)
{
	memcpy(blob, &shm_device_of(device)->address, sizeof(struct shm_address));
	return sizeof(struct shm_address);
}

static bool shm_reaches(const struct stretto_device *base, int peer, const void *blob, size_t bytes)
{
	const struct shm_address *mine = &shm_device_of(base)->address;
	struct shm_address address;

	if (bytes != sizeof address || peer == base->env->rank)
		return false;
	memcpy(&address, blob, sizeof address);
	return stretto_node_same(&mine->node, &address.node);
}

static void shm_drop_region(struct stretto_device *base, struct stretto_region *region)
{
	struct shm_device *device = shm_device_of(base);
	struct shm_cell cell = {.kind = SHM_CELL_GONE};

	cell.body.gone.region = region->id;
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct shm_endpoint *endpoint = stretto_container_of(it, struct shm_endpoint, link);

		if (region->tag)
			shm_drop_tagged(endpoint, region->tag);
		for (size_t i = 0; i < endpoint->shared_count; i++) {
			if (endpoint->shared[i] != region->id)
				continue;
			endpoint->shared[i] = endpoint->shared[--endpoint->shared_count];
			if (!shm_send_control(endpoint, &cell))
				shm_fail(endpoint, "out of memory for control messages");
			break;
		}
	}
}

static size_t shm_poll(struct stretto_device *base)
{
	struct shm_device *device = shm_device_of(base);
	size_t count = 0;

	if (device->connecting)
		shm_events(base);
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct shm_endpoint *endpoint = stretto_container_of(it, struct shm_endpoint, link);

		if (endpoint->state != SHM_READY)
			continue;
		count += shm_receive(endpoint);
		count += shm_flush(endpoint);
		count += shm_stream(endpoint);
	}
	return count + shm_pull(device);
}

static uint64_t shm_arm(struct stretto_device *base)
{
	struct shm_device *device = shm_device_of(base);
	bool starved = device->starved;

	device->starved = false;
	/* seq_cst: before the poll that follows; partner is the look at armed in shm_wake_peer() */
	atomic_store(&device->page->armed, 1);
	return starved ? stretto_after(stretto_now(), STARVED_SECONDS) : STRETTO_NEVER;
}

static void shm_disarm(struct stretto_device *base)
{
	/* relaxed: a late wake-up is harmless; partner is shm_wake_peer() */
	atomic_store_explicit(&shm_device_of(base)->page->armed, 0, memory_order_relaxed);
}

static bool shm_told(const struct stretto_device *base)
{
	const struct shm_device *device = shm_device_of(base);

	STRETTO_LIST_FOR (it, &device->endpoints) {
		const struct shm_endpoint *endpoint =
			stretto_container_of(it, struct shm_endpoint, link);

		if (endpoint->state != SHM_FAILED && (endpoint->queue_count > 0 || !endpoint->tx))
			return false;
	}
	return true;
}

static void shm_publish(struct stretto_device *base, const struct stretto_peer_state *state)
{
	struct shm_page *page = shm_device_of(base)->page;
	uint64_t words[4];

	memcpy(words, state, sizeof words);
	/* release: the words that follow are not seen with an even version before; partner below */
	atomic_fetch_add_explicit(&page->version, 1, memory_order_acq_rel);
	for (int i = 0; i < 4; i++)
		atomic_store_explicit(&page->entered[i], words[i], memory_order_release);
	/* seq_cst: of two ranks that publish and then look, one sees the other; partner below */
	atomic_fetch_add(&page->version, 1);
}

static bool shm_peer_state(const struct stretto_endpoint *base, struct stretto_peer_state *state)
{
	const struct shm_endpoint *endpoint = shm_endpoint_of(base);
	uint64_t words[4];
	uint32_t version;

	if (!endpoint->peer_page)
		return false;
	for (int tries = 0; tries < 100; tries++) {
		/* seq_cst, and acquire for the words: partners are in shm_publish() */
		version = atomic_load(&endpoint->peer_page->version);
		for (int i = 0; i < 4; i++)
			words[i] = atomic_load_explicit(&endpoint->peer_page->entered[i],
							memory_order_acquire);
		if (version % 2 == 0 && version == atomic_load(&endpoint->peer_page->version)) {
			memcpy(state, words, sizeof words);
			return true;
		}
	}
	return false; /* it was interrupted while it wrote; there will be another look */
}

static void shm_wake(struct stretto_endpoint *endpoint)
{
	shm_wake_peer(shm_endpoint_of(endpoint));
}

const struct stretto_transport stretto_transport_shm = {
	.name = "shm",
	.limits = {.sinks = true, .same_node = true},
	.probe = shm_probe,
	.open = open_device,
	.close = close_device,
	.address = shm_get_address,
	.reaches = shm_reaches,
	.connect = shm_connect,
	.disconnect = shm_disconnect,
	.drop_region = shm_drop_region,
	.post_send = shm_post_send,
	.post_recv = shm_post_recv,
	.cancel = shm_cancel,
	.notify = shm_notify,
	.poll = shm_poll,
	.events = shm_events,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.told = shm_told,
	.publish = shm_publish,
	.share = shm_share,
	.map = shm_map,
	.wake = shm_wake,
	.peer_state = shm_peer_state,
};
