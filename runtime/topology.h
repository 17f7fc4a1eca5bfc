/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.h: which ranks share a node.
 *
 * At init every rank publishes the identity of its node; ranks are on the same node if these are
 * equal. It is what decides whether shm reaches a peer: one running kernel (its boot id) and one
 * network namespace, in which the abstract sockets live that hand over descriptors. Host names say
 * nothing of that. Other namespaces are left out on purpose: memory and eventfds come as
 * descriptors, which need no common mounts, IPC objects or process ids; and whether
 * process_vm_readv is permitted, to which process ids and users matter, shm tries out for each pair.
 *
 * Threads: pure, but stretto_node_identify(), which reads /proc.
 */
#ifndef STRETTO_RUNTIME_TOPOLOGY_H
#define STRETTO_RUNTIME_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/config.h"

/* Travels in addresses, byte by byte: no padding. */
struct stretto_node_id {
	uint8_t boot[16];   /* the kernel's boot id */
	uint64_t net_dev;   /* the network namespace: device */
	uint64_t net_inode; /* and inode of /proc/self/ns/net */
	uint64_t part;      /* hash of STRETTO_NODE, which splits a node; 0 without */
};

/* STRETTO_SYSTEM, logged, if /proc does not tell. */
stretto_status stretto_node_identify(const struct stretto_config *config,
				     struct stretto_node_id *id);
bool stretto_node_same(const struct stretto_node_id *a, const struct stretto_node_id *b);

/*
 * Where the ranks of a communicator are. The same on all of them.
 *
 * The *order* has the ranks of a node one behind the other, so that most neighbours in a ring or a
 * tree over it are on one node. The *place* of a rank is its position there. If the ranks are
 * already so, order and rank are the same.
 */
struct stretto_topology {
	int size;        /* ranks */
	int nodes;       /* that they are on */
	int least;       /* ranks on a node, at least */
	int most;        /* and at most */
	int *node;       /* by rank: its node, numbered in the order of their first ranks; owned */
	int *order;      /* by place: the rank; owned */
	int *place;      /* by rank: its place; owned */
	int *node_at;    /* by place: the node; owned */
	int *local_rank; /* by rank: how many ranks of its node come before it; owned */
};

/* From any number for each rank's node, below `limit`. STRETTO_NO_MEMORY. */
stretto_status stretto_topology_init(struct stretto_topology *topology, const int *nodes, int size,
				     int limit);
/* Also of one that is zeroed. */
void stretto_topology_fini(struct stretto_topology *topology);

#endif
