/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/loop.h"
#include "trainer/words.h"

const char *stretto_optimizer_parse(const char *text, struct stretto_optimizer_options *options)
{
	double rate = 0.05, momentum = 0.9;
	const struct stretto_word words[] = {{"lr", &rate}, {"momentum", &momentum}};

	if (!stretto_words_parse(text, "sgd", words, 2))
		return "expected sgd:lr=RATE,momentum=MU";
	if (!(rate > 0 && rate <= 1000))
		return "lr must be more than 0 and at most 1000";
	if (!(momentum >= 0 && momentum < 1))
		return "momentum must be at least 0 and less than 1";
	options->rate = (float)rate;
	options->momentum = (float)momentum;
	return NULL;
}

stretto_status stretto_optimizer_init(struct stretto_optimizer *optimizer,
				      const struct stretto_optimizer_options *options,
				      size_t parameters)
{
	float *velocity = calloc(parameters, sizeof(*velocity));

	if (!velocity)
		return STRETTO_NO_MEMORY;
	*optimizer = (struct stretto_optimizer){*options, options->rate, velocity};
	return STRETTO_OK;
}

void stretto_optimizer_fini(struct stretto_optimizer *optimizer)
{
	free(optimizer->velocity);
	optimizer->velocity = NULL;
}

/* The pass with nothing to merge. next may be weights. */
static void step(float mu, float rate, float *velocity, const struct stretto_pass *pass)
{
	const float *w = pass->weights, *g = pass->gradients;
	float *next = pass->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		float v = mu * velocity[i] + g[i];

		velocity[i] = v;
		next[i] = w[i] - rate * v;
	}
}

/* The pass with rule A: p * own + (1 - p) * average. */
static void step_overwrite(float mu, float rate, float *velocity, const struct stretto_pass *pass)
{
	const float *w = pass->weights, *g = pass->gradients, *average = pass->average;
	float own = pass->own_weight, other = 1.0f - own;
	float *next = pass->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		float v = mu * velocity[i] + g[i];

		velocity[i] = v;
		next[i] = own * (w[i] - rate * v) + other * average[i];
	}
}

/* The pass with rule B: own + (1 - p) * (average - snapshot). */
static void step_delta(float mu, float rate, float *velocity, const struct stretto_pass *pass)
{
	const float *w = pass->weights, *g = pass->gradients;
	const float *average = pass->average, *snapshot = pass->snapshot;
	float other = 1.0f - pass->own_weight;
	float *next = pass->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		float v = mu * velocity[i] + g[i];

		velocity[i] = v;
		next[i] = (w[i] - rate * v) + other * (average[i] - snapshot[i]);
	}
}

void stretto_optimizer_update(void *context, const struct stretto_pass *pass)
{
	struct stretto_optimizer *optimizer = context;
	float *velocity = optimizer->velocity + pass->first;
	float mu = optimizer->options.momentum;

	if (!pass->average)
		step(mu, optimizer->rate, velocity, pass);
	else if (!pass->snapshot)
		step_overwrite(mu, optimizer->rate, velocity, pass);
	else
		step_delta(mu, optimizer->rate, velocity, pass);
}
