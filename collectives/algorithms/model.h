/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: arithmetic shared by the cost models of the algorithms.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_ALGORITHMS_MODEL_H
#define STRETTO_COLLECTIVES_ALGORITHMS_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/algorithm.h"

#include "collectives/algorithm.h"

/* Smallest k with 2^k >= size. */
static inline int stretto_log2_ceil(int size)
{
	int k = 0;
	while ((1L << k) < size)
		k++;
	return k;
}

/* Largest k with 2^k <= size, size >= 1. */
static inline int stretto_log2_floor(int size)
{
	int k = 0;
	while ((2L << k) <= size)
		k++;
	return k;
}

/* Ranks in the subtree of v, itself included, in the binomial tree of ranks 0 to size - 1. */
static inline int stretto_subtree(int v, int size)
{
	int bit = v & -v;
	return v == 0 || v + bit > size ? size - v : bit;
}

/*
 * Windows after the first that `bytes` are cut into; a shorter one counts by its share, so that the
 * estimate does not fall where more bytes make the windows longer and fewer.
 */
static inline double stretto_windows_after_first(size_t bytes, size_t window)
{
	return window == 0 || bytes <= window ? 0 : (double)(bytes - window) / (double)window;
}

/* Bytes of the longest window: `window`, or all of a shorter vector. */
static inline double stretto_window_bytes(size_t bytes, size_t window)
{
	return (double)(window < bytes ? window : bytes);
}

/*
 * What all messages of a rank to its peers cost at once: a fraction of a latency for each, and on
 * the wire a quarter more than one after the other, since they meet at their receivers. `bytes` are
 * those of all ranks together; the ranks of a node share its way to the others.
 */
static inline double stretto_cost_at_once(const struct stretto_group *group, size_t bytes)
{
	double n = group->size;
	double share = group->nodes > 1 ? group->most : 1;

	return group->link->latency * (1 + (n - 1) / 4) +
	       1.25 * share * (n - 1) / n * (double)bytes * group->link->per_byte;
}

/* The window where blocks vary in length: they are not cut, and equal ones take the other calls. */
static inline size_t stretto_no_window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

static inline double stretto_greater(double x, double y)
{
	return x > y ? x : y;
}

/*
 * The window of a ring: a quarter of the vector, so that the reduction of one window overlaps the
 * flight of others, while each of the `size` blocks stays at least `low` bytes, to use the link well,
 * and else short enough for the cache.
 */
static inline size_t stretto_ring_window(int size, size_t bytes, size_t low)
{
	const size_t cache = (size_t)256 << 10;
	size_t high = low > cache ? low : cache;
	size_t block = bytes / 4 / (size_t)size;
	return (size_t)size * (block < low ? low : block > high ? high : block);
}

/*
 * The window of a pipeline of `hops` hops that each take latency + per_byte * window: with
 * bytes / window windows behind each other the whole is shortest near sqrt(bytes * latency /
 * (per_byte * hops)), kept between 64 and 256 KiB, where neither the messages nor the cache
 * suffer.
 */
static inline size_t stretto_pipeline_window(int hops, double latency, double per_byte,
					     size_t bytes)
{
	const double low = 64 << 10;
	const double high = 256 << 10;
	double best = sqrt((double)bytes * latency / (per_byte * hops));
	return (size_t)(best < low ? low : best > high ? high : best);
}

/* The longest vector of a flat algorithm, and the window of a direct one; bytes. */
#define STRETTO_FLAT_BYTES    ((size_t)8192)
#define STRETTO_DIRECT_WINDOW ((size_t)4 << 20)

/* Seconds of a flight of a cache line between two cores, and of each line more that is read. */
#define STRETTO_FLIGHT 120e-9
#define STRETTO_LINE   20e-9

static inline bool stretto_group_has_board(const struct stretto_group *group)
{
	return group->board;
}

/* One meeting, with `written` bytes put on the board and `read` bytes taken from there. */
static inline double stretto_flat_cost(const struct stretto_group *group, double written,
				       double read)
{
	return STRETTO_FLIGHT + STRETTO_LINE * (group->size - 2) +
	       (written + read) * group->near->per_reduce;
}

/* `meetings`, and `moved` bytes read and written by each rank. */
static inline double stretto_direct_cost(const struct stretto_group *group, int meetings,
					 double moved)
{
	return meetings * stretto_flat_cost(group, 0, 0) + 300e-9 +
	       moved * 0.5 * group->near->per_reduce;
}

#endif
