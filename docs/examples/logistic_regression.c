/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logistic regression on all ranks of a job. The model, its data and its optimiser are this program's
 * own; the averaging over the ranks, in the background, is Stretto's:
 *
 *	stretto-run -n 4 ./logistic_regression [STRATEGY]
 */
#include <math.h>
#include <stdio.h>
#include <stretto_train.h>

enum { FEATURES = 20, PARAMETERS = FEATURES + 1, SAMPLES = 2048, BATCH = 32, STEPS = 512 };

/* The last weight is the bias: the last feature is 1. */
struct sample {
	float x[PARAMETERS], label;
};

/* Numbers from -1 to 1, from a generator of its own for each rank. */
static float draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* A rank's own share of the data; what is to be found is 1, -2, 3, -4, ... and the bias 0.5. */
static void make_samples(struct sample *samples, int rank)
{
	uint32_t state = 12345u + 678u * (uint32_t)rank;

	for (int s = 0; s < SAMPLES; s++) {
		float score = 0.5f + 0.5f * draw(&state);

		for (int i = 0; i < FEATURES; i++) {
			samples[s].x[i] = draw(&state);
			score += samples[s].x[i] * (float)(i % 2 ? -i - 1 : i + 1);
		}
		samples[s].x[FEATURES] = 1.0f;
		samples[s].label = score > 0.0f ? 1.0f : 0.0f;
	}
}

static float predict(const float *w, const struct sample *sample)
{
	float score = 0.0f;

	for (int i = 0; i < PARAMETERS; i++)
		score += w[i] * sample->x[i];
	return 1.0f / (1.0f + expf(-score));
}

/* The gradient of the mean cross-entropy of a batch, written where the averager wants it. */
static void backward(const float *w, const struct sample *batch, float *g)
{
	for (int i = 0; i < PARAMETERS; i++)
		g[i] = 0.0f;
	for (int s = 0; s < BATCH; s++) {
		float error = (predict(w, &batch[s]) - batch[s].label) / BATCH;

		for (int i = 0; i < PARAMETERS; i++)
			g[i] += error * batch[s].x[i];
	}
}

/* The optimiser: plain gradient descent. The averager calls it, and merges averages beside it. */
static void descend(void *context, const struct stretto_pass *pass)
{
	const float *rate = context;

	for (size_t i = 0; i < pass->count; i++)
		pass->next[i] = pass->weights[i] - *rate * pass->gradients[i];
}

int main(int argc, char **argv)
{
	static struct sample samples[SAMPLES];
	struct stretto_average_options options = {
		.strategy = STRETTO_STRATEGY_DASGD, .parameters = PARAMETERS,
		.tau = 4, .delay = 2, .own_weight = 0.25f,
	};
	struct stretto_comm *world;
	struct stretto_average *average;
	int64_t hits = 0;
	float rate = 2.0f;

	if (argc > 1 && !stretto_strategy_find(argv[1], &options.strategy))
		return fprintf(stderr, "strategies: %s\n", STRETTO_STRATEGY_WORDS), 2;
	if (stretto_init(NULL, &world) || stretto_average_new(world, &options, &average))
		return 1; /* the log says why */
	make_samples(samples, stretto_comm_rank(world)); /* the weights start as zeros */
	for (int step = 0; step < STEPS; step++) {
		backward(stretto_average_weights(average), samples + step * BATCH % SAMPLES,
			 stretto_average_gradients(average));
		if (stretto_average_step(average, descend, &rate))
			return 1;
	}
	if (stretto_average_drain(average)) /* now all ranks hold the same weights */
		return 1;
	for (int s = 0; s < SAMPLES; s++)
		hits += (predict(stretto_average_weights(average), &samples[s]) > 0.5f) ==
			(samples[s].label > 0.5f);
	if (stretto_allreduce(world, &hits, &hits, 1, STRETTO_I64, STRETTO_SUM))
		return 1;
	printf("rank %d of %d: %s, accuracy %.3f, bias %.6f\n", stretto_comm_rank(world),
	       stretto_comm_size(world), stretto_strategy_name(options.strategy),
	       (double)hits / SAMPLES / stretto_comm_size(world),
	       (double)stretto_average_weights(average)[FEATURES]);
	stretto_average_free(average);
	return stretto_finalize(world) != STRETTO_OK;
}
