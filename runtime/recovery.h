/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recovery.h: going on after connections were lost (STRETTO_VERBS_RECONNECT_SECONDS).
 *
 * The world has an *epoch*, which counts how often connections were lost. A rank that loses one, or
 * hears of a later epoch, takes these steps; docs/verbs.md has the reasons:
 *
 *   suspend   the epoch is raised: no operation goes on or finishes; this rank's ledger is written
 *   renew     each device destroys the connections of earlier epochs and makes them anew; from then
 *             on nothing of an earlier epoch can be written to memory here
 *   agree     the ledgers of all ranks are merged along a tree (agreement.c), on channel 0
 *   resolve   open operations end with STRETTO_RETRY, those that any rank has finished with success;
 *             what came later goes on
 *
 * A connection of the new epoch that is lost begins the next one, in whatever step. Without an
 * agreement in time, or if a rank is found dead meanwhile, all communicators break.
 *
 * Threads: as said at each function. What is kept here is under world.lock.
 */
#ifndef STRETTO_RUNTIME_RECOVERY_H
#define STRETTO_RUNTIME_RECOVERY_H

#include "runtime/comm.h"
#include "runtime/ledger.h"

/* Communicator of notices and messages that are about the recovery. */
#define STRETTO_AGREEMENT UINT64_MAX

struct stretto_agreement;

struct stretto_recovery {
	_Atomic uint32_t epoch;    /* of connections; written under world.lock */
	_Atomic uint32_t settled;  /* epoch that the ranks last agreed in; likewise */
	atomic_bool final;         /* there is no second try any more; likewise */
	_Atomic uint64_t deadline; /* of the agreement; likewise */
	/* Under world.lock: */
	char why[640];                /* what was lost */
	struct stretto_ledger ours;   /* as of the epoch */
	struct stretto_ledger agreed; /* as of settled */
	/* Under the baton of channel 0: */
	struct stretto_agreement *agreement; /* owned */
};

/* Makes world->recovery if the settings ask for it. Before the channels are opened. */
stretto_status stretto_recovery_open(struct stretto_world *world);
void stretto_recovery_close(struct stretto_world *world);

/* A channel's part in a turn. Baton. Returns how much it did; *may_advance: work may go on. */
size_t stretto_recovery_turn(struct stretto_channel *channel, bool *may_advance);
/* When it is to be looked at anyway; STRETTO_NEVER if nothing is lost. Any thread. */
uint64_t stretto_recovery_deadline(const struct stretto_world *world);
/* Tells a peer of the epoch. Baton. */
void stretto_recovery_tell(struct stretto_channel *channel, struct stretto_endpoint *endpoint);
/* Whether a message that has no receive may still be of use. Baton. */
bool stretto_recovery_wants(struct stretto_world *world, const struct stretto_key *key);
/* A rank has failed: if connections are being made anew, that is in vain. */
void stretto_recovery_failed(struct stretto_world *world, const char *why);

/* The transports' upcalls. */
bool stretto_channel_lost(void *channel, int peer, uint32_t epoch, const char *why);
void stretto_channel_renewed(void *channel, int peer, uint32_t epoch);

/* agreement.c; baton of channel 0. */
struct stretto_agreement *stretto_agreement_new(void);
/*
 * Goes on with the agreement of the channel's epoch. STRETTO_OK with the verdict, once; later calls
 * go on telling it to others. STRETTO_AGAIN: not yet. Any other status: it cannot be reached.
 */
stretto_status stretto_agreement_turn(struct stretto_agreement *agreement,
				      struct stretto_channel *channel,
				      const struct stretto_ledger **verdict);
/* The parent of a rank in the tree: -1 of rank 0. */
int stretto_agreement_parent(int rank);
/* Writes the children of a rank in a tree of `size` ranks; returns how many, at most 31. */
int stretto_agreement_children(int rank, int size, int children[31]);

#endif
