/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stripe.c: how a vector is cut over channels of given speeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "collectives/stripe.h"
#include "tests/lib/ranks.h"

enum { MIB = 1024 * 1024, K = 1024 };

struct row {
	size_t count, element;
	uint32_t speeds[4];
	size_t channels;
	size_t made;
	struct stretto_stripe want[4];
};

static void shares_follow_the_speeds(void **state)
{
	static const struct row rows[] = {
		/* too little for two; nothing at all */
		{511 * K, 1, {1, 1}, 2, 1, {{0, 0, 511 * K}}},
		{0, 4, {1, 1}, 2, 1, {{0, 0, 0}}},
		/* just enough for two, of one speed or of none */
		{512 * K, 1, {7, 7}, 2, 2, {{0, 0, 256 * K}, {1, 256 * K, 256 * K}}},
		{512 * K, 1, {0, 0}, 2, 2, {{0, 0, 256 * K}, {1, 256 * K, 256 * K}}},
		/* one that is not known: all count the same */
		{MIB, 4, {100, 0}, 2, 2, {{0, 0, MIB / 2}, {1, MIB / 2, MIB / 2}}},
		/* 3 : 1 */
		{4 * MIB, 1, {300, 100}, 2, 2, {{0, 0, 3 * MIB}, {1, 3 * MIB, MIB}}},
		/* the order of channels stays, whichever is the fastest */
		{4 * MIB, 1, {100, 300}, 2, 2, {{0, 0, MIB}, {1, MIB, 3 * MIB}}},
		/* the slow one's quarter is a byte too short: the other has all */
		{MIB - 4, 1, {300, 100}, 2, 1, {{0, 0, MIB - 4}}},
		{MIB - 4, 1, {100, 300}, 2, 1, {{1, 0, MIB - 4}}},
		{MIB, 1, {100, 300}, 2, 2, {{0, 0, 256 * K}, {1, 256 * K, 768 * K}}},
		/* one is left out, and the others share what it had */
		{1280 * K,
		 1,
		 {200, 50, 200, 100},
		 4,
		 3,
		 {{0, 0, 512 * K}, {2, 512 * K, 512 * K}, {3, 1024 * K, 256 * K}}},
		/* of equals the last are left out */
		{768 * K,
		 1,
		 {5, 5, 5, 5},
		 4,
		 3,
		 {{0, 0, 256 * K}, {1, 256 * K, 256 * K}, {2, 512 * K, 256 * K}}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *row = &rows[i];
		struct stretto_stripe stripes[STRETTO_STRIPES_MAX];

		assert_int_equal(stretto_stripes(row->count, row->element, row->speeds,
						 row->channels, stripes),
				 row->made);
		for (size_t s = 0; s < row->made; s++) {
			assert_int_equal(stripes[s].channel, row->want[s].channel);
			assert_int_equal(stripes[s].first, row->want[s].first);
			assert_int_equal(stripes[s].count, row->want[s].count);
		}
	}
}

/* Whatever the numbers are: nothing is left out or cut twice, and nobody has too little. */
static void every_element_has_one_place(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t element = (size_t)1 << next_random(&seed) % 4;
		size_t count = (size_t)(next_random(&seed) << next_random(&seed) % 31);
		size_t channels = 1 + (size_t)next_random(&seed) % STRETTO_STRIPES_MAX;
		unsigned bits = (unsigned)next_random(&seed) % 32;
		struct stretto_stripe stripes[STRETTO_STRIPES_MAX];
		uint32_t speeds[STRETTO_STRIPES_MAX];
		size_t next = 0, made;

		for (size_t c = 0; c < channels; c++)
			speeds[c] = (uint32_t)(next_random(&seed) >> bits << 1);
		made = stretto_stripes(count, element, speeds, channels, stripes);
		assert_in_range(made, 1, channels);
		for (size_t s = 0; s < made; s++) {
			assert_int_equal(stripes[s].first, next);
			assert_in_range(stripes[s].channel, s ? stripes[s - 1].channel + 1 : 0,
					channels - 1);
			if (made > 1)
				assert_true(stripes[s].count * element >= STRETTO_STRIPE_BYTES);
			next += stripes[s].count;
		}
		assert_int_equal(next, count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_follow_the_speeds),
		cmocka_unit_test(every_element_has_one_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
