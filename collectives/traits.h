/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traits.h: what tells the collectives apart, as one table.
 *
 * Whoever must know what a rank's buffers hold (the request, the builders, the checker, the tools)
 * asks here instead of listing collectives.
 *
 * Threads: constant.
 */
#ifndef STRETTO_COLLECTIVES_TRAITS_H
#define STRETTO_COLLECTIVES_TRAITS_H

#include "collectives/stretto_coll.h"

/* What a buffer of the caller holds: nothing, `count` elements, or a block of these per rank. */
enum stretto_extent { STRETTO_NOTHING, STRETTO_VECTOR, STRETTO_BLOCKS };

struct stretto_traits {
	enum stretto_extent in;
	enum stretto_extent out;
	bool in_at_root;  /* only the root has an input */
	bool out_at_root; /* only the root has an output */
	bool reduces;     /* it has an operation */
	bool rooted;      /* it has a root */
	bool varies;      /* its blocks may have lengths of their own */
};

/* By collective. */
extern const struct stretto_traits stretto_traits_table[];

/* The line of a valid collective. */
static inline const struct stretto_traits *stretto_traits_of(enum stretto_collective collective)
{
	return &stretto_traits_table[collective];
}

/* What a rank's buffer holds, by whether it is the root; as if it were out of place. */
static inline enum stretto_extent stretto_traits_in(enum stretto_collective collective,
						    bool is_root)
{
	const struct stretto_traits *traits = stretto_traits_of(collective);

	return traits->in_at_root && !is_root ? STRETTO_NOTHING : traits->in;
}

static inline enum stretto_extent stretto_traits_out(enum stretto_collective collective,
						     bool is_root)
{
	const struct stretto_traits *traits = stretto_traits_of(collective);

	return traits->out_at_root && !is_root ? STRETTO_NOTHING : traits->out;
}

/* Whether blocks of a buffer belong to ranks. */
bool stretto_traits_blocks(enum stretto_collective collective);

/* Whether the result of an operation in place is the rank's own block of IN; else IN is OUT. */
bool stretto_traits_into_block(enum stretto_collective collective);

#endif
