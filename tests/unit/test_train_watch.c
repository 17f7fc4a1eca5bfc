/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be seen of a training: the ring of spans, clocks compared by barriers, the slowest rank,
 * durations, and a loss that is no number on one rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/ranks.h"
#include "trainer/average.h"
#include "trainer/trace_file.h"
#include "trainer/train.h"
#include "trainer/watch.h"

/* Two spans a step in a ring of seven: the last three steps are whole. */
static void test_ring(void **state)
{
	struct stretto_trace trace;

	(void)state;
	assert_int_equal(stretto_trace_init(&trace, 7), STRETTO_OK);
	for (size_t step = 1; step <= 10; step++) {
		stretto_trace_step(&trace, step);
		stretto_trace_add(&trace, STRETTO_TRACE_FORWARD, 0, stretto_trace_now(&trace));
		stretto_trace_add(&trace, STRETTO_TRACE_WAIT, step, stretto_trace_now(&trace));
	}
	assert_int_equal(trace.recorded, 20);
	assert_int_equal(trace.lost, 7);
	assert_int_equal(stretto_trace_first(&trace, 2), 9);
	assert_int_equal(stretto_trace_first(&trace, 3), 8);
	assert_int_equal(stretto_trace_first(&trace, 4), 8);
	assert_int_equal(stretto_trace_first(&trace, 100), 8);
	/* The 20th span, step 10's wait, is in place 19 % 7. */
	assert_int_equal(trace.events[5].step, 10);
	assert_int_equal(trace.events[5].kind, STRETTO_TRACE_WAIT);
	assert_int_equal(trace.events[5].slice, 10);
	assert_true(trace.events[5].start <= trace.events[5].end);
	stretto_trace_fini(&trace);
}

static void test_no_trace(void **state)
{
	(void)state;
	stretto_trace_step(NULL, 1);
	assert_int_equal(stretto_trace_now(NULL), 0);
	stretto_trace_add(NULL, STRETTO_TRACE_WAIT, 0, 0);
}

static void test_clocks(void **state)
{
	/* The clock of `other` is 5000 ahead; the second barrier is the tightest from both sides. */
	const struct stretto_trace_meeting root[] = {{100, 220}, {300, 310}, {400, 500}};
	const struct stretto_trace_meeting other[] = {{5110, 5215}, {5302, 5316}, {5404, 5490}};
	const struct stretto_trace_meeting behind[] = {{40, 160}, {240, 250}, {340, 440}};
	uint64_t error;

	(void)state;
	assert_int_equal(stretto_trace_offset(root, other, 3, &error), 5004);
	assert_int_equal(error, 12);
	assert_int_equal(stretto_trace_offset(root, behind, 3, &error), -60);
	assert_int_equal(error, 10);
	assert_int_equal(stretto_trace_offset(root, root, 3, &error), 0);
	assert_int_equal(error, 0);
}

static void test_slowest(void **state)
{
	double odd[] = {2, 4, 3}, even[] = {1, 1, 3, 2}, one[] = {5}, none[] = {0, 0};
	struct stretto_straggler found;

	(void)state;
	stretto_straggler_pick(odd, 3, &found);
	assert_int_equal(found.rank, 1);
	assert_true(found.compute == 4 && found.median == 3);
	assert_true(fabs(found.slower_percent - 100.0 / 3) < 1e-9);
	stretto_straggler_pick(even, 4, &found);
	assert_int_equal(found.rank, 2);
	assert_true(found.median == 1.5 && found.slower_percent == 100);
	stretto_straggler_pick(one, 1, &found);
	assert_true(found.rank == 0 && found.slower_percent == 0);
	stretto_straggler_pick(none, 2, &found);
	assert_true(found.rank == 0 && found.slower_percent == 0);
}

static void find_slowest(struct stretto_comm *world, void *argument)
{
	int rank = stretto_comm_rank(world);
	struct stretto_straggler found = {.rank = -1};
	char host[STRETTO_STRAGGLER_HOST] = "";

	(void)argument;
	gethostname(host, sizeof(host) - 1);
	require(stretto_straggler_find(world, rank == 2 ? 0.75 : 0.5, &found) == STRETTO_OK);
	require(found.rank == (rank == 0 ? 2 : -1));
	require(rank != 0 || found.slower_percent == 50);
	require(rank != 0 || strcmp(found.host, host) == 0);
}

static void test_slowest_of_ranks(void **state)
{
	(void)state;
	run_ranks(4, NULL, find_slowest, NULL);
}

static void test_durations(void **state)
{
	char text[STRETTO_WATCH_DURATION];

	(void)state;
	stretto_watch_duration(59.4, text);
	assert_string_equal(text, "59 s");
	stretto_watch_duration(67, text);
	assert_string_equal(text, "1:07");
	stretto_watch_duration(7384, text);
	assert_string_equal(text, "2:03:04");
	stretto_watch_duration(INFINITY, text);
	assert_string_equal(text, "277777:46:40");
}

/* Trains on 24 images of 4 pixels; what rank 1 sees is not finite. */
static void train_badly(struct stretto_comm *world, void *argument)
{
	static const uint8_t pixels[96] = {1}, labels[24] = {0, 1};
	const float *bad = argument;
	struct stretto_dataset data = {.train = {24, pixels, labels, {NULL, NULL}},
				       .test = {24, pixels, labels, {NULL, NULL}},
				       .features = 4,
				       .classes = 2,
				       .scale = 1};
	struct stretto_train_options options = {.dataset = &data, .epochs = 50, .seed = 1};
	struct stretto_train_result result;

	if (stretto_comm_rank(world) == 1)
		data.shift = *bad;
	stretto_model_parse("mlp:4-3-2", &options.model);
	stretto_optimizer_parse("sgd", &options.optimizer);
	stretto_rate_parse("constant", &options.rate);
	options.model.batch = 4;
	options.average.strategy = STRETTO_STRATEGY_LOCAL;
	options.average.tau = 64;
	require(stretto_train_run(world, &options, 1, &result) == STRETTO_OK);
	require(result.verdict.stop == STRETTO_STOP_LOSS);
	require(result.verdict.rank == 1 && result.verdict.step == 1);
	/* Put in after step 1, voted on at step 16, seen at step 32. */
	require(result.steps == 32);
}

static void test_bad_loss(void **state)
{
	float bad[] = {NAN, INFINITY};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		run_ranks(3, NULL, train_badly, &bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_no_trace),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_slowest),
		cmocka_unit_test(test_slowest_of_ranks),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_bad_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
