/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_mem.c: memory that the device knows: regions, temporary registrations, receive slots. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/verbs.h"

/* How long drop_region() waits for writes from the region that have been posted. */
#define DRAIN_SECONDS 1.0

enum { SLAB_SLOTS = 32 };

struct verbs_slab {
	struct verbs_slab *next;
	char *memory;
	struct ibv_mr *mr;
	struct verbs_slot slots[SLAB_SLOTS];
};

/* The value of a /proc file with one number; "?" if it cannot be read. */
static void read_number(const char *path, char *text, int size)
{
	FILE *file = fopen(path, "re");

	snprintf(text, (size_t)size, "?");
	if (!file)
		return;
	if (fgets(text, size, file))
		text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

static void explain_registration(const struct verbs_device *device, const void *base, size_t bytes,
				 int error)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	char maps[32], locked[32] = "unlimited";

	if (error != ENOMEM) {
		stretto_error("verbs: registering [%p, +%zu) with %s: %s%s", base, bytes,
			      device->port.device, strerror(error),
			      error == EFAULT ? "; the memory is not mapped, or read-only" : "");
		return;
	}
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(locked, sizeof locked, "%llu bytes", (unsigned long long)limit.rlim_cur);
	read_number("/proc/sys/vm/max_map_count", maps, sizeof maps);
	stretto_error(
		"verbs: registering %zu bytes with %s: %s; RLIMIT_MEMLOCK is %s in this "
		"process, vm.max_map_count %s: raise the first (ulimit -l unlimited; for good "
		"by memlock in /etc/security/limits.conf, under Slurm by LimitMEMLOCK=infinity "
		"of slurmd.service and PropagateResourceLimitsExcept=MEMLOCK)",
		bytes, device->port.device, strerror(error), locked, maps);
}

struct ibv_mr *verbs_reg_mr(struct verbs_device *device, void *base, size_t bytes, int access)
{
	/* the device's header makes ibv_reg_mr() a macro that looks at the kind of access */
	struct ibv_mr *mr = ibv_reg_mr(device->pd, base, bytes, (unsigned)access);

	if (!mr)
		explain_registration(device, base, bytes, errno);
	return mr;
}

static bool register_region(struct verbs_device *device, struct verbs_region *region)
{
	region->mr = verbs_reg_mr(device, region->base, region->bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return region->mr != NULL;
}

stretto_status verbs_add_region(struct stretto_device *base, struct stretto_region *region)
{
	struct verbs_device *device = verbs_device_of(base);

	if (device->region_count == device->region_capacity) {
		size_t capacity = device->region_capacity ? 2 * device->region_capacity : 16;
		struct verbs_region *grown =
			realloc(device->regions, capacity * sizeof *device->regions);

		if (!grown)
			return STRETTO_NO_MEMORY;
		device->regions = grown;
		device->region_capacity = capacity;
	}
	device->regions[device->region_count] = (struct verbs_region){
		.id = region->id, .base = region->base, .bytes = region->bytes};
	/* A job that connects to nobody by this device need not pin its memory. */
	if (!stretto_list_empty(&device->endpoints) &&
	    !register_region(device, &device->regions[device->region_count]))
		return STRETTO_NO_MEMORY;
	device->region_count++;
	return STRETTO_OK;
}

static bool written_from(const struct verbs_endpoint *endpoint, const struct ibv_mr *mr)
{
	const struct stretto_list *lists[] = {&endpoint->ready, &endpoint->writing};

	if (endpoint->state == VERBS_FAILED)
		return false;
	for (size_t i = 0; i < 2; i++)
		STRETTO_LIST_FOR (it, lists[i])
			if (stretto_container_of(it, struct verbs_transfer, link)->memory.mr == mr)
				return true;
	return false;
}

/*
 * After a cancel, writes of the operation may still be under way from a region that now goes. They
 * need only the device to end; if they do not, the connection is given up.
 */
static void drain(struct verbs_device *device, const struct ibv_mr *mr)
{
	uint64_t until = stretto_after(stretto_now(), DRAIN_SECONDS);

	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct verbs_endpoint *endpoint =
			stretto_container_of(it, struct verbs_endpoint, link);

		while (written_from(endpoint, mr) && stretto_now() < until)
			verbs_poll_completions(device);
		if (written_from(endpoint, mr))
			verbs_fail(endpoint, "writes from memory that is freed do not end");
	}
}

void verbs_drop_region(struct stretto_device *base, struct stretto_region *region)
{
	struct verbs_device *device = verbs_device_of(base);

	for (size_t i = 0; i < device->region_count; i++) {
		if (device->regions[i].id != region->id)
			continue;
		if (device->regions[i].mr) {
			drain(device, device->regions[i].mr);
			ibv_dereg_mr(device->regions[i].mr);
		}
		device->regions[i] = device->regions[--device->region_count];
		return;
	}
}

struct span {
	void *data;
	size_t bytes;
	int access;
};

static bool covers(const struct verbs_region *region, const void *data, size_t bytes)
{
	uintptr_t base = (uintptr_t)region->base, first = (uintptr_t)data;

	return first >= base && first - base <= region->bytes &&
	       bytes <= region->bytes - (first - base);
}

/* The registration of a region if it covers the memory, else a temporary one. */
static stretto_status find_or_make(struct verbs_device *device, const struct stretto_region *region,
				   struct span span, struct verbs_memory *memory)
{
	struct ibv_mr *mr;

	for (size_t i = 0; region && i < device->region_count; i++) {
		struct verbs_region *ours = &device->regions[i];

		if (ours->id != region->id || !covers(ours, span.data, span.bytes))
			continue;
		if (!ours->mr && !register_region(device, ours))
			return STRETTO_NO_MEMORY;
		*memory = (struct verbs_memory){ours->mr, false};
		return STRETTO_OK;
	}
	mr = verbs_reg_mr(device, span.data, span.bytes, span.access);
	if (!mr)
		return STRETTO_NO_MEMORY;
	device->counters.registrations++;
	*memory = (struct verbs_memory){mr, true};
	return STRETTO_OK;
}

stretto_status verbs_register_source(struct verbs_device *device, const struct stretto_send *send,
				     struct verbs_memory *memory)
{
	/* the cast: without access rights a device only reads */
	struct span span = {(void *)(uintptr_t)send->data, send->bytes, 0};

	return find_or_make(device, send->region, span, memory);
}

stretto_status verbs_register_target(struct verbs_device *device, const struct stretto_recv *recv,
				     struct verbs_memory *memory)
{
	struct span span = {recv->data, recv->bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};

	return find_or_make(device, recv->region, span, memory);
}

void verbs_unregister(struct verbs_memory *memory)
{
	if (memory->mr && memory->temporary)
		ibv_dereg_mr(memory->mr);
	*memory = (struct verbs_memory){NULL, false};
}

/* Makes more slots; their memory is kept until the device is closed. */
static bool add_slab(struct verbs_device *device)
{
	size_t stride = (sizeof(struct verbs_header) + device->address.eager + 63) / 64 * 64;
	struct verbs_slab *slab = calloc(1, sizeof *slab);

	if (!slab)
		return false;
	slab->memory = aligned_alloc(4096, (stride * SLAB_SLOTS + 4095) / 4096 * 4096);
	if (slab->memory)
		slab->mr = verbs_reg_mr(device, slab->memory, stride * SLAB_SLOTS,
					IBV_ACCESS_LOCAL_WRITE);
	if (!slab->mr) {
		free(slab->memory);
		free(slab);
		return false;
	}
	for (size_t i = 0; i < SLAB_SLOTS; i++) {
		slab->slots[i].header = (struct verbs_header *)(void *)(slab->memory + i * stride);
		slab->slots[i].lkey = slab->mr->lkey;
		verbs_free_slot(device, &slab->slots[i]);
	}
	slab->next = device->slabs;
	device->slabs = slab;
	return true;
}

void verbs_free_slabs(struct verbs_device *device)
{
	while (device->slabs) {
		struct verbs_slab *slab = device->slabs;

		device->slabs = slab->next;
		ibv_dereg_mr(slab->mr);
		free(slab->memory);
		free(slab);
	}
	device->free_slots = NULL;
}

void verbs_free_slot(struct verbs_device *device, struct verbs_slot *slot)
{
	slot->next = device->free_slots;
	device->free_slots = slot;
}

/* Posts up to a batch of slots with one call; returns how many. */
static uint32_t post_slots(struct verbs_device *device, uint32_t count)
{
	struct ibv_recv_wr requests[VERBS_BATCH], *bad = NULL;
	struct ibv_sge pieces[VERBS_BATCH];
	uint32_t made = 0;
	uint32_t bytes = (uint32_t)sizeof(struct verbs_header) + device->address.eager;

	for (; made < count && made < VERBS_BATCH; made++) {
		struct verbs_slot *slot = device->free_slots;

		if (!slot)
			break;
		device->free_slots = slot->next;
		pieces[made] = (struct ibv_sge){(uintptr_t)slot->header, bytes, slot->lkey};
		requests[made] = (struct ibv_recv_wr){.wr_id = (uintptr_t)slot | 1,
						      .next = &requests[made + 1],
						      .sg_list = &pieces[made],
						      .num_sge = 1};
	}
	if (made == 0)
		return 0;
	requests[made - 1].next = NULL;
	if (ibv_post_srq_recv(device->srq, requests, &bad) == 0)
		return made;
	for (; bad; bad = bad->next) {
		verbs_free_slot(device,
				(struct verbs_slot *)(uintptr_t)(bad->wr_id & ~(uint64_t)1));
		made--;
	}
	return made;
}

void verbs_refill(struct verbs_device *device)
{
	uint32_t target = device->slots_wanted + device->announced + VERBS_SLACK;

	if (target > device->srq_depth)
		target = device->srq_depth;
	while (device->slots_posted < target) {
		uint32_t posted = 0;

		if (device->free_slots || add_slab(device))
			posted = post_slots(device, target - device->slots_posted);
		device->slots_posted += posted;
		if (posted == 0)
			return; /* said why; until there is memory, the peers' devices try again */
	}
}
