/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h: regions, the memory that transports know.
 *
 * A region is either ours (stretto_alloc: a memfd that peers of the node can map) or the
 * application's (stretto_register). Regions are kept in an array sorted by address; an operation
 * looks its buffers up once when it is made.
 *
 * Threads: any; a mutex of its own. A region found stays valid until its owner frees it, which it
 * may not do while an operation uses it.
 */
#ifndef STRETTO_RUNTIME_MEMORY_H
#define STRETTO_RUNTIME_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/stretto.h"

struct stretto_region {
	char *base;
	size_t bytes;  /* as asked for */
	size_t mapped; /* bytes of the mapping; 0 for the application's memory */
	int fd;        /* memfd, or -1 for the application's memory */
	uint32_t id;   /* unique in this process's world, never 0 */
	uint64_t tag;  /* by which peers find it who do not know its id; 0: none */
};

struct stretto_memory {
	pthread_mutex_t lock;
	struct stretto_region **regions; /* sorted by base; owned */
	size_t count;
	size_t capacity;
	uint32_t next_id;
};

void stretto_memory_init(struct stretto_memory *memory);
/* Frees all regions that are left. */
void stretto_memory_fini(struct stretto_memory *memory);

/* Makes a region of our own memory, zeroed. STRETTO_NO_MEMORY names the limit. */
stretto_status stretto_memory_alloc(struct stretto_memory *memory, size_t bytes,
				    struct stretto_region **region);
/* Makes a region of the application's memory. STRETTO_INVALID if it overlaps another. */
stretto_status stretto_memory_add(struct stretto_memory *memory, void *base, size_t bytes,
				  struct stretto_region **region);
/* Takes the region that starts at base out of the table; NULL if there is none. */
struct stretto_region *stretto_memory_remove(struct stretto_memory *memory, const void *base);
/* Unmaps and frees a region that was taken out. */
void stretto_region_free(struct stretto_region *region);

/* The region that holds all of [base, base + bytes), or NULL. */
struct stretto_region *stretto_memory_find(struct stretto_memory *memory, const void *base,
					   size_t bytes);

#endif
