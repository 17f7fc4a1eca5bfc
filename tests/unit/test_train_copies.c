/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No copies: memcpy() and memmove() of the whole program are replaced (test_train_copies.wrap) by ones
 * that count the bytes that leave an arena of weights or gradients, for every strategy. What a
 * transport copies on its way comes from a peer's memory, mapped elsewhere, or is small.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/trial.h"

/* Floats of an arena, and of a slice: large enough that shm does not send one through slots. */
enum { FLOATS = 40000, LARGE_SLICE = 8192, MOST_ARENAS = 128 };

/* Bytes that a transport may take through a slot: STRETTO_SHM_EAGER. */
enum { SMALL = 8192 };

/* Where the arenas of all ranks begin: what the averagers have shown. */
static _Atomic(const char *) arenas[MOST_ARENAS];
static atomic_size_t copied;

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);

/* Relaxed: entries are added before what is looked for is done, by the same thread. */
static bool in_arena(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	for (size_t i = 0; i < MOST_ARENAS; i++) {
		const char *arena = atomic_load_explicit(&arenas[i], memory_order_relaxed);

		if (!arena)
			break;
		if (at >= (uintptr_t)arena && at < (uintptr_t)arena + FLOATS * sizeof(float))
			return true;
	}
	return false;
}

static void note(const void *to, const void *from, size_t bytes)
{
	if (in_arena(from) && (bytes > SMALL || in_arena(to)))
		atomic_fetch_add_explicit(&copied, bytes, memory_order_relaxed);
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
	note(to, from, bytes);
	return __real_memcpy(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
	note(to, from, bytes);
	return __real_memmove(to, from, bytes);
}

static void add_arena(const float *arena)
{
	for (size_t i = 0; i < MOST_ARENAS; i++) {
		const char *none = NULL;

		if (atomic_load_explicit(&arenas[i], memory_order_relaxed) == (const char *)arena)
			return;
		if (atomic_compare_exchange_strong(&arenas[i], &none, (const char *)arena) ||
		    none == (const char *)arena)
			return;
	}
	test_failed("more arenas than expected");
}

static void train(struct stretto_comm *comm, void *argument)
{
	const struct stretto_average_options *options = argument;
	struct stretto_optimizer_options sgd = {.rate = 0.125f, .momentum = 0.5f};
	struct stretto_optimizer optimizer;
	struct stretto_average_stats stats;
	struct stretto_average *average;

	require(stretto_average_new(comm, options, &average) == STRETTO_OK);
	require(stretto_optimizer_init(&optimizer, &sgd, stretto_average_state(average)) ==
		STRETTO_OK);
	for (size_t step = 0; step < 10; step++) {
		float *g = stretto_average_gradients(average);

		add_arena(stretto_average_weights(average));
		add_arena(g);
		for (size_t i = 0; i < FLOATS; i++)
			g[i] = (float)(i % 7) + (float)stretto_comm_rank(comm);
		require(stretto_average_step(average, stretto_optimizer_update, &optimizer) ==
			STRETTO_OK);
	}
	require(stretto_average_drain(average) == STRETTO_OK);
	stretto_average_stats(average, &stats);
	require(stats.bytes_copied == 0);
	/* All ranks are past their last copy before arenas are freed, and others take their place. */
	require(stretto_barrier(comm) == STRETTO_OK);
	stretto_average_free(average);
	stretto_optimizer_fini(&optimizer);
}

static void test_no_bytes_are_copied(void **state)
{
	(void)state;
	for (size_t s = 0; s < STRETTO_STRATEGY_COUNT; s++) {
		struct stretto_average_options options = {
			.strategy = (enum stretto_strategy)s,
			.parameters = FLOATS,
			.tau = 4,
			.delay = 2,
			.own_weight = 0.25f,
			.slice = LARGE_SLICE,
			.warmup = 3,
			.fragments = 2,
			.outer_momentum = 0.5f,
		};

		memset(arenas, 0, sizeof(arenas));
		atomic_store(&copied, 0);
		run_ranks(2, NULL, train, &options);
		if (atomic_load(&copied) != 0)
			fail_msg("%s: %zu bytes were copied",
				 stretto_strategy_name(options.strategy), atomic_load(&copied));
	}
}

/* The instrument works: what is exported is counted. */
static void export(struct stretto_comm *comm, void *argument)
{
	struct stretto_average_options options = {.parameters = FLOATS};
	float *target = argument;
	struct stretto_average *average;

	require(stretto_average_new(comm, &options, &average) == STRETTO_OK);
	add_arena(stretto_average_weights(average));
	stretto_average_export(average, 100, FLOATS - 100, target);
	stretto_average_free(average);
}

static void test_a_copy_is_seen(void **state)
{
	static float target[FLOATS];

	(void)state;
	memset(arenas, 0, sizeof(arenas));
	atomic_store(&copied, 0);
	run_ranks(1, NULL, export, target);
	assert_int_equal(atomic_load(&copied), (FLOATS - 100) * sizeof(float));
}

/* What each holds, in arenas, as the header says, and that nothing is copied. */
static void test_memory(void **state)
{
	static const struct {
		enum stretto_strategy strategy;
		float outer_momentum;
		size_t weights, gradients;
	} rows[] = {
		{STRETTO_STRATEGY_POST_LOCAL, 0, 2, 1},
		{STRETTO_STRATEGY_OVERLAP_LOCAL, 0, 3, 1},
		{STRETTO_STRATEGY_OVERLAP_LOCAL, 0.5f, 5, 1},
		{STRETTO_STRATEGY_DGA, 0, 1, 6},
		{STRETTO_STRATEGY_CO2, 0.5f, 5, 1},
		{STRETTO_STRATEGY_ACCO, 0, 2, 2},
		{STRETTO_STRATEGY_STREAMING, 0, 3, 1},
		{STRETTO_STRATEGY_STREAMING, 0.5f, 5, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct trial *t = trial_prepare(rows[i].strategy, 2, 4, 2, 0.25f);
		size_t held = rows[i].weights + rows[i].gradients;

		t->average.outer_momentum = rows[i].outer_momentum;
		trial_run(t);
		assert_int_equal(t->stats[0].bytes_copied, 0);
		assert_int_equal(t->stats[0].weight_arenas, rows[i].weights);
		assert_int_equal(t->stats[0].gradient_arenas, rows[i].gradients);
		if (rows[i].strategy != STRETTO_STRATEGY_ACCO)
			assert_int_equal(t->stats[0].memory, held * PARAMETERS * sizeof(float));
		assert_true(t->stats[0].exposed_seconds <= t->stats[0].in_flight_seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_copy_is_seen),
		cmocka_unit_test(test_no_bytes_are_copied),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
