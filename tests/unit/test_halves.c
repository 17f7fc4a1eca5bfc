/* SPDX-License-Identifier: BSD-3-Clause */
/* The conversions of single values between 16-bit floats and f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "collectives/kernels.h"
#include "tests/lib/halves.h"

static void test_every_half_survives_widening_and_narrowing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t bits = (uint16_t)i;
		double f16 = half_value(bits, 10, 15), bf16 = half_value(bits, 7, 127);
		float wide = stretto_f16_to_f32(bits);

		/* a signalling NaN becomes quiet, all else is as it was */
		if (isnan(f16))
			assert_true(isnan(wide));
		else
			assert_true((double)wide == f16 && !signbit(wide) == !(bits & 0x8000));
		assert_int_equal(stretto_f32_to_f16(wide), isnan(f16) ? bits | 0x200 : bits);
		wide = stretto_bf16_to_f32(bits);
		if (isnan(bf16))
			assert_true(isnan(wide));
		else
			assert_true((double)wide == bf16 && !signbit(wide) == !(bits & 0x8000));
		assert_int_equal(stretto_f32_to_bf16(wide), isnan(bf16) ? bits | 0x40 : bits);
	}
}

/* Between two neighbouring halves: the middle goes to the even one, a step off it to the nearer. */
static void check_tie(uint16_t below, int mantissa_bits, int bias, uint16_t (*narrow)(float))
{
	double low = half_value(below, mantissa_bits, bias);
	double high = half_value((uint16_t)(below + 1), mantissa_bits, bias);
	float middle;

	if (isinf(high)) /* the overflow threshold is where the next value would have been */
		high = ldexp(1, bias + 1);
	middle = (float)((low + high) / 2);
	assert_int_equal(narrow(middle), below & 1 ? below + 1 : below);
	assert_int_equal(narrow(nextafterf(middle, 0)), below);
	assert_int_equal(narrow(nextafterf(middle, INFINITY)), below + 1);
	assert_int_equal(narrow(-middle), (below & 1 ? below + 1 : below) | 0x8000);
}

static void test_ties_round_to_even(void **state)
{
	(void)state;
	for (uint16_t below = 0; below < 0x7c00; below++)
		check_tie(below, 10, 15, stretto_f32_to_f16);
	for (uint16_t below = 0; below < 0x7f80; below++)
		check_tie(below, 7, 127, stretto_f32_to_bf16);
}

static void test_out_of_range_becomes_infinity_and_nan_stays(void **state)
{
	float nan = NAN;

	(void)state;
	assert_int_equal(stretto_f32_to_f16(65519.996f), 0x7bff);
	assert_int_equal(stretto_f32_to_f16(65520.0f), 0x7c00);
	assert_int_equal(stretto_f32_to_f16(-3e38f), 0xfc00);
	assert_int_equal(stretto_f32_to_bf16(3.4028235e38f), 0x7f80);
	assert_int_equal(stretto_f32_to_f16(INFINITY), 0x7c00);
	assert_int_equal(stretto_f32_to_bf16(-INFINITY), 0xff80);
	assert_int_equal(stretto_f32_to_f16(nan) & 0x7e00, 0x7e00);
	assert_int_equal(stretto_f32_to_bf16(nan) & 0x7fc0, 0x7fc0);
	assert_int_equal(stretto_f32_to_f16(1e-45f), 0);
	assert_int_equal(stretto_f32_to_f16(-1e-45f), 0x8000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_half_survives_widening_and_narrowing),
		cmocka_unit_test(test_ties_round_to_even),
		cmocka_unit_test(test_out_of_range_becomes_infinity_and_nan_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
