/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rest of the family of averaging strategies: post-local, overlap-local, dga, co2, acco and
 * streaming, against their equations, over the real runtime with ranks as threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/trial.h"

/* Velocities of the local optimisers, and what a strategy keeps for each parameter. */
static float v[RANKS][PARAMETERS], z[PARAMETERS], z_before[PARAMETERS], m[PARAMETERS];

/* `reference` as it is before the first step of a trial. */
static void begin(const struct trial *t)
{
	memset(&reference, 0, sizeof(reference));
	memset(v, 0, sizeof(v));
	memset(m, 0, sizeof(m));
	reference.ranks = t->ranks;
	reference.steps = t->steps;
	reference.same_data = t->same_data;
	for (size_t i = 0; i < PARAMETERS; i++) {
		z[i] = z_before[i] = trial_initial(i);
		for (int r = 0; r < t->ranks; r++)
			reference.w[r][0][i] = trial_initial(i);
	}
}

/* One step of a rank's sgd with gradient g. */
static float sgd(const struct trial *t, int r, size_t i, float w, float g)
{
	v[r][i] = t->optimizer.momentum * v[r][i] + g;
	return w - t->optimizer.rate * v[r][i];
}

/* All ranks make a local step of their own, from step - 1 to step. */
static void local_step(const struct trial *t, size_t step)
{
	for (int r = 0; r < t->ranks; r++) {
		for (size_t i = 0; i < PARAMETERS; i++) {
			float w = reference.w[r][step - 1][i];

			reference.w[r][step][i] = sgd(t, r, i, w, trial_gradient(t, r, i, w));
		}
	}
}

/* Mean over the ranks of their gradients at the weights of a step. */
static float mean_gradient(const struct trial *t, size_t step, size_t i)
{
	float sum = trial_gradient(t, 0, i, reference.w[0][step][i]);

	for (int r = 1; r < t->ranks; r++)
		sum += trial_gradient(t, r, i, reference.w[r][step][i]);
	return sum / (float)t->ranks;
}

/* sync until the warm-up ends, then local from there. */
static void test_post_local(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_POST_LOCAL, 2, 3, 0, 0.0f);

	(void)state;
	t->average.warmup = 5;
	trial_run(t);
	begin(t);
	for (size_t step = 1; step <= t->steps; step++) {
		if (step > 5)
			local_step(t, step);
		for (size_t i = 0; i < PARAMETERS; i++) {
			float g = mean_gradient(t, step - 1, i), average;

			for (int r = 0; r < 2 && step <= 5; r++)
				reference.w[r][step][i] =
					sgd(t, r, i, reference.w[r][step - 1][i], g);
			average = trial_mean(&reference, step, i);
			for (int r = 0; r < 2 && step > 5 && (step - 5) % 3 == 0; r++)
				reference.w[r][step][i] = average;
		}
	}
	trial_compare(t, "post-local");
	/* Five averages of gradients, two of weights. */
	assert_int_equal(t->stats[0].averages, 7);
}

/* At the ends of its range it is sync, and local. */
static void test_post_local_ends(void **state)
{
	static const enum stretto_strategy same[] = {STRETTO_STRATEGY_LOCAL, STRETTO_STRATEGY_SYNC};

	(void)state;
	for (size_t all = 0; all < 2; all++) {
		struct trial *t = trial_prepare(same[all], 2, 3, 0, 0.25f);

		trial_run(t);
		memcpy(reference.w, t->w, sizeof(t->w));
		t = trial_prepare(STRETTO_STRATEGY_POST_LOCAL, 2, 3, 0, 0.25f);
		t->average.warmup = all ? STEPS : 0;
		trial_run(t);
		trial_compare(t, "post-local");
	}
}

/* Overlap-Local-SGD with a momentum of the anchor; the velocity of the anchor is m. */
static void test_overlap_local(void **state)
{
	(void)state;
	for (int ranks = 2; ranks <= RANKS; ranks++) {
		struct trial *t = trial_prepare(STRETTO_STRATEGY_OVERLAP_LOCAL, ranks, 3, 0, 0.25f);

		t->average.outer_momentum = 0.5f;
		trial_run(t);
		begin(t);
		for (size_t step = 1; step <= t->steps; step++) {
			local_step(t, step);
			for (size_t i = 0; i < PARAMETERS && step % 3 == 0 && step > 3; i++) {
				m[i] = 0.5f * m[i] + (trial_mean(&reference, step - 3, i) - z[i]);
				z[i] += m[i];
				for (int r = 0; r < ranks; r++) {
					float *w = &reference.w[r][step][i];

					*w = 0.25f * *w + 0.75f * z[i];
				}
			}
		}
		trial_compare(t, "overlap-local");
	}
}

/* The same trainings under other names, bit for bit: `one` is another strategy's special case. */
static void assert_same(const struct stretto_average_options *one,
			const struct stretto_average_options *other)
{
	for (int ranks = 2; ranks <= RANKS; ranks++) {
		struct trial *t = trial_prepare(one->strategy, ranks, 1, 0, 0.0f);

		t->average = *one;
		trial_run(t);
		reference = *t;
		t = trial_prepare(other->strategy, ranks, 1, 0, 0.0f);
		t->average = *other;
		trial_run(t);
		assert_memory_equal(t->w, reference.w, sizeof(t->w));
		assert_memory_equal(t->drained, reference.drained, sizeof(t->drained));
	}
}

/* dasgd with d = tau is overlap-local with alpha = 1 - p, beta = 0; streaming with one fragment and
 * an outer rate of 1 is dasgd. */
static void test_special_cases(void **state)
{
	struct stretto_average_options dasgd = {
		.strategy = STRETTO_STRATEGY_DASGD,
		.parameters = PARAMETERS,
		.tau = 3,
		.delay = 3,
		.own_weight = 0.25f,
		.slice = SLICE,
	};
	struct stretto_average_options other = dasgd;

	(void)state;
	other.strategy = STRETTO_STRATEGY_OVERLAP_LOCAL;
	other.delay = 0;
	assert_same(&dasgd, &other);
	dasgd.delay = 2;
	other = dasgd;
	other.strategy = STRETTO_STRATEGY_STREAMING;
	assert_same(&dasgd, &other);
	other.fragments = 1;
	other.outer_rate = 1.0f;
	assert_same(&dasgd, &other);
}

/* Fragment f of F starts at the steps that are (f + 1) tau / F modulo tau. */
static bool is_due(const struct trial *t, size_t f, size_t step)
{
	size_t fragments = t->average.fragments, tau = t->average.tau, d = t->average.delay;

	return step > d && (step - d) % tau == (f + 1) * tau / fragments % tau;
}

/* Where fragment f begins; 211 parameters are cut at whole elements if there are 4, at lines if 2. */
static size_t fragment_begin(size_t f, size_t fragments)
{
	if (f == fragments)
		return PARAMETERS;
	return fragments == 2 ? f * 96 : PARAMETERS * f / fragments;
}

/* What is due at a step, by the equations with an anchor. */
static void streaming_merges(const struct trial *t, size_t step)
{
	const struct stretto_average_options *o = &t->average;

	for (size_t f = 0; f < o->fragments; f++) {
		size_t end = fragment_begin(f + 1, o->fragments);

		for (size_t i = fragment_begin(f, o->fragments); i < end && is_due(t, f, step);
		     i++) {
			float e = trial_mean(&reference, step - o->delay, i) - z[i];

			m[i] = o->outer_momentum * m[i] + e;
			z[i] += o->outer_rate * (e + o->outer_momentum * m[i]);
			for (int r = 0; r < t->ranks; r++) {
				float *w = &reference.w[r][step][i];

				*w = o->own_weight * *w + (1.0f - o->own_weight) * z[i];
			}
		}
	}
}

static void test_streaming(void **state)
{
	(void)state;
	for (int c = 0; c < 8; c += 1 + 2 * TEST_SLOW) {
		struct trial *t = trial_prepare(STRETTO_STRATEGY_STREAMING, c % 2 + 2, 4, 1, 0.5f);

		t->average.fragments = c & 2 ? 4 : 2;
		t->average.delay = t->average.fragments == 2 && c >= 6 ? 2 : 1;
		t->average.outer_rate = 0.75f;
		t->average.outer_momentum = c & 4 ? 0.5f : 0.0f;
		trial_run(t);
		begin(t);
		for (size_t step = 1; step <= t->steps; step++) {
			local_step(t, step);
			streaming_merges(t, step);
		}
		trial_compare(t, "streaming");
	}
}

/* dga from its definition, with the history of gradients instead of arenas that take turns. */
static void test_dga(void **state)
{
	static const size_t delays[] = {1, 2, 5, 20};

	(void)state;
	for (size_t c = 0; c < 8; c += 1 + 2 * TEST_SLOW) {
		size_t d = delays[c % 4];
		struct trial *t = trial_prepare(STRETTO_STRATEGY_DGA, c < 4 ? 2 : 3, 1, d, 0.0f);

		t->steps = 30;
		trial_run(t);
		begin(t);
		for (size_t step = 1; step <= t->steps; step++) {
			for (int r = 0; r < t->ranks; r++) {
				for (size_t i = 0; i < PARAMETERS; i++) {
					float w = reference.w[r][step - 1][i];
					float g = trial_gradient(t, r, i, w), old;

					if (step > d) {
						old = reference.w[r][step - 1 - d][i];
						g += mean_gradient(t, step - 1 - d, i) -
						     trial_gradient(t, r, i, old);
					}
					reference.w[r][step][i] = sgd(t, r, i, w, g);
				}
			}
		}
		trial_compare(t, "dga");
		assert_int_equal(t->stats[0].averages, 30);
	}
}

/* An outer step of co2 on element i: the average of the round before is `mean`. */
static void co2_outer(const struct trial *t, size_t i, float mean)
{
	float e = z_before[i] - mean, gap = fabsf(z[i] - z_before[i]), now = z[i];
	float clip = t->average.outer_clip;

	if (fabsf(e) + gap > 0)
		e *= fabsf(e) / (fabsf(e) + gap);
	if (clip > 0)
		e = fmaxf(fminf(e, clip), -clip);
	m[i] = t->average.outer_momentum * m[i] + e;
	z[i] = now - t->average.outer_rate * m[i];
	z_before[i] = now;
}

/* At the end of a round the history holds the weights that go to the average, apart from z. */
static void simulate_co2(const struct trial *t)
{
	static float ended[MOST_STEPS + 1][PARAMETERS];
	size_t tau = t->average.tau;

	begin(t);
	for (size_t step = 1; step <= t->steps; step++) {
		local_step(t, step);
		for (size_t i = 0; i < PARAMETERS && step % tau == 0; i++) {
			ended[step][i] = trial_mean(&reference, step, i);
			if (step > tau)
				co2_outer(t, i, ended[step - tau][i]);
			for (int r = 0; r < t->ranks; r++)
				reference.w[r][step][i] = z[i];
		}
	}
}

static void test_co2(void **state)
{
	(void)state;
	for (int c = 0; c < 8; c += 1 + 2 * TEST_SLOW) {
		struct trial *t =
			trial_prepare(STRETTO_STRATEGY_CO2, c % 2 + 2, c & 2 ? 1 : 3, 0, 0.0f);

		t->average.outer_rate = 0.75f;
		t->average.outer_momentum = 0.5f;
		t->average.outer_clip = c & 4 ? 0.125f : 0.0f;
		trial_run(t);
		simulate_co2(t);
		trial_compare(t, "co2");
	}
}

/* acco: means of halves at the weights and at the estimate, one velocity for all, tried and kept. */
static void simulate_acco(const struct trial *t)
{
	begin(t);
	for (size_t step = 1; step <= t->steps; step++) {
		for (size_t i = 0; i < PARAMETERS; i++) {
			const float mu = t->optimizer.momentum, rate = t->optimizer.rate;
			float next = z[i];

			/* z: weights, m: their velocity; gradients of the step before are complete. */
			if (step % 2 == 0) {
				float g = mean_gradient(t, step - 2, i);

				next = z[i] - rate * (mu * m[i] + g);
			} else if (step > 1) {
				float first = mean_gradient(t, step - 3, i);
				float second = mean_gradient(t, step - 2, i);

				m[i] = mu * m[i] + 0.5f * (first + second);
				z[i] -= rate * m[i];
				next = z[i];
			}
			for (int r = 0; r < t->ranks; r++)
				reference.w[r][step][i] = next;
		}
	}
}

static void test_acco(void **state)
{
	static float last[PARAMETERS];

	(void)state;
	for (int c = 0; c < 4; c++) {
		struct trial *t = trial_prepare(STRETTO_STRATEGY_ACCO, c % 2 + 2, 1, 0, 0.0f);

		t->tell_ready = c < 2;
		trial_run(t);
		simulate_acco(t);
		trial_compare(t, "acco");
		memcpy(last, t->w[0][STEPS], sizeof(last));
		/* 13 steps: the last has a first half in flight, which the drain gives up. */
		assert_memory_equal(t->drained[0], t->w[0][STEPS], sizeof(t->drained[0]));
		t->steps = 12;
		trial_run(t);
		assert_memory_equal(t->drained[0], last, sizeof(last));
		assert_memory_equal(t->drained[0], t->drained[1], sizeof(t->drained[0]));
	}
}

/* The optimiser's state is sharded: ranks hold about 1/M each, and Adam's two moments with it. */
static void test_sharded_state(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_ACCO, 2, 1, 0, 0.0f);

	(void)state;
	assert_null(stretto_optimizer_parse("adamw:lr=0.125,decay=0.01", &t->optimizer));
	trial_run(t);
	for (int r = 0; r < 2; r++) {
		assert_true(t->state[r] * 2 >= PARAMETERS);
		assert_true(t->state[r] < PARAMETERS * 3 / 4);
		for (size_t step = 0; step <= STEPS; step++)
			assert_memory_equal(t->w[r][step], t->w[0][step], sizeof(t->w[0][0]));
	}
	/* The first update has both halves at the initial weights: that of sync. */
	reference = *t;
	t = trial_prepare(STRETTO_STRATEGY_SYNC, 2, 1, 0, 0.0f);
	t->optimizer = reference.optimizer;
	trial_run(t);
	assert_memory_equal(reference.w[0][3], t->w[0][1], sizeof(t->w[0][0]));
}

/* All ranks end with the same weights, whatever is in flight; and go on to train after it. */
static void test_drains(void **state)
{
	(void)state;
	for (size_t s = STRETTO_STRATEGY_SYNC; s < STRETTO_STRATEGY_COUNT; s++) {
		for (size_t steps = 5; steps < 9; steps += 1 + 2 * TEST_SLOW) {
			struct trial *t =
				trial_prepare((enum stretto_strategy)s, RANKS, 4, 2, 0.25f);

			t->steps = steps;
			t->average.fragments = 2;
			t->average.outer_momentum = 0.5f;
			t->average.warmup = 3;
			trial_run(t);
			for (int r = 1; r < RANKS; r++)
				assert_memory_equal(t->drained[0], t->drained[r],
						    sizeof(t->drained[0]));
		}
	}
}

/* The drain of co2 adds the outer step that the average in flight makes. */
static void test_co2_drain(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_CO2, 2, 4, 0, 0.0f);

	(void)state;
	t->average.outer_momentum = 0.5f;
	t->average.outer_rate = 0.75f;
	trial_run(t);
	simulate_co2(t);
	/* 13 steps: one of the fourth round; the average of the third is in flight. */
	for (size_t i = 0; i < PARAMETERS; i++) {
		float own[2] = {t->w[0][13][i], t->w[1][13][i]}, third[2], wanted;

		for (int r = 0; r < 2; r++) {
			float w = t->w[r][11][i];

			/* What step 12 made, which the history does not show; the velocity is that
			 * of step 13, which was v <- v / 2 + g. */
			third[r] = 2.0f * (v[r][i] - trial_gradient(t, r, i, t->w[r][12][i]));
			third[r] = w - t->optimizer.rate * third[r];
		}
		wanted = z[i];
		co2_outer(t, i, (third[0] + third[1]) / 2.0f);
		wanted = (own[0] + own[1]) / 2.0f + (z[i] - wanted);
		if (!(fabsf(wanted - t->drained[0][i]) < 1e-5f))
			fail_msg("element %zu: %g instead of %g", i, (double)t->drained[0][i],
				 (double)wanted);
	}
}

/*
 * Progress of a round in the long run, in steps, as in test_train_average.c: equal ranks go down a
 * quadratic with a small rate, so that each step is a factor of (1 - lr / 2).
 */
static void assert_effective(struct trial *t, double wanted)
{
	const double rate = 1.0 / 65536;
	size_t tau = t->average.tau, last = MOST_STEPS / tau * tau;
	double optimum, steps;

	t->same_data = true;
	t->steps = MOST_STEPS;
	t->optimizer = (struct stretto_optimizer_options){.rate = (float)rate};
	trial_run(t);
	optimum = -2.0 * (double)trial_gradient(t, 0, 0, 0.0f);
	steps = log(((double)t->w[0][last][0] - optimum) /
		    ((double)t->w[0][last - 4 * tau][0] - optimum)) /
		log(1 - rate / 2) / 4;
	if (!(fabs(steps - wanted) < 0.05))
		fail_msg("%s: %g effective steps, not %g",
			 stretto_strategy_name(t->average.strategy), steps, wanted);
	if (!(fabs(stretto_average_effective_steps(&t->average, 2) - wanted) < 1e-6))
		fail_msg("%s: %g effective steps are said, not %g",
			 stretto_strategy_name(t->average.strategy),
			 stretto_average_effective_steps(&t->average, 2), wanted);
}

static void test_effective_steps(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_OVERLAP_LOCAL, 2, 4, 0, 0.25f);

	(void)state;
	t->average.outer_momentum = 0.5f;
	assert_effective(t, 0.25 * 4 / (1 - 0.75 * 0.5));
	t = trial_prepare(STRETTO_STRATEGY_CO2, 2, 4, 0, 0.0f);
	t->average.outer_momentum = 0.5f;
	assert_effective(t, 4);
	t = trial_prepare(STRETTO_STRATEGY_STREAMING, 2, 4, 2, 0.5f);
	t->average.fragments = 2;
	assert_effective(t, 4 - 2 * 0.5);
	t = trial_prepare(STRETTO_STRATEGY_STREAMING, 2, 4, 1, 0.5f);
	t->average.outer_rate = 0.5f;
	t->average.outer_momentum = 0.75f;
	assert_effective(t, (4 - 0.5) / (0.5 + 0.5 * 0.5));
}

/* A step of sync with the norm clipped is one with gradients scaled to it; acco refuses. */
static void test_clip(void **state)
{
	struct trial *t = trial_prepare(STRETTO_STRATEGY_SYNC, 2, 1, 0, 0.0f);

	(void)state;
	t->average.clip = 4.0f;
	trial_run(t);
	begin(t);
	for (size_t step = 1; step <= t->steps; step++) {
		double sum = 0, scale;

		for (size_t i = 0; i < PARAMETERS; i++)
			sum += pow((double)mean_gradient(t, step - 1, i), 2);
		scale = sqrt(sum) > 4 ? 4 / sqrt(sum) : 1;
		for (size_t i = 0; i < PARAMETERS; i++) {
			float g = (float)scale * mean_gradient(t, step - 1, i);
			float w = sgd(t, 0, i, reference.w[0][step - 1][i], g);

			for (int r = 0; r < 2; r++) {
				reference.w[r][step][i] = w;
				assert_true(fabsf(t->w[r][step][i] - w) < 1e-5f);
			}
		}
		/* It was needed: 211 gradients of about 2 are a norm of about 29. */
		assert_true(step > 1 || scale < 0.25);
	}
	t->average.strategy = STRETTO_STRATEGY_ACCO;
	assert_non_null(stretto_average_check(&t->average));
}

/* What no strategy of these takes. */
static void test_rules(void **state)
{
	static const struct {
		struct stretto_average_options options;
		const char *why;
	} rows[] = {
		{{.strategy = STRETTO_STRATEGY_DGA, .delay = 0}, "delay of dga"},
		{{.strategy = STRETTO_STRATEGY_DGA, .delay = 21}, "delay of dga"},
		{{.strategy = STRETTO_STRATEGY_STREAMING, .tau = 4, .fragments = 3}, "multiple"},
		{{.strategy = STRETTO_STRATEGY_STREAMING, .tau = 4, .fragments = 2, .delay = 3},
		 "tau / fragments"},
		{{.strategy = STRETTO_STRATEGY_STREAMING, .tau = 512, .fragments = 256},
		 "in each fragment"},
		{{.strategy = STRETTO_STRATEGY_CO2, .tau = 0}, "tau"},
		{{.strategy = STRETTO_STRATEGY_CO2, .tau = 1, .outer_rate = -1}, "outer rate"},
		{{.strategy = STRETTO_STRATEGY_CO2, .tau = 1, .outer_momentum = 1}, "momentum"},
		{{.strategy = STRETTO_STRATEGY_CO2, .tau = 1, .outer_clip = -1}, "clip"},
		{{.strategy = STRETTO_STRATEGY_OVERLAP_LOCAL, .tau = 1, .own_weight = 1}, "weight"},
		{{.strategy = STRETTO_STRATEGY_SYNC, .clip = NAN}, "norm"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stretto_average_options options = rows[i].options;
		const char *why;

		options.parameters = PARAMETERS;
		why = stretto_average_check(&options);
		if (!why || !strstr(why, rows[i].why))
			fail_msg("row %zu: '%s' instead of something about %s", i, why ? why : "",
				 rows[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_post_local),
		cmocka_unit_test(test_post_local_ends),
		cmocka_unit_test(test_overlap_local),
		cmocka_unit_test(test_special_cases),
		cmocka_unit_test(test_streaming),
		cmocka_unit_test(test_dga),
		cmocka_unit_test(test_co2),
		cmocka_unit_test(test_co2_drain),
		cmocka_unit_test(test_acco),
		cmocka_unit_test(test_sharded_state),
		cmocka_unit_test(test_drains),
		cmocka_unit_test(test_effective_steps),
		cmocka_unit_test(test_clip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
