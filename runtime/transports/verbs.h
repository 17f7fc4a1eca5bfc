/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h: the RDMA transport over libibverbs and librdmacm, private parts. See docs/verbs.md.
 *
 *   verbs_wire.h    what travels: addresses, hellos, message headers
 *   verbs_choice.c  which device and port a channel uses, and why
 *   verbs_near.c    how far a device is from where we run
 *   verbs_gid.c     the addresses of a port, and the GIDs made of them
 *   verbs_pair.c    which of their addresses two ranks use between them
 *   verbs_device.c  the device and the transport table
 *   verbs_mem.c     registered memory, receive slots
 *   verbs_ep.c      endpoints: queue pairs, their states, how they end
 *   verbs_renew.c   lost connections are made anew
 *   verbs_cm.c      connections by librdmacm
 *   verbs_oob.c     connections by datagrams to the queue pair that the bootstrap told of
 *   verbs_queue.c   posting work requests: room, credits, signals, staging
 *   verbs_data.c    sends and receives; messages
 *   verbs_large.c   payloads that are written into announced receives
 *   verbs_cancel.c  giving operations up: nothing may be written to their memory afterwards
 *   verbs_poll.c    completions, asynchronous events, timers
 *
 * How a payload of b bytes travels:
 *
 *   b <= eager   in a message, behind its header, into a slot that the receiver keeps posted; the
 *                sender needs a credit
 *   larger       the receiver announces its buffer in a message (CLEAR); the sender RDMA-writes the
 *                payload straight there, the last write with the receive's number as immediate
 *
 * One completion queue and one shared receive queue per device; one queue pair per endpoint. The
 * queues cannot overflow: what is posted is counted against what they hold.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_VERBS_H
#define STRETTO_RUNTIME_TRANSPORTS_VERBS_H

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "runtime/match.h"
#include "runtime/transport.h"
#include "runtime/transports/verbs_wire.h"

enum {
	VERBS_SEND_DEPTH = 128,  /* work requests of a queue pair */
	VERBS_SEND_RESERVE = 8,  /* of them, kept for credits and probes */
	VERBS_OWED = 8,          /* slots that are owed before a message is sent to say so */
	VERBS_SIGNAL = 8,        /* at least every so many a work request is signalled */
	VERBS_STAGED = 32,       /* messages that can wait in an endpoint's staging memory */
	VERBS_SPARE_CREDITS = 4, /* slots for messages that need no credit: they return credits */
	VERBS_ANNOUNCED = 1024,  /* receives of a device that are announced at a time */
	VERBS_SLACK = 64,        /* slots posted beyond what peers may use now */
	VERBS_SPARE_TRANSFERS = 16, /* made in advance for each connected peer */
	VERBS_BATCH = 32,           /* completions taken, or slots posted, at a time */
	VERBS_CHAIN = 16,           /* writes of a message posted at a time */
	VERBS_BUCKETS = 64,         /* of the table of queue pairs */
	VERBS_OLD = 256,            /* ids of lost connections that are kept at a time */
};

/* Slots that the messages of one peer can take. */
enum { VERBS_PER_ENDPOINT = VERBS_CREDITS + VERBS_SPARE_CREDITS };

/* What a device has done; plain numbers for tests and debugging. */
struct verbs_counters {
	uint64_t messages;      /* posted */
	uint64_t writes;        /* RDMA writes of payload, posted */
	uint64_t doorbells;     /* calls of ibv_post_send() */
	uint64_t completions;   /* of sends and writes */
	uint64_t arrivals;      /* messages and immediates taken in */
	uint64_t announcements; /* CLEAR messages posted */
	uint64_t copied_out;    /* bytes of payload copied into messages */
	uint64_t copied_in;     /* bytes of payload copied out of messages */
	uint64_t registrations; /* temporary ones */
};

/* Bytes of the longest text of an address. */
enum { VERBS_IP_TEXT = INET6_ADDRSTRLEN };

/* Kinds of addresses, in the order in which they are told of. */
enum verbs_ip_kind { VERBS_IPV4, VERBS_IPV6, VERBS_LINK_LOCAL, VERBS_IP_KINDS };

/* A port that can be used, with its addresses. */
struct verbs_port {
	char device[32];      /* name */
	struct verbs_ips ips; /* with RoCE those that have a version 2 GID */
	union ibv_gid gid;    /* without RoCE: its first, for messages */
	uint8_t mtu;          /* enum ibv_mtu, active */
	uint32_t max_message; /* bytes */
	uint16_t lid;         /* InfiniBand; else 0 */
	uint8_t number;       /* of the port, from 1 */
	uint8_t link_layer;   /* IBV_LINK_LAYER_ */
	uint64_t speed;       /* bits per second */
	uint32_t sharers;     /* channels of this rank that use it */
};

/* A receive slot: takes a message, or the immediate of a write. */
struct verbs_slot {
	struct verbs_slot *next; /* in the free list */
	struct verbs_header *header;
	uint32_t lkey;
};

struct verbs_slab; /* some slots and their memory */

/* Our registration of a region. */
struct verbs_region {
	uint32_t id;
	char *base;
	size_t bytes;
	struct ibv_mr *mr; /* NULL: not needed so far */
};

/* A registration as a transfer or receive uses it. */
struct verbs_memory {
	struct ibv_mr *mr;
	bool temporary; /* made for this one, to be undone with it */
};

/* A receive that was announced; its number is in the announcement and comes back as immediate. */
struct verbs_receive {
	struct stretto_recv *recv;       /* NULL: cancelled, or free */
	struct verbs_endpoint *endpoint; /* NULL: free */
	struct verbs_memory memory;
	struct stretto_key key;
	uint64_t revoked;    /* time when it was cancelled: the peer has yet to confirm */
	uint16_t generation; /* upper half of the number */
	uint16_t next;       /* free list */
};

/* A large send, an announcement, or both once they have met. */
struct verbs_transfer {
	struct stretto_list link;
	struct stretto_key key;
	struct stretto_signature signature;
	struct stretto_send *send; /* NULL: not posted yet, or cancelled */
	struct verbs_memory memory;
	uint64_t address; /* of the peer's buffer */
	uint64_t bytes;
	uint64_t offset; /* bytes posted */
	uint64_t end;    /* position of the last work request */
	uint32_t rkey;
	uint32_t number; /* of the peer's receive */
	bool dropped; /* cancelled after its first write; its memory is in use until they are over */
};

struct verbs_device {
	struct stretto_device base;
	struct verbs_port port;
	struct verbs_address address;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct rdma_event_channel *cm;           /* NULL: connections are made out of band */
	struct rdma_cm_id *listeners[VERBS_IPS]; /* one for each address, as far as made */
	struct verbs_mailbox *mailbox;           /* of connections out of band; owned */
	struct verbs_counters counters;
	struct stretto_list endpoints;
	struct stretto_list visitors; /* struct verbs_visitor */
	struct verbs_endpoint *by_number[VERBS_BUCKETS];
	struct verbs_slab *slabs; /* owned */
	struct verbs_slot *free_slots;
	uint32_t slots_posted;
	uint32_t slots_wanted; /* by the credits given to peers */
	uint32_t announced;    /* receives */
	uint32_t srq_depth;
	uint32_t cq_depth;
	uint32_t cq_most;   /* that the device has */
	uint32_t cq_wanted; /* completions that can be outstanding */
	struct verbs_receive receives[VERBS_ANNOUNCED];
	uint16_t free_receive; /* first of the free list, VERBS_ANNOUNCED for none */
	struct stretto_list spare_transfers;
	struct verbs_region *regions; /* owned */
	size_t region_count, region_capacity;
	uint32_t epoch;       /* that its connections are made in; see recovery.h */
	uint64_t quiet_until; /* nothing is connected before; after the port has changed */
	struct rdma_cm_id
		*old[VERBS_OLD]; /* of lost connections, to be ended once the port is up */
	size_t old_count;
	unsigned events_to_ack; /* of the completion channel */
	uint64_t port_down;     /* since when the port is down; 0: it is up */
	int connecting;         /* endpoints that are not ready */
	int revoked;            /* receives whose peer has yet to confirm that they are cancelled */
	uint64_t next_tick;     /* when timers are looked at */
	struct stretto_peer_state state; /* what this rank entered last */
	uint64_t state_version;          /* counts publish() */
	uint64_t state_seen;             /* version at the last tick */
};

enum verbs_state {
	VERBS_CONNECTING,
	VERBS_READY,
	VERBS_LOST, /* made anew at the next poll */
	VERBS_FAILED,
};

/* How far a connection that is being made has come. */
enum verbs_step {
	VERBS_IDLE,     /* the higher rank: waits to be called */
	VERBS_ADDRESS,  /* resolving the peer's address */
	VERBS_ROUTE,    /* resolving the route */
	VERBS_CALLED,   /* the peer is sent our hello */
	VERBS_ACCEPTED, /* we have the peer's hello and have answered */
	VERBS_RETRY,    /* the kernel gave up: call again at the next tick */
};

/* A message of no operation that found no room. */
struct verbs_queued {
	struct stretto_list link;
	struct verbs_header header;
	struct verbs_notice_body body;
	uint32_t body_bytes;
};

struct verbs_endpoint {
	struct stretto_endpoint base;
	struct stretto_list link; /* in the device */
	enum verbs_state state;
	enum verbs_step step;
	struct verbs_address peer;
	struct verbs_ip from, to; /* our address and the peer's; family 0: none is needed */
	struct rdma_cm_id *id;    /* of the connection; NULL before */
	struct rdma_cm_id *knock; /* asks the lower rank to connect; NULL: not, or over */
	bool knocked;
	bool warned;            /* that the peer does not answer */
	uint64_t step_deadline; /* of what the kernels must answer; STRETTO_NEVER for none */
	uint64_t started;       /* when connecting began */
	uint64_t called;        /* when the peer was sent our hello */
	struct ibv_qp *qp;
	struct ibv_ah *ah;                     /* of the peer's mailbox */
	uint32_t psn;                          /* first packet number that we send */
	uint32_t peer_number;                  /* of its queue pair */
	bool up;                               /* our queue pair is ready to receive and send */
	struct verbs_endpoint *next_by_number; /* in the bucket */
	uint32_t max_inline;                   /* bytes */
	size_t eager;                          /* largest payload that goes in a message */
	/* Send queue: work requests are numbered from 1. */
	uint64_t posted;    /* last one posted */
	uint64_t signalled; /* last one that gives a completion */
	uint64_t completed; /* last one known to be over */
	uint32_t credits;   /* messages that the peer has slots for */
	uint32_t owed;      /* slots we took from the peer's messages and posted again */
	/* Staging memory: a ring of messages, each freed when its work request is over. */
	char *staged; /* owned */
	struct ibv_mr *staged_mr;
	uint64_t staged_position[VERBS_STAGED];
	uint32_t staged_first, staged_count;
	struct stretto_match match;      /* small messages */
	struct stretto_list unannounced; /* large struct stretto_recv: not announced yet */
	struct stretto_list announced;   /* large struct stretto_recv: announced */
	struct stretto_list cleared;     /* struct verbs_transfer: peer's announcements */
	struct stretto_list waiting;     /* struct verbs_transfer: sends without announcement */
	struct stretto_list ready;       /* struct verbs_transfer: to be written */
	struct stretto_list writing;     /* struct verbs_transfer: all posted */
	struct stretto_list queued;      /* struct verbs_queued */
	bool holds;                      /* the channel is asked to poll for what is queued */
	uint64_t notice_end;             /* position of the last notice */
	uint64_t state_sent;             /* version of the device's state that the peer has */
	struct stretto_peer_state peer_state;
	bool has_peer_state;
	/* Liveness: what the last tick saw, and since when it has not changed. */
	uint64_t seen_completed, seen_received, received;
	uint64_t completed_since, received_since;
	uint64_t ended; /* time when it failed */
};

/* A connection that came in before we needed it. */
struct verbs_visitor {
	struct stretto_list link;
	struct rdma_cm_id *id; /* owned */
	struct verbs_hello hello;
};

static inline struct verbs_device *verbs_device_of(const struct stretto_device *device)
{
	return stretto_container_of(device, struct verbs_device, base);
}

static inline struct verbs_endpoint *verbs_endpoint_of(const struct stretto_endpoint *endpoint)
{
	return stretto_container_of(endpoint, struct verbs_endpoint, base);
}

static inline struct verbs_device *verbs_device_at(const struct verbs_endpoint *endpoint)
{
	return verbs_device_of(endpoint->base.device);
}

/* verbs_choice.c */
/*
 * The port of a channel. false: none is usable; `why` says what was found, either way, in one line.
 */
bool verbs_choose(const struct stretto_config *config, int channel, struct verbs_port *port,
		  char *why, size_t size);

/* verbs_near.c */
/* From the core that we run on to a device, as the firmware says it: 10 is the same NUMA node. */
int verbs_distance(const char *device);

/* verbs_gid.c */
bool verbs_is_roce(const struct ibv_context *context, const struct verbs_port *port);
/* Adds an address to a port, if there is room; with RoCE only if it has a version 2 GID. */
void verbs_add_ip(struct ibv_context *context, struct verbs_port *port,
		  const struct sockaddr *address, const struct sockaddr *netmask);
/* Adds those that the port's GIDs are made of; the interfaces' entries tell the prefixes. */
void verbs_add_gids(struct ibv_context *context, struct verbs_port *port,
		    const struct ifaddrs *entries);
enum verbs_ip_kind verbs_kind_of(const struct sockaddr *address);
/* Where a GID of the port is in the table now. false: it is not. */
bool verbs_find_gid(struct ibv_context *context, const struct verbs_port *port,
		    const union ibv_gid *gid, uint32_t *index);
/* The GID of our side of a connection, as text. */
const char *verbs_gid_text(const struct verbs_endpoint *endpoint, char text[VERBS_IP_TEXT]);
/* The GID that RoCE makes of an address. */
union ibv_gid verbs_gid_of(const struct verbs_ip *ip);
void verbs_sockaddr_of(const struct verbs_ip *ip, struct sockaddr_storage *address);
/* Writes an address as text and returns that. */
const char *verbs_ip_text(const struct verbs_ip *ip, char text[VERBS_IP_TEXT]);

/* verbs_mem.c */
stretto_status verbs_add_region(struct stretto_device *device, struct stretto_region *region);
void verbs_drop_region(struct stretto_device *device, struct stretto_region *region);
/* Find or make the registration of a message's memory. STRETTO_NO_MEMORY says which limit. */
stretto_status verbs_register_source(struct verbs_device *device, const struct stretto_send *send,
				     struct verbs_memory *memory);
stretto_status verbs_register_target(struct verbs_device *device, const struct stretto_recv *recv,
				     struct verbs_memory *memory);
void verbs_unregister(struct verbs_memory *memory);
/* Registers, and explains a failure. NULL on failure. */
struct ibv_mr *verbs_reg_mr(struct verbs_device *device, void *base, size_t bytes, int access);
/* Posts slots until peers have what they were promised, and some more. */
void verbs_refill(struct verbs_device *device);
/* Posts slots only if fewer are posted than peers may use. */
static inline void verbs_keep_promise(struct verbs_device *device)
{
	if (device->slots_posted < device->slots_wanted + device->announced + VERBS_SLACK / 2)
		verbs_refill(device);
}
void verbs_free_slot(struct verbs_device *device, struct verbs_slot *slot);
void verbs_free_slabs(struct verbs_device *device);

/* verbs_ep.c */
stretto_status verbs_connect(struct stretto_device *device, int peer, const void *blob,
			     size_t bytes, struct stretto_endpoint **endpoint);
void verbs_disconnect(struct stretto_endpoint *endpoint);
/* Whether connections of a device are between IP addresses. */
bool verbs_needs_ips(const struct verbs_device *device);
/* Chooses the addresses for a peer that has the given ones. false: none go together. */
bool verbs_pair_with(const struct verbs_device *device, int peer,
		     const struct verbs_address *address, struct verbs_pair *pair);
/* Makes the queue pair, in state INIT, and the endpoint's memory. false: it has failed. */
bool verbs_make_queue(struct verbs_endpoint *endpoint);
/* Destroys it, and the endpoint's memory. */
void verbs_unmake_queue(struct verbs_endpoint *endpoint);
/* Moves the queue pair on, with what the connection adds to our own attributes. */
bool verbs_move_queue(struct verbs_endpoint *endpoint, struct ibv_qp_attr *attributes, int mask);
/* Our hello for a peer. */
void verbs_make_hello(const struct verbs_device *device, const struct verbs_address *to,
		      enum verbs_purpose purpose, struct verbs_hello *hello);
/* 0 if a hello is good, else what is wrong with it: enum verbs_reason. */
int verbs_hello_fault(const struct verbs_device *device, const struct verbs_hello *hello);
/* Both ends can send. */
void verbs_established(struct verbs_endpoint *endpoint);
/* Ends an endpoint, once. `format` says what was seen; where is added. */
void verbs_fail(struct verbs_endpoint *endpoint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, unless it can be made anew: then it is lost, and posts give AGAIN until it is ready. */
void verbs_lose(struct verbs_endpoint *endpoint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Asks the channel to poll although no operation is in flight, or no longer. */
void verbs_hold(struct verbs_endpoint *endpoint, bool hold);
struct verbs_endpoint *verbs_find(const struct verbs_device *device, uint32_t qp_number);
/* The endpoint to a rank, NULL if there is none. */
struct verbs_endpoint *verbs_to(const struct verbs_device *device, int rank);
/* Number that says how often 4.096 us are doubled in the timeout of a queue pair. */
uint8_t verbs_timeout_code(double seconds);

/* How connections are made: verbs_cm.c or verbs_oob.c. */
struct verbs_way {
	/* Makes the device ready to be connected to, and completes its address. */
	stretto_status (*open)(struct verbs_device *device);
	void (*close)(struct verbs_device *device);
	/* Goes on with a connection: when it is begun, and at each tick. */
	void (*go_on)(struct verbs_endpoint *endpoint, uint64_t now);
	/* Takes in what has come; returns how much. */
	size_t (*events)(struct verbs_device *device);
	/* Undoes the endpoint's part. */
	void (*part)(struct verbs_endpoint *endpoint);
	/* The same of one that is lost, without a word to the peer; it can be begun again. */
	void (*drop)(struct verbs_endpoint *endpoint);
};
extern const struct verbs_way verbs_cm;
extern const struct verbs_way verbs_oob;
static inline const struct verbs_way *verbs_way_of(const struct verbs_device *device)
{
	return device->base.env->config->verbs_oob ? &verbs_oob : &verbs_cm;
}
/* Takes note of an event of the mailbox, and prepares it for sleep. */
void verbs_oob_event(struct verbs_device *device);
void verbs_oob_arm(struct verbs_device *device);

/* verbs_renew.c */
/* If connections were lost since the last time: ends all, and begins to make them anew. */
void verbs_renew(struct verbs_device *device);
/* Whether connections are to be made now; not while the port is down and they are made anew. */
bool verbs_may_connect(const struct verbs_device *device, uint64_t now);
/* Ends the connection that is being made, to begin again. */
void verbs_begin_again(struct verbs_endpoint *endpoint);
/* What an id of a lost connection has to say is said once the port is up. */
void verbs_keep_old(struct verbs_device *device, struct rdma_cm_id *id);
void verbs_end_old(struct verbs_device *device);
/* Whether a peer is in our epoch; if it is in a later one the channel is told. */
bool verbs_same_epoch(const struct verbs_device *device, const struct verbs_hello *hello);

/* verbs_queue.c */
/* Room for one more message with that many bytes of payload? */
bool verbs_can_send(const struct verbs_endpoint *endpoint, size_t bytes);
/* Posts a message, for which there is room. The payload is free afterwards. */
void verbs_send(struct verbs_endpoint *endpoint, struct verbs_header *header, const void *payload,
		size_t bytes, bool signal);
/* Posts a message that only returns credits, if the send queue has room; needs no credit. */
void verbs_return_credits(struct verbs_endpoint *endpoint);
/* Posts a write of nothing: its completion says that the peer's queue pair is alive. */
void verbs_probe(struct verbs_endpoint *endpoint);
/* Posts writes of a transfer as far as there is room; true when all are posted. */
bool verbs_write(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer);
/* Takes note that all work requests up to a position are over. */
void verbs_completed(struct verbs_endpoint *endpoint, uint64_t position);

/* verbs_data.c */
stretto_status verbs_post_send(struct stretto_endpoint *endpoint, struct stretto_send *send);
stretto_status verbs_post_recv(struct stretto_endpoint *endpoint, struct stretto_recv *recv);
void verbs_notify(struct stretto_endpoint *endpoint, const struct stretto_notice *notice);
/* Takes in a message. true: the slot is kept until its receive is posted. */
bool verbs_take_message(struct verbs_endpoint *endpoint, struct verbs_slot *slot, size_t bytes);
/* Goes on with what waited for room; returns how much. */
size_t verbs_push(struct verbs_endpoint *endpoint);
/* Tells the peer what this rank entered last, if there is room. */
void verbs_send_state(struct verbs_endpoint *endpoint);
/* Whether a receive or send waits for the peer. */
bool verbs_waits(const struct verbs_endpoint *endpoint);
/* Sends a control message now, or as soon as there is room. */
void verbs_control(struct verbs_endpoint *endpoint, const struct verbs_header *header,
		   const struct verbs_notice_body *body);
/* The header of a message; key and signature may be NULL. */
struct verbs_header verbs_header_of(enum verbs_kind kind, const struct stretto_key *key,
				    const struct stretto_signature *signature, size_t bytes);
/* Tells the channel of a message; false: it is to be dropped. */
bool verbs_check(const struct verbs_endpoint *endpoint, const struct stretto_key *key,
		 const struct stretto_signature *signature);
static inline bool verbs_same(const struct stretto_signature *a, const struct stretto_signature *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* verbs_large.c */
stretto_status verbs_send_large(struct verbs_endpoint *endpoint, struct stretto_send *send);
/* Announces a receive. false: there is no room now. */
bool verbs_announce(struct verbs_endpoint *endpoint, struct stretto_recv *recv);
/* The large receive with a key, NULL for none. */
struct stretto_recv *verbs_posted_large(const struct verbs_endpoint *endpoint,
					const struct stretto_key *key);
/* A receive of the peer's: to its send, or kept. */
void verbs_take_clear(struct verbs_endpoint *endpoint, const struct verbs_header *header);
/* The peer's send is another than our receive. */
void verbs_take_refuse(struct verbs_endpoint *endpoint, const struct verbs_header *header);
/* The peer's send waits for a receive: is there one that will never meet it? */
void verbs_take_ask(struct verbs_endpoint *endpoint, const struct verbs_header *header);
/* Takes in the immediate of a write. */
void verbs_take_immediate(struct verbs_endpoint *endpoint, uint32_t number);
/* Ends the transfers whose writes are over. */
void verbs_finish_writes(struct verbs_endpoint *endpoint);
/* Asks the peer about the oldest send that waits for its announcement. */
void verbs_ask(struct verbs_endpoint *endpoint);
/* The announced receive with that number, of that endpoint; NULL if there is none. */
struct verbs_receive *verbs_receive_of(const struct verbs_endpoint *endpoint, uint32_t number);
/* Gives a receive's number and registration back. */
void verbs_free_receive(struct verbs_receive *receive);
/*
 * Makes transfers in advance for one more peer, so that the data path need not: it may announce some
 * operations ahead. Those that there is no memory for are made when they are needed.
 */
void verbs_spare_transfers(struct verbs_device *device);
/* Gives a transfer back. */
void verbs_free_transfer(struct verbs_endpoint *endpoint, struct verbs_transfer *transfer);

/* verbs_cancel.c */
void verbs_cancel(struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
bool verbs_settled(const struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
/* Whether a queue pair in the error state reads no more memory, as far as one can wait for that. */
bool verbs_flushed(const struct verbs_endpoint *endpoint);
/* Takes a large receive back; if it was announced the peer is told so. */
void verbs_give_up_receive(struct verbs_endpoint *endpoint, struct stretto_recv *recv);
/* The peer cancels a receive: nothing more is written to it, and the peer is told so. */
void verbs_take_revoke(struct verbs_endpoint *endpoint, uint32_t number);
/* The peer writes no more to a cancelled receive. */
void verbs_take_gone(struct verbs_endpoint *endpoint, uint32_t number);
/* Gives up all that an endpoint has posted, and on demand what came in. */
void verbs_forget(struct verbs_endpoint *endpoint, bool arrivals);
/* At a tick: fails an endpoint whose peer does not confirm. */
void verbs_watch_revoked(struct verbs_device *device, uint64_t now);

/* verbs_poll.c */
size_t verbs_poll_completions(struct verbs_device *device);
size_t verbs_poll(struct stretto_device *device);
void verbs_events(struct stretto_device *device);
uint64_t verbs_arm(struct stretto_device *device);
/* Makes room in the completion queue for one more endpoint. false: the device has no more. */
bool verbs_grow_queue(struct verbs_device *device);

#endif
