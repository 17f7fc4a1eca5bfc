/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.h: the transport over UCX (libucp), private parts. See docs/ucx.md.
 *
 *   ucx_wire.h     what travels: addresses, message headers
 *   ucx_device.c   the device, its worker and address, and the transport table
 *   ucx_ep.c       endpoints: how they begin and how they end
 *   ucx_mem.c      regions that UCX knows
 *   ucx_message.c  active messages, out and in
 *   ucx_data.c     sends and receives; what messages mean
 *   ucx_large.c    payloads that go straight into announced receives
 *   ucx_cancel.c   giving operations up: nothing may touch their memory afterwards
 *   ucx_poll.c     progress, sleep, and what time brings
 *
 * How a payload of b bytes travels:
 *
 *   b <= eager   in an active message, behind its header
 *   larger       the receiver posts a tagged receive whose tag has a number that is its own, and
 *                announces it in a message (CLEAR); then the sender sends the payload with that
 *                tag. A tagged message never comes without its receive, so none is unexpected.
 *
 * Every announcement is answered by exactly one of: its payload, REFUSE, GONE.
 *
 * UCX's callbacks come from within ucp_worker_progress() and the like, under the channel's baton.
 * They may find endpoints broken but do not end them: ucx_poll() does.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_UCX_H
#define STRETTO_RUNTIME_TRANSPORTS_UCX_H

#include <string.h>
#include <ucp/api/ucp.h>

#include "runtime/match.h"
#include "runtime/transport.h"
#include "runtime/transports/ucx_wire.h"

enum {
	UCX_ANNOUNCED = 1024, /* receives of a device that are announced at a time */
	UCX_UNDERWAY = 64,    /* messages of an endpoint that UCX may hold before sends wait */
	UCX_WHY = 240,        /* bytes of the reason why an endpoint ends */
	UCX_PASSES = 64,      /* calls of ucp_worker_progress() in a pass */
};

/* How long a peer may take to confirm that an operation was given up, and UCX to end requests. */
#define UCX_CONFIRM_SECONDS 2.0

/* Our mapping of a region. */
struct ucx_region {
	uint32_t id; /* 0: it is gone, but something may still use its mapping */
	char *base;
	size_t bytes;
	ucp_mem_h memory; /* NULL: not needed so far */
};

/* An active message that UCX has not taken yet, or a spare one. */
struct ucx_message {
	struct ucx_message *next;      /* in the list of spare ones */
	struct ucx_message *next_made; /* in the list of all */
	struct ucx_endpoint *endpoint; /* NULL: it is gone, or the message is spare */
	struct stretto_list link;      /* among the endpoint's that are under way */
	struct ucx_header header;
	char payload[]; /* as many bytes as the device's eager */
};

/* A receive that was announced. */
struct ucx_receive {
	struct stretto_recv *recv;     /* NULL: cancelled, or free */
	struct ucx_device *device;     /* that it is in */
	struct ucx_endpoint *endpoint; /* NULL: it is gone, or the entry is free */
	void *request;                 /* of UCX; NULL: free */
	ucp_mem_h memory;              /* used by the request; may be NULL */
	struct stretto_key key;
	uint64_t revoked;    /* time when it was cancelled; 0: it is not */
	bool gone;           /* the peer sends no payload for it */
	uint16_t generation; /* upper half of the number */
	uint16_t next;       /* free list */
};

/* A large send, an announcement, or both once they have met. */
struct ucx_transfer {
	struct stretto_list link;
	struct ucx_endpoint *endpoint; /* NULL: it is gone */
	struct stretto_key key;
	struct stretto_signature signature;
	struct stretto_send *send; /* NULL: not posted yet, or cancelled */
	ucp_mem_h memory;          /* used by UCX's request; may be NULL */
	uint64_t bytes;
	uint64_t number;  /* of the peer's receive */
	uint64_t dropped; /* time when it was cancelled while UCX sent it; 0: it is not */
};

/* A UCX endpoint. It outlives ours until UCX has closed it. */
struct ucx_link {
	struct stretto_list link;      /* among the device's that are being closed */
	struct ucx_endpoint *endpoint; /* NULL: it has been given up */
	ucp_ep_h ep;
	bool failed;       /* UCX has reported an error of it */
	uint64_t close_at; /* time when it is closed by force; at once if UCX reports an error */
	void *closing;     /* request of the close; NULL: it is not closed yet */
};

/* What a device knows of a rank that it has no endpoint to. */
enum ucx_acquaintance { UCX_UNHEARD, UCX_HEARD, UCX_PARTED };

struct ucx_device {
	struct stretto_device base;
	ucp_context_h context;
	ucp_worker_h worker;
	int fd; /* UCX's, readable when there may be something to do; -1: none yet */
	struct ucx_address address;
	unsigned char worker_address[UCX_WORKER_ADDRESS_MAX];
	struct stretto_list endpoints;
	struct ucx_endpoint **by_rank; /* owned array; NULL where there is none */
	uint8_t *known;                /* owned array by rank: enum ucx_acquaintance */
	struct stretto_list closing;   /* struct ucx_link */
	struct ucx_receive receives[UCX_ANNOUNCED];
	uint16_t free_receive; /* first of the free list, UCX_ANNOUNCED for none */
	struct ucx_message *spare_messages;
	struct ucx_message *messages;        /* all that were made; owned */
	struct stretto_list spare_transfers; /* owned */
	struct stretto_list orphans;         /* struct ucx_transfer without endpoint; owned */
	struct ucx_region *regions;          /* owned */
	size_t region_count, region_capacity;
	bool attention;     /* an endpoint is to be begun or ended */
	bool holds;         /* the channel is asked to poll for messages under way */
	bool warned;        /* of a message that is not for us */
	int connecting;     /* endpoints that are not ready */
	int revoked;        /* receives that were cancelled after they were announced */
	int dropped;        /* transfers that were cancelled while UCX sent them */
	uint64_t next_tick; /* when timers are looked at */
	struct stretto_peer_state state; /* what this rank entered last */
	uint64_t state_version;          /* counts publish() */
	uint64_t state_seen;             /* version at the last tick */
};

enum ucx_state { UCX_CONNECTING, UCX_READY, UCX_FAILED };

/* A message that waits for its endpoint to become ready. */
struct ucx_queued {
	struct stretto_list link;
	struct ucx_header header;
	struct ucx_notice_body body;
	uint32_t body_bytes;
};

struct ucx_endpoint {
	struct stretto_endpoint base;
	struct stretto_list in_device;
	enum ucx_state state;
	char why[UCX_WHY]; /* what broke it; "" if nothing has */
	bool warned;       /* that the peer does not answer */
	uint64_t started;  /* when connecting began */
	uint64_t ended;    /* when it failed */
	struct ucx_address peer;
	unsigned char worker_address[UCX_WORKER_ADDRESS_MAX];
	struct ucx_link *link;           /* owned; NULL: not begun, or closed */
	size_t eager;                    /* largest payload that goes in a message */
	struct stretto_list underway;    /* struct ucx_message that UCX has not taken yet */
	uint32_t underway_count;         /* of them */
	struct stretto_match match;      /* small messages */
	struct stretto_list unannounced; /* large struct stretto_recv: not announced yet */
	struct stretto_list announced;   /* large struct stretto_recv: announced */
	struct stretto_list cleared;     /* struct ucx_transfer: peer's announcements */
	struct stretto_list waiting;     /* struct ucx_transfer: sends without announcement */
	struct stretto_list sending;     /* struct ucx_transfer: given to UCX */
	struct stretto_list queued;      /* struct ucx_queued */
	uint64_t sent, received;         /* messages and payloads, but for HELLO and PART */
	bool parting;                    /* the peer has closed its end, after ... */
	uint64_t part_after;             /* ... so many messages and payloads */
	uint64_t state_sent;             /* version of the device's state that the peer has */
	uint64_t state_heard;            /* version of the peer's */
	struct stretto_peer_state peer_state;
	uint64_t seen_received, received_since; /* for silence: what the last tick saw */
};

static inline struct ucx_device *ucx_device_of(const struct stretto_device *device)
{
	return stretto_container_of(device, struct ucx_device, base);
}

static inline struct ucx_endpoint *ucx_endpoint_of(const struct stretto_endpoint *endpoint)
{
	return stretto_container_of(endpoint, struct ucx_endpoint, base);
}

static inline struct ucx_device *ucx_device_at(const struct ucx_endpoint *endpoint)
{
	return ucx_device_of(endpoint->base.device);
}

/* ucx_device.c */
/* What a status of UCX means and what helps, in a few words. Never NULL. */
const char *ucx_meaning(ucs_status_t status);

/* ucx_mem.c */
stretto_status ucx_add_region(struct stretto_device *device, struct stretto_region *region);
void ucx_drop_region(struct stretto_device *device, struct stretto_region *region);
/* The mapping of a region; NULL for none: UCX then finds out about the memory itself. */
ucp_mem_h ucx_memory_of(struct ucx_device *device, const struct stretto_region *region);
void ucx_unmap_all(struct ucx_device *device);

/* ucx_ep.c */
stretto_status ucx_connect(struct stretto_device *device, int peer, const void *blob, size_t bytes,
			   struct stretto_endpoint **endpoint);
void ucx_disconnect(struct stretto_endpoint *endpoint);
/* The endpoint is to end for this reason, at the next pass. Only the first reason counts. */
void ucx_break(struct ucx_endpoint *endpoint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ucx_break_by(struct ucx_endpoint *endpoint, const char *what, ucs_status_t status);
/* The peer has an endpoint to us. */
void ucx_established(struct ucx_endpoint *endpoint);
/* Begins and ends endpoints that are to be; returns how many. */
size_t ucx_attend(struct ucx_device *device);
/* Looks which UCX endpoints have closed; true if all have. */
bool ucx_reap(struct ucx_device *device);

/* ucx_message.c */
/* Room for one more payload or announcement? */
bool ucx_can_send(const struct ucx_endpoint *endpoint);
/* Sends a message; the payload is free afterwards. false: the endpoint is broken. */
bool ucx_send(struct ucx_endpoint *endpoint, struct ucx_header *header, const void *payload,
	      size_t bytes);
/* Sends a control message now, or as soon as the endpoint is ready. */
void ucx_control(struct ucx_endpoint *endpoint, struct ucx_header *header,
		 const struct ucx_notice_body *body);
/* Sends what waited for the endpoint. */
void ucx_send_queued(struct ucx_endpoint *endpoint);
/* The header of a message; key and signature may be NULL. */
struct ucx_header ucx_header_of(enum ucx_kind kind, const struct stretto_key *key,
				const struct stretto_signature *signature, size_t bytes);
/* UCX's callback for a message. */
ucs_status_t ucx_arrived(void *context, const void *bytes, size_t length, void *data,
			 size_t data_bytes, const ucp_am_recv_param_t *param);
/* Gives an arrival's payload back. */
void ucx_release(struct ucx_device *device, struct stretto_arrival *arrival);
/* Forgets the endpoint in messages that UCX has not taken yet. */
void ucx_orphan_messages(struct ucx_endpoint *endpoint);

/* ucx_data.c */
stretto_status ucx_post_send(struct stretto_endpoint *endpoint, struct stretto_send *send);
stretto_status ucx_post_recv(struct stretto_endpoint *endpoint, struct stretto_recv *recv);
void ucx_notify(struct stretto_endpoint *endpoint, const struct stretto_notice *notice);
/* Takes in a message. true: the payload has been kept as `arrival` and stays UCX's or ours. */
bool ucx_take_message(struct ucx_endpoint *endpoint, const struct ucx_header *header,
		      const void *payload, size_t bytes, struct stretto_arrival **arrival);
/* Goes on with what waited for room; returns how much. */
size_t ucx_push(struct ucx_endpoint *endpoint);
/* Tells the peer what this rank entered last. */
void ucx_send_state(struct ucx_endpoint *endpoint);
/* Whether a receive or send waits for the peer. */
bool ucx_waits(const struct ucx_endpoint *endpoint);
/* Tells the channel of a message; false: it is to be dropped. */
bool ucx_check(const struct ucx_endpoint *endpoint, const struct stretto_key *key,
	       const struct stretto_signature *signature);
static inline bool ucx_same(const struct stretto_signature *a, const struct stretto_signature *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* ucx_large.c */
stretto_status ucx_send_large(struct ucx_endpoint *endpoint, struct stretto_send *send);
/* Announces a receive. false: there is no room now. */
bool ucx_announce(struct ucx_endpoint *endpoint, struct stretto_recv *recv);
/* The large receive with a key, NULL for none. */
struct stretto_recv *ucx_posted_large(const struct ucx_endpoint *endpoint,
				      const struct stretto_key *key);
/* A receive of the peer's: to its send, or kept. */
void ucx_take_clear(struct ucx_endpoint *endpoint, const struct ucx_header *header);
/* The peer's send is another than our receive. */
void ucx_take_refuse(struct ucx_endpoint *endpoint, const struct ucx_header *header);
/* The peer's send waits for a receive: is there one that will never meet it? */
void ucx_take_ask(struct ucx_endpoint *endpoint, const struct ucx_header *header);
/* Asks the peer about the oldest send that waits for its announcement. */
void ucx_ask(struct ucx_endpoint *endpoint);
/* The announced receive with that number, of that endpoint; NULL if there is none. */
struct ucx_receive *ucx_receive_of(const struct ucx_endpoint *endpoint, uint64_t number);
/* Tells the peer that no payload comes for its receive. */
void ucx_send_gone(struct ucx_endpoint *endpoint, uint64_t number);
void ucx_free_transfer(struct ucx_device *device, struct ucx_transfer *transfer);

/* ucx_cancel.c */
void ucx_cancel(struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
bool ucx_settled(const struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
/* Takes a large receive back; if it was announced the peer is told so. */
void ucx_give_up_receive(struct ucx_endpoint *endpoint, struct stretto_recv *recv);
/* The peer cancels a receive: if its payload is not under way, it does not come. */
void ucx_take_revoke(struct ucx_endpoint *endpoint, uint64_t number);
/* No payload comes for a receive. */
void ucx_take_gone(struct ucx_endpoint *endpoint, uint64_t number);
/* Gives up all that an endpoint has posted. */
void ucx_forget(struct ucx_endpoint *endpoint);
/* And what UCX still has of it, and what came in: the endpoint is going to be freed. */
void ucx_forget_all(struct ucx_endpoint *endpoint);
/* At a tick: breaks endpoints whose cancelled transfers do not end. */
void ucx_watch_cancelled(struct ucx_device *device, uint64_t now);

/* ucx_poll.c */
size_t ucx_poll(struct stretto_device *device);
void ucx_events(struct stretto_device *device);
uint64_t ucx_arm(struct stretto_device *device);
/* Asks the channel to poll while messages are under way, or no longer. */
void ucx_hold(struct ucx_device *device, bool hold);

#endif
