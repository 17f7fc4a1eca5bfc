/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "trainer/data/shard.h"
#include "trainer/layers/softmax.h"

/* Local steps between two votes whether to stop. */
enum { VOTE_PERIOD = 16 };
/* Rounds of a turn where several trainings run side by side: long enough that the caches are warm for
 * most of it, short enough that all of them see the same machine. */
enum { TURN_ROUNDS = 3 };

/* A training in progress. */
struct run {
	struct stretto_comm *comm;
	const struct stretto_train_options *options;
	struct stretto_model model;
	struct stretto_optimizer optimizer;
	struct stretto_average *average;
	struct stretto_shard shard;
	struct stretto_vote vote;
	struct stretto_windows windows;
	float *x;        /* [batch, features] */
	uint8_t *labels; /* [batch] */
	uint32_t *index; /* [batch], of test images */
	size_t steps;    /* that there will be */
	size_t step;     /* done */
	double spent;    /* seconds in turns that have ended */
	double resumed;  /* when the turn under way began, seconds() */
	struct stretto_verdict verdict;
};

static double seconds(void)
{
	return (double)stretto_now() * 1e-9;
}

size_t stretto_train_steps(const struct stretto_train_options *options, int ranks)
{
	struct stretto_shard shard = {
		.samples = options->dataset->train.count,
		.batch = options->model.batch,
		.ranks = (size_t)ranks,
	};
	size_t steps = options->epochs * stretto_shard_steps(&shard);

	return options->steps && options->steps < steps ? options->steps : steps;
}

double stretto_train_hidden(const struct stretto_train_result *result)
{
	double shown;

	if (result->stats.averages == 0)
		return NAN;
	/* All complete at the first look: nothing was seen in flight, nothing was waited for. */
	if (result->step.in_flight <= 0)
		return 1;
	shown = result->step.exposed / result->step.in_flight;
	return shown < 1 ? 1 - shown : 0;
}

/* Whether the options fit together. They are the same on all ranks, so one rank says what is wrong.
 */
static stretto_status check(const struct run *run)
{
	const struct stretto_train_options *options = run->options;
	const struct stretto_dataset *dataset = options->dataset;
	size_t in = options->model.widths[0];
	size_t out = options->model.widths[options->model.layers];
	bool wrong_in = in != dataset->features, wrong_out = out < dataset->classes;

	if (!wrong_in && !wrong_out && run->steps > 0)
		return STRETTO_OK;
	if (stretto_comm_rank(run->comm) != 0)
		return STRETTO_INVALID;
	if (wrong_in)
		stretto_error("the model's input has width %zu, but an image has %zu pixels", in,
			      dataset->features);
	else if (wrong_out)
		stretto_error("the model has %zu outputs, but the labels have %zu classes", out,
			      dataset->classes);
	else
		stretto_error("%zu training images are too few for one step of %d ranks with a "
			      "batch of %zu",
			      dataset->train.count, stretto_comm_size(run->comm),
			      options->model.batch);
	return STRETTO_INVALID;
}

static stretto_status open_buffers(struct run *run)
{
	size_t batch = run->options->model.batch;

	run->x = malloc(batch * run->options->dataset->features * sizeof(*run->x));
	run->labels = malloc(batch);
	run->index = malloc(batch * sizeof(*run->index));
	return run->x && run->labels && run->index ? STRETTO_OK : STRETTO_NO_MEMORY;
}

static stretto_status open_run(struct run *run)
{
	const struct stretto_train_options *options = run->options;
	struct stretto_average_options average = options->average;
	stretto_status status = stretto_model_init(&run->model, &options->model);

	average.parameters = run->model.parameters;
	average.clip = options->optimizer.clip;
	run->shard = (struct stretto_shard){
		.samples = options->dataset->train.count,
		.batch = options->model.batch,
		.rank = (size_t)stretto_comm_rank(run->comm),
		.ranks = (size_t)stretto_comm_size(run->comm),
		.seed = options->seed,
	};
	if (status == STRETTO_OK)
		status = open_buffers(run);
	if (status == STRETTO_OK)
		status = stretto_shard_init(&run->shard);
	if (status == STRETTO_OK)
		status = stretto_windows_init(&run->windows, run->steps, average.tau);
	if (status == STRETTO_OK)
		status = stretto_average_new(run->comm, &average, &run->average);
	if (status == STRETTO_OK)
		status = stretto_optimizer_init(&run->optimizer, &options->optimizer,
						stretto_average_state(run->average));
	if (status == STRETTO_OK)
		status = stretto_vote_init(&run->vote, run->comm);
	if (status == STRETTO_NO_MEMORY)
		stretto_error("no memory for a model of %zu parameters (batch %zu, strategy %s)",
			      run->model.parameters, options->model.batch,
			      stretto_strategy_name(average.strategy));
	return status;
}

static void close_run(struct run *run)
{
	stretto_vote_fini(&run->vote);
	stretto_average_free(run->average);
	stretto_optimizer_fini(&run->optimizer);
	stretto_windows_fini(&run->windows);
	stretto_shard_fini(&run->shard);
	stretto_model_fini(&run->model);
	free(run->x);
	free(run->labels);
	free(run->index);
}

static stretto_status ready(void *context, size_t first, size_t count)
{
	return stretto_average_ready(context, first, count);
}

/* One local step: batch, forward, backward, and the pass of the averager. *loss is the batch's. */
static stretto_status step(struct run *run, double *loss)
{
	const struct stretto_train_options *options = run->options;
	size_t batch = options->model.batch, per_epoch = stretto_shard_steps(&run->shard);
	struct stretto_model_backward backward = {
		.weights = stretto_average_weights(run->average),
		.x = run->x,
		.gradients = stretto_average_gradients(run->average),
		.ready = ready,
		.context = run->average,
		.rows = batch,
	};
	stretto_status status;

	/* Before the backward pass: acco updates weights during it. */
	run->optimizer.rate = options->optimizer.rate *
			      (float)stretto_rate_at(&options->rate, run->step, run->steps);
	if (run->step % per_epoch == 0)
		stretto_shard_shuffle(&run->shard, run->step / per_epoch);
	stretto_dataset_batch(options->dataset, &options->dataset->train, batch,
			      stretto_shard_step(&run->shard, run->step % per_epoch), run->x,
			      run->labels);
	stretto_model_forward(&run->model, backward.weights, batch, run->x);
	*loss = stretto_model_loss(&run->model, batch, run->labels);
	status = stretto_model_backward(&run->model, &backward);
	if (status != STRETTO_OK)
		return status;
	run->step++;
	return stretto_average_step(run->average, stretto_optimizer_update, &run->optimizer);
}

/* Measures the step that was made, shows it to the observer, and votes when it is time. */
static stretto_status after_step(struct run *run, double loss)
{
	size_t per_epoch = stretto_shard_steps(&run->shard);
	struct stretto_average_stats stats;
	struct stretto_train_step seen;

	stretto_average_stats(run->average, &stats);
	seen = (struct stretto_train_step){
		.step = run->step,
		.steps = run->steps,
		.epoch = (run->step - 1) / per_epoch + 1,
		.loss = loss,
		.rate = (double)run->optimizer.rate,
		.seconds = run->spent + seconds() - run->resumed,
		.exposed = stats.exposed_seconds,
		.in_flight = stats.in_flight_seconds,
	};
	stretto_windows_add(&run->windows,
			    &(struct stretto_window){seen.seconds, seen.exposed, seen.in_flight},
			    loss);
	if (!isfinite(loss))
		stretto_vote_put(&run->vote, STRETTO_STOP_LOSS, run->step);
	if (run->options->observer && !run->options->observer(run->options->context, &seen))
		stretto_vote_put(&run->vote, STRETTO_STOP_OBSERVER, run->step);
	if (run->step % VOTE_PERIOD != 0)
		return STRETTO_OK;
	return stretto_vote_turn(&run->vote, &run->verdict);
}

/* Trains until `until` steps are done, all ranks starting together. */
static stretto_status turn(struct run *run, size_t until)
{
	stretto_status status = stretto_barrier(run->comm);

	if (until > run->steps)
		until = run->steps;
	run->resumed = seconds();
	while (status == STRETTO_OK && run->step < until &&
	       run->verdict.stop == STRETTO_STOP_NONE) {
		double loss = 0;

		status = step(run, &loss);
		if (status == STRETTO_OK)
			status = after_step(run, loss);
	}
	run->spent += seconds() - run->resumed;
	return status;
}

/*
 * Where a turn of several trainings ends: just after a merge, so that no average is in flight while others
 * take their turns.
 */
static size_t turn_end(const struct run *run)
{
	const struct stretto_average_options *average = &run->options->average;
	size_t tau = average->tau > 0 ? average->tau : 1;
	size_t merged = average->delay % tau;

	return run->step < merged ? merged
				  : (run->step - merged) / tau * tau + merged + TURN_ROUNDS * tau;
}

static bool under_way(const struct run *runs, size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (runs[i].verdict.stop != STRETTO_STOP_NONE)
			return false;
		any |= runs[i].step < runs[i].steps;
	}
	return any;
}

static stretto_status loop(struct run *runs, size_t count)
{
	stretto_status status = STRETTO_OK;

	if (count == 1)
		return turn(runs, runs->steps);
	while (status == STRETTO_OK && under_way(runs, count))
		for (size_t i = 0; status == STRETTO_OK && i < count; i++)
			status = turn(&runs[i], turn_end(&runs[i]));
	return status;
}

/* Accuracy on the test images, each rank taking its share of them. */
static stretto_status test(struct run *run, double *accuracy)
{
	const struct stretto_samples *samples = &run->options->dataset->test;
	const float *weights = stretto_average_weights(run->average);
	size_t classes = run->options->model.widths[run->options->model.layers];
	size_t at = samples->count * run->shard.rank / run->shard.ranks;
	size_t end = samples->count * (run->shard.rank + 1) / run->shard.ranks;
	int64_t hits = 0;
	stretto_status status;

	while (at < end) {
		size_t rows = end - at < run->model.batch ? end - at : run->model.batch;
		const float *scores;

		for (size_t i = 0; i < rows; i++)
			run->index[i] = (uint32_t)(at + i);
		stretto_dataset_batch(run->options->dataset, samples, rows, run->index, run->x,
				      run->labels);
		scores = stretto_model_forward(&run->model, weights, rows, run->x);
		hits += (int64_t)stretto_softmax_hits(rows, classes, run->labels, scores);
		at += rows;
	}
	status = stretto_allreduce(run->comm, &hits, &hits, 1, STRETTO_I64, STRETTO_SUM);
	if (status == STRETTO_OK)
		*accuracy = (double)hits / (double)samples->count;
	return status;
}

static void measure(struct run *run, struct stretto_train_result *result)
{
	size_t samples = run->step * run->shard.batch * run->shard.ranks;

	result->parameters = run->model.parameters;
	result->steps = run->step;
	result->seconds = run->spent;
	result->samples_per_second = (double)samples / result->seconds;
	result->step = stretto_windows_typical(&run->windows);
	result->loss = run->windows.loss;
	stretto_average_stats(run->average, &result->stats);
}

static stretto_status begin(struct run *run)
{
	stretto_status status = check(run);

	if (status == STRETTO_OK)
		status = open_run(run);
	if (status == STRETTO_OK)
		stretto_model_start(&run->model, run->options->seed,
				    stretto_average_weights(run->average));
	return status;
}

/* Measures, agrees with the other ranks that it came to its end, and tests. */
static stretto_status end(struct run *run, struct stretto_train_result *result)
{
	stretto_status status = STRETTO_OK;

	measure(run, result);
	if (run->verdict.stop == STRETTO_STOP_NONE && run->step == run->steps)
		status = stretto_vote_last(&run->vote, &run->verdict);
	if (status == STRETTO_OK && run->verdict.stop == STRETTO_STOP_NONE &&
	    run->step == run->steps) {
		status = stretto_average_drain(run->average);
		if (status == STRETTO_OK)
			status = test(run, &result->accuracy);
	}
	result->verdict = run->verdict;
	return status;
}

stretto_status stretto_train_run(struct stretto_comm *comm,
				 const struct stretto_train_options *options, size_t count,
				 struct stretto_train_result *results)
{
	struct run runs[STRETTO_TRAIN_SIDE_BY_SIDE] = {{0}};
	struct stretto_train_result found[STRETTO_TRAIN_SIDE_BY_SIDE] = {{0}};
	stretto_status status = STRETTO_OK;

	if (count == 0 || count > STRETTO_TRAIN_SIDE_BY_SIDE)
		return STRETTO_INVALID;
	for (size_t i = 0; i < count && status == STRETTO_OK; i++) {
		runs[i].comm = comm;
		runs[i].options = &options[i];
		runs[i].steps = stretto_train_steps(&options[i], stretto_comm_size(comm));
		status = begin(&runs[i]);
	}
	if (status == STRETTO_OK)
		status = loop(runs, count);
	for (size_t i = 0; i < count && status == STRETTO_OK; i++)
		status = end(&runs[i], &found[i]);
	if (status == STRETTO_OK)
		memcpy(results, found, count * sizeof(*results));
	for (size_t i = 0; i < count; i++)
		close_run(&runs[i]);
	return status;
}
