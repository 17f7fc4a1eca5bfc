/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "trainer/average.h"
#include "trainer/layers/softmax.h"
#include "trainer/state.h"
#include "trainer/train_options.h"

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
	struct stretto_shard shard; /* without an order: that is in batches */
	struct stretto_batches batches;
	struct stretto_prefetch *prefetch;
	struct stretto_vote vote;
	struct stretto_probe probe;
	struct stretto_windows windows;
	float *x;                      /* [batch, features], of test images */
	uint8_t *labels;               /* [batch, model.labels], likewise */
	uint32_t *index;               /* [batch], likewise */
	size_t steps;                  /* that there will be */
	size_t step;                   /* done */
	size_t begun;                  /* of which before it was resumed */
	size_t saved;                  /* step of the last checkpoint; SIZE_MAX: none */
	char text[STRETTO_TRAIN_TEXT]; /* of the options, for checkpoints */
	struct stretto_state state;
	double spent;   /* seconds in turns that have ended */
	double resumed; /* when the turn under way began, seconds() */
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

double stretto_train_share_hidden(double exposed, double in_flight)
{
	if (in_flight <= 0)
		return NAN;
	return exposed < in_flight ? 1 - exposed / in_flight : 0;
}

double stretto_train_hidden(const struct stretto_train_result *result)
{
	if (result->stats.averages == 0)
		return NAN;
	/* All complete at the first look: nothing was seen in flight, nothing was waited for. */
	if (result->step.in_flight <= 0)
		return 1;
	return stretto_train_share_hidden(result->step.exposed, result->step.in_flight);
}

static stretto_status open_buffers(struct run *run)
{
	size_t batch = run->options->model.batch;

	run->x = malloc(batch * run->options->dataset->features * sizeof(*run->x));
	run->labels = malloc(batch * run->model.labels);
	run->index = malloc(batch * sizeof(*run->index));
	return run->x && run->labels && run->index ? STRETTO_OK : STRETTO_NO_MEMORY;
}

static stretto_status open_batches(struct run *run)
{
	const struct stretto_train_options *options = run->options;
	int core = stretto_helper_core(run->comm);
	struct stretto_prefetch_options prefetch = {
		.fill = stretto_batches_fill,
		.context = &run->batches,
		.floats = run->shard.batch * options->dataset->features,
		.labels = run->shard.batch * run->model.labels,
		.end = run->steps,
		.ahead = (size_t)options->prefetch,
		.core = core,
	};
	stretto_status status;

	if (options->prefetch == STRETTO_TRAIN_PREFETCH_AUTO)
		prefetch.ahead = core >= 0;
	run->batches = (struct stretto_batches){
		.dataset = options->dataset,
		.augment = options->augment,
		.shard = run->shard,
	};
	status = stretto_batches_init(&run->batches);
	return status == STRETTO_OK ? stretto_prefetch_new(&prefetch, &run->prefetch) : status;
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
		status = open_batches(run);
	if (status == STRETTO_OK)
		status = stretto_windows_init(&run->windows, run->steps, average.tau);
	if (status == STRETTO_OK)
		status = stretto_average_new(run->comm, &average, &run->average);
	if (status == STRETTO_OK)
		stretto_average_trace(run->average, options->trace);
	if (status == STRETTO_OK)
		status = stretto_optimizer_init(&run->optimizer, &options->optimizer,
						stretto_average_state(run->average));
	if (status == STRETTO_OK)
		status = stretto_vote_init(&run->vote, run->comm);
	if (status == STRETTO_OK && options->probe_every > 0)
		status = stretto_probe_init(&run->probe, &run->model);
	if (status == STRETTO_NO_MEMORY)
		stretto_error("no memory for a model of %zu parameters (batch %zu, strategy %s)",
			      run->model.parameters, options->model.batch,
			      stretto_strategy_name(average.strategy));
	return status;
}

static void close_run(struct run *run)
{
	/* Its thread works on the batches. */
	stretto_prefetch_free(run->prefetch);
	stretto_batches_fini(&run->batches);
	stretto_vote_fini(&run->vote);
	stretto_probe_fini(&run->probe);
	stretto_average_free(run->average);
	stretto_optimizer_fini(&run->optimizer);
	stretto_windows_fini(&run->windows);
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
	size_t rows = options->model.batch;
	struct stretto_batch batch;
	struct stretto_model_backward backward = {
		.weights = stretto_average_weights(run->average),
		.gradients = stretto_average_gradients(run->average),
		.ready = ready,
		.context = run->average,
		.rows = rows,
	};
	struct stretto_trace *trace = options->trace;
	uint64_t start = stretto_trace_now(trace);
	stretto_status status;

	stretto_trace_step(trace, run->step + 1);
	/* Before the backward pass: acco updates weights during it. */
	run->optimizer.rate = options->optimizer.rate *
			      (float)stretto_rate_at(&options->rate, run->step, run->steps);
	status = stretto_prefetch_batch(run->prefetch, run->step, &batch);
	if (status != STRETTO_OK)
		return status;
	backward.x = batch.x;
	run->model.step = run->step;
	stretto_model_forward(&run->model, backward.weights, rows, batch.x);
	*loss = stretto_model_loss(&run->model, rows, batch.labels);
	stretto_trace_add(trace, STRETTO_TRACE_FORWARD, 0, start);
	start = stretto_trace_now(trace);
	status = stretto_model_backward(&run->model, &backward);
	stretto_trace_add(trace, STRETTO_TRACE_BACKWARD, 0, start);
	if (status != STRETTO_OK)
		return status;
	run->step++;
	start = stretto_trace_now(trace);
	status = stretto_average_step(run->average, stretto_optimizer_update, &run->optimizer);
	stretto_trace_add(trace, STRETTO_TRACE_UPDATE, 0, start);
	return status;
}

/* Accuracy on the test images, each rank taking its share of them. */
static stretto_status test(struct run *run, double *accuracy)
{
	const struct stretto_samples *samples = &run->options->dataset->test;
	const float *weights = stretto_average_weights(run->average);
	size_t classes = run->options->model.output.channels;
	size_t at = samples->count * run->shard.rank / run->shard.ranks;
	size_t end = samples->count * (run->shard.rank + 1) / run->shard.ranks;
	int64_t hits = 0;
	stretto_status status;

	run->model.training = false;
	while (at < end) {
		size_t rows = end - at < run->model.batch ? end - at : run->model.batch;
		const float *scores;

		for (size_t i = 0; i < rows; i++)
			run->index[i] = (uint32_t)(at + i);
		stretto_dataset_batch(run->options->dataset, samples, rows, run->index, run->x,
				      run->labels);
		scores = stretto_model_forward(&run->model, weights, rows, run->x);
		hits += (int64_t)stretto_softmax_hits(rows * run->model.labels, classes,
						      run->labels, scores);
		at += rows;
	}
	status = stretto_allreduce(run->comm, &hits, &hits, 1, STRETTO_I64, STRETTO_SUM);
	if (status == STRETTO_OK)
		*accuracy = (double)hits / (double)(samples->count * run->model.labels);
	return status;
}

/* A test of the weights as they are, if one is due; its time is taken out of the training's. */
static stretto_status test_meanwhile(struct run *run, double *accuracy)
{
	size_t every = run->options->test_every;
	double before = seconds();
	uint64_t start = stretto_trace_now(run->options->trace);
	stretto_status status;

	*accuracy = NAN;
	if (every == 0 || run->step % every != 0 || run->step == run->steps)
		return STRETTO_OK;
	status = test(run, accuracy);
	run->model.training = true;
	run->resumed += seconds() - before;
	stretto_trace_add(run->options->trace, STRETTO_TRACE_TEST, 0, start);
	return status;
}

/* A probe of the weights as they are, if one is due; its time is taken out of the training's. */
static stretto_status probe_meanwhile(struct run *run, struct stretto_probe_found *found)
{
	const struct stretto_probe_place place = {
		.comm = run->comm,
		.dataset = run->options->dataset,
		.weights = stretto_average_weights(run->average),
		.x = run->x,
		.labels = run->labels,
		.index = run->index,
	};
	size_t every = run->options->probe_every;
	double before = seconds();
	stretto_status status;

	*found = (struct stretto_probe_found){NAN, NAN};
	if (every == 0 || run->step % every != 0)
		return STRETTO_OK;
	status = stretto_probe_take(&run->probe, &run->model, &place, found);
	run->resumed += seconds() - before;
	return status;
}

/* Measures the step that was made, shows it to the observer, and votes when it is time. */
static stretto_status after_step(struct run *run, double loss)
{
	size_t per_epoch = stretto_shard_steps(&run->shard);
	struct stretto_average_stats stats;
	struct stretto_train_step seen;
	stretto_status status;
	uint64_t start;

	stretto_average_stats(run->average, &stats);
	seen = (struct stretto_train_step){
		.step = run->step,
		.begun = run->begun,
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
	status = test_meanwhile(run, &seen.accuracy);
	if (status == STRETTO_OK)
		status = probe_meanwhile(run, &seen.probe);
	if (status != STRETTO_OK)
		return status;
	if (!isfinite(loss))
		stretto_vote_put(&run->vote, STRETTO_STOP_LOSS, run->step);
	if (run->options->observer && !run->options->observer(run->options->context, &seen))
		stretto_vote_put(&run->vote, STRETTO_STOP_OBSERVER, run->step);
	if (run->options->keep.signaled && *run->options->keep.signaled)
		stretto_vote_put(&run->vote, STRETTO_STOP_SIGNAL, run->step);
	if (run->step % VOTE_PERIOD != 0)
		return STRETTO_OK;
	start = stretto_trace_now(run->options->trace);
	status = stretto_vote_turn(&run->vote, &run->verdict);
	stretto_trace_add(run->options->trace, STRETTO_TRACE_VOTE, 0, start);
	return status;
}

/*
 * Writes a checkpoint, unless the ranks have a reason to stop that makes the weights worthless. One that
 * cannot be written does not end the training: the checkpoint before is still there.
 */
static stretto_status save(struct run *run)
{
	const struct stretto_train_keep *keep = &run->options->keep;
	bool saved = false;
	stretto_status status = stretto_vote_last(&run->vote, &run->verdict);

	if (status != STRETTO_OK || run->verdict.stop == STRETTO_STOP_LOSS ||
	    run->verdict.stop == STRETTO_STOP_OBSERVER || run->saved == run->step)
		return status;
	status = stretto_average_drain(run->average);
	if (status != STRETTO_OK)
		return status;
	run->state.samples = (uint64_t)run->step * run->shard.batch * run->shard.ranks;
	status = stretto_state_save(&run->state, keep->folder, &saved);
	if (saved)
		run->saved = run->step;
	return status;
}

static bool save_is_due(const struct run *run)
{
	const struct stretto_train_keep *keep = &run->options->keep;

	return keep->folder && keep->every > 0 && run->step % keep->every == 0 &&
	       run->verdict.stop == STRETTO_STOP_NONE;
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
		if (status == STRETTO_OK && save_is_due(run)) {
			uint64_t start = stretto_trace_now(run->options->trace);

			status = save(run);
			stretto_trace_add(run->options->trace, STRETTO_TRACE_SAVE, 0, start);
		}
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

/*
 * The running statistics of batch normalisation, local so far, averaged over the ranks; replicas that
 * are never averaged keep their own.
 */
static stretto_status average_running(struct run *run)
{
	if (run->model.running_count == 0 ||
	    run->options->average.strategy == STRETTO_STRATEGY_NONE)
		return STRETTO_OK;
	return stretto_allreduce(run->comm, run->model.running, run->model.running,
				 run->model.running_count, STRETTO_F32, STRETTO_AVG);
}

static stretto_status measure(struct run *run, struct stretto_train_result *result)
{
	size_t steps = run->step - run->begun;
	size_t samples = steps * run->shard.batch * run->shard.ranks;
	double compute;

	result->parameters = run->model.parameters;
	result->steps = run->step;
	result->seconds = run->spent;
	result->samples_per_second = (double)samples / result->seconds;
	result->step = stretto_windows_typical(&run->windows);
	result->loss = run->windows.loss;
	stretto_average_stats(run->average, &result->stats);
	compute = run->spent - result->stats.exposed_seconds;
	return stretto_straggler_find(run->comm, steps ? compute / (double)steps : 0,
				      &result->straggler);
}

/* Goes on where a checkpoint was written. */
static stretto_status resume(struct run *run)
{
	struct stretto_state_found found;
	stretto_status status = stretto_state_restore(&run->state, run->options->keep.resume,
						      run->shard.batch, &found);

	if (status != STRETTO_OK)
		return status;
	run->step = (size_t)found.steps;
	run->begun = run->step;
	run->saved = run->step;
	if (found.ranks != run->shard.ranks && run->shard.rank == 0)
		stretto_warn("resumed after %" PRIu64
			     " samples of %u ranks with %zu ranks, at step "
			     "%zu: other shards, so the bits will not be those of the %u ranks",
			     found.samples, found.ranks, run->shard.ranks, run->step, found.ranks);
	return STRETTO_OK;
}

/* A folder of checkpoints belongs to one training: another one's would be taken for its own. */
static stretto_status check_folder(struct run *run)
{
	const char *folder = run->options->keep.folder;
	struct stretto_checkpoint_id id;
	int32_t taken = run->shard.rank == 0 && folder && !run->options->keep.resume &&
			stretto_checkpoint_latest(folder, UINT64_MAX, &id);
	stretto_status status = stretto_broadcast(run->comm, &taken, 1, STRETTO_I32, 0);

	if (status == STRETTO_OK && folder && !taken)
		return stretto_state_folder(run->comm, folder);
	if (status != STRETTO_OK || !taken)
		return status;
	if (run->shard.rank == 0)
		stretto_error("%s holds checkpoints already (after %" PRIu64
			      " samples): go on with "
			      "--resume, or give another folder",
			      folder, id.samples);
	return STRETTO_INVALID;
}

static stretto_status begin(struct run *run)
{
	stretto_status status = stretto_train_check(run->options, run->comm, run->steps);

	if (status == STRETTO_OK)
		status = open_run(run);
	if (status != STRETTO_OK)
		return status;
	stretto_model_start(&run->model, run->options->seed, stretto_average_weights(run->average));
	/* Each rank drops others, as it sees other samples. */
	run->model.seed = run->options->seed * run->shard.ranks + run->shard.rank + 1;
	stretto_train_describe(run->options, run->model.parameters, run->text);
	run->saved = SIZE_MAX;
	run->state = (struct stretto_state){.comm = run->comm,
					    .average = run->average,
					    .optimizer = &run->optimizer,
					    .running = run->model.running,
					    .running_count = run->model.running_count,
					    .options = run->text,
					    .before = UINT64_MAX};
	status = check_folder(run);
	return status == STRETTO_OK && run->options->keep.resume ? resume(run) : status;
}

/* Measures, agrees with the other ranks that it came to its end, and tests. */
static stretto_status end(struct run *run, struct stretto_train_result *result)
{
	stretto_status status = measure(run, result);

	if (status == STRETTO_OK && run->verdict.stop == STRETTO_STOP_NONE &&
	    run->step == run->steps)
		status = stretto_vote_last(&run->vote, &run->verdict);
	if (status == STRETTO_OK && run->verdict.stop == STRETTO_STOP_NONE &&
	    run->step == run->steps) {
		status = stretto_average_drain(run->average);
		if (status == STRETTO_OK)
			status = average_running(run);
		if (status == STRETTO_OK)
			status = test(run, &result->accuracy);
	}
	if (status == STRETTO_OK && run->verdict.stop == STRETTO_STOP_SIGNAL)
		status = save(run);
	result->saved = run->saved == run->step;
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
