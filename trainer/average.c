/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/average.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "trainer/loop.h"

/* Floats of a block: those of all arenas in a pass fit into a core's own cache. */
enum { BLOCK = 2048 };

static const struct {
	const char *word;
	const struct stretto_strategy_ops *strategy;
} table[STRETTO_STRATEGY_COUNT] = {
#define X(name, word, symbol) [name] = {word, &stretto_strategy_##symbol},
	STRETTO_STRATEGY_MAP(X)
#undef X
};

const char *stretto_strategy_name(enum stretto_strategy strategy)
{
	return (unsigned)strategy < STRETTO_STRATEGY_COUNT ? table[strategy].word : "?";
}

bool stretto_strategy_find(const char *word, enum stretto_strategy *strategy)
{
	for (size_t i = 0; i < STRETTO_STRATEGY_COUNT; i++) {
		if (strcmp(word, table[i].word) == 0) {
			*strategy = (enum stretto_strategy)i;
			return true;
		}
	}
	return false;
}

const char *stretto_check_round(const struct stretto_average_options *options)
{
	return options->tau < 1 ? "tau must be at least 1" : NULL;
}

const char *stretto_check_own_weight(const struct stretto_average_options *options)
{
	return options->own_weight >= 0.0f && options->own_weight < 1.0f
		       ? NULL
		       : "the own weight must be at least 0 and less than 1";
}

const char *stretto_check_delayed(const struct stretto_average_options *options)
{
	const char *problem = stretto_check_round(options);

	if (!problem)
		problem = stretto_check_own_weight(options);
	if (!problem && options->delay > options->tau)
		problem = "the delay must not be greater than tau";
	return problem;
}

const char *stretto_check_outer(const struct stretto_average_options *options)
{
	if (!(options->outer_rate >= 0.0f && options->outer_rate <= 1000.0f))
		return "the outer rate must be more than 0 and at most 1000";
	if (!(options->outer_momentum >= 0.0f && options->outer_momentum < 1.0f))
		return "the outer momentum must be at least 0 and less than 1";
	return NULL;
}

const char *stretto_average_check(const struct stretto_average_options *options)
{
	const struct stretto_strategy_ops *strategy;

	if ((unsigned)options->strategy >= STRETTO_STRATEGY_COUNT)
		return "no such strategy";
	if (options->parameters < 1)
		return "there must be at least one parameter";
	if (!(options->clip >= 0.0f))
		return "the norm to clip to must be at least 0";
	strategy = table[options->strategy].strategy;
	return strategy->check ? strategy->check(options) : NULL;
}

/* The options with defaults in the place of zeros. */
static struct stretto_average_options settled(const struct stretto_average_options *options)
{
	struct stretto_average_options settled = *options;

	if (settled.outer_rate == 0.0f)
		settled.outer_rate = 1.0f;
	if (settled.fragments == 0)
		settled.fragments = 1;
	return settled;
}

double stretto_average_effective_steps(const struct stretto_average_options *options, int ranks)
{
	const struct stretto_strategy_ops *strategy = table[options->strategy].strategy;
	struct stretto_average_options all = settled(options);

	if (!strategy->effective_steps)
		return 1.0;
	return ranks == 1 ? (double)options->tau : strategy->effective_steps(&all);
}

enum stretto_fit stretto_fit_tau(struct stretto_average_options *options, size_t steps, size_t most)
{
	size_t tau = steps < most ? steps : most;

	if (options->tau < tau)
		options->tau = tau;
	return steps <= most ? STRETTO_FIT_HIDES : STRETTO_FIT_SHORT;
}

enum stretto_fit stretto_fit_delay(struct stretto_average_options *options, size_t steps,
				   size_t most)
{
	options->delay = steps < most ? steps : most;
	return stretto_fit_tau(options, steps, most);
}

enum stretto_fit stretto_average_fit(struct stretto_average_options *options,
				     const struct stretto_average_times *times, size_t most_tau)
{
	const struct stretto_strategy_ops *strategy = table[options->strategy].strategy;
	double steps = ceil(times->average / times->step);

	if (!strategy->fit || most_tau < 1 || !(times->step > 0) || !(times->average >= 0))
		return STRETTO_FIT_NOTHING;
	if (steps < 1)
		steps = 1;
	/* More than any delay, and still a size_t. */
	if (steps > 1e9)
		steps = 1e9;
	return strategy->fit(options, (size_t)steps, most_tau);
}

stretto_status stretto_average_allocate(struct stretto_average *average,
					enum stretto_arena_kind kind, size_t floats, float **arena)
{
	void *memory = NULL;
	stretto_status status = stretto_alloc(average->comm, floats * sizeof(float), &memory);

	if (status != STRETTO_OK)
		return status;
	average->arenas[average->arena_count++] = memory;
	average->memory += floats * sizeof(float);
	average->weight_arenas += kind == STRETTO_ARENA_WEIGHTS;
	average->gradient_arenas += kind == STRETTO_ARENA_GRADIENTS;
	*arena = memory;
	return STRETTO_OK;
}

size_t stretto_average_slice(const struct stretto_average *average, size_t count, size_t least)
{
	const size_t line = 16, most = 8;
	size_t slices = count / least;

	if (average->options.slice)
		return average->options.slice;
	if (slices > most)
		slices = most;
	return slices < 2 ? count : (count / slices + line) / line * line;
}

stretto_status stretto_average_new(struct stretto_comm *comm,
				   const struct stretto_average_options *options,
				   struct stretto_average **out)
{
	const char *problem = stretto_average_check(options);
	struct stretto_average *average;
	stretto_status status;

	if (problem) {
		stretto_error("averaging: %s", problem);
		return STRETTO_INVALID;
	}
	average = calloc(1, sizeof(*average));
	if (!average)
		return STRETTO_NO_MEMORY;
	average->comm = comm;
	average->options = settled(options);
	average->strategy = stretto_comm_size(comm) == 1 ? &stretto_strategy_none
							 : table[options->strategy].strategy;
	average->state = options->parameters;
	average->ready = options->parameters;
	status = average->strategy->open(average);
	if (status != STRETTO_OK) {
		stretto_average_free(average);
		return status;
	}
	*out = average;
	return STRETTO_OK;
}

void stretto_average_free(struct stretto_average *average)
{
	if (!average)
		return;
	if (average->strategy->close && average->own)
		average->strategy->close(average);
	for (size_t i = 0; i < average->arena_count; i++)
		stretto_free(average->comm, average->arenas[i]);
	free(average);
}

size_t stretto_average_state(const struct stretto_average *average)
{
	return average->state;
}

float *stretto_average_weights(struct stretto_average *average)
{
	return average->weights;
}

float *stretto_average_gradients(struct stretto_average *average)
{
	return average->gradients;
}

stretto_status stretto_average_ready(struct stretto_average *average, size_t first, size_t count)
{
	if (first > average->ready || count != average->ready - first) {
		stretto_error("averaging: gradients [%zu, %zu) are said to be ready, but the next "
			      "to be ready must end at %zu; call from the last layer to the first",
			      first, first + count, average->ready);
		return STRETTO_INVALID;
	}
	average->ready = first;
	return average->strategy->ready ? average->strategy->ready(average) : STRETTO_OK;
}

/* The sum of squares, in several sums side by side and in double: the same bits on every machine. */
static double sum_of_squares(const float *x, size_t count)
{
	enum { LANES = 8 };
	double sums[LANES] = {0}, sum = 0;
	size_t whole = count / LANES * LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t lane = 0; lane < LANES; lane++)
			sums[lane] += (double)x[i + lane] * (double)x[i + lane];
	for (size_t i = whole; i < count; i++)
		sum += (double)x[i] * (double)x[i];
	for (size_t lane = 0; lane < LANES; lane++)
		sum += sums[lane];
	return sum;
}

void stretto_average_clip(struct stretto_average *average)
{
	double most = (double)average->options.clip, norm;

	average->scale = 1.0f;
	if (most <= 0)
		return;
	norm = sqrt(sum_of_squares(average->gradients, average->options.parameters));
	if (norm > most)
		average->scale = (float)(most / norm);
}

static void scale(float factor, float *x, size_t count)
{
	for (size_t i = 0; i < count; i++)
		x[i] *= factor;
}

void stretto_average_pass(struct stretto_average *average, const struct stretto_work *work,
			  size_t first, size_t count)
{
	const float *stepped = work->stepped ? work->stepped : work->gradients;
	struct stretto_trace *trace = work->before || work->after ? average->log.trace : NULL;
	uint64_t start = stretto_trace_now(trace);

	for (size_t end = first + count; first < end; first += BLOCK) {
		struct stretto_pass pass = {
			.weights = work->weights + first,
			.gradients = stepped + first,
			.next = work->next + first,
			.first = first,
			.state = first,
			.count = end - first < BLOCK ? end - first : BLOCK,
			.update = average->updates + 1,
		};

		if (average->scale != 1.0f)
			scale(average->scale, work->gradients + first, pass.count);
		if (work->before)
			work->before(work->context, first, pass.count);
		average->update(average->context, &pass);
		if (work->after)
			work->after(work->context, first, pass.count);
	}
	stretto_trace_add(trace, STRETTO_TRACE_MERGE, 0, start);
}

void stretto_average_trace(struct stretto_average *average, struct stretto_trace *trace)
{
	average->log.trace = trace;
}

stretto_status stretto_average_step(struct stretto_average *average, stretto_update *update,
				    void *context)
{
	stretto_status status;

	average->update = update;
	average->context = context;
	status = stretto_average_ready(average, 0, average->ready);
	if (status == STRETTO_OK)
		status = average->strategy->step(average);
	average->step++;
	average->ready = average->options.parameters;
	return status;
}

stretto_status stretto_average_drain(struct stretto_average *average)
{
	return average->strategy->drain ? average->strategy->drain(average) : STRETTO_OK;
}

stretto_status stretto_average_visit(struct stretto_average *average, bool restore,
				     stretto_average_visitor *visit, void *context)
{
	size_t bytes = average->options.parameters * sizeof(float);
	stretto_status status = visit(context, "step", &average->step, sizeof(average->step));

	if (status == STRETTO_OK)
		status = visit(context, "updates", &average->updates, sizeof(average->updates));
	if (status == STRETTO_OK && average->strategy->visit)
		status = average->strategy->visit(average, restore, visit, context);
	return status == STRETTO_OK ? visit(context, "weights", average->weights, bytes) : status;
}

void stretto_average_stats(const struct stretto_average *average,
			   struct stretto_average_stats *stats)
{
	*stats = (struct stretto_average_stats){
		.steps = average->step,
		.averages = average->log.flights,
		.bytes_averaged = average->log.bytes,
		.bytes_copied = average->bytes_copied,
		.exposed_seconds = average->log.exposed,
		.in_flight_seconds = average->log.in_flight,
		.weight_arenas = average->weight_arenas,
		.gradient_arenas = average->gradient_arenas,
		.memory = average->memory,
	};
}

void stretto_average_import(struct stretto_average *average, size_t first, size_t count,
			    const float *source)
{
	memcpy(stretto_average_weights(average) + first, source, count * sizeof(float));
	average->bytes_copied += count * sizeof(float);
}

void stretto_average_export(struct stretto_average *average, size_t first, size_t count,
			    float *target)
{
	memcpy(target, stretto_average_weights(average) + first, count * sizeof(float));
	average->bytes_copied += count * sizeof(float);
}
