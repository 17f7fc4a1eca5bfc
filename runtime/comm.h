/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h: a communicator, and the world that all of them live in.
 *
 * The world (struct stretto_world) is what stretto_init() makes: configuration, channels, memory,
 * the peers' addresses, and the list of communicators. A communicator is a group of world ranks
 * with an id. Ids are given so that any two ranks have at most one communicator with an id in
 * common.
 *
 * A communicator breaks once, with the first status and message that anyone found; from then on
 * every operation on it ends with that status.
 *
 * Threads: `status` may be read by any; the list and `error` are under world.lock; `next_sequence`
 * belongs to the application's thread that calls collectives.
 */
#ifndef STRETTO_RUNTIME_COMM_H
#define STRETTO_RUNTIME_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/channel.h"
#include "runtime/config.h"
#include "runtime/list.h"
#include "runtime/memory.h"
#include "runtime/topology.h"
#include "runtime/tuning.h"

/* A communicator's part in the work of one channel; under its baton. See channel_share.c. */
struct stretto_comm_share {
	alignas(64) size_t works; /* in the channel's active list */
	uint64_t pass;            /* of the channel, that the fields below are of */
	int priority;             /* of the works that were looked at last in it */
	size_t under_way;         /* their windows */
};

struct stretto_recovery;

struct stretto_comm {
	struct stretto_comm_share shares[STRETTO_CHANNELS_MAX]; /* by channel */
	struct stretto_list link;                               /* in world.comms */
	struct stretto_world *world;
	uint64_t id;     /* the same on all its ranks; 0: the world */
	uint32_t number; /* of this process, for messages */
	int rank;
	int size;
	int *ranks;                       /* world ranks, by rank in the communicator; owned */
	struct stretto_topology topology; /* where its ranks are; owned */
	int *ordered;                     /* world ranks, in the order of the topology; owned */
	uint32_t next_sequence;           /* of the next operation; the first is 1 */
	struct stretto_list operations;   /* that are not over, if account is kept; world.lock */
	uint32_t finished;                /* the last that was; likewise */
	_Atomic int status;           /* enum stretto_status; set once, after error was written */
	char error[768];              /* why it is broken */
	struct stretto_notice notice; /* what the other ranks are told about that */
	atomic_uint told;             /* channels that have told their peers; a bit per channel */
	void *extension;              /* the collectives' state */
	void (*extension_free)(void *extension);
};

/* What one peer's address blob holds, as found in world.addresses. */
struct stretto_peer_address {
	const void *blob;
	size_t bytes;
};

enum { STRETTO_EARLY_NOTICES = 16 };

struct stretto_world {
	struct stretto_config config;
	const char *network; /* transport between nodes that all ranks have; "" for none */
	struct stretto_bootstrap *bootstrap;
	int rank;
	int size;
	int *node;          /* by world rank: its node, numbered by their first ranks; owned */
	int local_size;     /* ranks on this node, this one included; 0 before it is known */
	bool mapped;        /* all ranks of a node reach each other through mapped memory */
	int reserved_cores; /* cores of the affinity mask that progress threads were pinned to */
	struct stretto_memory memory;
	struct stretto_recovery *recovery; /* NULL: what is lost is lost for good; owned */
	struct stretto_channel **channels; /* config.channels of them; owned */
	char *addresses;                   /* all ranks' blobs, address_bytes each; owned */
	size_t address_bytes;
	pthread_mutex_t lock;
	struct stretto_list comms;
	atomic_bool closing; /* finalize has begun: peers may leave */
	atomic_uint paused;  /* stretto_progress_pause() less stretto_progress_resume() */
	struct stretto_notice early[STRETTO_EARLY_NOTICES]; /* of communicators not made here yet */
	unsigned early_next;                                /* a ring; status 0: no entry */
	uint32_t next_number;                               /* of a communicator */
	_Atomic int broken; /* number of communicators that broke so far */
};

/* The address that `peer` published for a transport on a channel; bytes 0 if it has none. */
struct stretto_peer_address stretto_world_address(const struct stretto_world *world, int peer,
						  int channel, const char *transport);

/* The rank in `comm` of a world rank, or -1. */
int stretto_comm_rank_of(const struct stretto_comm *comm, int world_rank);

/* The communicator's status: STRETTO_OK, or what broke it. Any thread. */
static inline stretto_status stretto_comm_state(const struct stretto_comm *comm)
{
	/* acquire: error and notice are written before; partner is stretto_comm_break() */
	return (stretto_status)atomic_load_explicit(&comm->status, memory_order_acquire);
}

/*
 * Breaks a communicator, if it is not broken already, and logs why at error level. The channels
 * notice at their next turn (all are kicked), end its operations and tell the peers. Any thread.
 * `notice` says what peers are told; comm and status are filled in.
 */
void stretto_comm_break(struct stretto_comm *comm, stretto_status status,
			const struct stretto_notice *notice, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Enters the next operation, of so many parts: fills in its sequence number, and keeps account of it
 * where that is wanted. STRETTO_RETRY: it has failed already, since a connection was lost. The
 * application's thread.
 */
stretto_status stretto_comm_enter(struct stretto_comm *comm, struct stretto_operation *operation,
				  int parts);

/* The same for all communicators that have a world rank, or all if it is -1; logs nothing. */
void stretto_world_break(struct stretto_world *world, int world_rank, stretto_status status,
			 const char *error);

/* Keeps a notice of a communicator that this rank has not made yet. */
void stretto_world_keep_notice(struct stretto_world *world, const struct stretto_notice *notice);

/*
 * The communicator with that id, or NULL. The caller holds a baton of the world, which keeps the
 * communicator alive.
 */
struct stretto_comm *stretto_world_find(struct stretto_world *world, uint64_t id);

/*
 * Makes a communicator of the given world ranks (copied) with an id. Local. For
 * stretto_comm_split(), which is a collective and lives above.
 */
stretto_status stretto_comm_make(struct stretto_world *world, const int *ranks, int size, int rank,
				 uint64_t id, struct stretto_comm **comm);

#endif
