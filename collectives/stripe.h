/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stripe.h: how a long vector is cut over the channels.
 *
 * The shares follow the speeds of the channels' networks, so that all of them end at the same time.
 * Pure arithmetic on numbers that all ranks have in common: they must cut alike. No state, any
 * thread.
 */
#ifndef STRETTO_COLLECTIVES_STRIPE_H
#define STRETTO_COLLECTIVES_STRIPE_H

#include <stddef.h>
#include <stdint.h>

enum {
	STRETTO_STRIPES_MAX = 16,          /* channels */
	STRETTO_STRIPE_BYTES = 256 * 1024, /* a channel gets so many at least, or nothing */
};

/* Elements [first, first + count) go over a channel. */
struct stretto_stripe {
	size_t channel;
	size_t first;
	size_t count;
};

/*
 * Cuts `count` elements of `element` bytes (at least 1) over `channels` (1 to STRETTO_STRIPES_MAX)
 * of the given speeds, in any unit; unless all are known, which is not 0, all count the same. The
 * slowest are left out until everyone's share is long enough; one is left in any case. Writes the
 * stripes in order of channels and elements, and returns how many there are.
 */
size_t stretto_stripes(size_t count, size_t element, const uint32_t *speeds, size_t channels,
		       struct stretto_stripe *stripes);

#endif
