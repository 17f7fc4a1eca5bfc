/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of every kind of layer: each gradient against finite differences; descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/model.h"
#include "trainer/model_text.h"
#include "trainer/rng.h"

enum { SEED = 11, ROWS = 3, LABELS = 64 };

/* A network small enough to try each of its weights. */
struct net {
	struct stretto_model model;
	struct stretto_model_options options;
	float *weights;
	float *gradients;
	float *x;
	uint8_t labels[LABELS];
};

static void read_text(const char *text, struct stretto_model_options *options)
{
	size_t line;
	const char *problem =
		stretto_model_named(text)
			? stretto_model_parse(text, options)
			: stretto_model_parse_file(text, strlen(text), options, &line);

	if (problem)
		fail_msg("%s: %s", text, problem);
}

static void open_net(struct net *net, const char *text)
{
	struct stretto_rng rng;
	size_t inputs;

	net->options = (struct stretto_model_options){.batch = ROWS};
	read_text(text, &net->options);
	assert_int_equal(stretto_model_init(&net->model, &net->options), STRETTO_OK);
	inputs = ROWS * stretto_shape_size(&net->options.input);
	net->weights = calloc(net->model.parameters, sizeof(float));
	net->gradients = malloc(net->model.parameters * sizeof(float));
	net->x = malloc(inputs * sizeof(float));
	assert_true(net->weights && net->gradients && net->x);
	/* Gradients must be overwritten, not added to. */
	memset(net->gradients, 0x7f, net->model.parameters * sizeof(float));
	stretto_model_start(&net->model, SEED, net->weights);
	stretto_rng_init(&rng, SEED, 2);
	for (size_t i = 0; i < inputs; i++)
		net->x[i] =
			net->options.vocabulary
				? (float)stretto_rng_below(&rng, (uint32_t)net->options.vocabulary)
				: stretto_rng_uniform(&rng, -1, 1);
	for (size_t i = 0; i < LABELS; i++)
		net->labels[i] =
			(uint8_t)stretto_rng_below(&rng, (uint32_t)net->options.output.channels);
	/* Away from the start, where shifts are zero and scales one. */
	for (size_t i = 0; i < net->model.parameters; i++)
		net->weights[i] += stretto_rng_uniform(&rng, -0.2f, 0.2f);
}

static void close_net(struct net *net)
{
	stretto_model_fini(&net->model);
	free(net->weights);
	free(net->gradients);
	free(net->x);
}

static double loss_of(struct net *net)
{
	stretto_model_forward(&net->model, net->weights, ROWS, net->x);
	return stretto_model_loss(&net->model, ROWS, net->labels);
}

/* Checks that the calls of ready go down from the end to 0 without gaps. */
static stretto_status note_ready(void *context, size_t first, size_t count)
{
	size_t *end = context;

	assert_int_equal(first + count, *end);
	*end = first;
	return STRETTO_OK;
}

static void backward(struct net *net)
{
	size_t end = net->model.parameters;

	assert_int_equal(stretto_model_backward(&net->model,
						&(struct stretto_model_backward){
							net->weights, net->x, net->gradients,
							note_ready, &end, ROWS}),
			 STRETTO_OK);
	assert_int_equal(end, 0);
}

/* Whether weight i is one, and not padding between tensors. */
static bool is_weight(const struct stretto_model *model, size_t i)
{
	for (size_t k = 0; k < model->count; k++) {
		const struct stretto_layer *layer = &model->layers[k];

		if (i - layer->weights < layer->weight_count || i - layer->bias < layer->bias_count)
			return true;
	}
	return false;
}

/* The slope of the loss along weight i, by central differences. */
static double slope(struct net *net, size_t i, float h)
{
	float kept = net->weights[i];
	double up, down;

	net->weights[i] = kept + h;
	up = loss_of(net);
	net->weights[i] = kept - h;
	down = loss_of(net);
	net->weights[i] = kept;
	return (up - down) / (2 * (double)h);
}

/* Two step widths: a kink of a ReLU or of a maximum is crossed by the wider one only, if at all. */
static void check_gradient(const char *text)
{
	struct net net;
	size_t wrong = 0, tried = 0;

	open_net(&net, text);
	loss_of(&net);
	backward(&net);
	for (size_t i = 0; i < net.model.parameters; i++) {
		double found = (double)net.gradients[i];

		if (!is_weight(&net.model, i))
			continue;
		tried++;
		if (fabs(found - slope(&net, i, 4e-3f)) > 1.5e-3 &&
		    fabs(found - slope(&net, i, 1e-3f)) > 1.5e-3)
			wrong++;
	}
	if (wrong > tried / 100)
		fail_msg("%s: %zu of %zu gradients are wrong", text, wrong, tried);
	close_net(&net);
}

/* Every kind between two layers with weights: so its input's gradient is tested as well as its own. */
static const char *const nets[] = {
	"input 5 6 2\nconv 3 3\nconv 4 3 2 1\nflatten\ndense 3\n",
	"input 6 6 2\nconv 3 3 1 2\nrelu\nmaxpool 3\nflatten\ndense 4\n",
	"input 7 5 2\nconv 3 2\navgpool 2\nconv 2 2\nflatten\ndense 4\n",
	"input 4 4 2\nconv 5 1\navgpool\ndense 4\n",
	"input 4 4 2\nconv 3 3\nbatchnorm\nrelu\nflatten\ndense 4\n",
	"input 3 3 4\ndense 6\nlayernorm\ndense 3\nflatten\ndense 4\n",
	"input 1 1 6\ndense 9\ndropout 0.4\ndense 4\n",
	"input 1 1 6\nrelu\ndense 9\nrelu\ndropout 0.4\ndense 4\n",
	"input 1 1 6\nflatten\ngelu\ndense 9\ngelu\ndropout 0.2\ndense 4\n",
	"input 1 1 6\ndense 7\nbranch\nlayernorm\ndense 7\nadd\nrelu\ndense 4\n",
	"input 5 5 2\nconv 3 3 1 1\nbranch\nconv 5 3 2 1\nbatchnorm\nadd\nrelu\nflatten\ndense 4\n",
	"input 1 1 5\ndense 6\nbranch\nrelu\nbranch\ndense 6\nrelu\nadd\nadd\ndense 3\n",
	"input 1 1 5\nbranch\ndense 5\nadd\ndense 3\n",
	"tokens 5 7\nembedding 6\ndense 18\nattention 2\ndense 7\n",
	"transformer:5-6-2-1-7",
	"cnn:10x9x1-2-6-4",
	"resnet:8x8x2-8-2-3",
};

static void test_gradients(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++)
		check_gradient(nets[i]);
}

/* A description that is wrong, and in which line. */
static const struct wrong {
	const char *text;
	size_t line;
} wrongs[] = {
	{"", 1},
	{"\n# nothing\n", 2},
	{"conv 3 3\n", 1},
	{"input 4 4\n", 1},
	{"input 4 4 1\n", 1},
	{"tokens 4\n", 1},
	{"input 4 4 1\nconv 2\nflatten\ndense 2\n", 2},
	{"input 4 4 1\n\nconv 2 5\nflatten\ndense 2\n", 3},
	{"input 4 4 1\nconv 2 3 1 3\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nconv 2 3 0\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nconv 2 3 1 0 1\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nconv 2 3 1 0 1 1\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nconv 2 x\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nconv 2 -1\nflatten\ndense 2\n", 2},
	{"input 4 4 1\nflatten\ndense 65537\n", 3},
	{"input 4 4 1\nmaxpool 5\nflatten\ndense 2\n", 2},
	{"input 4 5 1\navgpool\ndense 2\n", 2},
	{"input 4 4 1\ndense 2\n", 2},
	{"input 4 4 1\nflatten\nrelu\n", 3},
	{"input 4 4 1\nflatten\ndropout 1\ndense 2\n", 3},
	{"input 4 4 1\nflatten\ndropout nan\ndense 2\n", 3},
	{"input 4 4 1\nflatten\nswish\ndense 2\n", 3},
	{"input 4 4 1\nflatten\nadd\ndense 2\n", 3},
	{"input 4 4 1\nflatten\nbranch\ndense 2\n", 4},
	{"input 4 4 1\nflatten\nbranch\ndense 2\nadd\n", 5},
	{"input 4 4 1\nembedding 4\nflatten\ndense 2\n", 2},
	{"input 65536 65536 65536\nflatten\ndense 2\n", 2},
	{"tokens 4 7\ndense 7\n", 2},
	{"tokens 4 7\nembedding 5\n", 2},
	{"tokens 4 7\nembedding 5\nattention 2\ndense 7\n", 3},
	{"tokens 4 7\nembedding 5\ndense 8\n", 3},
};

static void test_wrong_descriptions(void **state)
{
	struct stretto_model_options options = {.batch = 1};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		const struct wrong *wrong = &wrongs[i];
		size_t line = 0;

		if (!stretto_model_parse_file(wrong->text, strlen(wrong->text), &options, &line))
			fail_msg("taken for a model: %s", wrong->text);
		if (line != wrong->line)
			fail_msg("line %zu and not %zu is blamed of: %s", line, wrong->line,
				 wrong->text);
	}
}

/* A file is read as its contents are; its name and line stand in the problem. */
static void test_file(void **state)
{
	static const char good[] = "# small\ninput 4 4 1\n\tflatten # x\r\ndense 2",
			  bad[] = "input";
	struct stretto_model_options options = {.batch = 1};
	char path[] = "/tmp/stretto-model-XXXXXX", problem[STRETTO_MODEL_PROBLEM];
	int file = mkstemp(path);

	(void)state;
	assert_true(file >= 0);
	assert_int_equal(write(file, good, strlen(good)), strlen(good));
	assert_int_equal(stretto_model_load(path, &options, problem), STRETTO_OK);
	assert_int_equal(options.layers, 2);
	assert_int_equal(options.output.channels, 2);
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, bad, strlen(bad), 0), strlen(bad));
	assert_int_equal(stretto_model_load(path, &options, problem), STRETTO_INVALID);
	assert_non_null(strstr(problem, path));
	assert_non_null(strstr(problem, "line 1: "));
	close(file);
	unlink(path);
	assert_int_equal(stretto_model_load(path, &options, problem), STRETTO_SYSTEM);
}

/* Known sizes: LeNet-like 104,938 and ResNet-20 about 0.27 million parameters. */
static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		size_t count;
	} known[] = {
		{"mlp:784-1024-1024-10", 1863690},
		{"cnn:28x28x1-8-16-128-10", 3216 + 208 + 256 * 128 + 128 + 1290},
		{"resnet:32x32x3-20-16-10", 270410},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct stretto_model_options options = {.batch = 1};
		struct stretto_model model;
		size_t count = 0;

		read_text(known[i].text, &options);
		assert_int_equal(stretto_model_init(&model, &options), STRETTO_OK);
		for (size_t k = 0; k < model.count; k++)
			count += model.layers[k].weight_count + model.layers[k].bias_count;
		assert_int_equal(count, known[i].count);
		stretto_model_fini(&model);
	}
}

/* Testing leaves the running statistics alone, uses them, and drops nothing. */
static void test_testing(void **state)
{
	struct net net;
	double first, second;
	float mean;

	(void)state;
	open_net(&net, "input 1 1 6\ndense 9\nbatchnorm\ndropout 0.5\ndense 4\n");
	first = loss_of(&net);
	mean = net.model.running[0];
	assert_true(mean < 0 || mean > 0);
	net.model.step++;
	second = loss_of(&net);
	assert_true(first < second || first > second); /* others were dropped */
	net.model.step--;
	assert_true(fabs(loss_of(&net) - first) <= 0); /* and the same again */
	net.model.training = false;
	mean = net.model.running[0];
	second = loss_of(&net);
	assert_true(fabs((double)(net.model.running[0] - mean)) <= 0);
	net.model.step++;
	assert_true(fabs(loss_of(&net) - second) <= 0);
	net.model.running[0] += 1;
	assert_true(fabs(loss_of(&net) - second) > 0);
	close_net(&net);
}

/* The scores of a position do not depend on those after it. */
static void test_causal(void **state)
{
	struct net net;
	float before[5 * 7];

	(void)state;
	open_net(&net, "transformer:5-6-2-1-7");
	memcpy(before, stretto_model_forward(&net.model, net.weights, 1, net.x), sizeof(before));
	net.x[3] = net.x[3] > 0 ? 0.0f : 1.0f;
	assert_memory_equal(stretto_model_forward(&net.model, net.weights, 1, net.x), before,
			    3 * 7 * sizeof(float));
	assert_memory_not_equal(stretto_model_forward(&net.model, net.weights, 1, net.x), before,
				sizeof(before));
	close_net(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradients), cmocka_unit_test(test_wrong_descriptions),
		cmocka_unit_test(test_file),      cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_testing),   cmocka_unit_test(test_causal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
