/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/traits.h"
#include "runtime/log.h"

/* The arrays of one buffer of a call. */
struct side {
	const char *name;     /* "in" or "out" */
	const size_t *counts; /* NULL: the buffer has no arrays, or all blocks are alike */
	const size_t *displs; /* NULL: one behind the other */
	const void *data;
};

static struct side side_of(const struct stretto_coll_args *args, enum stretto_buffer buffer)
{
	if (buffer == STRETTO_BUF_IN)
		return (struct side){"in", args->in_counts, args->in_displs, args->in};
	return (struct side){"out", args->out_counts, args->out_displs, args->out};
}

/* Where the block of the next rank begins, by that of `rank`, which begins at `first`. */
static size_t next_first(const struct side *side, int rank, size_t first)
{
	return side->displs ? side->displs[rank + 1] : first + side->counts[rank];
}

/* Where the block of the first rank begins. */
static size_t first_of(const struct side *side)
{
	return side->displs ? side->displs[0] : 0;
}

static bool uses(enum stretto_collective collective, enum stretto_buffer buffer)
{
	const struct stretto_traits *traits = stretto_traits_of(collective);

	return traits->varies &&
	       (buffer == STRETTO_BUF_IN ? traits->in : traits->out) == STRETTO_BLOCKS;
}

bool stretto_counts_given(const struct stretto_coll_args *args)
{
	return stretto_traits_of(args->collective)->varies &&
	       (args->in_counts || args->in_displs || args->out_counts || args->out_displs);
}

void stretto_counts_normal(struct stretto_coll_args *args)
{
	if (!uses(args->collective, STRETTO_BUF_IN))
		args->in_counts = args->in_displs = NULL;
	if (!uses(args->collective, STRETTO_BUF_OUT))
		args->out_counts = args->out_displs = NULL;
	if (args->in_counts || args->out_counts)
		args->count = 0;
}

/* --- Checks --- */

static stretto_status bad(const struct stretto_coll_args *args, const struct side *side,
			  const char *what)
{
	stretto_error("%s: %s%s", stretto_collective_name(args->collective), side->name, what);
	return STRETTO_INVALID;
}

/* One buffer: its arrays are there, its blocks are in memory, and the memory is. */
static stretto_status check_side(const struct stretto_coll_args *args, enum stretto_buffer buffer,
				 int size)
{
	struct side side = side_of(args, buffer);
	size_t limit = SIZE_MAX / 4 / stretto_type_size(args->type);
	size_t first, total = 0;

	if (!side.counts)
		return bad(args, &side, "_counts is NULL");
	first = first_of(&side);
	for (int r = 0; r < size; r++) {
		size_t count = side.counts[r];

		if (first > limit || count > limit - first || count > limit - total) {
			stretto_error("%s: %s: the block of rank %d, %zu elements from %zu on, is "
				      "larger than any memory",
				      stretto_collective_name(args->collective), side.name, r,
				      count, first);
			return STRETTO_INVALID;
		}
		total += count;
		if (r + 1 < size)
			first = next_first(&side, r, first);
	}
	return total > 0 && !side.data ? bad(args, &side, " is NULL") : STRETTO_OK;
}

/* In place an alltoallv has each block where the one that replaces it will be. */
static stretto_status check_exchange(const struct stretto_coll_args *args, int size)
{
	struct side in = side_of(args, STRETTO_BUF_IN), out = side_of(args, STRETTO_BUF_OUT);
	size_t in_first = first_of(&in), out_first = first_of(&out);

	for (int r = 0; r < size; r++) {
		if (in.counts[r] != out.counts[r] || in_first != out_first) {
			stretto_error("%s: in place, but the blocks of rank %d differ: in has %zu "
				      "elements from %zu on, out has %zu from %zu on",
				      stretto_collective_name(args->collective), r, in.counts[r],
				      in_first, out.counts[r], out_first);
			return STRETTO_INVALID;
		}
		if (r + 1 < size) {
			in_first = next_first(&in, r, in_first);
			out_first = next_first(&out, r, out_first);
		}
	}
	return STRETTO_OK;
}

/* The buffer that has this rank's block alone. */
static stretto_status check_own(const struct stretto_coll_args *args, int rank)
{
	bool out = uses(args->collective, STRETTO_BUF_OUT);
	const size_t *counts = out ? args->out_counts : args->in_counts;
	struct side own = side_of(args, out ? STRETTO_BUF_IN : STRETTO_BUF_OUT);

	return counts[rank] > 0 && !own.data ? bad(args, &own, " is NULL") : STRETTO_OK;
}

stretto_status stretto_counts_check(const struct stretto_coll_args *args, int rank, int size)
{
	bool both =
		uses(args->collective, STRETTO_BUF_IN) && uses(args->collective, STRETTO_BUF_OUT);

	for (int k = 0; k < 2; k++) {
		enum stretto_buffer buffer = k == 0 ? STRETTO_BUF_IN : STRETTO_BUF_OUT;
		stretto_status status = uses(args->collective, buffer)
						? check_side(args, buffer, size)
						: STRETTO_OK;

		if (status != STRETTO_OK)
			return status;
	}
	if (!both)
		return check_own(args, rank);
	return args->in && args->in == args->out ? check_exchange(args, size) : STRETTO_OK;
}

struct block {
	size_t first;
	size_t count;
	int rank;
};

static int compare_blocks(const void *left, const void *right)
{
	const struct block *x = left, *y = right;

	return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->rank - y->rank;
}

/* Blocks without elements overlap nothing. Returns how many others there are. */
static int list_blocks(const struct side *side, int size, struct block *blocks)
{
	size_t first = first_of(side);
	int n = 0;

	for (int r = 0; r < size; r++) {
		if (side->counts[r] > 0)
			blocks[n++] = (struct block){first, side->counts[r], r};
		if (r + 1 < size)
			first = next_first(side, r, first);
	}
	qsort(blocks, (size_t)n, sizeof *blocks, compare_blocks);
	return n;
}

stretto_status stretto_counts_check_overlap(const struct stretto_coll_args *args, bool in_place,
					    int size)
{
	bool out = uses(args->collective, STRETTO_BUF_OUT);
	struct side side = side_of(args, out ? STRETTO_BUF_OUT : STRETTO_BUF_IN);
	stretto_status status = STRETTO_OK;
	struct block *blocks;
	int n;

	if (!side.displs || (!out && !in_place))
		return STRETTO_OK;
	blocks = malloc((size_t)size * sizeof *blocks);
	if (!blocks)
		return STRETTO_NO_MEMORY;
	n = list_blocks(&side, size, blocks);
	for (int i = 1; i < n && status == STRETTO_OK; i++)
		if (blocks[i].first - blocks[i - 1].first < blocks[i - 1].count) {
			stretto_error("%s: %s_displs: the blocks of ranks %d and %d overlap at "
				      "element %zu",
				      stretto_collective_name(args->collective), side.name,
				      blocks[i - 1].rank, blocks[i].rank, blocks[i].first);
			status = STRETTO_INVALID;
		}
	free(blocks);
	return status;
}

/* --- What they mean --- */

static bool same_side(const struct side *x, const struct side *y, int size)
{
	size_t x_first, y_first;

	if (!x->counts || !y->counts)
		return x->counts == y->counts;
	x_first = first_of(x);
	y_first = first_of(y);
	for (int r = 0; r < size; r++) {
		if (x->counts[r] != y->counts[r] || x_first != y_first)
			return false;
		if (r + 1 < size) {
			x_first = next_first(x, r, x_first);
			y_first = next_first(y, r, y_first);
		}
	}
	return true;
}

bool stretto_counts_match(const struct stretto_coll_args *x, const struct stretto_coll_args *y,
			  int size)
{
	struct side x_in = side_of(x, STRETTO_BUF_IN), y_in = side_of(y, STRETTO_BUF_IN);
	struct side x_out = side_of(x, STRETTO_BUF_OUT), y_out = side_of(y, STRETTO_BUF_OUT);

	return same_side(&x_in, &y_in, size) && same_side(&x_out, &y_out, size);
}

size_t stretto_counts_own_first(const struct stretto_coll_args *args, enum stretto_buffer buffer,
				int rank)
{
	struct side side = side_of(args, buffer);
	size_t first;

	if (!side.counts)
		return (size_t)rank * args->count;
	first = first_of(&side);
	for (int r = 0; r < rank; r++)
		first = next_first(&side, r, first);
	return first;
}

static size_t sum_of(const size_t *counts, int size)
{
	size_t sum = 0;

	for (int r = 0; counts && r < size; r++)
		sum += counts[r];
	return sum;
}

size_t stretto_counts_elements(const struct stretto_coll_args *args, int size)
{
	size_t in = sum_of(args->in_counts, size), out = sum_of(args->out_counts, size);

	if (!stretto_counts_given(args))
		return args->count * (stretto_traits_blocks(args->collective) ? (size_t)size : 1);
	return in > out ? in : out;
}

size_t stretto_counts_extent(const struct stretto_coll_args *args, enum stretto_buffer buffer,
			     int rank, int size)
{
	struct side side = side_of(args, buffer);
	size_t first, end = 0;

	if (!side.counts)
		return (args->in_counts ? args->in_counts : args->out_counts)[rank];
	first = first_of(&side);
	for (int r = 0; r < size; r++) {
		if (side.counts[r] > 0 && first + side.counts[r] > end)
			end = first + side.counts[r];
		if (r + 1 < size)
			first = next_first(&side, r, first);
	}
	return end;
}

/*
 * The count of a signature that stands for arrays; no count of equal blocks has the highest bit:
 *
 *   63   62 ........ 24   23 ... 0
 *   1    sum of all       digest
 */
enum { DIGEST_BITS = 24, SUM_BITS = 39 };
static const uint64_t arrays_bit = (uint64_t)1 << 63;
static const uint64_t digest_mask = ((uint64_t)1 << DIGEST_BITS) - 1;
static const uint64_t sum_mask = ((uint64_t)1 << SUM_BITS) - 1;

uint64_t stretto_counts_sign(const struct stretto_coll_args *args, int size)
{
	const size_t *counts = args->in_counts ? args->in_counts : args->out_counts;
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, eight bytes at a time */

	if (!stretto_counts_given(args))
		return args->count;
	if (args->in_counts && args->out_counts)
		return arrays_bit;
	for (int r = 0; r < size; r++) {
		hash = (hash ^ counts[r]) * 0x100000001b3u;
		hash ^= hash >> 32; /* so that all bits of a count reach the low ones */
	}
	return arrays_bit | ((uint64_t)sum_of(counts, size) & sum_mask) << DIGEST_BITS |
	       (hash & digest_mask);
}

const char *stretto_counts_text(uint64_t count, char *text, size_t size)
{
	if (!(count & arrays_bit))
		snprintf(text, size, "count %llu", (unsigned long long)count);
	else if (count == arrays_bit)
		snprintf(text, size, "counts by rank");
	else
		snprintf(text, size, "counts of %llu in all, digest %06x",
			 (unsigned long long)(count >> DIGEST_BITS & sum_mask),
			 (unsigned)(count & digest_mask));
	return text;
}

/* --- Copies --- */

/* Writes counts and first elements of a side behind each other to `to`. */
static void write_side(const struct side *side, int size, size_t *to)
{
	size_t first = first_of(side);

	for (int r = 0; r < size; r++) {
		to[r] = side->counts[r];
		to[size + r] = first;
		if (r + 1 < size)
			first = next_first(side, r, first);
	}
}

/* Copies two sides into one piece of memory: the struct, then the arrays. */
static stretto_status copy_sides(const struct side *in, const struct side *out, int size,
				 struct stretto_counts **counts)
{
	size_t n = (size_t)size;
	size_t *arrays;
	struct stretto_counts *made;

	if (n > SIZE_MAX / 8 / sizeof *arrays)
		return STRETTO_NO_MEMORY;
	made = malloc(sizeof *made + 4 * n * sizeof *arrays);
	if (!made)
		return STRETTO_NO_MEMORY;
	arrays = (size_t *)(made + 1);
	*made = (struct stretto_counts){0};
	if (in->counts) {
		write_side(in, size, arrays);
		made->in_counts = arrays;
		made->in_firsts = arrays + n;
	}
	if (out->counts) {
		write_side(out, size, arrays + 2 * n);
		made->out_counts = arrays + 2 * n;
		made->out_firsts = arrays + 3 * n;
	}
	*counts = made;
	return STRETTO_OK;
}

stretto_status stretto_counts_new(const struct stretto_coll_args *args, int size,
				  struct stretto_counts **counts)
{
	struct side in = side_of(args, STRETTO_BUF_IN), out = side_of(args, STRETTO_BUF_OUT);

	return copy_sides(&in, &out, size, counts);
}

static struct side copied_side(const struct stretto_counts *counts, enum stretto_buffer buffer)
{
	if (buffer == STRETTO_BUF_IN)
		return (struct side){.counts = counts->in_counts, .displs = counts->in_firsts};
	return (struct side){.counts = counts->out_counts, .displs = counts->out_firsts};
}

stretto_status stretto_counts_copy(const struct stretto_counts *from, int size,
				   struct stretto_counts **counts)
{
	struct side in = copied_side(from, STRETTO_BUF_IN);
	struct side out = copied_side(from, STRETTO_BUF_OUT);

	return copy_sides(&in, &out, size, counts);
}

void stretto_counts_free(struct stretto_counts *counts)
{
	free(counts);
}

bool stretto_counts_same(const struct stretto_counts *x, const struct stretto_counts *y, int size)
{
	if (!x || !y)
		return x == y;
	for (int k = 0; k < 2; k++) {
		enum stretto_buffer buffer = k == 0 ? STRETTO_BUF_IN : STRETTO_BUF_OUT;
		struct side x_side = copied_side(x, buffer), y_side = copied_side(y, buffer);

		if (!same_side(&x_side, &y_side, size))
			return false;
	}
	return true;
}

void stretto_counts_point(struct stretto_coll_args *args, const struct stretto_counts *counts)
{
	args->in_counts = counts->in_counts;
	args->in_displs = counts->in_firsts;
	args->out_counts = counts->out_counts;
	args->out_displs = counts->out_firsts;
}
