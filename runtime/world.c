/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.c: stretto_init() and stretto_finalize().
 *
 * Each rank's address blob, exchanged once by the bootstrap:
 *
 *   struct blob_head | for each channel, for each device: struct blob_entry, address bytes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/comm.h"
#include "runtime/log.h"
#include "runtime/progress.h"
#include "runtime/recovery.h"

/* How long a broken world waits for peers that are to be told why: at least, for those that come
 * only now, and at most. */
#define LINGER_LEAST_SECONDS 0.2
#define LINGER_SECONDS       1.0

enum { BLOB_MAGIC = 0x53574c44, BLOB_VERSION = 3 };

struct blob_head {
	uint32_t magic;
	uint32_t version;
	uint32_t channels;
	uint32_t bytes;  /* of the whole blob */
	uint64_t tuning; /* hash of the file; 0: none */
	struct stretto_node_id node;
};

struct blob_entry {
	char transport[12]; /* its name, ended by NUL */
	uint16_t channel;
	uint16_t bytes; /* of the address that follows */
	uint32_t speed; /* of the device */
};
_Static_assert(sizeof(struct blob_entry) == 20, "no padding");

static stretto_status make_blob(const struct stretto_world *world, char **out, size_t *bytes)
{
	size_t limit = sizeof(struct blob_head) +
		       world->config.channels * STRETTO_DEVICES_MAX *
			       (sizeof(struct blob_entry) + STRETTO_ADDRESS_MAX);
	struct blob_head head = {
		.magic = BLOB_MAGIC,
		.version = BLOB_VERSION,
		.channels = (uint32_t)world->config.channels,
		.tuning = world->config.tuning ? world->config.tuning->hash : 0,
	};
	stretto_status status = stretto_node_identify(&world->config, &head.node);
	size_t at = sizeof head;
	char *blob;

	if (status != STRETTO_OK)
		return status;
	blob = calloc(1, limit);
	if (!blob)
		return STRETTO_NO_MEMORY;
	for (size_t c = 0; c < world->config.channels; c++) {
		const struct stretto_channel *channel = world->channels[c];

		for (int d = 0; d < channel->device_count; d++) {
			const struct stretto_device *device = channel->devices[d];
			struct blob_entry entry = {.channel = (uint16_t)c, .speed = device->speed};

			snprintf(entry.transport, sizeof entry.transport, "%s",
				 device->transport->name);
			entry.bytes = (uint16_t)device->transport->address(
				device, blob + at + sizeof entry);
			memcpy(blob + at, &entry, sizeof entry);
			at += sizeof entry + entry.bytes;
		}
	}
	head.bytes = (uint32_t)at;
	memcpy(blob, &head, sizeof head);
	*out = blob;
	*bytes = at;
	return STRETTO_OK;
}

/* All ranks must take the same costs, or they would choose different algorithms. */
static stretto_status check_tuning(const struct stretto_world *world, int peer, uint64_t tuning)
{
	struct blob_head first;

	memcpy(&first, world->addresses, sizeof first);
	if (tuning == first.tuning)
		return STRETTO_OK;
	stretto_error("rank %d has another tuning (%016llx) than rank 0 (%016llx; 0: none): the "
		      "file of STRETTO_TUNING must have the same text on all ranks",
		      peer, (unsigned long long)tuning, (unsigned long long)first.tuning);
	return STRETTO_BOOTSTRAP;
}

/* Checks every blob once, so that stretto_world_address() can trust them. */
static stretto_status check_blob(const struct stretto_world *world, int peer)
{
	const char *blob = world->addresses + (size_t)peer * world->address_bytes;
	struct blob_head head;
	struct blob_entry entry;
	size_t at = sizeof head;

	memcpy(&head, blob, sizeof head);
	if (head.magic != BLOB_MAGIC || head.version != BLOB_VERSION) {
		stretto_error("rank %d runs another version of the library", peer);
		return STRETTO_BOOTSTRAP;
	}
	if (head.channels != world->config.channels) {
		stretto_error("rank %d has %u channels, this one %zu: STRETTO_CHANNELS must be the "
			      "same on all ranks",
			      peer, head.channels, world->config.channels);
		return STRETTO_BOOTSTRAP;
	}
	while (head.bytes <= world->address_bytes && at + sizeof entry <= head.bytes) {
		memcpy(&entry, blob + at, sizeof entry);
		at += sizeof entry;
		if (entry.bytes > STRETTO_ADDRESS_MAX || entry.bytes > head.bytes - at)
			break;
		at += entry.bytes;
	}
	if (at == head.bytes)
		return check_tuning(world, peer, head.tuning);
	stretto_error("rank %d sent a malformed address", peer);
	return STRETTO_BOOTSTRAP;
}

struct stretto_peer_address stretto_world_address(const struct stretto_world *world, int peer,
						  int channel, const char *transport)
{
	const char *blob = world->addresses + (size_t)peer * world->address_bytes;
	struct stretto_peer_address none = {NULL, 0};
	struct blob_head head;
	struct blob_entry entry;
	size_t at = sizeof head;

	memcpy(&head, blob, sizeof head);
	while (at + sizeof entry <= head.bytes) {
		memcpy(&entry, blob + at, sizeof entry);
		at += sizeof entry;
		if (entry.channel == channel &&
		    strncmp(entry.transport, transport, sizeof entry.transport) == 0)
			return (struct stretto_peer_address){blob + at, entry.bytes};
		at += entry.bytes;
	}
	return none;
}

/* The speed of a channel at a rank: of its first device that knows one; 0 if none does. */
static uint32_t speed_at(const struct stretto_world *world, int rank, int channel)
{
	const char *blob = world->addresses + (size_t)rank * world->address_bytes;
	struct blob_head head;
	struct blob_entry entry;
	size_t at = sizeof head;

	memcpy(&head, blob, sizeof head);
	for (; at + sizeof entry <= head.bytes; at += sizeof entry + entry.bytes) {
		memcpy(&entry, blob + at, sizeof entry);
		if (entry.channel == channel && entry.speed > 0)
			return entry.speed;
	}
	return 0;
}

/* Each channel's speed is that of its slowest rank: all compute the same from the same blobs. */
static void agree_on_speeds(struct stretto_world *world)
{
	for (size_t c = 0; c < world->config.channels; c++) {
		uint32_t least = UINT32_MAX;

		for (int rank = 0; rank < world->size; rank++) {
			uint32_t speed = speed_at(world, rank, (int)c);

			least = speed < least ? speed : least;
		}
		world->channels[c]->speed = least;
		if (least > 0)
			stretto_debug("channel %zu: %u Mbit/s at the slowest rank", c, least);
	}
}

static struct stretto_node_id node_id_of(const struct stretto_world *world, int peer)
{
	struct blob_head head;

	memcpy(&head, world->addresses + (size_t)peer * world->address_bytes, sizeof head);
	return head.node;
}

/* Whether a rank published an address of a transport for the ranks of its node. */
static bool offers_memory(const struct stretto_world *world, int peer)
{
	for (size_t i = 0; stretto_transports[i]; i++) {
		const struct stretto_transport *transport = stretto_transports[i];

		if (transport->limits.same_node && transport != &stretto_transport_self &&
		    stretto_world_address(world, peer, 0, transport->name).bytes > 0)
			return true;
	}
	return false;
}

/* Numbers the nodes. From what all ranks have published, so that all come to the same result. */
static stretto_status find_nodes(struct stretto_world *world)
{
	int *first = calloc((size_t)world->size, sizeof *first); /* rank, by node */
	int count = 0;

	world->node = calloc((size_t)world->size, sizeof *world->node);
	if (!first || !world->node) {
		free(first);
		return STRETTO_NO_MEMORY;
	}
	world->mapped = true;
	for (int peer = 0; peer < world->size; peer++) {
		struct stretto_node_id id = node_id_of(world, peer), other;
		int node = -1;

		do {
			if (++node == count)
				first[count++] = peer;
			other = node_id_of(world, first[node]);
		} while (!stretto_node_same(&id, &other));
		world->node[peer] = node;
		world->mapped &= world->size == 1 || offers_memory(world, peer);
	}
	for (int peer = 0; peer < world->size; peer++)
		world->local_size += world->node[peer] == world->node[world->rank];
	free(first);
	return STRETTO_OK;
}

/*
 * The transport between nodes as the cost model takes it: the first of the table that all ranks
 * have published, so that all come to the same.
 */
static const char *find_network(const struct stretto_world *world)
{
	for (size_t i = 0; stretto_transports[i]; i++) {
		const char *name = stretto_transports[i]->name;
		int peer = 0;

		if (stretto_transports[i]->limits.same_node)
			continue;
		while (peer < world->size && stretto_world_address(world, peer, 0, name).bytes > 0)
			peer++;
		if (peer == world->size)
			return name;
	}
	return "";
}

static stretto_status exchange_addresses(struct stretto_world *world)
{
	const struct stretto_bootstrap_ops *ops = world->bootstrap->ops;
	uint32_t *sizes = calloc((size_t)world->size, sizeof *sizes);
	char *blob = NULL, *padded = NULL;
	size_t bytes = 0;
	uint32_t mine;
	stretto_status status = sizes ? make_blob(world, &blob, &bytes) : STRETTO_NO_MEMORY;

	mine = (uint32_t)bytes;
	if (status == STRETTO_OK)
		status = ops->allgather(world->bootstrap, &mine, sizeof mine, sizes);
	for (int peer = 0; status == STRETTO_OK && peer < world->size; peer++)
		if (sizes[peer] > world->address_bytes)
			world->address_bytes = sizes[peer];
	if (status == STRETTO_OK && world->address_bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("a rank's address has %zu bytes; use fewer channels or transports",
			      world->address_bytes);
		status = STRETTO_BOOTSTRAP;
	}
	if (status == STRETTO_OK) {
		padded = calloc(1, world->address_bytes);
		world->addresses = calloc((size_t)world->size, world->address_bytes);
		status = padded && world->addresses ? STRETTO_OK : STRETTO_NO_MEMORY;
	}
	if (status == STRETTO_OK) {
		memcpy(padded, blob, bytes);
		status = ops->allgather(world->bootstrap, padded, world->address_bytes,
					world->addresses);
	}
	for (int peer = 0; status == STRETTO_OK && peer < world->size; peer++)
		status = check_blob(world, peer);
	free(padded);
	free(blob);
	free(sizes);
	return status;
}

/* Everything but the communicators, in any state of being set up. */
static void free_world(struct stretto_world *world)
{
	stretto_progress_stop(world);
	for (size_t c = 0; world->channels && c < world->config.channels; c++)
		stretto_channel_close(world->channels[c]);
	free(world->channels);
	stretto_recovery_close(world);
	if (world->bootstrap)
		world->bootstrap->ops->close(world->bootstrap);
	stretto_memory_fini(&world->memory);
	pthread_mutex_destroy(&world->lock);
	free((void *)(uintptr_t)world->config.tuning);
	free(world->addresses);
	free(world->node);
	free(world);
}

static stretto_status open_world(struct stretto_world *world,
				 const struct stretto_bootstrap_callbacks *callbacks)
{
	stretto_status status =
		stretto_bootstrap_open(&world->config, callbacks, &world->bootstrap);

	if (status != STRETTO_OK)
		return status;
	world->rank = world->bootstrap->rank;
	world->size = world->bootstrap->size;
	stretto_log_set_rank(world->rank);
	world->channels = calloc(world->config.channels, sizeof(struct stretto_channel *));
	if (!world->channels)
		return STRETTO_NO_MEMORY;
	status = stretto_recovery_open(world);
	for (size_t c = 0; c < world->config.channels && status == STRETTO_OK; c++)
		status = stretto_channel_open(world, (int)c, &world->channels[c]);
	if (status == STRETTO_OK)
		status = exchange_addresses(world);
	if (status == STRETTO_OK)
		status = find_nodes(world);
	if (status == STRETTO_OK) {
		agree_on_speeds(world);
		world->network = find_network(world);
	}
	if (status == STRETTO_OK)
		status = stretto_progress_start(world);
	return status;
}

static stretto_status make_world_comm(struct stretto_world *world, struct stretto_comm **comm)
{
	int *ranks = malloc((size_t)world->size * sizeof *ranks);
	stretto_status status;

	if (!ranks)
		return STRETTO_NO_MEMORY;
	for (int rank = 0; rank < world->size; rank++)
		ranks[rank] = rank;
	status = stretto_comm_make(world, ranks, world->size, world->rank, 0, comm);
	free(ranks);
	return status;
}

stretto_status stretto_init(const struct stretto_options *options, struct stretto_comm **out)
{
	static const struct stretto_options none = {NULL, NULL};
	struct stretto_world *world;
	stretto_status status;

	if (!out)
		return STRETTO_INVALID;
	if (!options)
		options = &none;
	world = calloc(1, sizeof *world);
	if (!world)
		return STRETTO_NO_MEMORY;
	pthread_mutex_init(&world->lock, NULL);
	stretto_list_init(&world->comms);
	stretto_memory_init(&world->memory);
	status = stretto_config_load(&world->config, options->settings);
	if (status == STRETTO_OK)
		status = stretto_tuning_load(world->config.tuning_file, &world->config.tuning);
	if (status == STRETTO_OK)
		status = open_world(world, options->bootstrap);
	if (status == STRETTO_OK)
		status = make_world_comm(world, out);
	if (status != STRETTO_OK) {
		free_world(world);
		return status;
	}
	stretto_info("rank %d of %d is up (%d on this node), version %s", world->rank, world->size,
		     world->local_size, stretto_version());
	return STRETTO_OK;
}

/* Whether a channel's peers know all that they are to be told. Takes a turn for it. */
static bool peers_told(struct stretto_channel *channel)
{
	bool told = true;

	stretto_channel_take_baton(channel);
	stretto_channel_turn(channel);
	for (int d = 0; d < channel->device_count; d++) {
		const struct stretto_device *device = channel->devices[d];

		if (device->transport->told && !device->transport->told(device))
			told = false;
	}
	stretto_channel_leave_baton(channel);
	return told;
}

/*
 * The world is broken: the others learn why from our notices, and would see only that we are gone
 * if we left before they have them. Waits a moment for those that are still connecting.
 */
static void linger(struct stretto_world *world)
{
	uint64_t start = stretto_now();
	bool told;

	do {
		told = stretto_now() >= stretto_after(start, LINGER_LEAST_SECONDS);
		for (size_t c = 0; c < world->config.channels; c++)
			told &= peers_told(world->channels[c]);
		usleep(500);
	} while (!told && stretto_now() < stretto_after(start, LINGER_SECONDS));
}

stretto_status stretto_finalize(struct stretto_comm *comm)
{
	struct stretto_world *world;
	stretto_status status = STRETTO_OK;

	if (!comm)
		return STRETTO_OK;
	world = comm->world;
	if (comm->id != 0) {
		stretto_error("stretto_finalize: not the world; end it with stretto_comm_free");
		return STRETTO_INVALID;
	}
	/* seq_cst: from now on peers may leave; partner is stretto_channel_failed() */
	atomic_store(&world->closing, true);
	stretto_progress_unpause(world);
	if (stretto_comm_state(comm) == STRETTO_OK)
		status = stretto_bootstrap_barrier(world->bootstrap);
	else
		linger(world);
	stretto_progress_stop(world);
	stretto_comm_free(comm);
	free_world(world);
	return status;
}
