/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ledger.h: which operations ranks have entered, and which of these they have not finished.
 *
 * After connections were lost the ranks agree on what of their operations counts: each writes a
 * ledger, and they are merged. An operation that any rank has finished is finished, since that rank
 * cannot take it back; what is left *open* in the merged ledger was entered by some rank and
 * finished by none, and fails on all. Merging is commutative, associative and idempotent, so it does
 * not matter in what order, or how often, ledgers meet.
 *
 * Ids of communicators are the same for the groups of one split, which have no rank in common; with
 * the first of its ranks a group is told apart from the others.
 *
 * A ledger travels as it is. Threads: plain data.
 */
#ifndef STRETTO_RUNTIME_LEDGER_H
#define STRETTO_RUNTIME_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	STRETTO_LEDGER_GROUPS = 63, /* communicators of all ranks together */
	STRETTO_LEDGER_OPEN = 128,  /* open operations of all of them */
};

struct stretto_ledger_group {
	uint64_t comm;    /* id */
	int32_t first;    /* world rank of its rank 0 */
	uint32_t entered; /* the last operation that was; 0: none */
};

struct stretto_ledger_open {
	uint32_t group; /* index */
	uint32_t sequence;
};

struct stretto_ledger {
	uint32_t group_count;
	uint32_t open_count;
	uint32_t full;   /* 1: something found no room, and nothing can be told from the rest */
	uint32_t unused; /* zero */
	struct stretto_ledger_group groups[STRETTO_LEDGER_GROUPS];
	struct stretto_ledger_open open[STRETTO_LEDGER_OPEN];
};
_Static_assert(sizeof(struct stretto_ledger) ==
		       16 * (1 + STRETTO_LEDGER_GROUPS) + 8 * STRETTO_LEDGER_OPEN,
	       "no padding");

/* What a ledger says of an operation. */
enum stretto_entry {
	STRETTO_ENTRY_NONE,     /* nobody has entered it */
	STRETTO_ENTRY_OPEN,     /* entered by some, finished by none */
	STRETTO_ENTRY_FINISHED, /* by some rank */
};

/* Adds a communicator that is in no group yet; returns the index of its group. */
uint32_t stretto_ledger_add(struct stretto_ledger *ledger, uint64_t comm, int first,
			    uint32_t entered);
/* Adds an open operation of a group. Twice is once. */
void stretto_ledger_add_open(struct stretto_ledger *ledger, uint32_t group, uint32_t sequence);
/* Merges what another rank says into a ledger. */
void stretto_ledger_merge(struct stretto_ledger *ledger, const struct stretto_ledger *other);
/* The group of a communicator; NULL if it has none. */
const struct stretto_ledger_group *stretto_ledger_find(const struct stretto_ledger *ledger,
						       uint64_t comm, int first);
enum stretto_entry stretto_ledger_entry(const struct stretto_ledger *ledger, uint64_t comm,
					int first, uint32_t sequence);
/* Whether the counts of a ledger that came in are possible. */
bool stretto_ledger_good(const struct stretto_ledger *ledger);

/* Whether one sequence number comes after another; they wrap around. 0 is before all. */
static inline bool stretto_sequence_after(uint32_t a, uint32_t b)
{
	return b == 0 ? a != 0 : a != 0 && (int32_t)(a - b) > 0;
}

#endif
