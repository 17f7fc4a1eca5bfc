/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/log.h"

_Static_assert(sizeof(struct stretto_node_id) == 40, "it travels, and is compared byte by byte");

/* 32 hex digits among others, as the kernel's boot id has them, to 16 bytes. */
static bool parse_boot_id(const char *text, uint8_t *id)
{
	unsigned digits = 0;

	for (; *text && digits < 32; text++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = strchr(hex, *text);

		if (!digit)
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | (uint8_t)(digit - hex));
		digits++;
	}
	return digits == 32;
}

/* FNV-1a; 0 only for no text. */
static uint64_t hash(const char *text)
{
	uint64_t value = 0xcbf29ce484222325u;

	if (*text == '\0')
		return 0;
	for (; *text; text++)
		value = (value ^ (uint8_t)*text) * 0x100000001b3u;
	return value | 1;
}

stretto_status stretto_node_identify(const struct stretto_config *config,
				     struct stretto_node_id *out)
{
	struct stretto_node_id id = {.part = hash(config->node)};
	char text[64] = "";
	struct stat info;
	ssize_t got = -1;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		got = read(fd, text, sizeof text - 1);
		close(fd);
	}
	if (got < 0 || !parse_boot_id(text, id.boot) || stat("/proc/self/ns/net", &info) != 0) {
		stretto_error("cannot identify this host from /proc (%s); is it mounted?",
			      strerror(errno));
		return STRETTO_SYSTEM;
	}
	id.net_dev = info.st_dev;
	id.net_inode = info.st_ino;
	*out = id;
	return STRETTO_OK;
}

bool stretto_node_same(const struct stretto_node_id *a, const struct stretto_node_id *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* Numbers the nodes in the order of their first ranks, and the ranks within each. */
static void number(struct stretto_topology *topology, const int *nodes, int *new_number,
		   int *counts)
{
	for (int rank = 0; rank < topology->size; rank++) {
		int *mine = &new_number[nodes[rank]];

		if (*mine < 0)
			*mine = topology->nodes++;
		topology->node[rank] = *mine;
		topology->local_rank[rank] = counts[*mine]++;
	}
	topology->least = topology->most = counts[0];
	for (int node = 1; node < topology->nodes; node++) {
		if (counts[node] < topology->least)
			topology->least = counts[node];
		if (counts[node] > topology->most)
			topology->most = counts[node];
	}
}

/* Lays the nodes one behind the other. `counts` becomes the place of each node's first rank. */
static void arrange(struct stretto_topology *topology, int *counts)
{
	int next = 0;

	for (int node = 0; node < topology->nodes; node++) {
		int count = counts[node];

		counts[node] = next;
		next += count;
	}
	for (int rank = 0; rank < topology->size; rank++) {
		int node = topology->node[rank];
		int place = counts[node] + topology->local_rank[rank];

		topology->place[rank] = place;
		topology->order[place] = rank;
		topology->node_at[place] = node;
	}
}

stretto_status stretto_topology_init(struct stretto_topology *topology, const int *nodes, int size,
				     int limit)
{
	size_t count = (size_t)size;
	int *new_number = malloc((size_t)limit * sizeof *new_number);
	int *counts = calloc(count, sizeof *counts);
	struct stretto_topology made = {
		.size = size,
		.node = calloc(count, sizeof(int)),
		.order = calloc(count, sizeof(int)),
		.place = calloc(count, sizeof(int)),
		.node_at = calloc(count, sizeof(int)),
		.local_rank = calloc(count, sizeof(int)),
	};
	bool enough = new_number && counts && made.node && made.order && made.place &&
		      made.node_at && made.local_rank;

	if (enough) {
		for (int i = 0; i < limit; i++)
			new_number[i] = -1;
		number(&made, nodes, new_number, counts);
		arrange(&made, counts);
		*topology = made;
	} else {
		stretto_topology_fini(&made);
	}
	free(new_number);
	free(counts);
	return enough ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_topology_fini(struct stretto_topology *topology)
{
	free(topology->node);
	free(topology->order);
	free(topology->place);
	free(topology->node_at);
	free(topology->local_rank);
}
