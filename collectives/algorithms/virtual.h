/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h: any number of ranks as a power of two of virtual ranks, for algorithms that halve.
 *
 * Of n ranks with 2^L < n < 2^(L+1), the first n - 2^L pairs (2i, 2i+1) stay as they are, and each
 * rank behind them plays two: its vector is what the two would have after their first addition.
 * Seven ranks are eight, three are four:
 *
 *   virtual  0 1 2 3 4 5 6 7        0 1 2 3
 *   rank     0 1 2 3 4 5 6 6        0 1 2 2
 *
 * Combining virtual neighbours at distance 1, 2, 4 ... is then the order of recursive doubling: the
 * pairs fold, the others have nothing to fold. Nobody waits while others fold, and nobody has more
 * than a share of the work. A power of two of ranks play one each.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_ALGORITHMS_VIRTUAL_H
#define STRETTO_COLLECTIVES_ALGORITHMS_VIRTUAL_H

#include <stdbool.h>

#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

struct stretto_virtual {
	int levels; /* log2 of the number of virtual ranks */
	int paired; /* ranks below play one virtual rank, of their own number; the others two */
};

static inline struct stretto_virtual stretto_virtual_of(int size)
{
	int levels = stretto_log2_ceil(size);
	bool power = size == 1 << levels;

	return (struct stretto_virtual){
		.levels = levels,
		.paired = power ? size : 2 * (size - (1 << (levels - 1))),
	};
}

/* The rank that plays virtual rank v. */
static inline int stretto_virtual_player(struct stretto_virtual ranks, int v)
{
	return v < ranks.paired ? v : (v + ranks.paired) / 2;
}

/* The first virtual rank that a rank plays, and how many. */
static inline int stretto_virtual_first(struct stretto_virtual ranks, int rank)
{
	return rank < ranks.paired ? rank : 2 * rank - ranks.paired;
}

static inline int stretto_virtual_count(struct stretto_virtual ranks, int rank)
{
	return rank < ranks.paired ? 1 : 2;
}

/* What a vector loses by that many halvings: the sum of 1/2, 1/4 ... */
static inline double stretto_halved(int levels)
{
	return 1 - ldexp(1, -levels);
}

/*
 * Seconds that the messages of one way take, half a vector first. Partners nearer than the ranks of
 * a node are on it, if the nodes are filled evenly; the other messages share the node's way.
 */
static inline double stretto_halving_flight(const struct stretto_group *group, double bytes)
{
	int levels = stretto_log2_ceil(group->size);
	double sum = 0;

	for (int level = 0; level < levels; level++) {
		bool within = group->nodes == 1 ||
			      (group->least == group->most && group->least % (2 << level) == 0);

		sum += ldexp(bytes, -level - 1) *
		       (within ? group->near->per_byte : group->link->per_byte * group->most);
	}
	return sum;
}

#endif
