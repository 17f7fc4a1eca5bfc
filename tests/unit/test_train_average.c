/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The averaging: none, sync, local, dasgd and dasgd-delta against references, over the real runtime
 * with ranks as threads; what all strategies have in common. The others are in test_train_family.c.
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

#include "tests/lib/ranks.h"
#include "tests/lib/trial.h"

/* What step `step` of the reference does to a weight after the optimiser, by the rules as written.
 */
static float merge_reference(const struct trial *t, size_t step, int rank, size_t i, float w)
{
	size_t tau = t->average.tau, delay = t->average.delay;
	size_t start = step - delay; /* when the average that is due was started */
	float p = t->average.own_weight, average;

	if (step < delay + 1 || start == 0 || start % tau != 0 || t->ranks == 1)
		return w;
	average = trial_mean(t, start, i);
	if (t->average.strategy == STRETTO_STRATEGY_DASGD_DELTA)
		return w + (1.0f - p) * (average - t->w[rank][start][i]);
	return p * w + (1.0f - p) * average;
}

/* The delayed strategies (delay >= 1) from their definition, into `reference`. */
static void simulate(const struct trial *t)
{
	static float v[RANKS][PARAMETERS];

	memset(&reference, 0, sizeof(reference));
	memset(v, 0, sizeof(v));
	reference.average = t->average;
	reference.ranks = t->ranks;
	reference.same_data = t->same_data;
	reference.steps = t->steps;
	for (size_t step = 0; step <= STEPS; step++) {
		for (int r = 0; r < t->ranks; r++) {
			for (size_t i = 0; i < PARAMETERS; i++) {
				float *w = &reference.w[r][step][i];

				*w = trial_initial(i);
				if (step == 0)
					continue;
				*w = reference.w[r][step - 1][i];
				v[r][i] = t->optimizer.momentum * v[r][i] +
					  trial_gradient(t, r, i, *w);
				*w -= t->optimizer.rate * v[r][i];
				*w = merge_reference(&reference, step, r, i, *w);
			}
		}
	}
}

/* One rank has nobody to average with: plain SGD, bit for bit, whatever the strategy. */
static void test_one_rank(void **state)
{
	(void)state;
	for (size_t s = 0; s < STRETTO_STRATEGY_COUNT; s++) {
		for (size_t tau = 1; tau <= 4; tau += 3) {
			struct trial *t = trial_prepare((enum stretto_strategy)s, 1, tau,
							(tau + 1) / 2, 0.25f);

			trial_run(t);
			simulate(t);
			trial_compare(t, stretto_strategy_name((enum stretto_strategy)s));
			assert_memory_equal(t->drained[0], t->w[0][STEPS], sizeof(t->drained[0]));
			assert_int_equal(t->stats[0].averages, 0);
		}
	}
}

/* dasgd and dasgd-delta with every delay, against their definition. */
static void test_delayed(void **state)
{
	(void)state;
	for (int delta = 0; delta < 2; delta++) {
		for (int ranks = 2; ranks <= RANKS; ranks++) {
			for (size_t c = 0; c < 12; c++) {
				static const size_t taus[] = {1, 2, 2, 4, 4, 4};
				static const size_t delays[] = {1, 1, 2, 1, 2, 4};
				struct trial *t = trial_prepare(delta ? STRETTO_STRATEGY_DASGD_DELTA
								      : STRETTO_STRATEGY_DASGD,
								ranks, taus[c % 6], delays[c % 6],
								c < 6 ? 0.25f : 0.0f);

				trial_run(t);
				simulate(t);
				trial_compare(t, delta ? "dasgd-delta" : "dasgd");
			}
		}
	}
}

/*
 * d = 0, tau = 1, p = 0: after every step all ranks hold the mean of what each rank's optimiser
 * made of the last mean. That is SGD on averaged weights; with momentum it is not the same as
 * averaging gradients, whose velocity is common, so the weights are what is compared exactly.
 */
static void test_no_delay(void **state)
{
	static const enum stretto_strategy strategies[] = {
		STRETTO_STRATEGY_LOCAL, STRETTO_STRATEGY_DASGD, STRETTO_STRATEGY_DASGD_DELTA};

	(void)state;
	for (size_t s = 0; s < 3; s++) {
		struct trial *t = trial_prepare(strategies[s], 2, 1, 0, 0.0f);
		static float v[2][PARAMETERS];

		memset(v, 0, sizeof(v));
		trial_run(t);
		for (size_t i = 0; i < PARAMETERS; i++) {
			float w = trial_initial(i), own[2];

			for (size_t step = 1; step <= STEPS; step++) {
				for (int r = 0; r < 2; r++) {
					v[r][i] = 0.5f * v[r][i] + trial_gradient(t, r, i, w);
					own[r] = w - 0.125f * v[r][i];
				}
				w = (own[0] + own[1]) / 2.0f;
				assert_true(t->w[0][step][i] == w);
				assert_true(t->w[1][step][i] == w);
			}
		}
	}
}

/* sync: one velocity of averaged gradients; ready told or not makes no difference. */
static void test_sync(void **state)
{
	(void)state;
	for (int told = 0; told < 2; told++) {
		struct trial *t = trial_prepare(STRETTO_STRATEGY_SYNC, 2, 1, 0, 0.0f);

		t->tell_ready = told != 0;
		trial_run(t);
		for (size_t i = 0; i < PARAMETERS; i++) {
			float w = trial_initial(i), v = 0.0f;

			for (size_t step = 1; step <= STEPS; step++) {
				float g =
					(trial_gradient(t, 0, i, w) + trial_gradient(t, 1, i, w)) /
					2.0f;

				v = 0.5f * v + g;
				w -= 0.125f * v;
				assert_true(t->w[0][step][i] == w);
				assert_true(t->w[1][step][i] == w);
			}
		}
		assert_int_equal(t->stats[1].averages, STEPS);
	}
}

/* Without momentum, averaging weights every step is averaging gradients, but for rounding. */
static void test_weights_or_gradients(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_SYNC, RANKS, 1, 0, 0.0f);

	(void)state;
	t->optimizer.momentum = 0.0f;
	trial_run(t);
	memcpy(reference.w, t->w, sizeof(t->w));
	t = trial_prepare(STRETTO_STRATEGY_LOCAL, RANKS, 1, 0, 0.0f);
	t->optimizer.momentum = 0.0f;
	trial_run(t);
	trial_compare(t, "local and sync");
}

/*
 * Overlap-Local-SGD (Wang, Liang, Joshi 2020) without anchor momentum, written from its paper: at
 * the end of each round the weights are pulled towards an anchor z, x <- x - alpha (x - z), and the
 * mean of the pulled weights becomes the anchor of the end of the next round. dasgd with d = tau is
 * the same with alpha = 1 - p, from the second round on: it does not pull at the end of the first.
 */
static void test_overlap_local_sgd(void **state)
{
	const size_t tau = 3;
	const double alpha = 0.75;
	struct trial *t = trial_prepare(STRETTO_STRATEGY_DASGD, RANKS, tau, tau, 0.25f);

	(void)state;
	trial_run(t);
	for (size_t i = 0; i < PARAMETERS; i++) {
		double x[RANKS], v[RANKS] = {0}, z = 0;

		for (int r = 0; r < RANKS; r++)
			x[r] = (double)trial_initial(i);
		for (size_t step = 1; step <= STEPS; step++) {
			double sum = 0;

			for (int r = 0; r < RANKS; r++) {
				v[r] = 0.5 * v[r] + (double)trial_gradient(t, r, i, (float)x[r]);
				x[r] -= 0.125 * v[r];
				if (step % tau == 0 && step > tau)
					x[r] -= alpha * (x[r] - z);
				sum += x[r];
			}
			if (step % tau == 0)
				z = sum / RANKS;
			for (int r = 0; r < RANKS; r++)
				assert_true(fabs(x[r] - (double)t->w[r][step][i]) < 1e-5);
		}
	}
}

/* Rule B with p = 0: the mean over ranks is where plain local steps would have put it. */
static void test_delta_mean(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_DASGD_DELTA, RANKS, 4, 2, 0.0f);

	(void)state;
	trial_run(t);
	memcpy(reference.w, t->w, sizeof(t->w));
	reference.ranks = RANKS;
	t = trial_prepare(STRETTO_STRATEGY_NONE, RANKS, 4, 2, 0.0f);
	trial_run(t);
	/* The gradient is linear in w, with one curvature: the mean's steps depend on the mean
	 * alone. */
	for (size_t step = 0; step <= STEPS; step++)
		for (size_t i = 0; i < PARAMETERS; i++)
			assert_true(fabsf(trial_mean(t, step, i) -
					  trial_mean(&reference, step, i)) < 4e-6f);
	/* And the ranks themselves are not where they would have been. */
	assert_true(t->w[0][STEPS][0] != reference.w[0][STEPS][0]);
}

/*
 * Progress of a round, in steps: equal ranks go down the quadratic by a factor (1 - lr / 2) a step
 * with small lr, so that logarithms count steps. Between the ends of two rounds, after round 0.
 */
static double steps_of_round(enum stretto_strategy strategy, size_t tau, size_t delay)
{
	struct trial *t = trial_prepare(strategy, 2, tau, delay, 0.25f);
	const double rate = 1.0 / 256;
	double from, to, optimum;

	t->same_data = true;
	t->optimizer = (struct stretto_optimizer_options){.rate = (float)rate};
	trial_run(t);
	optimum = -2.0 * (double)trial_gradient(t, 0, 0, 0.0f);
	from = (double)t->w[0][tau][0] - optimum;
	to = (double)t->w[0][2 * tau][0] - optimum;
	if (delay == tau) { /* the first merge is at 2 tau */
		from = to;
		to = (double)t->w[0][3 * tau][0] - optimum;
	}
	return log(to / from) / log(1 - rate / 2);
}

static void test_effective_steps(void **state)
{
	static const size_t delays[] = {1, 2, 4};
	static const double wanted[] = {3.25, 2.5, 1.0};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct stretto_average_options options = {
			.strategy = STRETTO_STRATEGY_DASGD,
			.parameters = 1,
			.tau = 4,
			.delay = delays[i],
			.own_weight = 0.25f,
		};
		double found = steps_of_round(STRETTO_STRATEGY_DASGD, 4, delays[i]);

		if (!(fabs(found - wanted[i]) < 0.02))
			fail_msg("d = %zu: %g effective steps, not %g", delays[i], found,
				 wanted[i]);
		assert_true(stretto_average_effective_steps(&options, 2) == wanted[i]);
		found = steps_of_round(STRETTO_STRATEGY_DASGD_DELTA, 4, delays[i]);
		assert_true(fabs(found - 4) < 0.02);
		options.strategy = STRETTO_STRATEGY_DASGD_DELTA;
		assert_true(stretto_average_effective_steps(&options, 2) == 4);
	}
}

/* The drain merges what is in flight and then averages: all ranks end with the same weights. */
static void test_drain(void **state)
{
	/* 13 steps: the last average starts at 12, and would be merged at 16. */
	struct trial *t = trial_prepare(STRETTO_STRATEGY_DASGD, 2, 4, 4, 0.25f);

	(void)state;
	trial_run(t);
	assert_memory_equal(t->drained[0], t->drained[1], sizeof(t->drained[0]));
	for (size_t i = 0; i < PARAMETERS; i++) {
		float average = trial_mean(t, 12, i);
		float a = 0.25f * t->w[0][STEPS][i] + 0.75f * average;
		float b = 0.25f * t->w[1][STEPS][i] + 0.75f * average;

		assert_true(t->drained[0][i] == (a + b) / 2.0f);
	}
	t = trial_prepare(STRETTO_STRATEGY_LOCAL, 2, 4, 0, 0.0f);
	trial_run(t);
	assert_memory_equal(t->drained[0], t->drained[1], sizeof(t->drained[0]));
	assert_memory_not_equal(t->w[0][STEPS], t->w[1][STEPS], sizeof(t->w[0][0]));
}

/* Nothing is copied, and no more memory is held than the header says. */
static void test_no_copies(void **state)
{
	static const struct {
		enum stretto_strategy strategy;
		float own_weight;
		size_t arenas;
		size_t averages;
	} rows[] = {
		{STRETTO_STRATEGY_NONE, 0.0f, 1, 0},
		{STRETTO_STRATEGY_SYNC, 0.0f, 1, STEPS},
		{STRETTO_STRATEGY_LOCAL, 0.0f, 1, STEPS / 4},
		{STRETTO_STRATEGY_LOCAL, 0.25f, 2, STEPS / 4},
		{STRETTO_STRATEGY_DASGD, 0.25f, 3, STEPS / 4},
		{STRETTO_STRATEGY_DASGD_DELTA, 0.25f, 3, STEPS / 4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct trial *t = trial_prepare(rows[i].strategy, 2, 4, 2, rows[i].own_weight);

		trial_run(t);
		for (int r = 0; r < 2; r++) {
			assert_int_equal(t->stats[r].bytes_copied, 0);
			assert_int_equal(t->stats[r].weight_arenas, rows[i].arenas);
			assert_int_equal(t->stats[r].gradient_arenas, 1);
			assert_int_equal(t->stats[r].steps, STEPS);
		}
		/* 13 steps hold three rounds of four; the drain may complete the last of them. */
		assert_int_equal(t->stats[0].averages, rows[i].averages);
		assert_int_equal(t->stats[0].bytes_averaged,
				 rows[i].averages * PARAMETERS * sizeof(float));
		assert_true(t->stats[0].exposed_seconds <= t->stats[0].in_flight_seconds);
	}
}

/* What one rank can try alone: calls that are refused, and the copies that are counted. */
static void misuse(struct stretto_comm *comm, void *arg)
{
	struct stretto_average_options options = {
		.strategy = STRETTO_STRATEGY_SYNC,
		.parameters = PARAMETERS,
	};
	struct stretto_average *average = NULL;
	struct stretto_average_stats stats;
	float values[3] = {1, 2, 3}, back[3] = {0};
	bool *good = arg;

	if (stretto_average_new(comm, &options, &average) != STRETTO_OK)
		return;
	*good = stretto_average_ready(average, 0, 10) == STRETTO_INVALID &&
		stretto_average_ready(average, 200, 12) == STRETTO_INVALID &&
		stretto_average_ready(average, 200, 11) == STRETTO_OK &&
		stretto_average_ready(average, 200, 11) == STRETTO_INVALID;
	stretto_average_import(average, 4, 3, values);
	stretto_average_export(average, 4, 3, back);
	stretto_average_stats(average, &stats);
	*good = *good && stats.bytes_copied == 2 * sizeof(values) &&
		memcmp(values, back, sizeof(back)) == 0;
	stretto_average_free(average);
	average = NULL;
	options.parameters = 0;
	*good = *good && stretto_average_new(comm, &options, &average) == STRETTO_INVALID &&
		!average;
}

static void test_misuse(void **state)
{
	bool good = false;

	(void)state;
	run_ranks(1, NULL, misuse, &good);
	assert_true(good);
}

static void test_rules(void **state)
{
	static const struct {
		enum stretto_strategy strategy;
		size_t tau, delay;
		float own_weight;
		bool good;
	} rows[] = {
		{STRETTO_STRATEGY_DASGD, 4, 4, 0.0f, true},
		{STRETTO_STRATEGY_DASGD, 4, 5, 0.0f, false},
		{STRETTO_STRATEGY_DASGD, 4, 0, 0.99f, true},
		{STRETTO_STRATEGY_DASGD, 0, 0, 0.0f, false},
		{STRETTO_STRATEGY_DASGD_DELTA, 4, 5, 0.0f, false},
		{STRETTO_STRATEGY_DASGD, 4, 1, 1.0f, false},
		{STRETTO_STRATEGY_DASGD, 4, 1, -0.1f, false},
		{STRETTO_STRATEGY_DASGD, 4, 1, NAN, false},
		{STRETTO_STRATEGY_LOCAL, 4, 5, 0.0f, true},
		{STRETTO_STRATEGY_COUNT, 1, 0, 0.0f, false},
	};
	enum stretto_strategy found;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stretto_average_options options = {
			.strategy = rows[i].strategy,
			.parameters = 1,
			.tau = rows[i].tau,
			.delay = rows[i].delay,
			.own_weight = rows[i].own_weight,
		};

		assert_int_equal(!stretto_average_check(&options), rows[i].good);
		options.parameters = 0;
		assert_non_null(stretto_average_check(&options));
	}
	for (size_t s = 0; s < STRETTO_STRATEGY_COUNT; s++) {
		assert_true(stretto_strategy_find(stretto_strategy_name((enum stretto_strategy)s),
						  &found));
		assert_int_equal(found, s);
	}
	assert_false(stretto_strategy_find("dasgd2", &found));
	assert_string_equal(stretto_strategy_name(STRETTO_STRATEGY_COUNT), "?");
}

/* The smallest delay that hides an average, and what is said where there is none. */
static void test_fit(void **state)
{
	static const struct {
		enum stretto_strategy strategy;
		double average; /* in steps */
		size_t most, tau, delay;
		enum stretto_fit fit;
	} rows[] = {
		{STRETTO_STRATEGY_DASGD, 0.0, 64, 4, 1, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DASGD, 1.0, 64, 4, 1, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DASGD, 1.25, 64, 4, 2, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DASGD, 4.0, 64, 4, 4, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DASGD_DELTA, 4.5, 64, 5, 5, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DASGD, 4.5, 4, 4, 4, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_DASGD, 64.5, 64, 64, 64, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_DASGD, 1e300, 64, 64, 64, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_OVERLAP_LOCAL, 6.5, 64, 7, 3, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_CO2, 3.5, 64, 4, 3, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_CO2, 6.5, 4, 4, 3, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_DGA, 0.5, 4, 4, 1, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_DGA, 6.5, 4, 4, 7, STRETTO_FIT_LATENCY},
		{STRETTO_STRATEGY_DGA, 20.5, 4, 4, 20, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_STREAMING, 3.5, 64, 4, 2, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_STREAMING, 3.5, 4, 4, 2, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_STREAMING, 4.5, 64, 6, 3, STRETTO_FIT_HIDES},
		{STRETTO_STRATEGY_STREAMING, 4.5, 4, 4, 2, STRETTO_FIT_SHORT},
		{STRETTO_STRATEGY_SYNC, 2.0, 64, 4, 3, STRETTO_FIT_NOTHING},
		{STRETTO_STRATEGY_ACCO, 2.0, 64, 4, 3, STRETTO_FIT_NOTHING},
		{STRETTO_STRATEGY_DASGD, NAN, 64, 4, 3, STRETTO_FIT_NOTHING},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct stretto_average_times times = {0.5, 0.5 * rows[i].average};
		struct stretto_average_options options = {
			.strategy = rows[i].strategy,
			.parameters = 100,
			.tau = 4,
			.delay = 3,
			.fragments = 2,
		};
		enum stretto_fit fit = stretto_average_fit(&options, &times, rows[i].most);

		if (fit != rows[i].fit || options.tau != rows[i].tau ||
		    options.delay != rows[i].delay)
			fail_msg("row %zu: fit %d, tau %zu, delay %zu", i, (int)fit, options.tau,
				 options.delay);
		if (fit != STRETTO_FIT_NOTHING)
			assert_null(stretto_average_check(&options));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_no_delay),
		cmocka_unit_test(test_sync),
		cmocka_unit_test(test_weights_or_gradients),
		cmocka_unit_test(test_delayed),
		cmocka_unit_test(test_overlap_local_sgd),
		cmocka_unit_test(test_delta_mean),
		cmocka_unit_test(test_effective_steps),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_no_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
