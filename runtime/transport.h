/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h: the contract between channels and what moves bytes.
 *
 * A transport is one const table; transports/self.c is the smallest complete one and the one to
 * copy, docs/adding-a-transport.md is the checklist. The data model is *receiver-posted, matched
 * streams*: within one operation the n-th send of rank a to rank b meets the n-th receive that b
 * posted from a. The key (communicator, operation, ordinal) says so explicitly; there are no
 * wildcards and no order between different keys. A send may be posted before its receive, but its
 * payload is not moved before the receive is there, except small ones.
 *
 * All calls are non-blocking and come from the holder of the channel's baton, one at a time.
 * Pointers handed in stay the caller's; a send or receive struct belongs to the transport from a
 * successful post until its done() was called or stretto_transport.cancel() returned.
 */
#ifndef STRETTO_RUNTIME_TRANSPORT_H
#define STRETTO_RUNTIME_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/list.h"
#include "runtime/memory.h"
#include "runtime/stretto.h"

/* Bytes of the longest address blob of one device. */
enum { STRETTO_ADDRESS_MAX = 1024 };

/* Which message of which operation. */
struct stretto_key {
	uint64_t comm;     /* id of the communicator */
	uint32_t sequence; /* of the operation on the communicator */
	uint32_t ordinal;  /* of the message among those of this pair of ranks in the operation */
};

/* What an operation is: must be equal on all ranks. Compared byte for byte; no padding. */
struct stretto_signature {
	uint64_t count;
	int32_t root;
	uint8_t collective;
	uint8_t type;
	uint8_t op;
	uint8_t algorithm;
};
_Static_assert(sizeof(struct stretto_signature) == 16, "travels in every message header");

/* An announcement that a communicator is broken. */
struct stretto_notice {
	uint64_t comm;     /* id */
	uint32_t sequence; /* operation concerned */
	int32_t origin;    /* world rank that found it */
	int32_t other;     /* world rank that it found; -1 for none */
	uint8_t status;    /* enum stretto_status */
	/* For STRETTO_MISMATCH: */
	struct stretto_signature signature;       /* the origin's */
	struct stretto_signature other_signature; /* the other's */
};

struct stretto_send {
	struct stretto_list link; /* the transport's, while posted */
	struct stretto_key key;
	struct stretto_signature signature;
	const void *data;
	size_t bytes;
	const struct stretto_region *region; /* that holds data, or NULL */
	/* Called once, possibly within post_send; only marks, never posts. */
	void (*done)(struct stretto_send *send, stretto_status status);
	uint64_t scratch[2]; /* the transport's, while posted */
};

struct stretto_recv {
	struct stretto_list link; /* the transport's, while posted */
	struct stretto_key key;
	struct stretto_signature signature;
	void *data; /* not written if sink is set and the transport has sinks */
	size_t bytes;
	const struct stretto_region *region; /* that holds data, or NULL */
	/*
	 * If set, takes the payload straight from where the transport has it: bytes [offset, offset
	 * + bytes) of the message at `source`, in increasing order. NULL: the payload goes to data.
	 */
	void (*sink)(struct stretto_recv *recv, size_t offset, const void *source, size_t bytes);
	/* As for a send. STRETTO_MISMATCH: the peer's message has another signature or length. */
	void (*done)(struct stretto_recv *recv, stretto_status status);
	size_t received;     /* bytes so far; the transport's */
	uint64_t scratch[3]; /* the transport's, while posted */
};

/* Heads of every transport's private structs, embedded first. */
struct stretto_device {
	const struct stretto_transport *transport;
	const struct stretto_device_env *env;
	uint32_t speed; /* Mbit/s that its network has for this channel; 0: not known, or none */
};
struct stretto_endpoint {
	const struct stretto_transport *transport;
	struct stretto_device *device;
	int peer; /* world rank */
};

/* What a device may use of its channel. Outlives the device. */
struct stretto_device_env {
	const struct stretto_config *config;
	int rank;    /* this process's world rank */
	int size;    /* of the world */
	int channel; /* index of the channel */
	int wake_fd; /* eventfd; a write wakes the channel's sleeper */
	void *context;
	/*
	 * A message came in that has no receive yet, or whose signature is not its receive's. Finds
	 * ranks that disagree. false: the communicator is broken, drop the message.
	 */
	bool (*check)(void *context, int peer, const struct stretto_key *key,
		      const struct stretto_signature *signature);
	/* A peer says that a communicator is broken. */
	void (*notice)(void *context, int peer, const struct stretto_notice *notice);
	/* A peer wants to be connected to: its operation needs us. */
	void (*wanted)(void *context, int peer);
	/* The peer is gone or cannot be reached; `why` is one line. Its endpoint fails all posts.
	 */
	void (*failed)(void *context, int peer, const char *why);
	/*
	 * Connections that are made anew (recovery.h); all three are NULL if that is not known here.
	 * The epoch is raised when any connection of the world is lost: a device then ends those that
	 * it made in earlier ones, at the next poll(), and begins to make them anew.
	 */
	const _Atomic uint32_t *epoch;
	/* A connection made in an epoch is lost. false: for good, the endpoint fails. */
	bool (*lost)(void *context, int peer, uint32_t epoch, const char *why);
	/* A peer is in a later epoch. */
	void (*renewed)(void *context, int peer, uint32_t epoch);
	/*
	 * Adds to the reasons to call poll() although no operation is in flight: control messages
	 * that wait for room. What was added is taken back when they have left.
	 */
	void (*hold)(void *context, int change);
	/* Add and remove a descriptor whose readability means a call of events(). */
	stretto_status (*watch)(void *context, int fd);
	void (*unwatch)(void *context, int fd);
};

/* What a peer published of itself. */
struct stretto_peer_state {
	uint64_t comm;     /* of the operation it entered last */
	uint32_t sequence; /* of that operation; 0: none yet */
	uint32_t unused;   /* zero */
	struct stretto_signature signature;
};

/* Plain numbers and facts about a transport. */
struct stretto_transport_limits {
	bool sinks;     /* uses stretto_recv.sink */
	bool same_node; /* reaches only ranks of the same node */
};

struct stretto_transport {
	const char *name;
	struct stretto_transport_limits limits;
	/* Usable on this machine? `why` says what was found, either way. Any thread. */
	bool (*probe)(const struct stretto_config *config, char *why, size_t size);
	stretto_status (*open)(const struct stretto_device_env *env,
			       struct stretto_device **device);
	/* All endpoints are disconnected. */
	void (*close)(struct stretto_device *device);
	/* Writes the device's address (at most STRETTO_ADDRESS_MAX bytes) and returns its length.
	 */
	size_t (*address)(const struct stretto_device *device, void *blob);
	/* Whether `peer`, which has that address, can be reached. The blob is checked. */
	bool (*reaches)(const struct stretto_device *device, int peer, const void *blob,
			size_t bytes);
	/* Starts to connect. The endpoint exists at once; posts give AGAIN until it is ready. */
	stretto_status (*connect)(struct stretto_device *device, int peer, const void *blob,
				  size_t bytes, struct stretto_endpoint **endpoint);
	/* No operation is posted. NULL is not passed. */
	void (*disconnect)(struct stretto_endpoint *endpoint);
	/* Tell the device of a region that came or goes. May be NULL. */
	stretto_status (*add_region)(struct stretto_device *device, struct stretto_region *region);
	void (*drop_region)(struct stretto_device *device, struct stretto_region *region);
	/* STRETTO_AGAIN: nothing was started. A receive is always accepted. */
	stretto_status (*post_send)(struct stretto_endpoint *endpoint, struct stretto_send *send);
	stretto_status (*post_recv)(struct stretto_endpoint *endpoint, struct stretto_recv *recv);
	/*
	 * Forgets all that is posted or came in for one operation, or, with sequence 0, for the
	 * communicator; done() is not called.
	 */
	void (*cancel)(struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
	/*
	 * Whether nothing that cancel() forgot can read or write its memory any more; true within
	 * seconds, if need be by giving the connection up. May be NULL: it is so at once.
	 */
	bool (*settled)(const struct stretto_endpoint *endpoint, uint64_t comm, uint32_t sequence);
	/* Best effort: tells the peer that a communicator is broken. */
	void (*notify)(struct stretto_endpoint *endpoint, const struct stretto_notice *notice);
	/* One bounded pass; returns how much it did. */
	size_t (*poll)(struct stretto_device *device);
	/* A watched descriptor is readable (also called about every 10 ms while polling). May be
	 * NULL. */
	void (*events)(struct stretto_device *device);
	/*
	 * Prepares for sleep: from now on whatever would make poll() do something makes a watched
	 * descriptor or wake_fd readable. Returns the time (stretto_now) by which poll() wants to
	 * be called anyway, STRETTO_NEVER for none. The caller polls once more before it sleeps.
	 */
	uint64_t (*arm)(struct stretto_device *device);
	/* Undoes arm(). May be NULL. */
	void (*disarm)(struct stretto_device *device);
	/* Whether all that notify() was told has left, as far as peers can take it. May be NULL. */
	bool (*told)(const struct stretto_device *device);
	/* Publishes what this rank entered, for peers' peer_state(). May be NULL. */
	void (*publish)(struct stretto_device *device, const struct stretto_peer_state *state);
	/*
	 * For ranks that read and write each other's memory (board.h); all or none of the three.
	 * share() makes a region mappable by the peer, STRETTO_AGAIN: not yet. map() gives the
	 * peer's region, or with id 0 the one that it tagged so, as a local pointer, and its bytes;
	 * it is there before any word of the peer's that was written after its share(). NULL: the
	 * peer has not shared it, or it cannot be mapped. The pointer is good until the peer frees
	 * the region. wake() ends the peer's sleep, if it sleeps: call it after what it waits for
	 * was stored, and a seq_cst fence.
	 */
	stretto_status (*share)(struct stretto_endpoint *endpoint,
				const struct stretto_region *region);
	char *(*map)(struct stretto_endpoint *endpoint, uint32_t id, uint64_t tag, size_t *bytes);
	void (*wake)(struct stretto_endpoint *endpoint);
	/* false: the peer has not answered yet, or the transport does not know. May be NULL. */
	bool (*peer_state)(const struct stretto_endpoint *endpoint,
			   struct stretto_peer_state *state);
};

/* All transports in order of preference, ended by NULL; a new one is one line in transport.c. */
extern const struct stretto_transport *const stretto_transports[];

/* The transports that are chosen per peer. */
extern const struct stretto_transport stretto_transport_self;
extern const struct stretto_transport stretto_transport_shm;
extern const struct stretto_transport stretto_transport_verbs; /* with STRETTO_HAVE_VERBS */
extern const struct stretto_transport stretto_transport_ucx;   /* with STRETTO_HAVE_UCX */

/*
 * Wraps a device so that what it sends arrives as over a link of the given pace. Owns `inner` from
 * then on (also closes it). Each channel gets its share of the rate.
 */
stretto_status stretto_paced_open(const struct stretto_pace *pace, struct stretto_device *inner,
				  struct stretto_device **device);

#endif
