/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_region.c: regions that ranks of a node map from each other. See shm.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/log.h"
#include "runtime/transports/shm.h"

void shm_read_region(struct shm_endpoint *endpoint, const struct shm_region_message *message,
		     int fd)
{
	struct shm_remote_region *grown;
	char *base;

	if (endpoint->region_count == endpoint->region_capacity) {
		size_t capacity = endpoint->region_capacity ? 2 * endpoint->region_capacity : 8;

		grown = realloc(endpoint->regions, capacity * sizeof *grown);
		if (!grown)
			return; /* process_vm_readv or a stream serve */
		endpoint->regions = grown;
		endpoint->region_capacity = capacity;
	}
	base = shm_map_peer(fd, message->bytes, PROT_READ | PROT_WRITE);
	if (!base) {
		stretto_info("shm: cannot map %llu bytes of rank %d (%s); see vm.max_map_count",
			     (unsigned long long)message->bytes, endpoint->base.peer,
			     strerror(errno));
		return;
	}
	endpoint->regions[endpoint->region_count++] = (struct shm_remote_region){
		.id = message->id,
		.tag = message->tag,
		.address = message->address,
		.bytes = message->bytes,
		.base = base,
	};
}

stretto_status shm_share_region(struct shm_endpoint *endpoint, const struct stretto_region *region)
{
	struct shm_region_message message = {.magic = SHM_MAGIC,
					     .id = region->id,
					     .address = (uintptr_t)region->base,
					     .bytes = region->mapped,
					     .tag = region->tag};
	stretto_status status;

	for (size_t i = 0; i < endpoint->shared_count; i++)
		if (endpoint->shared[i] == region->id)
			return STRETTO_OK;
	if (endpoint->shared_count == endpoint->shared_capacity) {
		size_t capacity = endpoint->shared_capacity ? 2 * endpoint->shared_capacity : 8;
		uint32_t *grown = realloc(endpoint->shared, capacity * sizeof *grown);

		if (!grown)
			return STRETTO_NO_MEMORY;
		endpoint->shared = grown;
		endpoint->shared_capacity = capacity;
	}
	status = shm_send_with_fds(endpoint->socket, &message, sizeof message, &region->fd, 1);
	if (status == STRETTO_AGAIN)
		shm_device_of(endpoint->base.device)->starved = true;
	if (status == STRETTO_OK)
		endpoint->shared[endpoint->shared_count++] = region->id;
	return status;
}

static struct shm_remote_region *find_region(struct shm_endpoint *endpoint, uint32_t id)
{
	for (size_t i = 0; i < endpoint->region_count; i++)
		if (endpoint->regions[i].id == id)
			return &endpoint->regions[i];
	return NULL;
}

static struct shm_remote_region *find_tagged(struct shm_endpoint *endpoint, uint64_t tag)
{
	for (size_t i = 0; i < endpoint->region_count; i++)
		if (endpoint->regions[i].tag == tag)
			return &endpoint->regions[i];
	return NULL;
}

struct shm_remote_region *shm_remote_region(struct shm_endpoint *endpoint, uint32_t id)
{
	struct shm_remote_region *region = find_region(endpoint, id);

	if (region || endpoint->socket < 0)
		return region;
	/* It was sent before the cell that names it. An end is for shm_events(): we are amid a cell. */
	shm_read_regions(endpoint);
	return find_region(endpoint, id);
}

stretto_status shm_share(struct stretto_endpoint *base, const struct stretto_region *region)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);

	if (endpoint->state == SHM_FAILED)
		return STRETTO_PEER_FAILED;
	return endpoint->state == SHM_READY ? shm_share_region(endpoint, region) : STRETTO_AGAIN;
}

char *shm_map(struct stretto_endpoint *base, uint32_t id, uint64_t tag, size_t *bytes)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);
	struct shm_remote_region *region;

	if (endpoint->state != SHM_READY)
		return NULL;
	region = id ? find_region(endpoint, id) : find_tagged(endpoint, tag);
	if (!region) {
		shm_read_regions(endpoint); /* an end is for shm_events() */
		region = id ? find_region(endpoint, id) : find_tagged(endpoint, tag);
	}
	if (!region)
		return NULL;
	*bytes = region->bytes;
	return region->base;
}

/* Ends the transfers that read from a region: its owner gave up the operation that they belong to. */
static void drop_pulls(struct shm_endpoint *endpoint, const struct shm_remote_region *region)
{
	uintptr_t first = (uintptr_t)region->base;

	STRETTO_LIST_FOR_SAFE (it, &shm_device_of(endpoint->base.device)->pulls) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (!shm_reads_from(recv, endpoint, first, first + region->bytes))
			continue;
		stretto_list_remove(it);
		recv->done(recv, STRETTO_PEER_FAILED);
	}
}

static void unmap(struct shm_endpoint *endpoint, struct shm_remote_region *region)
{
	munmap(region->base, region->bytes);
	*region = endpoint->regions[--endpoint->region_count];
}

void shm_drop_remote_region(struct shm_endpoint *endpoint, uint32_t id)
{
	struct shm_remote_region *region = find_region(endpoint, id);

	/* What ranks made for each other with a tag is in use here until we drop ours. */
	if (!region || region->tag)
		return;
	drop_pulls(endpoint, region);
	unmap(endpoint, region);
}

void shm_drop_tagged(struct shm_endpoint *endpoint, uint64_t tag)
{
	struct shm_remote_region *region = find_tagged(endpoint, tag);

	if (region)
		unmap(endpoint, region);
}
