/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers and the model: every gradient against finite differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/dense.h"
#include "trainer/layers/relu.h"
#include "trainer/layers/softmax.h"
#include "trainer/model.h"
#include "trainer/rng.h"

enum { SEED = 7 };

static void fill(struct stretto_rng *rng, float *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = stretto_rng_uniform(rng, -1.0f, 1.0f);
}

static void assert_near(double found, double expected, double tolerance)
{
	if (!(fabs(found - expected) <= tolerance))
		fail_msg("found %.8g, expected %.8g within %g", found, expected, tolerance);
}

/* 2 x 3 times 3 x 2, by hand. */
static void test_dense_forward(void **state)
{
	const struct stretto_dense dense = {3, 2};
	const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0, 0, 1, 2, -1}, b[] = {10, 20};
	float y[4];

	(void)state;
	stretto_dense_forward(&dense, 2, x, w, b, y);
	assert_near((double)y[0], 17, 0);
	assert_near((double)y[1], 19, 0);
	assert_near((double)y[2], 26, 0);
	assert_near((double)y[3], 19, 0);
}

/* The sum of y * c over all elements, whose gradient with respect to y is c. */
static double weighted(const struct stretto_dense *dense, size_t rows, float *const args[3],
		       const float *c)
{
	float y[64];
	double sum = 0;

	stretto_dense_forward(dense, rows, args[0], args[1], args[2], y);
	for (size_t i = 0; i < rows * dense->out; i++)
		sum += (double)y[i] * (double)c[i];
	return sum;
}

static void test_dense_backward(void **state)
{
	enum { ROWS = 5, IN = 7, OUT = 3 };
	const struct stretto_dense dense = {IN, OUT};
	const size_t counts[3] = {ROWS * IN, IN * OUT, OUT};
	float x[ROWS * IN], w[IN * OUT], b[OUT], c[ROWS * OUT];
	float dx[ROWS * IN], dw[IN * OUT], db[OUT];
	float *const args[3] = {x, w, b}, *const gradients[3] = {dx, dw, db};
	const float h = 0.5f; /* the function is linear in each argument: any step will do */
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 0);
	fill(&rng, x, ROWS * IN);
	fill(&rng, w, IN * OUT);
	fill(&rng, b, OUT);
	fill(&rng, c, ROWS * OUT);
	memset(dw, 0x7f, sizeof(dw)); /* must be overwritten, not added to */
	memset(db, 0x7f, sizeof(db));
	stretto_dense_backward_weights(&dense, ROWS, x, c, dw, db);
	stretto_dense_backward_input(&dense, ROWS, c, w, dx);
	for (size_t a = 0; a < 3; a++) {
		for (size_t i = 0; i < counts[a]; i++) {
			float kept = args[a][i];
			double up, down;

			args[a][i] = kept + h;
			up = weighted(&dense, ROWS, args, c);
			args[a][i] = kept - h;
			down = weighted(&dense, ROWS, args, c);
			args[a][i] = kept;
			assert_near((double)gradients[a][i], up - down, 1e-5);
		}
	}
}

static void test_relu(void **state)
{
	float y[] = {-1, 0, 2, NAN}, dy[] = {5, 6, 7, 8};

	(void)state;
	stretto_relu_forward(4, y);
	assert_near((double)y[0], 0, 0);
	assert_near((double)y[1], 0, 0);
	assert_near((double)y[2], 2, 0);
	assert_true(isnan(y[3]));
	stretto_relu_backward(3, y, dy);
	assert_near((double)dy[0], 0, 0);
	assert_near((double)dy[1], 0, 0);
	assert_near((double)dy[2], 7, 0);
}

static void test_softmax_gradient(void **state)
{
	enum { ROWS = 4, CLASSES = 5 };
	const uint8_t labels[ROWS] = {0, 4, 2, 2};
	float scores[ROWS * CLASSES], gradient[ROWS * CLASSES], work[ROWS * CLASSES];
	const float h = 1e-2f;
	struct stretto_rng rng;

	(void)state;
	stretto_rng_init(&rng, SEED, 1);
	fill(&rng, scores, ROWS * CLASSES);
	memcpy(gradient, scores, sizeof(scores));
	stretto_softmax_loss(ROWS, CLASSES, labels, gradient);
	for (size_t i = 0; i < ROWS * CLASSES; i++) {
		double up, down;

		memcpy(work, scores, sizeof(scores));
		work[i] += h;
		up = stretto_softmax_loss(ROWS, CLASSES, labels, work);
		memcpy(work, scores, sizeof(scores));
		work[i] -= h;
		down = stretto_softmax_loss(ROWS, CLASSES, labels, work);
		assert_near((double)gradient[i], (up - down) / (2 * (double)h), 1e-4);
	}
}

static void test_softmax_values(void **state)
{
	const uint8_t labels[] = {1, 0};
	float equal[] = {3, 3, 3, 3}, huge[] = {1000, -1000}, bad[] = {0, NAN};
	const float hits[] = {1, 2, 5, 4};

	(void)state;
	assert_near(stretto_softmax_loss(1, 4, labels, equal), log(4), 1e-6);
	assert_near(stretto_softmax_loss(1, 2, labels, huge), 2000, 1e-3);
	assert_true(isnan(stretto_softmax_loss(1, 2, labels, bad)));
	assert_int_equal(stretto_softmax_hits(2, 2, labels, hits), 2);
}

/* A network small enough to try each of its weights. */
struct net {
	struct stretto_model model;
	float *weights;
	float *gradients;
	float x[6 * 5];
	uint8_t labels[6];
};

enum { NET_ROWS = 6 };

static void open_net(struct net *net, const char *text)
{
	struct stretto_model_options options = {.batch = NET_ROWS};
	struct stretto_rng rng;

	assert_null(stretto_model_parse(text, &options));
	assert_int_equal(stretto_model_init(&net->model, &options), STRETTO_OK);
	net->weights = calloc(net->model.parameters, sizeof(float));
	net->gradients = calloc(net->model.parameters, sizeof(float));
	assert_non_null(net->weights);
	assert_non_null(net->gradients);
	stretto_model_start(&net->model, SEED, net->weights);
	stretto_rng_init(&rng, SEED, 2);
	fill(&rng, net->x, NET_ROWS * 5);
	for (size_t i = 0; i < NET_ROWS; i++)
		net->labels[i] = (uint8_t)(i % 3);
}

static void close_net(struct net *net)
{
	stretto_model_fini(&net->model);
	free(net->weights);
	free(net->gradients);
}

static double loss_of(struct net *net)
{
	stretto_model_forward(&net->model, net->weights, NET_ROWS, net->x);
	return stretto_model_loss(&net->model, NET_ROWS, net->labels);
}

/* Checks that the calls of ready go down from the end to 0 without gaps. */
static stretto_status note_ready(void *context, size_t first, size_t count)
{
	size_t *end = context;

	assert_int_equal(first + count, *end);
	*end = first;
	return STRETTO_OK;
}

static void test_model_gradient(void **state)
{
	struct net net;
	struct stretto_model_backward backward;
	const float h = 1e-3f;
	size_t end, wrong = 0;

	(void)state;
	open_net(&net, "mlp:5-8-4-3");
	end = net.model.parameters;
	backward = (struct stretto_model_backward){net.weights, net.x, net.gradients,
						   note_ready,  &end,  NET_ROWS};
	loss_of(&net);
	assert_int_equal(stretto_model_backward(&net.model, &backward), STRETTO_OK);
	assert_int_equal(end, 0);
	for (size_t i = 0; i < net.model.parameters; i++) {
		float kept = net.weights[i];
		double up, down;

		net.weights[i] = kept + h;
		up = loss_of(&net);
		net.weights[i] = kept - h;
		down = loss_of(&net);
		net.weights[i] = kept;
		/* A step may cross a kink of a ReLU, where the derivative does not exist. */
		wrong += fabs((double)net.gradients[i] - (up - down) / (2 * (double)h)) > 1e-3;
	}
	assert_in_range(wrong, 0, 2);
	close_net(&net);
}

static void test_model_start(void **state)
{
	struct net net;
	float *again;
	size_t bytes;

	(void)state;
	open_net(&net, "mlp:5-8-4-3");
	bytes = net.model.parameters * sizeof(float);
	again = calloc(1, bytes);
	assert_non_null(again);
	stretto_model_start(&net.model, SEED, again);
	assert_int_equal(memcmp(again, net.weights, bytes), 0);
	stretto_model_start(&net.model, SEED + 1, again);
	assert_int_not_equal(memcmp(again, net.weights, bytes), 0);
	free(again);
	close_net(&net);
}

static void test_model_parse(void **state)
{
	static const char *const bad[] = {
		"",
		"cnn:5-3",
		"mlp:",
		"mlp:5",
		"mlp:5-",
		"mlp:5-0",
		"mlp:-5-3",
		"mlp:5-3x",
		"mlp:5,3",
		"mlp:65537-3",
		"mlp: 5-3",
		"mlp:5--3",
		"mlp:99999999999999999999-3",
		"mlp:1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1",
	};
	struct stretto_model_options options = {.batch = 1};

	(void)state;
	assert_null(stretto_model_parse("mlp:784-512-256-10", &options));
	assert_int_equal(options.layers, 5); /* with the ReLUs */
	assert_int_equal(options.input.channels, 784);
	assert_int_equal(options.output.channels, 10);
	assert_null(stretto_model_parse("mlp:1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1", &options));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!stretto_model_parse(bad[i], &options))
			fail_msg("'%s' was taken for a model", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dense_forward),  cmocka_unit_test(test_dense_backward),
		cmocka_unit_test(test_relu),           cmocka_unit_test(test_softmax_gradient),
		cmocka_unit_test(test_softmax_values), cmocka_unit_test(test_model_gradient),
		cmocka_unit_test(test_model_start),    cmocka_unit_test(test_model_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
