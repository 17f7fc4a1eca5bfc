/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of many sources. The vectors are taken in blocks, so that partial results stay in the
 * first-level cache: memory is passed once. A block is reduced by a stack. Seven sources, a to g
 * (three pairs are folded):
 *
 *   push a+b, push c+d     combine: (a+b)+(c+d)
 *   push e+f, push g       combine: (e+f)+g         combine: ((a+b)+(c+d)) + ((e+f)+g)
 *
 * The last combination goes to the first destination, all of whose block's sources are read by
 * then: so a destination may be a source.
 */
#include <string.h>

#include "collectives/kernels.h"

enum {
	BLOCK_BYTES = 2048,
	DEPTH = 11, /* partial results at a time: log2(STRETTO_KERNEL_SOURCES) + 1 */
};

_Static_assert(1 << (DEPTH - 1) == STRETTO_KERNEL_SOURCES, "the stack holds a whole tree");

/* A reduction, and the block of it in work. */
struct many {
	enum stretto_type type;
	stretto_reduce_fn reduce;
	const void *const *src;
	int srcs;
	int ranks;                           /* the divisor, or 0 */
	size_t at;                           /* bytes before the block */
	size_t count;                        /* elements of the block */
	int depth;                           /* partial results on the stack */
	const unsigned char *partial[DEPTH]; /* in blocks, or a source */
	_Alignas(64) unsigned char blocks[DEPTH][BLOCK_BYTES];
};

static const unsigned char *source(const struct many *many, int i)
{
	return (const unsigned char *)many->src[i] + many->at;
}

/* Puts a op b, or a alone, on the stack. */
static void push(struct many *many, const unsigned char *a, const unsigned char *b)
{
	unsigned char *block = many->blocks[many->depth];

	if (b)
		many->reduce(block, a, b, many->count);
	many->partial[many->depth++] = b ? block : a;
}

/* Combines the two partial results on top. */
static void combine(struct many *many)
{
	many->depth -= 2;
	push(many, many->partial[many->depth], many->partial[many->depth + 1]);
}

/* The tree of a block, but for the last combination: its operands are left on the stack. */
static void climb(struct many *many)
{
	int members = 1 << (31 - __builtin_clz((unsigned)many->srcs));
	int extras = many->srcs - members;

	many->depth = 0;
	for (int i = 0; i < members; i++) {
		if (i < extras)
			push(many, source(many, 2 * i), source(many, 2 * i + 1));
		else
			push(many, source(many, i + extras), NULL);
		for (int done = i + 1; done % 2 == 0 && (i + 1 < members || many->depth > 2);
		     done /= 2)
			combine(many);
	}
}

/* The last combination, or all that there is to do with one source. */
static void finish(struct many *many, void *dst)
{
	if (many->srcs > 1)
		climb(many);
	if (many->srcs > 1 && many->ranks)
		stretto_kernel_sum_divide(many->type, dst, many->partial[0], many->partial[1],
					  many->count, many->ranks);
	else if (many->srcs > 1)
		many->reduce(dst, many->partial[0], many->partial[1], many->count);
	else if (many->ranks)
		stretto_kernel_divide(many->type, dst, source(many, 0), many->count, many->ranks);
	else
		memmove(dst, source(many, 0), many->count * stretto_type_size(many->type));
}

void stretto_kernel_many(enum stretto_type type, enum stretto_op op, void *const dst[], int dsts,
			 const void *const src[], int srcs, size_t count, int ranks, bool streaming)
{
	size_t size = stretto_type_size(type), block = BLOCK_BYTES / size;
	struct many many;

	(void)streaming;
	many.type = type;
	many.reduce = stretto_kernel(type, op);
	many.src = src;
	many.srcs = srcs;
	many.ranks = op == STRETTO_AVG ? ranks : 0;
	for (size_t first = 0; first < count; first += block) {
		unsigned char *out = (unsigned char *)dst[0] + first * size;

		many.at = first * size;
		many.count = count - first < block ? count - first : block;
		finish(&many, out);
		for (int k = 1; k < dsts; k++)
			memmove((unsigned char *)dst[k] + many.at, out, many.count * size);
	}
}
