/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_ring.c: cells, slots and numbers. The memory orders are explained in shm_layout.h and here.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/transports/shm.h"

bool shm_can_send(struct shm_endpoint *endpoint)
{
	if (endpoint->tx_next - endpoint->tx_head < SHM_CELLS)
		return true;
	/* acquire: the cells are free for us; partner is the release in shm_consumed() */
	endpoint->tx_head = atomic_load_explicit(&endpoint->tx->head, memory_order_acquire);
	if (endpoint->tx_next - endpoint->tx_head < SHM_CELLS)
		return true;
	shm_device_of(endpoint->base.device)->starved = true;
	return false;
}

void shm_wake_peer(struct shm_endpoint *endpoint)
{
	static const uint64_t one = 1;

	if (!endpoint->peer_page)
		return; /* not connected yet: ready() looks again */
	/*
	 * seq_cst, after the seq_cst store of turn: either we see armed, or the peer's look at the
	 * ring after it armed sees the cell. Partner is shm_arm() and the poll after it.
	 */
	if (atomic_load(&endpoint->peer_page->armed) == 0)
		return;
	if (atomic_exchange(&endpoint->peer_page->armed, 0) == 1 &&
	    write(endpoint->peer_wake, &one, sizeof one) < 0)
		return; /* the counter is full: the peer is awake as can be */
}

void shm_send_cell(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	struct shm_cell *place = &endpoint->tx->cells[endpoint->tx_next % SHM_CELLS];

	place->kind = cell->kind;
	place->length = cell->length;
	place->key = cell->key;
	place->signature = cell->signature;
	place->body = cell->body;
	/* seq_cst: publishes the line to shm_next_cell(), and is ordered before the look at armed
	 */
	atomic_store(&place->turn, ++endpoint->tx_next);
	shm_wake_peer(endpoint);
}

/* Cells that wait for room keep the channel going. */
static void hold(const struct shm_endpoint *endpoint, int change)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	env->hold(env->context, change);
}

bool shm_send_control(struct shm_endpoint *endpoint, const struct shm_cell *cell)
{
	size_t capacity = endpoint->queue_capacity;

	if (endpoint->state == SHM_FAILED)
		return true; /* nobody is there to read it */
	/* The lower rank has the ring before the peer answers; the peer finds the cell when it
	 * does. */
	if (endpoint->tx && endpoint->queue_count == 0 && shm_can_send(endpoint)) {
		shm_send_cell(endpoint, cell);
		return true;
	}
	if (endpoint->queue_first + endpoint->queue_count == capacity) {
		struct shm_cell *grown;

		if (endpoint->queue_count)
			memmove(endpoint->queue, endpoint->queue + endpoint->queue_first,
				endpoint->queue_count * sizeof *grown);
		endpoint->queue_first = 0;
		if (endpoint->queue_count == capacity) {
			capacity = capacity ? 2 * capacity : 16;
			grown = realloc(endpoint->queue, capacity * sizeof *grown);
			if (!grown)
				return false;
			endpoint->queue = grown;
			endpoint->queue_capacity = capacity;
		}
	}
	memcpy(&endpoint->queue[endpoint->queue_first + endpoint->queue_count++], cell,
	       sizeof *cell);
	if (endpoint->queue_count == 1)
		hold(endpoint, 1);
	return true;
}

void shm_drop_queue(struct shm_endpoint *endpoint)
{
	if (endpoint->queue_count)
		hold(endpoint, -1);
	endpoint->queue_count = 0;
}

size_t shm_flush(struct shm_endpoint *endpoint)
{
	size_t count = 0;

	while (endpoint->queue_count && shm_can_send(endpoint)) {
		shm_send_cell(endpoint, &endpoint->queue[endpoint->queue_first++]);
		if (--endpoint->queue_count == 0)
			hold(endpoint, -1);
		count++;
	}
	return count;
}

const struct shm_cell *shm_next_cell(struct shm_endpoint *endpoint)
{
	struct shm_cell *cell = &endpoint->rx->cells[endpoint->rx_next % SHM_CELLS];

	/* seq_cst, so that it is ordered after arming; partner is the store in shm_send_cell() */
	return atomic_load(&cell->turn) == endpoint->rx_next + 1 ? cell : NULL;
}

void shm_consumed(struct shm_endpoint *endpoint)
{
	endpoint->rx_next++;
	if (endpoint->rx_next - endpoint->rx_published < SHM_CELLS / 4)
		return;
	endpoint->rx_published = endpoint->rx_next;
	/* release: we have read the cells; partner is the load in shm_can_send() */
	atomic_store_explicit(&endpoint->rx->head, endpoint->rx_next, memory_order_release);
}

int shm_take_slot(struct shm_slot_state *states, uint32_t count, uint32_t *cursor)
{
	for (uint32_t tried = 0; tried < count; tried++) {
		uint32_t slot = (*cursor + tried) % count;

		/* acquire: the consumer has read the slot; partner is shm_release_slot() */
		if (atomic_load_explicit(&states[slot].taken, memory_order_acquire) == 0) {
			/* relaxed: only we take slots; the cell that names it is published */
			atomic_store_explicit(&states[slot].taken, 1, memory_order_relaxed);
			*cursor = (slot + 1) % count;
			return (int)slot;
		}
	}
	return -1;
}

void shm_release_slot(struct shm_slot_state *state)
{
	/* release: we have read the slot; partner is shm_take_slot() */
	atomic_store_explicit(&state->taken, 0, memory_order_release);
}

/* A number is generation << 16 | (index + 1). */
uint32_t shm_table_add(struct shm_table *table, void *object)
{
	uint32_t capacity = table->capacity;

	for (uint32_t tried = 0; tried < capacity; tried++) {
		uint32_t index = (table->cursor + tried) % capacity;
		struct shm_entry *entry = &table->entries[index];

		if (entry->object)
			continue;
		entry->object = object;
		entry->generation++;
		table->cursor = (index + 1) % capacity;
		return (uint32_t)entry->generation << 16 | (index + 1);
	}
	if (capacity >= UINT16_MAX / 2)
		return 0;
	capacity = capacity ? 2 * capacity : 32;
	struct shm_entry *grown = realloc(table->entries, capacity * sizeof *grown);

	if (!grown)
		return 0;
	memset(grown + table->capacity, 0, (capacity - table->capacity) * sizeof *grown);
	table->entries = grown;
	table->cursor = table->capacity;
	table->capacity = capacity;
	return shm_table_add(table, object);
}

void *shm_table_get(const struct shm_table *table, uint32_t number)
{
	uint32_t index = (number & 0xffff) - 1;

	if (index >= table->capacity || table->entries[index].generation != number >> 16)
		return NULL;
	return table->entries[index].object;
}

void shm_table_remove(struct shm_table *table, uint32_t number)
{
	if (shm_table_get(table, number))
		table->entries[(number & 0xffff) - 1].object = NULL;
}
