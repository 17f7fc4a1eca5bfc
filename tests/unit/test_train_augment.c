/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Augmentation: images by hand, what is drawn and from what, and batches of it by a thread or without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/ranks.h"
#include "trainer/data/prefetch.h"
#include "trainer/train.h"

/* Three rows of two pixels with two channels. */
static const struct stretto_image_shape shape = {3, 2, 2};
static const uint8_t image[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static const struct {
	struct stretto_augment_draw draw;
	uint8_t out[12];
} by_hand[] = {
	{{0, 0, false}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
	{{0, 0, true}, {3, 4, 1, 2, 7, 8, 5, 6, 11, 12, 9, 10}},
	{{1, 0, false}, {5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0}},
	{{-1, 0, false}, {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}},
	{{0, 1, false}, {3, 4, 0, 0, 7, 8, 0, 0, 11, 12, 0, 0}},
	{{0, -1, false}, {0, 0, 1, 2, 0, 0, 5, 6, 0, 0, 9, 10}},
	{{-2, 1, true}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4}},
	{{2, -1, true}, {9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	{{3, 0, false}, {0}},
	{{-64, 0, true}, {0}},
	{{0, 2, false}, {0}},
	{{0, -64, false}, {0}},
	{{1, 64, false}, {0}},
};

static void test_by_hand(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(by_hand) / sizeof(*by_hand); i++) {
		/* Of their own sizes, so that a sanitizer sees what is read or written beyond. */
		uint8_t *in = malloc(sizeof(image)), *out = malloc(sizeof(image));

		assert_true(in && out);
		memcpy(in, image, sizeof(image));
		memset(out, 0xee, sizeof(image));
		stretto_augment_image(&shape, &by_hand[i].draw, in, out);
		if (memcmp(out, by_hand[i].out, sizeof(image)) != 0)
			fail_msg("case %zu: other pixels", i);
		assert_memory_equal(in, image, sizeof(image));
		free(in);
		free(out);
	}
}

static void test_parse(void **state)
{
	static const char *const bad[] = {
		"",          "crop:",   "crop:0",      "crop:65",   "crop:-1",
		"crop: 4",   "crop:4x", "crop,crop:2", "flip,",     ",flip",
		"flip,flip", "flip:2",  "flop",        "crop flip", "crop:99999999999999999999"};
	struct stretto_augment augment;

	(void)state;
	assert_null(stretto_augment_parse("crop,flip", &augment));
	assert_true(augment.border == 4 && augment.flip);
	assert_null(stretto_augment_parse("flip", &augment));
	assert_true(augment.border == 0 && augment.flip);
	assert_null(stretto_augment_parse("flip,crop:64", &augment));
	assert_true(augment.border == 64 && augment.flip);
	assert_null(stretto_augment_parse("crop:2", &augment));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!stretto_augment_parse(bad[i], &augment))
			fail_msg("'%s' was accepted", bad[i]);
	assert_true(augment.border == 2 && !augment.flip);
}

static bool same_draw(struct stretto_augment_draw a, struct stretto_augment_draw b)
{
	return a.down == b.down && a.right == b.right && a.flip == b.flip;
}

/* Drawn from seed, epoch and sample: another one of each gives others, the same ones the same. */
static void test_source(void **state)
{
	enum { SAMPLES = 1000 };
	const struct stretto_augment both = {4, true}, crop = {4, false};
	size_t same[4] = {0};

	(void)state;
	for (uint32_t i = SAMPLES; i-- > 0;) {
		struct stretto_augment_draw draw = stretto_augment_draw(&both, 1, 2, i);

		assert_true(same_draw(draw, stretto_augment_draw(&both, 1, 2, i)));
		same[0] += same_draw(draw, stretto_augment_draw(&both, 2, 2, i));
		same[1] += same_draw(draw, stretto_augment_draw(&both, 1, 3, i));
		same[2] += same_draw(draw, stretto_augment_draw(&both, 1, 2, i + 1));
		same[3] += stretto_augment_draw(&crop, 1, 2, i).flip;
	}
	/* One of 162 by chance. */
	for (size_t i = 0; i < 3; i++)
		assert_in_range(same[i], 1, 15);
	assert_int_equal(same[3], 0);
}

/* Every place and side comes, each about as often: 81 places, 500 draws for each. */
static void test_counts(void **state)
{
	enum { SIDE = 9, EACH = 500, DRAWS = SIDE * SIDE * EACH };
	const struct stretto_augment both = {4, true};
	size_t places[SIDE][SIDE] = {{0}}, flips = 0;
	double square = 0;

	(void)state;
	for (uint32_t i = 0; i < DRAWS; i++) {
		struct stretto_augment_draw draw = stretto_augment_draw(&both, 7, 0, i);

		assert_true(abs(draw.down) <= 4 && abs(draw.right) <= 4);
		places[draw.down + 4][draw.right + 4]++;
		flips += draw.flip;
	}
	for (size_t i = 0; i < SIDE * SIDE; i++) {
		double off = (double)places[i / SIDE][i % SIDE] - EACH;

		square += off * off / EACH;
	}
	/* Chi squared with 80 degrees: mean 80, deviation 12.6. The seed is fixed: so is this. */
	assert_true(square > 40 && square < 130);
	assert_in_range(flips, DRAWS / 2 - 400, DRAWS / 2 + 400);
}

/* A data set of 60 images of 5 x 4 x 3, every pixel another. */
enum { COUNT = 60, HEIGHT = 5, WIDTH = 4, CHANNELS = 3, FEATURES = HEIGHT * WIDTH * CHANNELS };

static uint8_t pixels[COUNT * FEATURES], labels_of[COUNT];

/* Before there are ranks, which are threads. */
static void make_pixels(void)
{
	for (size_t i = 0; i < sizeof(pixels); i++)
		pixels[i] = (uint8_t)(1 + i * 37 % 255);
	for (size_t i = 0; i < COUNT; i++)
		labels_of[i] = (uint8_t)(i % 2);
}

static void make_dataset(struct stretto_dataset *dataset)
{
	*dataset = (struct stretto_dataset){.train = {COUNT, pixels, labels_of, {NULL, NULL}},
					    .test = {COUNT, pixels, labels_of, {NULL, NULL}},
					    .features = FEATURES,
					    .shape = {HEIGHT, WIDTH, CHANNELS},
					    .classes = 2,
					    .scale = 0.0625f,
					    .shift = -3};
}

/* The images of an epoch by sample, as the ranks of a job see them. */
static void see(size_t ranks, size_t batch, size_t epoch, float seen[COUNT][FEATURES])
{
	struct stretto_dataset dataset;

	make_dataset(&dataset);
	for (size_t rank = 0; rank < ranks; rank++) {
		struct stretto_batches batches = {.dataset = &dataset,
						  .augment = {2, true},
						  .shard = {NULL, COUNT, batch, rank, ranks, 3}};
		size_t steps = COUNT / (ranks * batch);
		float *x = malloc(batch * FEATURES * sizeof(*x));
		uint8_t *labels = malloc(batch);

		assert_true(x && labels);
		assert_int_equal(stretto_batches_init(&batches), STRETTO_OK);
		for (size_t s = epoch * steps; s < (epoch + 1) * steps; s++) {
			stretto_batches_fill(&batches, s, x, labels);
			for (size_t r = 0; r < batch; r++) {
				uint32_t i = stretto_shard_step(&batches.shard, s % steps)[r];

				assert_int_equal(labels[r], i % 2);
				memcpy(seen[i], x + r * FEATURES, sizeof(seen[i]));
			}
		}
		stretto_batches_fini(&batches);
		free(x);
		free(labels);
	}
}

/* However the samples are dealt out, each is seen the same way; in another epoch another way. */
static void test_dealt_out(void **state)
{
	static float one[COUNT][FEATURES], six[COUNT][FEATURES], later[COUNT][FEATURES];
	const struct stretto_augment augment = {2, true};
	const struct stretto_image_shape size = {HEIGHT, WIDTH, CHANNELS};
	struct stretto_dataset dataset;
	size_t same = 0;

	(void)state;
	see(1, 60, 2, one);
	see(6, 5, 2, six);
	see(2, 10, 3, later);
	assert_memory_equal(one, six, sizeof(one));
	make_dataset(&dataset);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct stretto_augment_draw draw = stretto_augment_draw(&augment, 3, 2, i);
		uint8_t bytes[FEATURES];

		stretto_augment_image(&size, &draw, dataset.train.pixels + i * FEATURES, bytes);
		for (size_t p = 0; p < FEATURES; p++)
			assert_true(one[i][p] == 0.0625f * (float)bytes[p] - 3);
		same += memcmp(one[i], later[i], sizeof(one[i])) == 0;
	}
	assert_in_range(same, 0, 8);
}

/* Makes batches whose values say for which step they are; fails at a step. */
struct source {
	size_t failing; /* step */
	size_t calls;
	size_t first;    /* step */
	int core;        /* that it was called on */
	bool other;      /* thread than the test's */
	bool interrupts; /* that thread takes SIGTERM */
	int policy;      /* by which it is scheduled */
	pthread_t test;
};

static stretto_status make(void *context, size_t step, float *x, uint8_t *labels)
{
	struct source *source = context;
	sigset_t blocked;

	if (source->calls++ == 0)
		source->first = step;
	source->core = sched_getcpu();
	source->other = !pthread_equal(pthread_self(), source->test);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	source->policy = sched_getscheduler(0);
	source->interrupts = !sigismember(&blocked, SIGTERM);
	if (step == source->failing)
		return STRETTO_SYSTEM;
	for (size_t i = 0; i < 8; i++)
		x[i] = (float)(step * 8 + i);
	labels[0] = (uint8_t)step;
	return STRETTO_OK;
}

/* Takes steps [first, end) and checks them. */
static void take(struct stretto_prefetch *prefetch, size_t first, size_t end)
{
	for (size_t step = first; step < end; step++) {
		struct stretto_batch batch;

		assert_int_equal(stretto_prefetch_batch(prefetch, step, &batch), STRETTO_OK);
		for (size_t i = 0; i < 8; i++)
			assert_true(batch.x[i] == (float)(step * 8 + i));
		assert_int_equal(batch.labels[0], (uint8_t)step);
	}
}

static struct stretto_prefetch_options options_of(struct source *source, size_t ahead)
{
	*source = (struct source){.failing = SIZE_MAX, .test = pthread_self()};
	return (struct stretto_prefetch_options){.fill = make,
						 .context = source,
						 .floats = 8,
						 .labels = 1,
						 .end = 500,
						 .ahead = ahead,
						 .core = -1};
}

static const size_t aheads[] = {0, 1, 2, 16};

static void test_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct source source;
		struct stretto_prefetch_options options = options_of(&source, aheads[i]);
		struct stretto_prefetch *prefetch;
		struct stretto_batch batch;

		/* From a step in the middle, as after a resume, to the end. */
		assert_int_equal(stretto_prefetch_new(&options, &prefetch), STRETTO_OK);
		take(prefetch, 123, 499);
		assert_int_equal(stretto_prefetch_batch(prefetch, 500, &batch), STRETTO_INVALID);
		assert_int_equal(stretto_prefetch_batch(prefetch, 498, &batch), STRETTO_INVALID);
		take(prefetch, 499, 500);
		assert_int_equal(stretto_prefetch_batch(prefetch, 500, &batch), STRETTO_INVALID);
		stretto_prefetch_free(prefetch);
		assert_int_equal(source.first, 123);
		assert_int_equal(source.calls, 500 - 123);
		assert_int_equal(source.other, aheads[i] > 0);
		assert_int_equal(source.interrupts, aheads[i] == 0);
		assert_int_equal(source.policy == SCHED_BATCH, aheads[i] > 0);
	}
	stretto_prefetch_free(NULL);
}

/* Ended before a batch was asked for, and while the thread is ahead: no batch more than it may. */
static void test_ended_early(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		for (size_t steps = 0; steps < 4; steps++) {
			struct source source;
			struct stretto_prefetch_options options = options_of(&source, aheads[i]);
			struct stretto_prefetch *prefetch;

			assert_int_equal(stretto_prefetch_new(&options, &prefetch), STRETTO_OK);
			take(prefetch, 0, steps);
			stretto_prefetch_free(prefetch);
			assert_in_range(source.calls, steps, steps > 0 ? steps + aheads[i] : 0);
		}
}

static void test_failure(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		for (size_t failing = 40; failing < 44; failing++) {
			struct source source;
			struct stretto_prefetch_options options = options_of(&source, aheads[i]);
			struct stretto_prefetch *prefetch;
			struct stretto_batch batch = {NULL, NULL};

			source.failing = failing;
			assert_int_equal(stretto_prefetch_new(&options, &prefetch), STRETTO_OK);
			take(prefetch, 40, failing);
			for (size_t step = failing; step < failing + 3; step++)
				assert_int_equal(stretto_prefetch_batch(prefetch, step, &batch),
						 STRETTO_SYSTEM);
			assert_null(batch.x);
			stretto_prefetch_free(prefetch);
			assert_int_equal(source.calls, failing - 40 + 1);
		}
}

static void test_core(void **state)
{
	cpu_set_t mask;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mask), &mask), 0);
	for (int core = 0; core < CPU_SETSIZE; core++) {
		struct source source;
		struct stretto_prefetch_options options = options_of(&source, 1);
		struct stretto_prefetch *prefetch;

		if (!CPU_ISSET((unsigned)core, &mask))
			continue;
		options.core = core;
		assert_int_equal(stretto_prefetch_new(&options, &prefetch), STRETTO_OK);
		take(prefetch, 0, 3);
		stretto_prefetch_free(prefetch);
		assert_true(source.other && source.core == core);
	}
}

/* No such core: a warning, and the batches are made all the same. */
static void test_no_thread(void **state)
{
	struct source source;
	struct stretto_prefetch_options options = options_of(&source, 1);
	struct stretto_prefetch *prefetch;

	(void)state;
	options.core = CPU_SETSIZE - 1;
	assert_int_equal(stretto_prefetch_new(&options, &prefetch), STRETTO_OK);
	take(prefetch, 0, 5);
	stretto_prefetch_free(prefetch);
	assert_false(source.other);
}

/* The core for helpers is a progress thread's, and none where all threads share the cores. */
static void find_helper_core(struct stretto_comm *world, void *argument)
{
	require(stretto_helper_core(world) == *(int *)argument);
}

static void test_helper_core(void **state)
{
	const char *none[] = {"STRETTO_AFFINITY=none", NULL}, *list[] = {NULL, NULL};
	int core = sched_getcpu(), shared = -1;
	char setting[40];
	cpu_set_t mask;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mask), &mask), 0);
	run_ranks(2, none, find_helper_core, &shared);
	snprintf(setting, sizeof(setting), "STRETTO_AFFINITY=%d", core);
	list[0] = setting;
	run_ranks(2, list, find_helper_core, CPU_COUNT(&mask) > 1 ? &core : &shared);
}

/* Losses of every step, as the observer sees them. */
struct losses {
	size_t prefetch;
	bool augment;
	double of[2][64]; /* [rank][step] */
};

static bool observe(void *context, const struct stretto_train_step *step)
{
	((double *)context)[step->step] = step->loss;
	return true;
}

static void train(struct stretto_comm *world, void *argument)
{
	struct losses *losses = argument;
	struct stretto_dataset data;
	struct stretto_train_options options = {.dataset = &data, .epochs = 5, .seed = 3};
	struct stretto_train_result result;

	make_dataset(&data);
	stretto_model_parse("mlp:60-5-2", &options.model);
	stretto_optimizer_parse("sgd", &options.optimizer);
	stretto_rate_parse("constant", &options.rate);
	options.model.batch = 5;
	options.average.strategy = STRETTO_STRATEGY_DASGD;
	options.average.tau = 4;
	options.average.delay = 2;
	options.prefetch = (int)losses->prefetch;
	if (losses->augment)
		options.augment = (struct stretto_augment){2, true};
	options.observer = observe;
	options.context = losses->of[stretto_comm_rank(world)];
	require(stretto_train_run(world, &options, 1, &result) == STRETTO_OK);
	require(result.steps == 30);
}

/* The training has the same bits however far ahead, and others if its images are augmented. */
static void test_same_bits(void **state)
{
	static struct losses runs[5];

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		runs[i].prefetch = i < 4 ? aheads[i] : 1;
		runs[i].augment = i < 4;
		run_ranks(2, NULL, train, &runs[i]);
	}
	for (size_t i = 1; i < 4; i++)
		assert_memory_equal(runs[0].of, runs[i].of, sizeof(runs[0].of));
	assert_true(runs[0].of[1][30] > 0 && runs[0].of[1][30] != runs[4].of[1][30]);
}

/* Data that nobody knows the sides of, and images smaller than the border. */
static void train_refused(struct stretto_comm *world, void *argument)
{
	struct stretto_dataset data;
	struct stretto_train_options options = {.dataset = &data, .epochs = 1, .seed = 3};
	struct stretto_train_result result;

	make_dataset(&data);
	data.shape = *(struct stretto_image_shape *)argument;
	stretto_model_parse("mlp:60-5-2", &options.model);
	options.model.batch = 5;
	options.augment.border = 4;
	require(stretto_train_run(world, &options, 1, &result) == STRETTO_INVALID);
}

static void test_refused(void **state)
{
	struct stretto_image_shape unknown = {0, 0, 0}, small = {HEIGHT, WIDTH, CHANNELS};

	(void)state;
	run_ranks(2, NULL, train_refused, &unknown);
	run_ranks(2, NULL, train_refused, &small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_parse),
		cmocka_unit_test(test_source),      cmocka_unit_test(test_counts),
		cmocka_unit_test(test_dealt_out),   cmocka_unit_test(test_order),
		cmocka_unit_test(test_ended_early), cmocka_unit_test(test_failure),
		cmocka_unit_test(test_core),        cmocka_unit_test(test_no_thread),
		cmocka_unit_test(test_helper_core), cmocka_unit_test(test_same_bits),
		cmocka_unit_test(test_refused),
	};

	make_pixels();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
