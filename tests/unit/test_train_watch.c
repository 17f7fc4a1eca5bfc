/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be seen of a training: the ring of spans, clocks compared by barriers, the slowest rank,
 * durations, a loss that is no number on one rank, and the files of traces.
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

/* 24 images of 4 pixels, and how to train on them. */
static const uint8_t pixels[96] = {1}, labels[24] = {0, 1};
static const struct stretto_dataset images = {.train = {24, pixels, labels, {NULL, NULL}},
					      .test = {24, pixels, labels, {NULL, NULL}},
					      .features = 4,
					      .classes = 2,
					      .scale = 1};

static void set_training(struct stretto_train_options *options, size_t epochs)
{
	*options = (struct stretto_train_options){.dataset = &images, .epochs = epochs, .seed = 1};
	stretto_model_parse("mlp:4-3-2", &options->model);
	stretto_optimizer_parse("sgd", &options->optimizer);
	stretto_rate_parse("constant", &options->rate);
	options->model.batch = 4;
	options->average.strategy = STRETTO_STRATEGY_LOCAL;
	options->average.tau = 64;
}

/* A file in memory: the whole of it, in the caller's room. */
static void read_file(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "r");
	size_t length = file ? fread(text, 1, room - 1, file) : 0;

	require(file && length < room - 1);
	text[length] = '\0';
	fclose(file);
}

/* How often a text is in another. */
static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	while ((text = strstr(text, part)) != NULL) {
		text++;
		count++;
	}
	return count;
}

/* The name of every host in this program. */
static const char odd_name[] = "n\"7\\\t\x01\xc3\xbc";
int __wrap_gethostname(char *name, size_t length);
int __wrap_gethostname(char *name, size_t length)
{
	strncpy(name, odd_name, length);
	return 0;
}

/* Rings cannot be had for as many events as this. */
enum { TOO_MANY = 12345 };
stretto_status __real_stretto_trace_init(struct stretto_trace *trace, size_t capacity);
stretto_status __wrap_stretto_trace_init(struct stretto_trace *trace, size_t capacity);
stretto_status __wrap_stretto_trace_init(struct stretto_trace *trace, size_t capacity)
{
	return capacity == TOO_MANY ? STRETTO_NO_MEMORY
				    : __real_stretto_trace_init(trace, capacity);
}

/* Folder of the files of a test. */
struct place {
	char folder[40];
	char all[60]; /* the traces of all ranks */
	char own[60]; /* that of rank 0 alone */
	char text[40000];
};

static void train_traced(struct stretto_comm *world, void *argument)
{
	struct place *place = argument;
	struct stretto_train_options options;
	struct stretto_train_result result;
	struct stretto_trace trace;
	bool there = false;

	set_training(&options, 4);
	require(stretto_trace_open(world, &trace, 1000, &there) == STRETTO_OK && there);
	options.trace = &trace;
	require(stretto_train_run(world, &options, 1, &result) == STRETTO_OK);
	require(result.steps == 12);
	require(stretto_trace_write(world, &trace, 5, place->all) == STRETTO_OK);
	stretto_trace_write_own(world, &trace, 5, place->own);
	stretto_trace_fini(&trace);
}

/* Two files of the same training; hosts have a name that has to be escaped. */
static void test_trace_files(void **state)
{
	static struct place place = {.folder = "/tmp/stretto-test-XXXXXX"};
	const char *const name =
		"\"args\":{\"name\":\"rank 1 on n\\u00227\\u005c\\u0009\\u0001\xc3\xbc\"}}";

	(void)state;
	assert_non_null(mkdtemp(place.folder));
	snprintf(place.all, sizeof(place.all), "%s/all", place.folder);
	snprintf(place.own, sizeof(place.own), "%s/own", place.folder);
	run_ranks(2, NULL, train_traced, &place);
	read_file(place.all, place.text, sizeof(place.text));
	assert_int_equal(count_of(place.text, name), 1);
	assert_int_equal(count_of(place.text, "\"process_name\""), 2);
	assert_int_equal(count_of(place.text, "\"name\":\"forward\""), 10);
	read_file(place.own, place.text, sizeof(place.text));
	assert_int_equal(count_of(place.text, "\"process_name\""), 1);
	assert_int_equal(count_of(place.text, "\"args\":{\"name\":\"rank 0 on n\\u0022"), 1);
	assert_int_equal(count_of(place.text, "\"name\":\"forward\""), 5);
	assert_int_equal(count_of(place.text, "\"pid\":1"), 0);
	assert_int_equal(count_of(place.text, "\"ranks\":2,\"first_step\":8,\"last_step\":12,"), 1);
	assert_int_equal(unlink(place.all) | unlink(place.own) | rmdir(place.folder), 0);
}

static void open_badly(struct stretto_comm *world, void *argument)
{
	size_t bad = *(size_t *)argument, rank = (size_t)stretto_comm_rank(world);
	struct stretto_trace trace;
	bool there = true;

	require(stretto_trace_open(world, &trace, rank == bad ? TOO_MANY : 10, &there) ==
		STRETTO_OK);
	require(!there);
	/* All go on. */
	require(stretto_barrier(world) == STRETTO_OK);
}

static void test_no_ring(void **state)
{
	(void)state;
	for (size_t bad = 0; bad < 3; bad++)
		run_ranks(3, NULL, open_badly, &bad);
}

/* Trains; what rank 1 sees is not finite. */
static void train_badly(struct stretto_comm *world, void *argument)
{
	const float *bad = argument;
	struct stretto_dataset data = images;
	struct stretto_train_options options;
	struct stretto_train_result result;

	set_training(&options, 50);
	options.dataset = &data;
	if (stretto_comm_rank(world) == 1)
		data.shift = *bad;
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
		cmocka_unit_test(test_trace_files),
		cmocka_unit_test(test_no_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
