/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimisers' pass against a plain one, learning rates, random numbers, option texts. */
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

/* Not a multiple of any vector length; the piece is in the middle of the state; updates of each. */
enum { COUNT = 1103, FIRST = 5, UPDATES = 3 };

static const char *const texts[] = {
	"sgd:lr=0.1,momentum=0",
	"sgd:lr=0.1,momentum=0.9",
	"sgd:lr=0.1,momentum=0.9,nesterov=1",
	"sgd:lr=0.1,momentum=0.9,decay=0.01",
	"adam:lr=0.1",
	"adam:lr=0.1,beta1=0.5,beta2=0.75,eps=0.001",
	"adamw:lr=0.1,decay=0.25",
};

static void fill(float *x, uint64_t seed)
{
	struct stretto_rng rng;

	stretto_rng_init(&rng, seed, 0);
	for (size_t i = 0; i < COUNT; i++)
		x[i] = stretto_rng_uniform(&rng, -1.0f, 1.0f);
}

/* One weight, after update t with gradient g; first and second are its state. */
static float update_one(const struct stretto_optimizer_options *o, int t, float w, float g,
			float *first, float *second)
{
	float keep = 1.0f - o->rate * o->decay, unbiased1, unbiased2;

	if (o->kind == STRETTO_OPTIMIZER_SGD) {
		*first = o->momentum * *first + g;
		return keep * w - o->rate * (o->nesterov ? g + o->momentum * *first : *first);
	}
	unbiased1 = (float)(1 / (1 - pow((double)o->beta1, t)));
	unbiased2 = (float)(1 / sqrt(1 - pow((double)o->beta2, t)));
	*first = o->beta1 * *first + (1.0f - o->beta1) * g;
	*second = o->beta2 * *second + (1.0f - o->beta2) * (g * g);
	return keep * w - o->rate * unbiased1 * *first / (sqrtf(*second) * unbiased2 + o->epsilon);
}

/* Some updates, each tried before it is made, bit for bit as one weight at a time. */
static void check_pass(const char *text, bool in_place)
{
	static float w[COUNT], next[COUNT], tried[COUNT], g[COUNT], wanted[COUNT];
	static float first[COUNT], second[COUNT];
	struct stretto_optimizer optimizer;
	struct stretto_optimizer_options options;

	assert_null(stretto_optimizer_parse(text, &options));
	assert_int_equal(stretto_optimizer_init(&optimizer, &options, FIRST + COUNT + 1),
			 STRETTO_OK);
	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
	fill(w, 1);
	for (int t = 1; t <= UPDATES; t++) {
		struct stretto_pass pass = {
			.weights = w,
			.gradients = g,
			.next = tried,
			.first = 1000,
			.state = FIRST,
			.count = COUNT,
			.update = (uint64_t)t,
			.trial = true,
		};

		fill(g, (uint64_t)t + 1);
		for (size_t i = 0; i < COUNT; i++)
			wanted[i] = update_one(&options, t, w[i], g[i], &first[i], &second[i]);
		stretto_optimizer_update(&optimizer, &pass);
		pass.trial = false;
		pass.next = in_place ? w : next;
		stretto_optimizer_update(&optimizer, &pass);
		if (memcmp(pass.next, wanted, sizeof(wanted)) != 0)
			fail_msg("%s: update %d is not as a plain one", text, t);
		if (memcmp(tried, wanted, sizeof(wanted)) != 0)
			fail_msg("%s: trying update %d gives something else", text, t);
		memcpy(w, pass.next, sizeof(w));
	}
	/* Nothing beside the piece was touched. */
	for (size_t i = 0; i < FIRST; i++)
		assert_true(optimizer.state[i] == 0.0f);
	assert_true(optimizer.state[FIRST + COUNT] == 0.0f);
	stretto_optimizer_fini(&optimizer);
}

static void test_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		check_pass(texts[i], false);
		check_pass(texts[i], true);
	}
}

/* What the equations say of a first update, calculated by hand. */
static void test_first_updates(void **state)
{
	static const struct {
		const char *text;
		float next;
	} rows[] = {
		{"sgd:lr=0.5,momentum=0.5", 2.0f - 0.5f * 0.25f},
		{"sgd:lr=0.5,momentum=0.5,nesterov=1", 2.0f - 0.5f * 0.375f},
		{"sgd:lr=0.5,momentum=0.5,decay=0.25", 2.0f - 0.125f - 0.5f * 0.25f * 2.0f},
		/* The corrected moments are g and g^2, so any gradient steps by lr. */
		{"adam:lr=0.5", 1.5f},
		{"adamw:lr=0.5,decay=0.25", 1.5f - 0.5f * 0.25f * 2.0f},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		float w = 2.0f, g = 0.25f;
		struct stretto_pass pass = {
			.weights = &w, .gradients = &g, .next = &w, .count = 1, .update = 1};
		struct stretto_optimizer_options options;
		struct stretto_optimizer optimizer;

		assert_null(stretto_optimizer_parse(rows[i].text, &options));
		assert_int_equal(stretto_optimizer_init(&optimizer, &options, 1), STRETTO_OK);
		stretto_optimizer_update(&optimizer, &pass);
		if (!(fabsf(w - rows[i].next) < 1e-6f))
			fail_msg("%s: %g instead of %g", rows[i].text, (double)w,
				 (double)rows[i].next);
		stretto_optimizer_fini(&optimizer);
	}
}

static void test_parse_optimizer(void **state)
{
	static const char *const bad[] = {
		"",
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
		"sgd:nesterov=2",
		"sgd:momentum=0,nesterov=1",
		"sgd:decay=-1",
		"sgd:clip=-1",
		"sgd:beta1=0.9",
		"adam:beta1=1",
		"adam:beta2=-0.1",
		"adam:eps=0",
		"adam:decay=0.1",
		"adam:momentum=0.9",
		"adamw:decay=nan",
		"adamwx",
	};
	struct stretto_optimizer_options options;

	(void)state;
	assert_null(stretto_optimizer_parse("sgd:lr=0.25,momentum=0.5", &options));
	assert_true(options.rate == 0.25f && options.momentum == 0.5f);
	assert_null(stretto_optimizer_parse("sgd:momentum=0", &options));
	assert_true(options.rate == 0.05f && options.momentum == 0.0f);
	assert_true(options.decay == 0.0f && options.clip == 0.0f && !options.nesterov);
	assert_int_equal(stretto_optimizer_moments(&options), 1);
	assert_null(stretto_optimizer_parse("adamw:clip=2", &options));
	assert_int_equal(options.kind, STRETTO_OPTIMIZER_ADAM);
	assert_true(options.beta1 == 0.9f && options.beta2 == 0.99f && options.epsilon == 1e-8f);
	assert_true(options.rate == 0.001f && options.decay == 0.01f && options.clip == 2.0f);
	assert_int_equal(stretto_optimizer_moments(&options), 2);
	assert_null(stretto_optimizer_parse("adam", &options));
	assert_true(options.decay == 0.0f);
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
	assert_null(stretto_rate_parse("cosine", &rate));
	assert_near(stretto_rate_at(&rate, 0, 400), 1);
	assert_near(stretto_rate_at(&rate, 200, 400), 0.5);
	assert_null(stretto_rate_parse("cosine:warmup=100,floor=0.25", &rate));
	assert_near(stretto_rate_at(&rate, 0, 400), 0.01);
	assert_near(stretto_rate_at(&rate, 99, 400), 1);
	assert_near(stretto_rate_at(&rate, 100, 400), 1);
	assert_near(stretto_rate_at(&rate, 250, 400), 0.625);
	assert_near(stretto_rate_at(&rate, 400, 400), 0.25);
	assert_near(stretto_rate_at(&rate, 50, 60), 0.51);
	assert_non_null(stretto_rate_parse("cosine:warmup=0.5", &rate));
	assert_non_null(stretto_rate_parse("cosine:floor=2", &rate));
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
		cmocka_unit_test(test_pass),
		cmocka_unit_test(test_first_updates),
		cmocka_unit_test(test_parse_optimizer),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_rng),
		cmocka_unit_test(test_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
