/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data is a function of (rank, position, round), so that any misplaced, stale or missing
 * contribution shows. It repeats every PERF_PERIOD elements, a prime: one period of the expected
 * values is computed for each check and compared with all of the output. All values are small
 * integers, chosen for each op so that every partial result is exact in every type. The imaginary
 * part of a complex number equals the real one, but for products, where it is 0.
 */
#include <string.h>

#include "collectives/kernels.h"
#include "collectives/traits.h"
#include "tools/lib/perf.h"

enum { GUARD_BYTE = 0xa5, POISON_BYTE = 0xee };
/* bfloat16 counts exactly up to here. */
enum { EXACT_SUM = 256 };
/* In place of a rank: the reduction over all. */
enum { ALL_RANKS = -1 };

static uint32_t mix(uint32_t rank, uint32_t position, uint32_t round)
{
	uint32_t x = position * 0x9e3779b1u ^ rank * 0x85ebca6bu ^ round * 0xc2b2ae35u;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	x *= 0x297a2d39u;
	return x ^ x >> 15;
}

static bool is_unsigned(enum stretto_type type)
{
	return type == STRETTO_U8 || type == STRETTO_U16 || type == STRETTO_U32 ||
	       type == STRETTO_U64;
}

static bool is_complex(enum stretto_type type)
{
	return type == STRETTO_C64 || type == STRETTO_C128;
}

/* What a rank contributes, before it is wrapped to the type. */
static int64_t contribution(const struct perf *perf, const struct perf_case *test, int rank,
			    size_t position)
{
	uint32_t random = mix((uint32_t)rank, (uint32_t)position, perf->round);
	uint32_t size = (uint32_t)perf->size;
	int64_t bound;

	switch (test->op) {
	case STRETTO_PROD: /* one rank has a factor, the others have signs */
		if ((position + perf->round) % size == (size_t)rank)
			return 2 + random % 5;
		/* but complex ones, whose zeros would have signs too */
		return random & 1 || is_complex(test->type) ? 1 : -1;
	case STRETTO_MIN:
	case STRETTO_MAX:
		return (int64_t)(random % 201) - (is_unsigned(test->type) ? 0 : 100);
	case STRETTO_BAND:
	case STRETTO_LAND: /* most bits set, and few zeros */
		return (random | random >> 8) & 127;
	case STRETTO_BOR:
	case STRETTO_LOR:
		return random & random >> 8 & random >> 16 & 127;
	default:
		/* beyond EXACT_SUM ranks only that many, others in each round, are not zero */
		if (((uint32_t)rank + perf->round) % size >= EXACT_SUM)
			return 0;
		bound = EXACT_SUM / perf->size;
		bound = bound > 8 ? 8 : bound < 1 ? 1 : bound;
		return (int64_t)(random % (uint32_t)(2 * bound + 1)) -
		       (is_unsigned(test->type) ? 0 : bound);
	}
}

static int64_t wrap(enum stretto_type type, int64_t value)
{
	switch (type) {
	case STRETTO_I8:
		return (int8_t)value;
	case STRETTO_U8:
		return (uint8_t)value;
	default: /* no value here leaves the other types */
		return value;
	}
}

/* a op b; a sum where op is an average. */
static int64_t combined(enum stretto_op op, int64_t a, int64_t b)
{
	switch (op) {
	case STRETTO_PROD:
		return a * b;
	case STRETTO_MIN:
		return b < a ? b : a;
	case STRETTO_MAX:
		return b > a ? b : a;
	case STRETTO_BAND:
		return a & b;
	case STRETTO_BOR:
		return a | b;
	case STRETTO_BXOR:
		return a ^ b;
	case STRETTO_LAND:
		return a && b;
	case STRETTO_LOR:
		return a || b;
	case STRETTO_LXOR:
		return !a != !b;
	default:
		return a + b;
	}
}

/* The reduction of all ranks' contributions; not yet divided for STRETTO_AVG. */
static int64_t reduced(const struct perf *perf, const struct perf_case *test, size_t position)
{
	int64_t result = wrap(test->type, contribution(perf, test, 0, position));

	for (int rank = 1; rank < perf->size; rank++) {
		int64_t value = wrap(test->type, contribution(perf, test, rank, position));

		result = wrap(test->type, combined(test->op, result, value));
	}
	return result;
}

/* Writes a value as element `index` of an array of a type of integers. */
static void store_whole(enum stretto_type type, unsigned char *array, size_t index, int64_t value)
{
	size_t size = stretto_type_size(type);

	/* little endian: the low bytes are the value in the type */
	memcpy(array + index * size, &value, size);
}

/* Writes a value as element `index` of an array of a type of floats. */
static void store_real(enum stretto_type type, void *array, size_t index, double value)
{
	switch (type) {
	case STRETTO_F16:
		((uint16_t *)array)[index] = stretto_f32_to_f16((float)value);
		break;
	case STRETTO_BF16:
		((uint16_t *)array)[index] = stretto_f32_to_bf16((float)value);
		break;
	case STRETTO_F32:
		((float *)array)[index] = (float)value;
		break;
	default:
		((double *)array)[index] = value;
	}
}

/* Writes value / divisor as element `index` of the table. */
static void store(const struct perf *perf, const struct perf_case *test, size_t index,
		  int64_t value, int divisor)
{
	enum stretto_type part = test->type == STRETTO_C64 ? STRETTO_F32 : STRETTO_F64;
	double quotient = (double)value / divisor;

	if (stretto_type_has_op(test->type, STRETTO_BAND)) {
		store_whole(test->type, perf->table, index, value / divisor);
	} else if (is_complex(test->type)) {
		store_real(part, perf->table, 2 * index, quotient);
		store_real(part, perf->table, 2 * index + 1,
			   test->op == STRETTO_PROD ? 0 : quotient);
	} else {
		store_real(test->type, perf->table, index, quotient);
	}
}

/* Fills the table with one period of what `rank` contributes, or of the reduction. */
static void make_table(const struct perf *perf, const struct perf_case *test, int rank,
		       size_t count)
{
	int divisor = rank == ALL_RANKS && test->op == STRETTO_AVG ? perf->size : 1;

	if (count > PERF_PERIOD)
		count = PERF_PERIOD;
	for (size_t i = 0; i < count; i++)
		store(perf, test, i,
		      rank == ALL_RANKS ? reduced(perf, test, i)
					: wrap(test->type, contribution(perf, test, rank, i)),
		      divisor);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Writes `count` elements of the repeated table. */
static void tile(const struct perf *perf, size_t element, unsigned char *to, size_t count)
{
	for (size_t done = 0; done < count; done += PERF_PERIOD)
		memcpy(to + done * element, perf->table,
		       least(PERF_PERIOD, count - done) * element);
}

/* Counts the elements that differ from those of the table, repeated, from `position` on. */
static int64_t differing(const struct perf *perf, size_t element, const unsigned char *from,
			 size_t position, size_t count)
{
	int64_t wrong = 0;
	size_t part;

	position %= PERF_PERIOD;
	for (; count > 0; count -= part, from += part * element, position = 0) {
		const unsigned char *expected = perf->table + position * element;

		part = least(PERF_PERIOD - position, count);
		if (memcmp(from, expected, part * element) == 0)
			continue;
		for (size_t i = 0; i < part; i++)
			wrong += memcmp(from + i * element, expected + i * element, element) != 0;
	}
	return wrong;
}

/* Elements of a buffer of that extent. */
static size_t elements(const struct perf *perf, const struct perf_case *test,
		       enum stretto_extent extent)
{
	if (extent == STRETTO_NOTHING)
		return 0;
	return test->count * (extent == STRETTO_BLOCKS ? (size_t)perf->size : 1);
}

static bool is_root(const struct perf *perf, const struct perf_case *test)
{
	return perf->rank == test->root;
}

/* Elements that this rank has to give; a broadcast's are in its output. */
static size_t input_count(const struct perf *perf, const struct perf_case *test)
{
	if (test->collective == STRETTO_BROADCAST)
		return is_root(perf, test) ? test->count : 0;
	return elements(perf, test, stretto_traits_in(test->collective, is_root(perf, test)));
}

static size_t output_count(const struct perf *perf, const struct perf_case *test)
{
	return elements(perf, test, stretto_traits_out(test->collective, is_root(perf, test)));
}

/* Whether this rank operates in place: only the root of a collective that has one. */
static bool in_place(const struct perf *perf, const struct perf_case *test)
{
	return test->in_place &&
	       (is_root(perf, test) || !stretto_traits_of(test->collective)->rooted);
}

/* Whether the output is this rank's block of the input. */
static bool into_block(const struct perf *perf, const struct perf_case *test)
{
	return in_place(perf, test) && stretto_traits_into_block(test->collective);
}

const void *perf_input(const struct perf *perf, const struct perf_case *test)
{
	const struct stretto_traits *traits = stretto_traits_of(test->collective);
	size_t block = test->count * stretto_type_size(test->type);

	if (test->collective == STRETTO_BROADCAST)
		return perf->out;
	if (!in_place(perf, test) || into_block(perf, test))
		return perf->in;
	return traits->in != traits->out ? perf->out + (size_t)perf->rank * block : perf->out;
}

void *perf_output(const struct perf *perf, const struct perf_case *test)
{
	size_t block = test->count * stretto_type_size(test->type);

	return into_block(perf, test) ? perf->in + (size_t)perf->rank * block : perf->out;
}

/* The memory that the guards stand around: the output, or the input that has the output inside. */
static unsigned char *guarded(const struct perf *perf, const struct perf_case *test, size_t *bytes)
{
	size_t element = stretto_type_size(test->type);

	if (into_block(perf, test)) {
		*bytes = input_count(perf, test) * element;
		return perf->in;
	}
	*bytes = output_count(perf, test) * element;
	return perf->out;
}

void perf_fill(struct perf *perf, const struct perf_case *test)
{
	size_t count = input_count(perf, test), bytes;
	unsigned char *area = guarded(perf, test, &bytes);

	memset(area - PERF_GUARD, GUARD_BYTE, PERF_GUARD);
	memset(area + bytes, GUARD_BYTE, PERF_GUARD);
	memset(area, POISON_BYTE, bytes);
	make_table(perf, test, perf->rank, count);
	/* the input is ours to write here: it lies in one of the two buffers */
	tile(perf, stretto_type_size(test->type), (unsigned char *)perf_input(perf, test), count);
}

/* An output of one block of each rank: from its vector, or from its block for us. */
static int64_t wrong_blocks(struct perf *perf, const struct perf_case *test)
{
	size_t element = stretto_type_size(test->type), count = test->count;
	bool ours = stretto_traits_of(test->collective)->in == STRETTO_BLOCKS;
	size_t first = ours ? (size_t)perf->rank * count : 0;
	const unsigned char *out = perf_output(perf, test);
	int64_t wrong = 0;

	for (int rank = 0; rank < perf->size; rank++) {
		make_table(perf, test, rank, first + count);
		wrong += differing(perf, element, out + (size_t)rank * count * element, first,
				   count);
	}
	return wrong;
}

static int64_t wrong_output(struct perf *perf, const struct perf_case *test)
{
	const struct stretto_traits *traits = stretto_traits_of(test->collective);
	bool block = traits->in == STRETTO_BLOCKS; /* the output is our block of a longer vector */
	size_t first = block ? (size_t)perf->rank * test->count : 0;

	switch (stretto_traits_out(test->collective, is_root(perf, test))) {
	case STRETTO_BLOCKS:
		return wrong_blocks(perf, test);
	case STRETTO_VECTOR:
		make_table(perf, test, traits->reduces ? ALL_RANKS : test->root,
			   first + test->count);
		return differing(perf, stretto_type_size(test->type), perf_output(perf, test),
				 first, test->count);
	default:
		return 0;
	}
}

/* Inputs must be as they were, in place those parts of them that are no output. */
static int64_t wrong_input(struct perf *perf, const struct perf_case *test)
{
	size_t element = stretto_type_size(test->type), count = input_count(perf, test);
	size_t before = (size_t)perf->rank * test->count, after = before + test->count;

	if (test->collective == STRETTO_BROADCAST ||
	    (in_place(perf, test) && !into_block(perf, test)))
		return 0;
	make_table(perf, test, perf->rank, count);
	if (count == 0 || !in_place(perf, test))
		return differing(perf, element, perf->in, 0, count);
	return differing(perf, element, perf->in, 0, before) +
	       differing(perf, element, perf->in + after * element, after, count - after);
}

int64_t perf_wrong(struct perf *perf, const struct perf_case *test)
{
	size_t bytes;
	const unsigned char *area = guarded(perf, test, &bytes);
	const unsigned char *before = area - PERF_GUARD, *after = area + bytes;
	int64_t wrong = wrong_output(perf, test) + wrong_input(perf, test);

	for (size_t i = 0; i < PERF_GUARD; i++) {
		wrong += before[i] != GUARD_BYTE;
		wrong += after[i] != GUARD_BYTE;
	}
	return wrong;
}
