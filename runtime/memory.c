/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/log.h"

void stretto_memory_init(struct stretto_memory *memory)
{
	memset(memory, 0, sizeof *memory);
	pthread_mutex_init(&memory->lock, NULL);
	memory->next_id = 1;
}

void stretto_region_free(struct stretto_region *region)
{
	if (!region)
		return;
	if (region->mapped)
		munmap(region->base, region->mapped);
	if (region->fd >= 0)
		close(region->fd);
	free(region);
}

void stretto_memory_fini(struct stretto_memory *memory)
{
	for (size_t i = 0; i < memory->count; i++)
		stretto_region_free(memory->regions[i]);
	free(memory->regions);
	pthread_mutex_destroy(&memory->lock);
}

/* Index of the first region that ends after `address`. Called with the lock held. */
static size_t lower_bound(const struct stretto_memory *memory, const char *address)
{
	size_t low = 0, high = memory->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct stretto_region *region = memory->regions[middle];

		if (region->base + region->bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Puts the region into the table and gives it an id. */
static stretto_status insert(struct stretto_memory *memory, struct stretto_region *region)
{
	stretto_status status = STRETTO_OK;
	size_t at;

	pthread_mutex_lock(&memory->lock);
	at = lower_bound(memory, region->base);
	if (at < memory->count && memory->regions[at]->base < region->base + region->bytes) {
		stretto_error("memory [%p, +%zu) overlaps region [%p, +%zu), which is registered",
			      (void *)region->base, region->bytes,
			      (void *)memory->regions[at]->base, memory->regions[at]->bytes);
		status = STRETTO_INVALID;
	} else if (memory->count == memory->capacity) {
		size_t capacity = memory->capacity ? 2 * memory->capacity : 16;
		void *grown = realloc(memory->regions, capacity * sizeof *memory->regions);

		if (grown) {
			memory->regions = grown;
			memory->capacity = capacity;
		} else {
			status = STRETTO_NO_MEMORY;
		}
	}
	if (status == STRETTO_OK) {
		memmove(&memory->regions[at + 1], &memory->regions[at],
			(memory->count - at) * sizeof *memory->regions);
		memory->regions[at] = region;
		memory->count++;
		region->id = memory->next_id++;
	}
	pthread_mutex_unlock(&memory->lock);
	return status;
}

static void explain_no_memory(size_t bytes, const char *call)
{
	struct rlimit limit = {0, 0};
	int error = errno;

	if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		stretto_error(
			"allocating %zu bytes: %s: %s; RLIMIT_NOFILE is %llu in this process: "
			"raise it (ulimit -n) or allocate fewer, larger regions",
			bytes, call, strerror(error), (unsigned long long)limit.rlim_cur);
	else if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		stretto_error("allocating %zu bytes: %s: %s; RLIMIT_AS is %llu bytes in this "
			      "process (ulimit -v)",
			      bytes, call, strerror(error), (unsigned long long)limit.rlim_cur);
	else
		stretto_error("allocating %zu bytes: %s: %s; see free memory and vm.max_map_count",
			      bytes, call, strerror(error));
}

/* Maps `mapped` bytes of a new memfd. On failure nothing is left. */
static stretto_status map_new(struct stretto_region *region, size_t mapped)
{
	const char *call = "memfd_create";
	void *base;

	region->fd = memfd_create("stretto", MFD_CLOEXEC);
	if (region->fd < 0)
		goto fail;
	call = "ftruncate";
	if (ftruncate(region->fd, (off_t)mapped) != 0)
		goto fail_fd;
	call = "mmap";
	base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (base == MAP_FAILED)
		goto fail_fd;
	/* A hint only: shared memory gets huge pages where the machine's shmem_enabled allows. */
	madvise(base, mapped, MADV_HUGEPAGE);
	region->base = base;
	region->mapped = mapped;
	return STRETTO_OK;

fail_fd:
	explain_no_memory(mapped, call);
	close(region->fd);
	region->fd = -1;
	return STRETTO_NO_MEMORY;
fail:
	explain_no_memory(mapped, call);
	return STRETTO_NO_MEMORY;
}

stretto_status stretto_memory_alloc(struct stretto_memory *memory, size_t bytes,
				    struct stretto_region **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct stretto_region *region;
	stretto_status status;

	if (bytes == 0 || bytes > SIZE_MAX / 2) {
		stretto_error("stretto_alloc: %zu bytes asked; at least 1 and at most half of the "
			      "address space make sense",
			      bytes);
		return STRETTO_INVALID;
	}
	region = calloc(1, sizeof *region);
	if (!region)
		return STRETTO_NO_MEMORY;
	region->fd = -1;
	region->bytes = bytes;
	status = map_new(region, (bytes + page - 1) / page * page);
	if (status == STRETTO_OK)
		status = insert(memory, region);
	if (status != STRETTO_OK) {
		stretto_region_free(region);
		return status;
	}
	*out = region;
	return STRETTO_OK;
}

stretto_status stretto_memory_add(struct stretto_memory *memory, void *base, size_t bytes,
				  struct stretto_region **out)
{
	struct stretto_region *region;
	stretto_status status;

	if (!base || bytes == 0 || bytes > SIZE_MAX - (uintptr_t)base) {
		stretto_error("stretto_register: [%p, +%zu) is no memory", base, bytes);
		return STRETTO_INVALID;
	}
	region = calloc(1, sizeof *region);
	if (!region)
		return STRETTO_NO_MEMORY;
	region->base = base;
	region->bytes = bytes;
	region->fd = -1;
	status = insert(memory, region);
	if (status != STRETTO_OK) {
		free(region);
		return status;
	}
	*out = region;
	return STRETTO_OK;
}

struct stretto_region *stretto_memory_remove(struct stretto_memory *memory, const void *base)
{
	struct stretto_region *region = NULL;
	size_t at;

	pthread_mutex_lock(&memory->lock);
	at = lower_bound(memory, base);
	if (at < memory->count && memory->regions[at]->base == base) {
		region = memory->regions[at];
		memory->count--;
		memmove(&memory->regions[at], &memory->regions[at + 1],
			(memory->count - at) * sizeof *memory->regions);
	}
	pthread_mutex_unlock(&memory->lock);
	return region;
}

struct stretto_region *stretto_memory_find(struct stretto_memory *memory, const void *base,
					   size_t bytes)
{
	struct stretto_region *region = NULL;
	const char *first = base;
	size_t at;

	pthread_mutex_lock(&memory->lock);
	at = lower_bound(memory, first);
	if (at < memory->count && memory->regions[at]->base <= first &&
	    bytes <= memory->regions[at]->bytes - (size_t)(first - memory->regions[at]->base))
		region = memory->regions[at];
	pthread_mutex_unlock(&memory->lock);
	return region;
}
