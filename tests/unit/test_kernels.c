/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction kernels against a scalar reference that works another way: integers in 128 bits,
 * f32 and 16-bit floats in double, and rounding to 16 bits by scaling to units of the last place.
 * Complex numbers are two real ones with a product of their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/kernels_internal.h"
#include "collectives/types.h"
#include "tests/lib/halves.h"

enum {
	MAX_COUNT = 67, /* every length up to here: vector bodies and all their tails */
	GUARD = 64,     /* bytes on each side of a buffer */
	ROOM = 16 * (MAX_COUNT + 4) + 2 * GUARD,
	GUARD_BYTE = 0xa5,
	/* what a kernel is asked for, after the ops */
	SUM_DIVIDE = STRETTO_KERNEL_OPS,
	DIVIDE,
	FUNCTIONS,
};

static uint64_t random_state;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* A value of any type: one of the members. */
union value {
	__extension__ __int128 whole;
	double real;
};

static int mantissa_bits_of(enum stretto_type type)
{
	return type == STRETTO_F16 ? 10 : 7;
}

static int bias_of(enum stretto_type type)
{
	return type == STRETTO_F16 ? 15 : 127;
}

static bool is_unsigned(enum stretto_type type)
{
	return type == STRETTO_U8 || type == STRETTO_U16 || type == STRETTO_U32 ||
	       type == STRETTO_U64;
}

static bool is_whole(enum stretto_type type)
{
	return is_unsigned(type) || type == STRETTO_I8 || type == STRETTO_I16 ||
	       type == STRETTO_I32 || type == STRETTO_I64;
}

/* The type of a complex number's parts, any other type itself. */
static enum stretto_type part_of(enum stretto_type type)
{
	return type == STRETTO_C64 ? STRETTO_F32 : type == STRETTO_C128 ? STRETTO_F64 : type;
}

/* Whether a type has what a kernel is asked for: a division goes with the average. */
static bool has_function(enum stretto_type type, int function)
{
	return function >= SUM_DIVIDE || stretto_type_has_op(type, (enum stretto_op)function);
}

__extension__ typedef __int128 whole;
__extension__ typedef unsigned __int128 unsigned_whole; /* products of 64 bits fit */

static whole whole_value(enum stretto_type type, const unsigned char *at)
{
	size_t size = stretto_type_size(type);
	whole value = 0;

	memcpy(&value, at, size);
	return !is_unsigned(type) && at[size - 1] & 0x80 ? value - ((whole)1 << (8 * size)) : value;
}

static union value get(enum stretto_type type, const unsigned char *at)
{
	union value value = {0};
	uint16_t half;
	float f32;

	if (is_whole(type)) {
		value.whole = whole_value(type, at);
		return value;
	}
	switch (type) {
	case STRETTO_F32:
		memcpy(&f32, at, sizeof f32);
		value.real = (double)f32;
		break;
	case STRETTO_F64:
		memcpy(&value.real, at, sizeof value.real);
		break;
	default:
		memcpy(&half, at, sizeof half);
		value.real = half_value(half, mantissa_bits_of(type), bias_of(type));
	}
	return value;
}

/* Writes the value in its type: integers wrapped, floats rounded, NaN as the one NaN. */
static void put(enum stretto_type type, union value value, unsigned char *at)
{
	double real = isnan(value.real) ? (double)NAN : value.real;
	float f32 = (float)real;
	uint16_t half;

	if (is_whole(type)) { /* little endian: the low bytes are the wrapped value */
		memcpy(at, &value.whole, stretto_type_size(type));
		return;
	}
	switch (type) {
	case STRETTO_F32:
		memcpy(at, &f32, sizeof f32);
		break;
	case STRETTO_F64:
		memcpy(at, &real, sizeof real);
		break;
	default: /* rounded to f32 first, as the interface says */
		half = half_bits((double)f32, mantissa_bits_of(type), bias_of(type));
		memcpy(at, &half, sizeof half);
	}
}

static union value wrapped(enum stretto_type type, union value value)
{
	unsigned char bytes[8];

	put(type, value, bytes);
	return get(type, bytes);
}

static union value whole_reference(enum stretto_type type, int function, union value a,
				   union value b, int ranks)
{
	union value r = {0};

	switch (function) {
	case STRETTO_SUM:
		r.whole = a.whole + b.whole;
		break;
	case STRETTO_PROD:
		r.whole = (whole)((unsigned_whole)a.whole * (unsigned_whole)b.whole);
		break;
	case STRETTO_MIN:
		r.whole = a.whole < b.whole ? a.whole : b.whole;
		break;
	case STRETTO_MAX:
		r.whole = a.whole > b.whole ? a.whole : b.whole;
		break;
	case STRETTO_BAND:
		r.whole = a.whole & b.whole;
		break;
	case STRETTO_BOR:
		r.whole = a.whole | b.whole;
		break;
	case STRETTO_BXOR:
		r.whole = a.whole ^ b.whole;
		break;
	case STRETTO_LAND:
		r.whole = a.whole && b.whole;
		break;
	case STRETTO_LOR:
		r.whole = a.whole || b.whole;
		break;
	case STRETTO_LXOR:
		r.whole = !a.whole != !b.whole;
		break;
	case SUM_DIVIDE:
		r.whole = a.whole + b.whole;
		r.whole = wrapped(type, r).whole / ranks;
		break;
	default:
		r.whole = a.whole / ranks;
	}
	return r;
}

static union value real_reference(enum stretto_type type, int function, union value a,
				  union value b, int ranks)
{
	union value r = {0};
	/* the sum before a division is rounded as the kernel's intermediate is: to f32 or f64 */
	double sum = a.real + b.real;

	switch (function) {
	case STRETTO_SUM:
		r.real = sum;
		break;
	case STRETTO_PROD:
		r.real = a.real * b.real;
		break;
	case STRETTO_MIN:
		r.real = isnan(a.real) || isnan(b.real) ? (double)NAN
			 : b.real < a.real              ? b.real
							: a.real;
		break;
	case STRETTO_MAX:
		r.real = isnan(a.real) || isnan(b.real) ? (double)NAN
			 : b.real > a.real              ? b.real
							: a.real;
		break;
	case SUM_DIVIDE:
		r.real = (type == STRETTO_F64 ? sum : (double)(float)sum) / ranks;
		break;
	default:
		r.real = a.real / ranks;
	}
	return r;
}

/* Random elements; floats of the kinds that go wrong: subnormal, large, infinite, NaN, zeros. */
static void fill(enum stretto_type type, unsigned char *at, size_t count)
{
	static const double special[] = {
		0.0,       -0.0, 1.0,    -1.5,  65504.0,  65520.0,       6e-8,   -6.2e-5, INFINITY,
		-INFINITY, NAN,  3.4e38, 1e-45, -1.2e-38, 1.00048828125, 2048.0, 2049.0,  257.0};
	size_t parts = part_of(type) == type ? 1 : 2;
	size_t size = stretto_type_size(type) / parts;

	type = part_of(type);
	for (size_t i = 0; i < parts * count; i++, at += size) {
		union value value = {0};
		uint64_t kind = random64();

		if (is_whole(type) || kind % 4 == 0) {
			uint64_t bits = random64();

			memcpy(at, &bits, size);
			continue;
		}
		value.real = kind % 4 == 1
				     ? special[random64() % (sizeof special / sizeof *special)]
				     : (double)(int64_t)(random64() % 4001) / 8 - 250;
		put(type, value, at);
	}
}

/* A value as a part of a complex number holds it. */
static double rounded(enum stretto_type part, double value)
{
	unsigned char bytes[8];

	put(part, (union value){.real = value}, bytes);
	return get(part, bytes).real;
}

/* (ac - bd) + (ad + bc)i, every product and sum rounded. */
static void complex_product(enum stretto_type part, const unsigned char *x, const unsigned char *y,
			    unsigned char *at)
{
	size_t size = stretto_type_size(part);
	double a = get(part, x).real, b = get(part, x + size).real;
	double c = get(part, y).real, d = get(part, y + size).real;
	union value real = {.real = rounded(part, a * c) - rounded(part, b * d)};
	union value imaginary = {.real = rounded(part, a * d) + rounded(part, b * c)};

	put(part, real, at);
	put(part, imaginary, at + size);
}

/* What a kernel must write for one element. */
static void reference(enum stretto_type type, int function, const unsigned char *x,
		      const unsigned char *y, int ranks, unsigned char *at)
{
	enum stretto_type part = part_of(type);
	size_t size = stretto_type_size(part);

	if (is_whole(type)) {
		put(type, whole_reference(type, function, get(type, x), get(type, y), ranks), at);
		return;
	}
	if (part != type && function == STRETTO_PROD) {
		complex_product(part, x, y, at);
		return;
	}
	for (size_t i = 0; i < stretto_type_size(type); i += size)
		put(part, real_reference(part, function, get(part, x + i), get(part, y + i), ranks),
		    at + i);
}

static void call(const struct stretto_kernel_table *table, enum stretto_type type, int function,
		 void *dst, const void *a, const void *b, size_t count, int ranks)
{
	if (function == SUM_DIVIDE)
		table->sum_divide[type](dst, a, b, count, ranks);
	else if (function == DIVIDE)
		table->divide[type](dst, a, count, ranks);
	else
		table->reduce[type][function](dst, a, b, count);
}

struct area {
	unsigned char bytes[ROOM];
};

static void check_guards(const struct area *area, size_t first, size_t bytes)
{
	for (size_t i = 0; i < ROOM; i++)
		if (i < first || i >= first + bytes)
			assert_int_equal(area->bytes[i], GUARD_BYTE);
}

/* One call of every form: separate dst, dst == a, dst == b. */
static void check_call(const struct stretto_kernel_table *table, enum stretto_type type,
		       int function, size_t count, size_t shift)
{
	static struct area a, b, out, expected;
	size_t size = stretto_type_size(type), first = GUARD + shift * size;
	int ranks = 1 + (int)(random64() % 300);

	memset(&a, GUARD_BYTE, sizeof a);
	b = out = expected = a;
	fill(type, a.bytes + first, count);
	fill(type, b.bytes + first, count);
	for (size_t i = 0; i < count; i++) {
		size_t at = first + i * size;

		reference(type, function, a.bytes + at, b.bytes + at, ranks, expected.bytes + at);
	}
	call(table, type, function, out.bytes + first, a.bytes + first, b.bytes + first, count,
	     ranks);
	check_guards(&out, first, count * size);
	for (size_t i = 0; i < count; i++)
		if (memcmp(out.bytes + first + i * size, expected.bytes + first + i * size, size))
			fail_msg("%s %s function %d: element %zu of %zu is wrong (ranks %d)",
				 table->name, stretto_type_name(type), function, i, count, ranks);

	out = a;
	call(table, type, function, out.bytes + first, out.bytes + first, b.bytes + first, count,
	     ranks);
	assert_memory_equal(out.bytes, expected.bytes, ROOM);
	if (function != DIVIDE) {
		call(table, type, function, b.bytes + first, a.bytes + first, b.bytes + first,
		     count, ranks);
		assert_memory_equal(b.bytes, expected.bytes, ROOM);
	}
}

static void check_table(const struct stretto_kernel_table *table)
{
	for (int type = 0; type < STRETTO_TYPE_COUNT; type++)
		for (int function = 0; function < FUNCTIONS; function++)
			for (size_t count = 0;
			     count <= MAX_COUNT && has_function((enum stretto_type)type, function);
			     count++)
				for (size_t shift = 0; shift < 4; shift++)
					check_call(table, (enum stretto_type)type, function, count,
						   shift);
}

static void test_portable_kernels_match_the_reference(void **state)
{
	(void)state;
	check_table(&stretto_kernels_portable);
}

static void test_avx2_kernels_match_the_reference(void **state)
{
	(void)state;
	if (!stretto_kernels_avx2()) {
		print_message("this processor has no AVX2 with F16C\n");
		skip();
	}
	check_table(stretto_kernels_avx2());
}

static void test_avx512_kernels_match_the_reference(void **state)
{
	(void)state;
	if (!stretto_kernels_avx512()) {
		print_message("this processor has no AVX-512\n");
		skip();
	}
	check_table(stretto_kernels_avx512());
}

/* All pairs of a sample of 16-bit values, which meets far more rounding cases than the random. */
static void check_halves(enum stretto_type type, int function)
{
	static uint16_t a[65536], b[65536], plain[65536], fast[65536];
	const struct stretto_kernel_table *tables[] = {stretto_kernels_avx2(),
						       stretto_kernels_avx512()};

	for (uint32_t step = 1; step < 65536; step += 4099) {
		for (uint32_t i = 0; i < 65536; i++) {
			a[i] = (uint16_t)i;
			b[i] = (uint16_t)(i * step + step);
		}
		call(&stretto_kernels_portable, type, function, plain, a, b, 65536, 3);
		for (int t = 0; t < 2; t++) {
			if (!tables[t])
				continue;
			call(tables[t], type, function, fast, a, b, 65536, 3);
			assert_memory_equal(plain, fast, sizeof plain);
		}
	}
}

static void test_halves_have_the_same_bits_in_all_tables(void **state)
{
	(void)state;
	for (int function = 0; function < FUNCTIONS; function++) {
		if (!has_function(STRETTO_F16, function))
			continue;
		check_halves(STRETTO_F16, function);
		check_halves(STRETTO_BF16, function);
	}
}

static void test_public_functions_use_the_chosen_table(void **state)
{
	const struct stretto_kernel_table *chosen = stretto_kernels_chosen();
	const float a[] = {1, 5, -7}, b[] = {2, 4, -8};
	float out[3];

	(void)state;
	assert_ptr_equal(chosen, stretto_kernels_avx512() ? stretto_kernels_avx512()
				 : stretto_kernels_avx2() ? stretto_kernels_avx2()
							  : &stretto_kernels_portable);
	for (int type = 0; type < STRETTO_TYPE_COUNT; type++) {
		for (int op = 0; op < STRETTO_AVG; op++)
			assert_ptr_equal(
				stretto_kernel((enum stretto_type)type, (enum stretto_op)op),
				chosen->reduce[type][op]);
		assert_ptr_equal(stretto_kernel((enum stretto_type)type, STRETTO_AVG),
				 chosen->reduce[type][STRETTO_SUM]);
	}
	stretto_kernel_sum_divide(STRETTO_F32, out, a, b, 3, 4);
	assert_true(out[0] == 0.75f && out[1] == 2.25f && out[2] == -3.75f);
	stretto_kernel_divide(STRETTO_F32, out, a, 3, 2);
	assert_true(out[0] == 0.5f && out[1] == 2.5f && out[2] == -3.5f);
}

/* docs/collectives.md: where the formula as written differs from the C standard's product. */
static void test_complex_products_are_the_formula(void **state)
{
	const float inf[] = {INFINITY, 0}, one[] = {0, 1}, tiny[] = {1e-38f, 0}, half[] = {0.5f, 0};
	float out[2];

	(void)state;
	stretto_kernel(STRETTO_C64, STRETTO_PROD)(out, inf, one, 1);
	assert_true(isnan(out[0]) && isinf(out[1])); /* inf * 0 - 0 * 1 */
	stretto_kernel(STRETTO_C64, STRETTO_PROD)(out, tiny, half, 1);
	assert_true(out[0] == 0.5e-38f && out[1] == 0); /* subnormal, not flushed */
}

/* What overflows: integers wrap, floats become infinite, and an average overflows with its sum. */
static void test_overflow(void **state)
{
	const int8_t a = 100, b = 100;
	const uint16_t big = 0xffff, two = 2;
	const double top = 1.7e308;
	int8_t small;
	uint16_t wrapped_sum;
	double sum;

	(void)state;
	stretto_kernel(STRETTO_I8, STRETTO_SUM)(&small, &a, &b, 1);
	assert_int_equal(small, -56);
	stretto_kernel_sum_divide(STRETTO_I8, &small, &a, &b, 1, 2);
	assert_int_equal(small, -28);
	stretto_kernel(STRETTO_U16, STRETTO_SUM)(&wrapped_sum, &big, &two, 1);
	assert_int_equal(wrapped_sum, 1);
	stretto_kernel_sum_divide(STRETTO_F64, &sum, &top, &top, 1, 2);
	assert_true(isinf(sum));
}

/* The table of docs/collectives.md: what is there has a kernel in every table, the rest has none. */
static void test_types_have_the_operations_that_are_documented(void **state)
{
	const struct stretto_kernel_table *tables[] = {
		&stretto_kernels_portable, stretto_kernels_avx2(), stretto_kernels_avx512()};
	char ops[STRETTO_OPS_TEXT];

	(void)state;
	for (int t = 0; t < 3; t++)
		for (int type = 0; tables[t] && type < STRETTO_TYPE_COUNT; type++)
			for (int op = 0; op < STRETTO_KERNEL_OPS; op++)
				assert_int_equal(tables[t]->reduce[type][op] != NULL,
						 stretto_type_has_op((enum stretto_type)type,
								     (enum stretto_op)op));
	assert_string_equal(stretto_ops_text(STRETTO_U16, ops),
			    "sum prod min max band bor bxor land lor lxor avg");
	assert_string_equal(stretto_ops_text(STRETTO_BF16, ops), "sum prod min max avg");
	assert_string_equal(stretto_ops_text(STRETTO_C64, ops), "sum prod avg");
	assert_false(stretto_type_has_op(STRETTO_TYPE_COUNT, STRETTO_SUM));
	assert_false(stretto_type_has_op((enum stretto_type) - 1, STRETTO_SUM));
	assert_false(stretto_type_has_op(STRETTO_I8, STRETTO_OP_COUNT));
}

static void test_names_and_sizes(void **state)
{
	(void)state;
	assert_int_equal(stretto_type_size(STRETTO_C128), 16);
	assert_string_equal(stretto_type_name(STRETTO_C64), "complex64");
	assert_int_equal(stretto_type_size(STRETTO_BF16), 2);
	assert_int_equal(stretto_type_size(STRETTO_F64), 8);
	assert_int_equal(stretto_type_size(STRETTO_TYPE_COUNT), 0);
	assert_int_equal(stretto_type_size((enum stretto_type) - 1), 0);
	assert_string_equal(stretto_type_name(STRETTO_F16), "half");
	assert_string_equal(stretto_type_name((enum stretto_type) - 1), "?");
	assert_string_equal(stretto_op_name(STRETTO_AVG), "avg");
	assert_string_equal(stretto_op_name(STRETTO_OP_COUNT), "?");
	assert_string_equal(stretto_collective_name(STRETTO_REDUCE_SCATTER), "reduce_scatter");
	assert_string_equal(stretto_collective_name(STRETTO_COLLECTIVE_COUNT), "?");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_portable_kernels_match_the_reference),
		cmocka_unit_test(test_avx2_kernels_match_the_reference),
		cmocka_unit_test(test_avx512_kernels_match_the_reference),
		cmocka_unit_test(test_halves_have_the_same_bits_in_all_tables),
		cmocka_unit_test(test_public_functions_use_the_chosen_table),
		cmocka_unit_test(test_complex_products_are_the_formula),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_types_have_the_operations_that_are_documented),
		cmocka_unit_test(test_names_and_sizes),
	};

	random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	random_state |= 1;
	printf("seed %llu (give it as argument to repeat)\n", (unsigned long long)random_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
