/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_mem.c: regions that UCX knows: mapped once, when first used, so that no transfer has to. See ucx.h. */
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/transports/ucx.h"

/* How long drop_region() waits for transfers that use the region. */
#define DRAIN_SECONDS 1.0

stretto_status ucx_add_region(struct stretto_device *base, struct stretto_region *region)
{
	struct ucx_device *device = ucx_device_of(base);

	if (device->region_count == device->region_capacity) {
		size_t capacity = device->region_capacity ? 2 * device->region_capacity : 16;
		struct ucx_region *grown =
			realloc(device->regions, capacity * sizeof *device->regions);

		if (!grown)
			return STRETTO_NO_MEMORY;
		device->regions = grown;
		device->region_capacity = capacity;
	}
	device->regions[device->region_count++] =
		(struct ucx_region){.id = region->id, .base = region->base, .bytes = region->bytes};
	return STRETTO_OK;
}

/* A region that cannot be mapped is used like memory that is none: UCX copies, or maps it itself. */
static void map(struct ucx_device *device, struct ucx_region *region)
{
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
		.address = region->base,
		.length = region->bytes,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	ucs_status_t status = ucp_mem_map(device->context, &params, &region->memory);

	if (status == UCS_OK)
		return;
	region->memory = NULL;
	region->bytes = 0; /* do not try again */
	stretto_warn("ucx: a region of %zu bytes cannot be mapped, and is slower for that: %s; %s",
		     params.length, ucs_status_string(status), ucx_meaning(status));
}

ucp_mem_h ucx_memory_of(struct ucx_device *device, const struct stretto_region *region)
{
	if (!region)
		return NULL;
	for (size_t i = 0; i < device->region_count; i++) {
		struct ucx_region *known = &device->regions[i];

		if (known->id != region->id || known->base != region->base)
			continue;
		if (!known->memory && known->bytes)
			map(device, known);
		return known->memory;
	}
	return NULL;
}

static bool uses(const struct stretto_list *transfers, ucp_mem_h memory)
{
	STRETTO_LIST_FOR (it, transfers)
		if (stretto_container_of(it, struct ucx_transfer, link)->memory == memory)
			return true;
	return false;
}

/* Whether UCX has a request that uses the mapping. */
static bool in_use(const struct ucx_device *device, ucp_mem_h memory)
{
	if (uses(&device->orphans, memory))
		return true;
	for (size_t i = 0; i < UCX_ANNOUNCED; i++)
		if (device->receives[i].request && device->receives[i].memory == memory)
			return true;
	STRETTO_LIST_FOR (it, &device->endpoints)
		if (uses(&stretto_container_of(it, struct ucx_endpoint, in_device)->sending,
			 memory))
			return true;
	return false;
}

/* After a cancel, a transfer of the operation may still be under way in a region that now goes. */
static bool drained(struct ucx_device *device, ucp_mem_h memory)
{
	uint64_t until = stretto_after(stretto_now(), DRAIN_SECONDS);

	while (in_use(device, memory) && stretto_now() < until)
		ucp_worker_progress(device->worker);
	return !in_use(device, memory);
}

void ucx_drop_region(struct stretto_device *base, struct stretto_region *region)
{
	struct ucx_device *device = ucx_device_of(base);

	for (size_t i = 0; i < device->region_count; i++) {
		struct ucx_region *known = &device->regions[i];

		if (known->id != region->id || known->base != region->base)
			continue;
		if (known->memory && !drained(device, known->memory)) {
			known->id = 0; /* its pages live as long as the mapping */
			return;
		}
		if (known->memory)
			ucp_mem_unmap(device->context, known->memory);
		*known = device->regions[--device->region_count];
		return;
	}
}

void ucx_unmap_all(struct ucx_device *device)
{
	for (size_t i = 0; i < device->region_count; i++)
		if (device->regions[i].memory)
			ucp_mem_unmap(device->context, device->regions[i].memory);
	free(device->regions);
}
