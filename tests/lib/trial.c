/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/trial.h"

struct trial trial, reference;

float trial_gradient(const struct trial *t, int rank, size_t i, float w)
{
	float optimum = (float)((i * 7 + (size_t)(t->same_data ? 0 : rank * 11)) % 13) - 6.0f;

	return 0.5f * (w - optimum);
}

float trial_initial(size_t i)
{
	return (float)(i % 5) - 2.0f;
}

/* Backward: gradients from the end to the start, in pieces that are no slices. */
static stretto_status backward(struct trial *t, int rank, struct stretto_average *average)
{
	const float *w = stretto_average_weights(average);
	float *g = stretto_average_gradients(average);
	stretto_status status = STRETTO_OK;
	size_t end = PARAMETERS;

	while (end > 0 && status == STRETTO_OK) {
		size_t first = end > 70 ? end - 70 : 0;

		for (size_t i = first; i < end; i++)
			g[i] = trial_gradient(t, rank, i, w[i]);
		if (t->tell_ready)
			status = stretto_average_ready(average, first, end - first);
		end = first;
	}
	return status;
}

static void train_steps(struct trial *t, int rank, struct stretto_average *average,
			struct stretto_optimizer *optimizer)
{
	const size_t bytes = PARAMETERS * sizeof(float);
	stretto_status status = STRETTO_OK;
	float *w = stretto_average_weights(average);

	for (size_t i = 0; i < PARAMETERS; i++)
		w[i] = trial_initial(i);
	memcpy(t->w[rank][0], w, bytes);
	for (size_t step = 1; step <= t->steps && status == STRETTO_OK; step++) {
		status = backward(t, rank, average);
		if (status == STRETTO_OK)
			status = stretto_average_step(average, stretto_optimizer_update, optimizer);
		memcpy(t->w[rank][step], stretto_average_weights(average), bytes);
	}
	if (status == STRETTO_OK)
		status = stretto_average_drain(average);
	memcpy(t->drained[rank], stretto_average_weights(average), bytes);
	stretto_average_stats(average, &t->stats[rank]);
	t->failed[rank] = status != STRETTO_OK;
}

/* A rank of the trial. cmocka's assertions belong to the main thread: results are kept for it. */
static void train_rank(struct stretto_comm *comm, void *arg)
{
	struct trial *t = arg;
	int rank = stretto_comm_rank(comm);
	struct stretto_average *average = NULL;
	struct stretto_optimizer optimizer = {0};

	t->failed[rank] = true;
	if (stretto_average_new(comm, &t->average, &average) == STRETTO_OK) {
		t->state[rank] = stretto_average_state(average);
		if (stretto_optimizer_init(&optimizer, &t->optimizer, t->state[rank]) == STRETTO_OK)
			train_steps(t, rank, average, &optimizer);
	}
	stretto_average_free(average);
	stretto_optimizer_fini(&optimizer);
}

struct trial *trial_prepare(enum stretto_strategy strategy, int ranks, size_t tau, size_t delay,
			    float own_weight)
{
	memset(&trial, 0, sizeof(trial));
	trial.average = (struct stretto_average_options){
		.strategy = strategy,
		.parameters = PARAMETERS,
		.tau = tau,
		.delay = delay,
		.own_weight = own_weight,
		.slice = SLICE,
	};
	trial.optimizer = (struct stretto_optimizer_options){.rate = 0.125f, .momentum = 0.5f};
	trial.steps = STEPS;
	trial.ranks = ranks;
	trial.tell_ready = true;
	return &trial;
}

void trial_run(struct trial *t)
{
	run_ranks(t->ranks, NULL, train_rank, t);
	for (int r = 0; r < t->ranks; r++)
		if (t->failed[r])
			fail_msg("rank %d of %d failed", r, t->ranks);
}

float trial_mean(const struct trial *t, size_t step, size_t i)
{
	float sum = t->w[0][step][i];

	for (int r = 1; r < t->ranks; r++)
		sum += t->w[r][step][i];
	return sum / (float)t->ranks;
}

void trial_compare(const struct trial *t, const char *name)
{
	double tolerance = t->ranks <= 2 ? 0 : 2e-6;

	for (size_t step = 0; step <= t->steps; step++) {
		for (int r = 0; r < t->ranks; r++) {
			for (size_t i = 0; i < PARAMETERS; i++) {
				double found = (double)t->w[r][step][i];
				double wanted = (double)reference.w[r][step][i];

				if (!(fabs(found - wanted) <= tolerance))
					fail_msg("%s: %d ranks, tau %zu, d %zu, p %g: rank %d, "
						 "step %zu, element %zu: %.9g instead of %.9g",
						 name, t->ranks, t->average.tau, t->average.delay,
						 (double)t->average.own_weight, r, step, i, found,
						 wanted);
			}
		}
	}
}
