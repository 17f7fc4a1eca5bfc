/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of averagers: with every strategy, a training that is drained, taken apart and put
 * together again in new averagers goes on bit for bit as one that is only drained.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/trial.h"

enum { BEFORE = 7, AFTER = 9, ROOM = 8 * PARAMETERS * sizeof(float) };

struct job {
	struct stretto_average_options options;
	size_t before; /* steps until the drain */
	bool resumes;
	float weights[RANKS][PARAMETERS];
};

/* A checkpoint in memory. */
struct store {
	unsigned char bytes[ROOM];
	size_t at;
	bool restore;
};

static stretto_status store_part(void *context, const char *name, void *data, size_t bytes)
{
	struct store *store = context;

	require(name && store->at + bytes <= ROOM);
	if (store->restore)
		memcpy(data, store->bytes + store->at, bytes);
	else
		memcpy(store->bytes + store->at, data, bytes);
	store->at += bytes;
	return STRETTO_OK;
}

static void make_steps(struct stretto_average *average, struct stretto_optimizer *optimizer,
		       int rank, size_t steps)
{
	for (size_t step = 0; step < steps; step++) {
		const float *w = stretto_average_weights(average);
		float *g = stretto_average_gradients(average);

		for (size_t i = 0; i < PARAMETERS; i++)
			g[i] = trial_gradient(&trial, rank, i, w[i]);
		require(stretto_average_step(average, stretto_optimizer_update, optimizer) ==
			STRETTO_OK);
	}
}

/* The same averager made anew: the old one is kept until the new one has other arenas. */
static struct stretto_average *renew(struct stretto_comm *comm, const struct job *job,
				     struct stretto_average *old)
{
	struct stretto_average *average;
	struct store store = {.at = 0};

	require(stretto_average_visit(old, false, store_part, &store) == STRETTO_OK);
	require(stretto_average_new(comm, &job->options, &average) == STRETTO_OK);
	store.at = 0;
	store.restore = true;
	require(stretto_average_visit(average, true, store_part, &store) == STRETTO_OK);
	stretto_average_free(old);
	return average;
}

static void train(struct stretto_comm *comm, void *argument)
{
	struct job *job = argument;
	int rank = stretto_comm_rank(comm);
	struct stretto_optimizer_options adam;
	struct stretto_optimizer optimizer;
	struct stretto_average *average;

	require(!stretto_optimizer_parse("adamw:lr=0.125", &adam));
	require(stretto_average_new(comm, &job->options, &average) == STRETTO_OK);
	require(stretto_optimizer_init(&optimizer, &adam, stretto_average_state(average)) ==
		STRETTO_OK);
	make_steps(average, &optimizer, rank, job->before);
	require(stretto_average_drain(average) == STRETTO_OK);
	if (job->resumes)
		average = renew(comm, job, average);
	make_steps(average, &optimizer, rank, AFTER);
	require(stretto_average_drain(average) == STRETTO_OK);
	memcpy(job->weights[rank], stretto_average_weights(average), sizeof(job->weights[rank]));
	stretto_average_free(average);
	stretto_optimizer_fini(&optimizer);
}

static void test_resume(void **state)
{
	static struct job jobs[2];

	(void)state;
	for (size_t s = 0; s < STRETTO_STRATEGY_COUNT; s++) {
		for (size_t before = 0; before <= BEFORE;
		     before += before == 0 ? 6 : 1 + TEST_SLOW) {
			for (int resumes = 0; resumes < 2; resumes++) {
				jobs[resumes] = (struct job){
					.options = {.strategy = (enum stretto_strategy)s,
						    .parameters = PARAMETERS,
						    .tau = 4,
						    .delay = 2,
						    .own_weight = 0.25f,
						    .slice = SLICE,
						    .warmup = 9,
						    .fragments = 2,
						    .outer_momentum = 0.5f},
					.before = before,
					.resumes = resumes,
				};
				run_ranks(2, NULL, train, &jobs[resumes]);
			}
			if (memcmp(jobs[0].weights, jobs[1].weights, sizeof(jobs[0].weights)) != 0)
				fail_msg("%s: other weights after a new beginning at step %zu",
					 stretto_strategy_name((enum stretto_strategy)s), before);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_resume)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
