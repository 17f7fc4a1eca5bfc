/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.h: the shared memory transport, private parts.
 *
 *   shm_layout.h   what lies in shared memory: rings of cells, slots, the page of a rank
 *   shm_device.c   the device: listener, page, the transport table
 *   shm_connect.c  connections: hello, descriptors by SCM_RIGHTS, the death of a peer
 *   shm_socket.c   messages with descriptors
 *   shm_region.c   regions mapped from each other
 *   shm_ring.c     producing and consuming cells and slots, waking the peer
 *   shm_data.c     sends and receives over them
 *   shm_pull.c     reading large messages from the sender's memory
 *
 * How a payload of b bytes travels, best first:
 *
 *   b <= 24              in the cell
 *   b <= eager           through a slot: one copy in, one out
 *   sender's region      the sender offers; the receiver maps the region (once) and reads it straight
 *                        into its buffer or its reduction; a FINISH cell completes the send
 *   other memory         the same, with process_vm_readv instead of a mapping
 *   where that is denied the receiver asks for it (PULL) and the sender streams it through slots
 *
 * Nothing is left behind when a process dies: all memory is memfds, the sockets are abstract.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_SHM_H
#define STRETTO_RUNTIME_TRANSPORTS_SHM_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "runtime/match.h"
#include "runtime/topology.h"
#include "runtime/transport.h"
#include "runtime/transports/shm_layout.h"

enum {
	SHM_PIECE =
		128 * 1024, /* bytes of a message that one poll moves before it looks at others */
	SHM_FDS = 3,        /* most descriptors of a message on a socket */
};

/* What a rank tells the others of its device. */
struct shm_address {
	struct stretto_node_id node; /* shm reaches ranks of the same */
	uint8_t name[16];   /* of the listening socket: "\0stretto-" and these as hex digits */
	uint8_t secret[16]; /* must be in the hello of whoever connects */
};

/* Objects that a peer refers to by number. A number is not used again soon. */
struct shm_table {
	struct shm_entry {
		void *object; /* NULL: free */
		uint16_t generation;
	} * entries; /* owned */
	uint32_t capacity;
	uint32_t cursor; /* where the search for a free entry starts */
};

/* A peer's region as we see it. */
struct shm_remote_region {
	uint32_t id;      /* the peer's */
	uint64_t tag;     /* the peer's, 0 for none */
	uint64_t address; /* of its base in the peer */
	size_t bytes;
	char *base; /* mapped here */
};

/* A connection that came in before we needed it. */
struct shm_visitor {
	struct stretto_list link;
	int socket;
	int rank; /* -1: its hello has not come yet */
	int fds[SHM_FDS];
	struct shm_hello hello;
};

struct shm_device {
	struct stretto_device base;
	struct shm_address address;
	int listener;
	int page_fd;
	struct shm_page *page; /* this rank's */
	uint64_t nonce;        /* peers read it to learn whether they may read our memory */
	struct stretto_list endpoints;
	struct stretto_list visitors;
	struct stretto_list pulls; /* struct stretto_recv being read from their senders */
	char *bounce;              /* SHM_PIECE bytes: a piece read for a sink; owned */
	int connecting;            /* endpoints that are not ready */
	bool starved;              /* something waits for room in a ring */
	bool files_short;          /* said once that no more descriptors can be had */
	bool cma_refused;          /* said once that process_vm_readv is not permitted */
};

enum shm_state { SHM_CONNECTING, SHM_READY, SHM_FAILED };

struct shm_endpoint {
	struct stretto_endpoint base;
	struct stretto_list link; /* in the device */
	enum shm_state state;
	struct shm_address peer_address;
	int socket;                    /* lifeline, and the way of regions; -1 before */
	int peer_wake;                 /* the peer's eventfd */
	struct shm_page *peer_page;    /* mapped */
	struct shm_pair *pair;         /* mapped; memory of both directions */
	struct shm_direction *tx, *rx; /* within pair */
	uint32_t tx_next;              /* cells produced */
	uint32_t tx_head;              /* cells consumed by the peer, as last seen */
	uint32_t rx_next;              /* cells consumed */
	uint32_t rx_published;         /* of them, told to the peer */
	uint32_t eager_next;           /* where the search for a free slot starts */
	uint32_t stream_next;          /* */
	struct stretto_match match;
	struct shm_cell *queue; /* control cells that found the ring full; owned */
	size_t queue_first, queue_count, queue_capacity;
	struct shm_table sends;            /* offered, waiting for FINISH or PULL */
	struct shm_table streams;          /* struct stretto_recv that asked by PULL */
	struct stretto_list streaming;     /* struct stretto_send being streamed */
	struct shm_remote_region *regions; /* of the peer; owned */
	size_t region_count, region_capacity;
	uint32_t *shared; /* ids of our regions that the peer has; owned */
	size_t shared_count, shared_capacity;
	pid_t peer_pid; /* in our pid namespace; 0 if it is not visible */
	bool knocked;   /* we asked the lower rank to connect */
	bool cma;       /* process_vm_readv of the peer works */
};

static inline struct shm_device *shm_device_of(const struct stretto_device *device)
{
	return stretto_container_of(device, struct shm_device, base);
}

static inline struct shm_endpoint *shm_endpoint_of(const struct stretto_endpoint *endpoint)
{
	return stretto_container_of(endpoint, struct shm_endpoint, base);
}

/* shm_connect.c */
stretto_status shm_listen(struct shm_device *device);
stretto_status shm_connect(struct stretto_device *device, int peer, const void *blob, size_t bytes,
			   struct stretto_endpoint **endpoint);
void shm_disconnect(struct stretto_endpoint *endpoint);
/* Goes on with everything that waits for a socket: accepts, hellos, regions, deaths. */
void shm_events(struct stretto_device *device);
void shm_drop_visitor(struct shm_device *device, struct shm_visitor *visitor);
/* Ends an endpoint whose peer is gone or broke the protocol. */
void shm_fail(struct shm_endpoint *endpoint, const char *why);

/* Reads the regions that came on the socket of a ready endpoint; false: it has ended. */
bool shm_read_regions(struct shm_endpoint *endpoint);

/* shm_socket.c */
/* The abstract socket of a device, by its random name. Returns the address's length. */
socklen_t shm_socket_name(struct sockaddr_un *name, const uint8_t *id);
/* Sends one message with descriptors. STRETTO_AGAIN if the socket is full. */
stretto_status shm_send_with_fds(int fd, const void *message, size_t bytes, const int *fds,
				 size_t fd_count);
/* Maps `bytes` of a descriptor that the peer sent, which must be that large. NULL on failure. */
void *shm_map_peer(int fd, size_t bytes, int protection);
/*
 * Receives one message and its descriptors (-1 where there is none). Returns its bytes, 0 for the
 * end of the connection, -1 for none now. A message of another size than `bytes` counts as the end.
 */
ssize_t shm_receive_with_fds(int fd, void *message, size_t bytes, int *fds);
/* Closes those that are there and sets all to -1. */
void shm_close_fds(int *fds);

/* shm_region.c */
/* Takes a region that the peer sent. */
void shm_read_region(struct shm_endpoint *endpoint, const struct shm_region_message *message,
		     int fd);
/* Makes sure that the peer has our region. STRETTO_AGAIN: its socket is full. */
stretto_status shm_share_region(struct shm_endpoint *endpoint, const struct stretto_region *region);
/* The peer's region with that id, NULL if it has not told us of it. */
struct shm_remote_region *shm_remote_region(struct shm_endpoint *endpoint, uint32_t id);
void shm_drop_remote_region(struct shm_endpoint *endpoint, uint32_t id);
/* Unmaps the peer's region with the tag of one of ours that is dropped. */
void shm_drop_tagged(struct shm_endpoint *endpoint, uint64_t tag);
/* The transport's share and map. */
stretto_status shm_share(struct stretto_endpoint *endpoint, const struct stretto_region *region);
char *shm_map(struct stretto_endpoint *endpoint, uint32_t id, uint64_t tag, size_t *bytes);

/* shm_ring.c */
/* Room for one more cell to the peer? */
bool shm_can_send(struct shm_endpoint *endpoint);
/* Fills the next cell (there is room) and wakes the peer if it sleeps. */
void shm_send_cell(struct shm_endpoint *endpoint, const struct shm_cell *cell);
/* Wakes the peer if it sleeps. */
void shm_wake_peer(struct shm_endpoint *endpoint);
/* Sends a control cell now, or as soon as there is room. false: out of memory. */
bool shm_send_control(struct shm_endpoint *endpoint, const struct shm_cell *cell);
/* Forgets what was queued: nobody will read it. */
void shm_drop_queue(struct shm_endpoint *endpoint);
/* Sends what was queued; returns how much. */
size_t shm_flush(struct shm_endpoint *endpoint);
/* The next cell from the peer, NULL for none; stays valid until shm_consumed(). */
const struct shm_cell *shm_next_cell(struct shm_endpoint *endpoint);
void shm_consumed(struct shm_endpoint *endpoint);
/* Takes a free slot of a pool; returns its index, or -1. */
int shm_take_slot(struct shm_slot_state *states, uint32_t count, uint32_t *cursor);
void shm_release_slot(struct shm_slot_state *state);
/* Numbers for objects. 0 is never given: shm_table_add returns it when memory ran out. */
uint32_t shm_table_add(struct shm_table *table, void *object);
void *shm_table_get(const struct shm_table *table, uint32_t number);
void shm_table_remove(struct shm_table *table, uint32_t number);

/* shm_data.c */
stretto_status shm_post_send(struct stretto_endpoint *endpoint, struct stretto_send *send);
stretto_status shm_post_recv(struct stretto_endpoint *endpoint, struct stretto_recv *recv);
void shm_cancel(struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
void shm_notify(struct stretto_endpoint *endpoint, const struct stretto_notice *notice);
/* Takes in the cells of one endpoint, at most a ring full; returns how many. */
size_t shm_receive(struct shm_endpoint *endpoint);
/* Sends one piece of each stream under way; returns how many. */
size_t shm_stream(struct shm_endpoint *endpoint);
/* Payload that lies readable in this process goes to its receive. */
void shm_take(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes);
/* Fails an endpoint that cannot queue a control cell. */
void shm_out_of_memory(struct shm_endpoint *endpoint);

/* shm_pull.c */
/* Starts to read what a sender offers, or asks for a stream of it. */
void shm_accept_offer(struct shm_endpoint *endpoint, struct stretto_recv *recv,
		      const union shm_body *body);
/* Goes on with one piece of each transfer under way; returns how many. */
size_t shm_pull(struct shm_device *device);
/* The endpoint whose peer a receive in shm_device.pulls is being read from. */
struct shm_endpoint *shm_pulled_from(const struct stretto_recv *recv);
/* Whether a receive is being read from the endpoint's memory mapped at [first, end). */
bool shm_reads_from(const struct stretto_recv *recv, const struct shm_endpoint *endpoint,
		    uintptr_t first, uintptr_t end);

#endif
