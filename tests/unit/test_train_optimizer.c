/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser's fused pass against a plain one, learning rates, random numbers, option texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/optimizer.h"
#include "trainer/rate.h"
#include "trainer/rng.h"
#include "trainer/windows.h"

/* Not a multiple of any vector length. */
enum { COUNT = 103, FIRST = 5 };

struct arrays {
	float w[COUNT], g[COUNT], average[COUNT], snapshot[COUNT], next[COUNT];
};

static void fill(struct arrays *arrays)
{
	float *all[] = {arrays->w, arrays->g, arrays->average, arrays->snapshot};
	struct stretto_rng rng;

	stretto_rng_init(&rng, 3, 0);
	for (size_t a = 0; a < 4; a++)
		for (size_t i = 0; i < COUNT; i++)
			all[a][i] = stretto_rng_uniform(&rng, -1.0f, 1.0f);
}

/* The pass as the header writes it, for element i; v is the velocity after the step. */
static double expected(const struct arrays *arrays, const struct stretto_pass *pass, size_t i,
		       double v)
{
	double p = (double)pass->own_weight;
	double w = (double)arrays->w[i] - 0.1 * v;

	if (!pass->average)
		return w;
	if (!pass->snapshot)
		return p * w + (1 - p) * (double)arrays->average[i];
	return w + (1 - p) * ((double)arrays->average[i] - (double)arrays->snapshot[i]);
}

/* Two steps, so that momentum counts, then the values. */
static void check_pass(struct arrays *arrays, bool in_place, int rule)
{
	const struct stretto_optimizer_options options = {0.1f, 0.9f};
	struct stretto_optimizer optimizer;
	struct arrays before = *arrays;
	struct stretto_pass pass = {
		.weights = arrays->w,
		.gradients = arrays->g,
		.next = in_place ? arrays->w : arrays->next,
		.average = rule > 0 ? arrays->average : NULL,
		.snapshot = rule > 1 ? arrays->snapshot : NULL,
		.own_weight = 0.25f,
		.first = FIRST,
		.count = COUNT,
	};

	assert_int_equal(stretto_optimizer_init(&optimizer, &options, FIRST + COUNT), STRETTO_OK);
	stretto_optimizer_update(&optimizer, &pass);
	memcpy(arrays->w, before.w, sizeof(before.w));
	stretto_optimizer_update(&optimizer, &pass);
	for (size_t i = 0; i < COUNT; i++) {
		double v = 1.9 * (double)before.g[i];
		double difference = (double)pass.next[i] - expected(&before, &pass, i, v);

		if (!(fabs(difference) < 1e-6))
			fail_msg("element %zu is wrong by %g", i, difference);
	}
	stretto_optimizer_fini(&optimizer);
}

static void test_pass(void **state)
{
	(void)state;
	for (int rule = 0; rule < 3; rule++) {
		for (int in_place = 0; in_place < 2; in_place++) {
			struct arrays arrays;

			fill(&arrays);
			check_pass(&arrays, in_place, rule);
		}
	}
}

static void test_parse_optimizer(void **state)
{
	static const char *const bad[] = {
		"",
		"adam",
		"sgd:",
		"sgd:lr",
		"sgd:lr=",
		"sgd:lr=0",
		"sgd:lr=-1",
		"sgd:lr=nan",
		"sgd:lr=0.1,",
		"sgd:lr=0.1x",
		"sgd:momentum=1",
		"sgd:momentum=-0.1",
		"sgd:lr=0.1;mu",
		"sgd,lr=0.1",
		"sgdx",
		"sgd:lr=1e9",
	};
	struct stretto_optimizer_options options;

	(void)state;
	assert_null(stretto_optimizer_parse("sgd:lr=0.25,momentum=0.5", &options));
	assert_true(options.rate == 0.25f && options.momentum == 0.5f);
	assert_null(stretto_optimizer_parse("sgd:momentum=0", &options));
	assert_true(options.rate == 0.05f && options.momentum == 0.0f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!stretto_optimizer_parse(bad[i], &options))
			fail_msg("'%s' was taken for an optimiser", bad[i]);
}

static void assert_near(double found, double wanted)
{
	if (!(fabs(found - wanted) < 1e-9))
		fail_msg("found %.12g, expected %.12g", found, wanted);
}

static void test_rates(void **state)
{
	struct stretto_rate rate;

	(void)state;
	assert_null(stretto_rate_parse("constant", &rate));
	assert_near(stretto_rate_at(&rate, 99, 100), 1);
	assert_null(stretto_rate_parse("step:every=10,factor=0.5", &rate));
	assert_near(stretto_rate_at(&rate, 9, 100), 1);
	assert_near(stretto_rate_at(&rate, 10, 100), 0.5);
	assert_near(stretto_rate_at(&rate, 39, 100), 0.125);
	assert_null(stretto_rate_parse("onecycle", &rate));
	assert_near(stretto_rate_at(&rate, 0, 400), 1.0 / 25);
	assert_near(stretto_rate_at(&rate, 50, 400), (1 + 1.0 / 25) / 2);
	assert_near(stretto_rate_at(&rate, 100, 400), 1);
	assert_near(stretto_rate_at(&rate, 250, 400), (1 + 1.0 / 10000) / 2);
	assert_true(stretto_rate_at(&rate, 399, 400) > 0);
	assert_non_null(stretto_rate_parse("step", &rate));
	assert_non_null(stretto_rate_parse("step:every=0.5", &rate));
	assert_non_null(stretto_rate_parse("step:every=10,factor=2", &rate));
	assert_non_null(stretto_rate_parse("cosine", &rate));
	assert_non_null(stretto_rate_parse("constant:every=1", &rate));
}

static void test_rng(void **state)
{
	struct stretto_rng a, b;
	size_t counts[5] = {0};
	double sum = 0;

	(void)state;
	/* splitmix64 and xoshiro256** as published, composed as the header says. */
	stretto_rng_init(&a, 1, 0);
	stretto_rng_init(&b, 1, 0);
	assert_true(stretto_rng_next(&a) == stretto_rng_next(&b));
	stretto_rng_init(&b, 1, 1);
	assert_true(stretto_rng_next(&a) != stretto_rng_next(&b));
	for (size_t i = 0; i < 50000; i++) {
		float u = stretto_rng_uniform(&a, -1.0f, 3.0f);

		assert_true(u >= -1.0f && u < 3.0f);
		sum += (double)u;
		counts[stretto_rng_below(&a, 5)]++;
	}
	/* Five standard deviations: 1.1547 / sqrt(50000) and sqrt(50000 * 0.16). */
	assert_true(fabs(sum / 50000 - 1) < 0.026);
	for (size_t i = 0; i < 5; i++)
		assert_in_range(counts[i], 10000 - 450, 10000 + 450);
}

/* 72 steps in rounds of 16: four windows and a rest; the slowest and the fastest do not count. */
static void test_windows(void **state)
{
	static const double steps[] = {0.002, 1.0, 0.004, 0.001, 7.0};
	static const double waits[] = {0.001, 0.002, 0.5, 0.0, 7.0};
	struct stretto_window total = {0, 0, 0}, typical;
	struct stretto_windows windows;

	(void)state;
	assert_int_equal(stretto_windows_init(&windows, 72, 16), STRETTO_OK);
	assert_near(stretto_windows_typical(&windows).seconds, 0);
	for (size_t i = 0; i < 72; i++) {
		total.seconds += steps[i / 16];
		total.exposed += waits[i / 16];
		total.in_flight += 0.25;
		stretto_windows_add(&windows, &total, (double)(i / 16));
	}
	typical = stretto_windows_typical(&windows);
	assert_near(typical.seconds, 0.003);
	assert_near(typical.exposed, 0.0015);
	assert_near(typical.in_flight, 0.25);
	assert_near(windows.loss, 3);
	stretto_windows_fini(&windows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pass),    cmocka_unit_test(test_parse_optimizer),
		cmocka_unit_test(test_rates),   cmocka_unit_test(test_rng),
		cmocka_unit_test(test_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
