/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h: meets arrivals with posted receives, for the transports that match in software.
 *
 * One table per endpoint: receives that wait for their message, and arrivals that wait for their
 * receive. Both are short (what one pair of ranks has in flight) and mostly match at their head, so
 * they are plain lists. An arrival carries what its transport needs to go on; entries are recycled,
 * so that a steady state allocates nothing.
 *
 * Threads: none; the holder of the channel's baton.
 */
#ifndef STRETTO_RUNTIME_MATCH_H
#define STRETTO_RUNTIME_MATCH_H

#include "runtime/transport.h"

/* A message that came before its receive. */
struct stretto_arrival {
	struct stretto_list link;
	struct stretto_key key;
	struct stretto_signature signature;
	uint64_t body[4]; /* the transport's */
};

struct stretto_match {
	struct stretto_list posted;     /* struct stretto_recv, oldest first */
	struct stretto_list unexpected; /* struct stretto_arrival, oldest first */
	struct stretto_list spare;      /* arrivals to be used again */
};

void stretto_match_init(struct stretto_match *match);
/* Frees the arrivals. */
void stretto_match_fini(struct stretto_match *match);

/* Takes the posted receive with this key out of the table; NULL if there is none. */
struct stretto_recv *stretto_match_posted(struct stretto_match *match,
					  const struct stretto_key *key);
/* Keeps an arrival until its receive comes; the caller fills in body. NULL: out of memory. */
struct stretto_arrival *stretto_match_keep(struct stretto_match *match,
					   const struct stretto_key *key,
					   const struct stretto_signature *signature);
/* Takes the arrival for this receive out of the table; NULL, and the receive is posted. */
struct stretto_arrival *stretto_match_post(struct stretto_match *match, struct stretto_recv *recv);
/* Gives an arrival back that was taken out. */
void stretto_match_recycle(struct stretto_match *match, struct stretto_arrival *arrival);
/* Takes all posted receives that stretto_key_is_of() selects out of the table. */
void stretto_match_cancel(struct stretto_match *match, uint64_t comm, uint32_t sequence);

static inline bool stretto_key_equal(const struct stretto_key *a, const struct stretto_key *b)
{
	return a->ordinal == b->ordinal && a->sequence == b->sequence && a->comm == b->comm;
}

/* Whether a message belongs to an operation; sequence 0: to any of the communicator's. */
static inline bool stretto_key_is_of(const struct stretto_key *key, uint64_t comm,
				     uint32_t sequence)
{
	return key->comm == comm && (sequence == 0 || key->sequence == sequence);
}

#endif
