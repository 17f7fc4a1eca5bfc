/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums, against arithmetic of the test's own: one long integer in two's complement that takes
 * every value with its carry at once, and the definition of "nearest" to judge the result by.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/exact.h"
#include "collectives/stretto_coll.h"
#include "tests/lib/ranks.h"

/* Units of 2^-1075, half of the least double: the middle between two doubles is a whole number. */
enum { WORDS = 72 };
struct big {
	uint32_t word[WORDS]; /* lowest first, two's complement */
};

static void big_add(struct big *sum, const struct big *other)
{
	uint64_t carry = 0;

	for (int i = 0; i < WORDS; i++) {
		carry += (uint64_t)sum->word[i] + other->word[i];
		sum->word[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static void big_negate(struct big *x)
{
	struct big one = {{1}};

	for (int i = 0; i < WORDS; i++)
		x->word[i] = ~x->word[i];
	big_add(x, &one);
}

/* A finite double in units of 2^-1075, by the C library's own taking apart. */
static struct big big_of(double value)
{
	struct big x = {{0}};
	int exponent;
	uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53);
	int shift = exponent - 53 + 1075;

	if (mantissa == 0)
		return x;
	for (; shift < 0; shift++)
		mantissa >>= 1; /* the low bits of a subnormal are 0 */
	for (int bit = 0; bit < 53; bit++)
		if (mantissa >> bit & 1)
			x.word[(shift + bit) / 32] |= 1u << (shift + bit) % 32;
	if (value < 0)
		big_negate(&x);
	return x;
}

/* -1, 0 or 1 as x is less than, equal to or greater than 0. */
static int big_sign(const struct big *x)
{
	if (x->word[WORDS - 1] >> 31)
		return -1;
	for (int i = 0; i < WORDS; i++)
		if (x->word[i])
			return 1;
	return 0;
}

/* The sign of 2 sum - (a + b): on which side of the middle of a and b the sum is. */
static int side_of_middle(const struct big *sum, const struct big *a, const struct big *b)
{
	struct big twice = *sum, middle = *a;

	big_add(&twice, sum);
	big_add(&middle, b);
	big_negate(&middle);
	big_add(&twice, &middle);
	return big_sign(&twice);
}

/* What follows the greatest double for the purpose of rounding. */
static struct big big_limit(bool negative)
{
	struct big half = big_of(negative ? -0x1p1023 : 0x1p1023), all = half;

	big_add(&all, &half);
	return all;
}

static struct big big_after(double value, bool down)
{
	double next = nextafter(value, down ? -INFINITY : INFINITY);

	return isinf(next) ? big_limit(down) : big_of(next);
}

/* Fails unless `result` is the double nearest to a sum, the even one of two. */
static void assert_nearest(const struct big *sum, double result)
{
	uint64_t bits;

	memcpy(&bits, &result, sizeof bits);
	if (isnan(result))
		fail_msg("a sum of finite values is NaN");
	for (int down = 0; down < 2; down++) {
		int outwards = down ? -1 : 1;
		bool inf_here = isinf(result) && (result < 0) == (down == 1);
		struct big here = isinf(result) ? big_limit(result < 0) : big_of(result);
		struct big next = isinf(result) ? big_of(result < 0 ? -DBL_MAX : DBL_MAX)
						: big_after(result, down == 1);
		int side = side_of_middle(sum, &here, &next) * outwards;

		if (inf_here)
			continue; /* nothing is beyond */
		if (side > 0 || (side == 0 && (bits & 1)))
			fail_msg("%a is not nearest to the sum", result);
	}
}

static uint64_t as_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static double from_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static double sum_of(const double *x, size_t n)
{
	struct stretto_exact sum = {0};

	stretto_exact_add(&sum, x, n);
	return stretto_exact_round(&sum);
}

static void assert_sum(const double *x, size_t n, double expected)
{
	double result = sum_of(x, n);

	if (as_bits(result) != as_bits(expected))
		fail_msg("the sum of %a ... is %a, not %a", n ? x[0] : 0.0, result, expected);
}

#define ASSERT_SUM(expected, ...)                                                                  \
	assert_sum((const double[]){__VA_ARGS__},                                                  \
		   sizeof((const double[]){__VA_ARGS__}) / sizeof(double), expected)

static void special_values_are_as_documented(void **state)
{
	const double nan_of_ours = from_bits(0x7ff8000000000000u);
	const double signalling = from_bits(0xfff0000000000001u);
	(void)state;
	assert_sum(NULL, 0, 0.0);
	ASSERT_SUM(0.0, 0.0);
	ASSERT_SUM(-0.0, -0.0);
	ASSERT_SUM(-0.0, -0.0, -0.0);
	ASSERT_SUM(0.0, -0.0, 0.0);
	ASSERT_SUM(0.0, 1.0, -1.0);
	ASSERT_SUM(0.0, -1.0, 1.0);
	ASSERT_SUM(INFINITY, 1.0, INFINITY, -DBL_MAX);
	ASSERT_SUM(-INFINITY, 1.0, -INFINITY, DBL_MAX);
	ASSERT_SUM(nan_of_ours, INFINITY, 1.0, -INFINITY);
	ASSERT_SUM(nan_of_ours, 1.0, -nan_of_ours);
	ASSERT_SUM(nan_of_ours, signalling, INFINITY);
}

static void ties_go_to_even(void **state)
{
	const double least = from_bits(1);
	(void)state;
	ASSERT_SUM(1.0, 1.0, 0x1p-53);
	ASSERT_SUM(1.0 + 0x1p-52, 1.0, 0x1p-53, least);
	ASSERT_SUM(1.0, 1.0, 0x1p-53, -least);
	ASSERT_SUM(1.0 + 0x1p-51, 1.0 + 0x1p-52, 0x1p-53);
	ASSERT_SUM(-1.0 - 0x1p-51, -1.0 - 0x1p-52, -0x1p-53);
	ASSERT_SUM(1.0 - 0x1p-53, 1.0, -0x1p-54, -least);
	ASSERT_SUM(1.0, 1.0, -0x1p-54);
	ASSERT_SUM(2.0, 2.0 - 0x1p-52, 0x1p-53); /* the mantissa overflows */
}

static void subnormals_are_exact(void **state)
{
	const double least = from_bits(1), most = from_bits(0x000fffffffffffffu);
	(void)state;
	ASSERT_SUM(least, least);
	ASSERT_SUM(-2 * least, -least, -least);
	ASSERT_SUM(DBL_MIN, most, least);
	ASSERT_SUM(most, DBL_MIN, -least);
	ASSERT_SUM(least, DBL_MAX, least, -DBL_MAX);
	ASSERT_SUM(2 * DBL_MIN - least, DBL_MIN, most);
}

static void only_the_true_sum_overflows(void **state)
{
	const double half_ulp = 0x1p970; /* of DBL_MAX */
	(void)state;
	ASSERT_SUM(DBL_MAX, DBL_MAX, DBL_MAX, -DBL_MAX);
	ASSERT_SUM(0.0, DBL_MAX, DBL_MAX, DBL_MAX, -DBL_MAX, -DBL_MAX, -DBL_MAX);
	ASSERT_SUM(INFINITY, DBL_MAX, half_ulp);
	ASSERT_SUM(DBL_MAX, DBL_MAX, half_ulp, -from_bits(1));
	ASSERT_SUM(-INFINITY, -DBL_MAX, -half_ulp);
	ASSERT_SUM(-DBL_MAX, -DBL_MAX, -half_ulp, from_bits(1));
	ASSERT_SUM(INFINITY, DBL_MAX, DBL_MAX, DBL_MAX, -1.0);
}

/* Beyond what one round of additions may hold, all of one sign and as large as can be. */
static void many_large_values_do_not_spill(void **state)
{
	enum { N = 1 << 16 };
	double *x = malloc(N * sizeof *x);
	const double greatest[] = {DBL_MAX, -DBL_MAX, 0x1.fffffffffffffp31,
				   -0x1.fffffffffffffp-1000};
	(void)state;
	assert_non_null(x);
	for (size_t k = 0; k < sizeof greatest / sizeof *greatest; k++) {
		bool is_huge = fabs(greatest[k]) == DBL_MAX;

		for (size_t i = 0; i < N; i++)
			x[i] = greatest[k];
		assert_sum(x, N, is_huge ? copysign(INFINITY, greatest[k]) : N * greatest[k]);
		for (size_t i = N / 2; i < N; i++) /* and all away again, but two */
			x[i] = i < N - 2 ? -greatest[k] : 0;
		assert_sum(x, N, is_huge ? copysign(INFINITY, greatest[k]) : 2 * greatest[k]);
		x[N - 1] = -greatest[k];
		assert_sum(x, N, greatest[k]);
	}
	free(x);
}

/* Kinds of random values, from harmless to mean. */
enum kind { ANY_BITS, NEAR_ONE, SUBNORMAL, CANCELLING, HUGE_VALUES, FEW_BITS, KINDS };

static double random_finite(uint64_t *random, enum kind kind)
{
	uint64_t bits = next_random(random);
	uint64_t field = bits >> 52 & 2047;

	switch (kind) {
	case NEAR_ONE:
		field = 1000 + field % 50;
		break;
	case SUBNORMAL:
		field = field % 3;
		break;
	case HUGE_VALUES:
		field = 2046 - field % 3;
		break;
	case FEW_BITS: /* ties are frequent */
		bits &= ~(uint64_t)0 << 50;
		field = 1000 + field % 60;
		break;
	default:
		field = field % 2047;
	}
	return from_bits((bits & 0x800fffffffffffffu) | field << 52);
}

static void fill(double *x, size_t n, enum kind kind, uint64_t *random)
{
	for (size_t i = 0; i < n; i++)
		x[i] = random_finite(random, kind);
	for (size_t i = 1; kind == CANCELLING && i < n - n % 3; i += 2)
		x[i] = -x[i - 1];
}

static void shuffle(double *x, size_t n, uint64_t *random)
{
	for (size_t i = n; i > 1; i--) {
		size_t other = next_random(random) % i;
		double swap = x[i - 1];

		x[i - 1] = x[other];
		x[other] = swap;
	}
}

static struct big big_sum(const double *x, size_t n)
{
	struct big sum = {{0}};

	for (size_t i = 0; i < n; i++) {
		struct big one = big_of(x[i]);

		big_add(&sum, &one);
	}
	return sum;
}

/* Sums of parts, added word by word as an allreduce does. */
static double sum_in_parts(const double *x, size_t n, uint64_t *random)
{
	int64_t words[STRETTO_EXACT_WORDS] = {0};
	struct stretto_exact all;

	for (size_t i = 0, take; i < n || next_random(random) % 2; i += take) {
		struct stretto_exact part = {0};
		int64_t more[STRETTO_EXACT_WORDS];

		take = next_random(random) % (n - i + 1);
		stretto_exact_add(&part, x + i, take / 2);
		stretto_exact_add(&part, x + i + take / 2, take - take / 2);
		memcpy(more, &part, sizeof more);
		for (int k = 0; k < STRETTO_EXACT_WORDS; k++)
			words[k] += more[k];
	}
	memcpy(&all, words, sizeof all);
	return stretto_exact_round(&all);
}

static void random_sums_are_nearest_in_any_order_and_parts(void **state)
{
	uint64_t random = test_seed();
	double x[2500];
	(void)state;
	for (int round = 0; round < (TEST_SLOW ? 60 : 1200); round++) {
		size_t n = next_random(&random) % (round % 10 ? 40 : 2500);
		fill(x, n, (enum kind)(round % KINDS), &random);
		struct big sum = big_sum(x, n);
		double result = sum_of(x, n);

		assert_nearest(&sum, result);
		shuffle(x, n, &random);
		assert_true(as_bits(sum_of(x, n)) == as_bits(result));
		assert_true(as_bits(sum_in_parts(x, n, &random)) == as_bits(result));
	}
}

static void the_rounding_mode_does_not_matter(void **state)
{
	static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		fesetround(modes[i]);
		double up = sum_of((const double[]){1.0, 0x1.8p-53}, 2);
		double down = sum_of((const double[]){-1.0, -0x1p-53}, 2);
		fesetround(FE_TONEAREST);
		assert_true(up == 1.0 + 0x1p-52 && down == -1.0);
	}
}

static void judging_finds_wrong_results(void **state)
{
	struct big sum = big_sum((const double[]){1.0, 0x1p-54}, 2);
	struct big limit = big_limit(false), next = big_of(DBL_MAX);
	(void)state;
	assert_nearest(&sum, 1.0);
	assert_int_equal(side_of_middle(&sum, &sum, &sum), 0);
	struct big one = big_of(1.0), after = big_after(1.0, false);
	assert_int_equal(side_of_middle(&sum, &one, &after), -1);
	sum = big_sum((const double[]){DBL_MAX, 0x1p970}, 2);
	assert_int_equal(side_of_middle(&sum, &next, &limit), 0);
}

/* --- Over ranks --- */

/* All values, and where each rank's share of them begins. */
struct spread {
	const double *x;
	size_t begin[10];
	uint64_t expected; /* bits */
};

static void sum_rank(struct stretto_comm *world, void *argument)
{
	const struct spread *spread = argument;
	int rank = stretto_comm_rank(world);
	size_t begin = spread->begin[rank], n = spread->begin[rank + 1] - begin;
	double result = -1;

	require(stretto_sum_exact(world, n ? spread->x + begin : NULL, n, &result) == STRETTO_OK);
	require(as_bits(result) == spread->expected);
}

static int by_size(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Cuts n values at random places; some shares are empty. */
static void cut(struct spread *spread, size_t n, int ranks, uint64_t *random)
{
	spread->begin[0] = 0;
	for (int r = 1; r < ranks; r++)
		spread->begin[r] = r == 2 ? spread->begin[1] : next_random(random) % (n + 1);
	spread->begin[ranks] = n;
	qsort(spread->begin, (size_t)ranks + 1, sizeof(size_t), by_size);
}

static void a_million_values_over_any_ranks_have_the_same_bits(void **state)
{
	size_t n = TEST_SLOW ? 20000 : 1000000;
	uint64_t random = test_seed();
	double *x = malloc(n * sizeof *x);
	(void)state;
	assert_non_null(x);
	for (int kind = NEAR_ONE; kind <= CANCELLING; kind += CANCELLING - NEAR_ONE) {
		fill(x, n, (enum kind)kind, &random);
		struct big sum = big_sum(x, n);
		struct spread spread = {.x = x, .expected = as_bits(sum_of(x, n))};

		assert_nearest(&sum, sum_of(x, n));
		for (int ranks = 1; ranks <= 9; ranks++) {
			cut(&spread, n, ranks, &random);
			run_ranks(ranks, NULL, sum_rank, &spread);
			shuffle(x, n, &random);
		}
	}
	free(x);
}

static void invalid_rank(struct stretto_comm *world, void *argument)
{
	double x = 1, result = 5;

	(void)argument;
	require(stretto_sum_exact(NULL, &x, 1, &result) == STRETTO_INVALID);
	require(stretto_sum_exact(world, NULL, 1, &result) == STRETTO_INVALID);
	require(stretto_sum_exact(world, &x, 1, NULL) == STRETTO_INVALID);
	require(result == 5);
	require(stretto_sum_exact(world, NULL, 0, &result) == STRETTO_OK && result == 0);
}

static void bad_arguments_are_refused(void **state)
{
	(void)state;
	run_ranks(1, NULL, invalid_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judging_finds_wrong_results),
		cmocka_unit_test(special_values_are_as_documented),
		cmocka_unit_test(ties_go_to_even),
		cmocka_unit_test(subnormals_are_exact),
		cmocka_unit_test(only_the_true_sum_overflows),
		cmocka_unit_test(many_large_values_do_not_spill),
		cmocka_unit_test(random_sums_are_nearest_in_any_order_and_parts),
		cmocka_unit_test(the_rounding_mode_does_not_matter),
		cmocka_unit_test(a_million_values_over_any_ranks_have_the_same_bits),
		cmocka_unit_test(bad_arguments_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
