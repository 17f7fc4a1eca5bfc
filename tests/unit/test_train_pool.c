/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_train_pool.c: pooling against its definition, window by window: ties, NaN, positions beyond the
 * last whole window, channels that fill vectors and that do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "trainer/layers/pool.h"
#include "trainer/rng.h"

enum { SEED = 13, ROWS = 3 };

struct arrays {
	size_t in, out; /* floats */
	float *x, *dx, *y, *dy;
	uint8_t *from;
};

static size_t y_count(const struct stretto_pool *pool)
{
	return ROWS * (pool->height / pool->side) * (pool->width / pool->side) * pool->channels;
}

/* Few different values, so that there are ties. */
static struct arrays arrays_new(const struct stretto_pool *pool, struct stretto_rng *rng)
{
	struct arrays arrays = {.in = ROWS * pool->height * pool->width * pool->channels,
				.out = y_count(pool)};

	arrays.x = malloc(arrays.in * sizeof(float));
	arrays.dx = malloc(arrays.in * sizeof(float));
	arrays.y = malloc(arrays.out * sizeof(float));
	arrays.dy = malloc(arrays.out * sizeof(float));
	arrays.from = malloc(arrays.out);
	assert_true(arrays.x && arrays.dx && arrays.y && arrays.dy && arrays.from);
	for (size_t i = 0; i < arrays.in; i++) {
		arrays.x[i] = roundf(stretto_rng_uniform(rng, -4.0f, 4.0f));
		arrays.dx[i] = NAN; /* must be overwritten */
		if (stretto_rng_uniform(rng, 0.0f, 1.0f) < 0.02f)
			arrays.x[i] = NAN;
	}
	for (size_t i = 0; i < arrays.out; i++)
		arrays.dy[i] = 1 + roundf(stretto_rng_uniform(rng, 0.0f, 9.0f));
	return arrays;
}

static void arrays_free(struct arrays *arrays)
{
	free(arrays->x);
	free(arrays->dx);
	free(arrays->y);
	free(arrays->dy);
	free(arrays->from);
}

/* Element of X at position k of the window that element `at` of Y is made of. */
static size_t element(const struct stretto_pool *pool, size_t at, size_t k)
{
	size_t wide = pool->width / pool->side, high = pool->height / pool->side;
	size_t c = at % pool->channels, window = at / pool->channels;
	size_t row = window / wide % high * pool->side + k / pool->side;
	size_t column = window % wide * pool->side + k % pool->side;

	return ((window / wide / high * pool->height + row) * pool->width + column) *
		       pool->channels +
	       c;
}

/* The first of the greatest, or the first NaN. */
static size_t wanted_from(const struct stretto_pool *pool, const float *x, size_t at)
{
	size_t best = 0;

	for (size_t k = 0; k < pool->side * pool->side; k++)
		if (isnan(x[element(pool, at, k)]))
			return k;
	for (size_t k = 1; k < pool->side * pool->side; k++)
		if (x[element(pool, at, k)] > x[element(pool, at, best)])
			best = k;
	return best;
}

static void check_max(const struct stretto_pool *pool, struct stretto_rng *rng)
{
	struct arrays arrays = arrays_new(pool, rng);
	float *dx = calloc(arrays.in, sizeof(float));

	assert_non_null(dx);
	stretto_pool_max_forward(pool, ROWS, arrays.x, arrays.y, arrays.from);
	stretto_pool_max_backward(pool, ROWS, arrays.dy, arrays.from, arrays.dx);
	for (size_t at = 0; at < arrays.out; at++) {
		size_t k = wanted_from(pool, arrays.x, at), i = element(pool, at, k);

		assert_int_equal(arrays.from[at], k);
		assert_true(arrays.y[at] == arrays.x[i] ||
			    (isnan(arrays.y[at]) && isnan(arrays.x[i])));
		dx[i] = arrays.dy[at];
	}
	for (size_t i = 0; i < arrays.in; i++)
		assert_true(arrays.dx[i] == dx[i]);
	free(dx);
	arrays_free(&arrays);
}

static void check_mean(const struct stretto_pool *pool, struct stretto_rng *rng)
{
	struct arrays arrays = arrays_new(pool, rng);
	size_t count = pool->side * pool->side;
	float *dx = calloc(arrays.in, sizeof(float)), share = 1.0f / (float)count;

	assert_non_null(dx);
	for (size_t i = 0; i < arrays.in; i++)
		arrays.x[i] = isnan(arrays.x[i]) ? 5 : arrays.x[i];
	stretto_pool_mean_forward(pool, ROWS, arrays.x, arrays.y);
	stretto_pool_mean_backward(pool, ROWS, arrays.dy, arrays.dx);
	for (size_t at = 0; at < arrays.out; at++) {
		float sum = 0;

		for (size_t k = 0; k < count; k++) {
			sum += share * arrays.x[element(pool, at, k)];
			dx[element(pool, at, k)] = share * arrays.dy[at];
		}
		assert_true(fabsf(arrays.y[at] - sum) < 1e-5f);
	}
	for (size_t i = 0; i < arrays.in; i++)
		assert_true(arrays.dx[i] == dx[i]);
	free(dx);
	arrays_free(&arrays);
}

static void pools_are_their_definition(void **state)
{
	static const size_t channels[] = {1, 5, 8, 11, 16, 24};
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 0);
	for (size_t at = 0; at < 6 * 4 * 3; at++) {
		struct stretto_pool pool = {.channels = channels[at % 6], .side = 1 + at / 6 % 4};

		pool.height = 2 * pool.side + at / 24; /* 0, 1 or 2 rows are left over */
		pool.width = 3 * pool.side + at % 3;
		check_max(&pool, &rng);
		check_mean(&pool, &rng);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_are_their_definition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
