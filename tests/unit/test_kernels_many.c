/* SPDX-License-Identifier: BSD-3-Clause */
/* stretto_kernel_many() of every table against stretto_kernel() of pairs of whole vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/kernels_internal.h"
#include "tests/lib/ranks.h"

enum { GUARD_BYTE = 0xa5 };

static uint64_t random_state;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/*
 * Random elements, which as floats are: near one, so that sums depend on their order, for the most
 * part; else anything, subnormal or zero, infinite or NaN.
 */
static void fill(enum stretto_type type, unsigned char *at, size_t count)
{
	bool parts = type == STRETTO_C64 || type == STRETTO_C128;
	static const unsigned char high[] = {0x3f, 0xbf, 0x3f, 0xbf, 0x3f, 0x00, 0x80, 0x7f};
	size_t size = stretto_type_size(type) / (parts ? 2 : 1);

	for (size_t i = 0; i < (parts ? 2 * count : count); i++, at += size) {
		uint64_t bits = random64() & (random64() % 8 ? UINT64_MAX : 0), kind = random64();

		memcpy(at, &bits, size);
		if (kind % 32) /* little endian: sign and exponent */
			at[size - 1] = high[kind % (kind & 64 ? 8 : 5)];
	}
}

enum {
	MANY_SOURCES = 64,
	MANY_BYTES = 2 * 2048 + 832,  /* of a vector at most: several blocks, and a part of one */
	MANY_ROOM = MANY_BYTES + 128, /* and an offset of up to 5 elements, and a guard after it */
};

/* Rows of whole cache lines, so that all rows are aligned alike. */
_Alignas(64) static unsigned char many_from[MANY_SOURCES][MANY_ROOM],
	many_tree[MANY_SOURCES][MANY_ROOM];
_Alignas(64) static unsigned char many_to[MANY_SOURCES][MANY_ROOM];
static size_t many_count; /* elements of a vector */

/* a = a op b as whole vectors; `divides`: the last addition of an average. */
static void pairwise(enum stretto_type type, enum stretto_op op, int a, int b, int divides)
{
	if (divides)
		stretto_kernel_sum_divide(type, many_tree[a], many_tree[a], many_tree[b],
					  many_count, divides);
	else
		stretto_kernel(type, op)(many_tree[a], many_tree[a], many_tree[b], many_count);
}

/* Reduces many_tree[0 .. n) to many_tree[0] by pairs of whole vectors, in the canonical order. */
static void reduce_by_pairs(enum stretto_type type, enum stretto_op op, int n, int ranks)
{
	int members = 1, extras;

	while (members * 2 <= n)
		members *= 2;
	extras = n - members;
	if (op == STRETTO_AVG && n == 1)
		stretto_kernel_divide(type, many_tree[0], many_tree[0], many_count, ranks);
	for (int i = 0; i < members; i++) {
		int from = i < extras ? 2 * i : i + extras;

		if (i < extras)
			pairwise(type, op, from, from + 1, 0);
		memcpy(many_tree[i], many_tree[from], MANY_ROOM);
	}
	for (int distance = 1; distance < members; distance *= 2)
		for (int i = 0; i < members; i += 2 * distance)
			pairwise(type, op, i, i + distance,
				 op == STRETTO_AVG && distance * 2 == members ? ranks : 0);
}

/* Forms of a call, or'ed. */
enum {
	ALIASES = 1,   /* the destinations are the last sources, in reverse order */
	STREAMING = 2, /* with destinations aligned alike, though not to a line */
	CROOKED = 4,   /* the second destination is aligned otherwise */
	FORMS = 8,
};

static void check_many(const struct stretto_kernel_table *table, enum stretto_type type,
		       enum stretto_op op, int srcs, int dsts, int form)
{
	struct stretto_many call = {.dsts = dsts, .srcs = srcs, .ranks = 7};
	const void *from[MANY_SOURCES];
	size_t size = stretto_type_size(type);
	void *to[MANY_SOURCES];

	many_count = 2 * 2048 / size + (size_t)(random64() % 50);
	memset(many_tree, GUARD_BYTE, sizeof many_tree);
	for (int j = 0; j < srcs; j++) {
		fill(type, many_tree[j], many_count);
		memset(many_from[j], GUARD_BYTE, MANY_ROOM);
		memcpy(many_from[j] + size, many_tree[j], many_count * size);
		from[j] = many_from[j] + size;
	}
	memset(many_to, GUARD_BYTE, sizeof many_to);
	for (int k = 0; k < dsts; k++)
		to[k] = form & ALIASES ? many_from[srcs - 1 - k] + size
				       : many_to[k] + size * (form & CROOKED && k == 1 ? 3 : 5);
	reduce_by_pairs(type, op, srcs, call.ranks);
	call.dst = to;
	call.src = from;
	call.streaming = form & STREAMING;
	stretto_kernel_many_with(table, type, op, &call, many_count);
	for (int k = 0; k < dsts; k++) {
		const unsigned char *end = (unsigned char *)to[k] + many_count * size;

		if (memcmp(to[k], many_tree[0], many_count * size))
			fail_msg("%s %s %s of %d sources: destination %d of %d is wrong (form %d)",
				 table->name, stretto_type_name(type), stretto_op_name(op), srcs, k,
				 dsts, form);
		for (size_t i = 1; i <= size; i++) {
			assert_int_equal(end[i - 1], GUARD_BYTE);
			assert_int_equal(((unsigned char *)to[k])[-(ptrdiff_t)i], GUARD_BYTE);
		}
	}
}

static void check_many_forms(const struct stretto_kernel_table *table)
{
	const int step = TEST_SLOW ? 16 : 1; /* of the number of sources, up to 17 */

	for (int type = 0; type < STRETTO_TYPE_COUNT; type++)
		for (int op = 0; op < STRETTO_OP_COUNT; op++)
			for (int srcs = 1; srcs <= MANY_SOURCES; srcs += srcs == 17 ? 47 : step)
				for (int form = 0;
				     form < FORMS && stretto_type_has_op((enum stretto_type)type,
									 (enum stretto_op)op);
				     form += TEST_SLOW ? 3 : 1)
					check_many(table, (enum stretto_type)type,
						   (enum stretto_op)op, srcs,
						   1 + (int)(random64() % (unsigned)srcs), form);
}

static void test_many_sources_give_the_bits_of_pairs(void **state)
{
	(void)state;
	check_many_forms(&stretto_kernels_portable);
	if (stretto_kernels_avx2())
		check_many_forms(stretto_kernels_avx2());
	if (stretto_kernels_avx512())
		check_many_forms(stretto_kernels_avx512());
}

static void test_as_many_sources_as_allowed(void **state)
{
	static int64_t from[STRETTO_KERNEL_SOURCES][3], sums[3];
	const void *src[STRETTO_KERNEL_SOURCES];
	void *dst[] = {sums};

	(void)state;
	for (int j = 0; j < STRETTO_KERNEL_SOURCES; j++) {
		for (int i = 0; i < 3; i++)
			from[j][i] = j + i;
		src[j] = from[j];
	}
	for (int n = STRETTO_KERNEL_SOURCES - 1; n <= STRETTO_KERNEL_SOURCES; n++) {
		stretto_kernel_many(STRETTO_I64, STRETTO_SUM, dst, 1, src, n, 3, 1, false);
		for (int i = 0; i < 3; i++)
			assert_int_equal(sums[i], n * (n - 1) / 2 + i * n);
	}
}

/* Complex elements that lie across lines cannot go past the caches: they take the ordinary way. */
static void test_complex_elements_across_lines(void **state)
{
	_Alignas(64) static double from[3][200], to[200];
	const void *src[] = {from[0] + 1, from[1] + 1, from[2] + 1};
	void *dst[] = {to + 1};

	(void)state;
	for (int j = 0; j < 3; j++)
		for (int i = 0; i < 200; i++)
			from[j][i] = 100 * j + i;
	stretto_kernel_many(STRETTO_C128, STRETTO_AVG, dst, 1, src, 3, 99, 4, true);
	assert_true(to[0] == 0 && to[199] == 0);
	for (int i = 1; i < 199; i++)
		assert_true(to[i] == (300 + 3 * i) / 4.0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_sources_give_the_bits_of_pairs),
		cmocka_unit_test(test_complex_elements_across_lines),
		cmocka_unit_test(test_as_many_sources_as_allowed),
	};

	random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	random_state |= 1;
	printf("seed %llu (give it as argument to repeat)\n", (unsigned long long)random_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
