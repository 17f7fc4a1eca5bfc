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

#include "collectives/kernels_internal.h"

enum {
	BLOCK_BYTES = 2048,
	LINE = 64,  /* of the caches; blocks are whole lines */
	DEPTH = 11, /* partial results at a time: log2(STRETTO_KERNEL_SOURCES) + 1 */
};

_Static_assert(1 << (DEPTH - 1) == STRETTO_KERNEL_SOURCES, "the stack holds a whole tree");

/* A reduction, and the block of it in work. */
struct many {
	struct stretto_many call;
	const struct stretto_kernel_table *table;
	enum stretto_type type;
	size_t size; /* bytes of an element */
	stretto_reduce_fn reduce;
	stretto_sum_many_fn sum;              /* the loop for registers, or NULL */
	size_t at;                            /* bytes before the block */
	size_t count;                         /* elements of the block */
	int depth;                            /* partial results on the stack */
	const unsigned char *partial[DEPTH];  /* in blocks, or a source */
	unsigned char (*blocks)[BLOCK_BYTES]; /* DEPTH of them */
};

static const unsigned char *source(const struct many *many, int i)
{
	return (const unsigned char *)many->call.src[i] + many->at;
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
	int members = 1 << (31 - __builtin_clz((unsigned)many->call.srcs));
	int extras = many->call.srcs - members;

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

/* The last combination, or all that there is to do with one source; from element `first` on. */
static void finish(const struct many *many, size_t first)
{
	size_t skipped = first * many->size, count = many->count - first;
	unsigned char *dst = (unsigned char *)many->call.dst[0] + many->at + skipped;
	const unsigned char *a = many->partial[0] + skipped;
	int ranks = many->call.ranks;

	if (count == 0)
		return;
	if (many->depth == 2 && ranks)
		many->table->sum_divide[many->type](dst, a, many->partial[1] + skipped, count,
						    ranks);
	else if (many->depth == 2)
		many->reduce(dst, a, many->partial[1] + skipped, count);
	else if (ranks)
		many->table->divide[many->type](dst, a, count, ranks);
	else
		memmove(dst, a, count * many->size);
	for (int k = 1; k < many->call.dsts; k++)
		memmove((unsigned char *)many->call.dst[k] + many->at + skipped, dst,
			count * many->size);
}

/* Elements of the block that the register loop takes from the stack to all destinations. */
static size_t finish_in_registers(const struct many *many)
{
	struct stretto_many last = many->call;
	const void *operands[2] = {many->partial[0], many->partial[1]};

	last.src = operands;
	last.srcs = 2;
	return many->sum(&last, 0, many->at, many->count);
}

/* Elements first to end - 1, in blocks. */
static void reduce_blocks(struct many *many, size_t first, size_t end)
{
	size_t block = BLOCK_BYTES / many->size;

	for (; first < end; first += many->count) {
		many->at = first * many->size;
		many->count = end - first < block ? end - first : block;
		climb(many);
		finish(many, many->sum && many->depth == 2 ? finish_in_registers(many) : 0);
	}
}

/* Elements up to the first that lies at a multiple of 64 in all destinations; none has: SIZE_MAX. */
static size_t before_line(const struct stretto_many *call, size_t size)
{
	size_t bytes = -(uintptr_t)call->dst[0] % LINE;

	for (int k = 1; k < call->dsts; k++)
		if (-(uintptr_t)call->dst[k] % LINE != bytes)
			return SIZE_MAX;
	/* an element may lie across lines: complex ones are aligned like their parts */
	return bytes % size ? SIZE_MAX : bytes / size;
}

/* Orders stores past the caches before all later stores. */
static void fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

/* Two sources and one destination are what the loops of pairs are for. */
static void reduce_pair(const struct stretto_kernel_table *table, enum stretto_type type,
			enum stretto_op op, const struct stretto_many *call, size_t count)
{
	if (op == STRETTO_AVG)
		table->sum_divide[type](call->dst[0], call->src[0], call->src[1], count,
					call->ranks);
	else
		table->reduce[type][op](call->dst[0], call->src[0], call->src[1], count);
}

static void reduce_tree(const struct stretto_kernel_table *table, enum stretto_type type,
			enum stretto_op op, const struct stretto_many *call, size_t count)
{
	/* the quotients of integers have no loop in registers */
	bool adds = op == STRETTO_SUM ||
		    (op == STRETTO_AVG && !stretto_type_has_op(type, STRETTO_BAND));
	size_t first = 0;
	_Alignas(64) unsigned char blocks[DEPTH][BLOCK_BYTES];
	struct many many = {
		.call = *call,
		.table = table,
		.type = type,
		.size = stretto_type_size(type),
		.reduce = table->reduce[type][op == STRETTO_AVG ? STRETTO_SUM : op],
		.sum = adds ? table->sum_many[type] : NULL,
		.blocks = blocks,
	};

	many.call.ranks = op == STRETTO_AVG ? call->ranks : 0;
	many.call.streaming = false;
	if (call->streaming && many.sum && before_line(call, many.size) < count) {
		first = before_line(call, many.size);
		reduce_blocks(&many, 0, first);
		many.call.streaming = true;
	}
	if (many.sum)
		first += many.sum(&many.call, first * many.size, first * many.size, count - first);
	reduce_blocks(&many, first, count);
	if (many.call.streaming)
		fence();
}

void stretto_kernel_many_with(const struct stretto_kernel_table *table, enum stretto_type type,
			      enum stretto_op op, const struct stretto_many *call, size_t count)
{
	if (call->srcs == 2 && call->dsts == 1 && !call->streaming)
		reduce_pair(table, type, op, call, count);
	else
		reduce_tree(table, type, op, call, count);
}

void stretto_kernel_many(enum stretto_type type, enum stretto_op op, void *const dst[], int dsts,
			 const void *const src[], int srcs, size_t count, int ranks, bool streaming)
{
	struct stretto_many call = {dst, dsts, src, srcs, ranks, streaming};

	stretto_kernel_many_with(stretto_kernels_chosen(), type, op, &call, count);
}
