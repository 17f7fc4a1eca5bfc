/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * acco: each update has two halves of a batch; while one is computed, the other travels. T holds the
 * weights w, E the estimate w~, G0 and G1 the gradients of the halves, s0 and s1 this rank's share of
 * their means:
 *
 *	step  reads    writes        meanwhile                                    then starts
 *	1     T = w(0) G0 = g~(0)    -                                            G0>s0
 *	2     T = w(0) G1 = g(0)     G0>s0, E = S(T) with s0 (tried), E gathered  G1>s1
 *	3     E =w~(1) G0 = g~(1)    G1>s1, T = S(T) with (s0 + s1) / 2, gathered G0>s0
 *	4     T = w(1) G1 = g(1)     as in step 2                                 G1>s1
 *
 * A slice goes through these one after the other, in what is called a chain here: reduce-scatter,
 * the optimiser on the rank's own block, all-gather. The first and the last are in the background;
 * the optimiser runs where stretto_average_ready() or stretto_average_step() finds a reduce-scatter
 * complete. All-gathers are started in the order of slices, so in the same order on all ranks.
 *
 * Rank r owns block r of every slice. In the optimiser's state, blocks follow each other. Slices are
 * a multiple of M, so the arenas are a little longer than the parameters; nothing reads that rest.
 */
#include <stdlib.h>

#include "runtime/clock.h"
#include "trainer/average.h"
#include "trainer/loop.h"

struct acco {
	struct stretto_slicing
		slicing; /* of the padded arenas; all slices are of the same length */
	size_t block;    /* floats of a slice that a rank owns */
	size_t rank;
	float *weights[2];                /* T and E */
	float *gradients[2];              /* G0 and G1 */
	float *shares[2];                 /* s0 and s1 */
	struct stretto_route scatters[2]; /* gradients[i] to shares[i] */
	struct stretto_route gathers[2];  /* of weights[i], in place */
	struct stretto_flight_log log;    /* of the routes; a chain is booked as one flight */
	size_t half;                      /* which this step computes: 0 or 1 */
	size_t chained;                   /* slices whose all-gather has been started */
	bool flying;                      /* the chain of the other half */
};

static const char *check(const struct stretto_average_options *options)
{
	return options->clip > 0.0f ? "acco cannot clip: no rank has all of the mean gradient"
				    : NULL;
}

/* Slices that M blocks of whole cache lines make up, and the arenas that they make up. */
static void divide(struct stretto_average *average, struct acco *own)
{
	const size_t line = 16;
	size_t ranks = (size_t)stretto_comm_size(average->comm),
	       count = average->options.parameters;
	size_t wanted = stretto_average_slice(average, count, STRETTO_GRADIENTS_SLICE);

	own->block = (wanted + ranks - 1) / ranks;
	own->block = (own->block + line - 1) / line * line;
	own->rank = (size_t)stretto_comm_rank(average->comm);
	own->slicing.slice = own->block * ranks;
	own->slicing.count =
		(count + own->slicing.slice - 1) / own->slicing.slice * own->slicing.slice;
	average->state = own->block * stretto_slicing_slices(&own->slicing);
}

static stretto_status open_arenas(struct stretto_average *average, struct acco *own)
{
	stretto_status status = STRETTO_OK;

	for (size_t i = 0; i < 2 && status == STRETTO_OK; i++) {
		status = stretto_average_allocate(average, STRETTO_ARENA_WEIGHTS,
						  own->slicing.count, &own->weights[i]);
		if (status == STRETTO_OK)
			status = stretto_average_allocate(average, STRETTO_ARENA_GRADIENTS,
							  own->slicing.count, &own->gradients[i]);
		if (status == STRETTO_OK)
			status = stretto_average_allocate(average, STRETTO_ARENA_SHARE,
							  average->state, &own->shares[i]);
	}
	average->weights = own->weights[0];
	average->gradients = own->gradients[0];
	return status;
}

static stretto_status open_acco(struct stretto_average *average)
{
	struct acco *own = calloc(1, sizeof(*own));
	stretto_status status;

	if (!own)
		return STRETTO_NO_MEMORY;
	average->own = own;
	divide(average, own);
	status = open_arenas(average, own);
	for (size_t i = 0; i < 2 && status == STRETTO_OK; i++) {
		own->scatters[i].log = &own->log;
		own->gathers[i].log = &own->log;
		status = stretto_route_open_scatter(average->comm, &own->slicing, own->gradients[i],
						    own->shares[i], &own->scatters[i]);
		if (status == STRETTO_OK)
			status = stretto_route_open_gather(average->comm, &own->slicing,
							   own->weights[i], &own->gathers[i]);
	}
	return status;
}

static void close_acco(struct stretto_average *average)
{
	struct acco *own = average->own;

	for (size_t i = 0; i < 2; i++) {
		stretto_route_close(&own->scatters[i]);
		stretto_route_close(&own->gathers[i]);
	}
	free(own);
}

/* The mean of both halves, into the share of the second. */
static void mean_of_halves(const struct acco *own, size_t at)
{
	const float *first = own->shares[0] + at;
	float *second = own->shares[1] + at;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < own->block; i++)
		second[i] = 0.5f * (first[i] + second[i]);
}

/*
 * The optimiser on this rank's block of slice k, with the gradients of half `other`. The rest behind
 * the parameters takes part in what travels only.
 */
static void update_block(struct stretto_average *average, const struct acco *own, size_t other,
			 size_t k)
{
	size_t first = k * own->slicing.slice + own->rank * own->block, at = k * own->block;
	size_t parameters = average->options.parameters;
	struct stretto_pass pass = {
		.weights = own->weights[0] + first,
		.gradients = own->shares[other] + at,
		.next = own->weights[1 - other] + first,
		.first = first,
		.state = at,
		.count = first + own->block <= parameters ? own->block
			 : first < parameters             ? parameters - first
							  : 0,
		.update = average->updates + 1,
		.trial = other == 0,
	};

	if (other == 1)
		mean_of_halves(own, at);
	if (pass.count > 0)
		average->update(average->context, &pass);
}

/* Takes the chain on, slice by slice: as far as it can without waiting, or to where all is started. */
static stretto_status advance(struct stretto_average *average, struct acco *own, bool wait)
{
	size_t other = 1 - own->half;
	struct stretto_route *scatter = &own->scatters[other], *gather = &own->gathers[1 - other];
	stretto_status status = STRETTO_OK;

	while (own->chained < scatter->count && status == STRETTO_OK) {
		size_t k = own->chained;

		if (!wait && !stretto_route_done(scatter, k))
			break;
		status = stretto_route_finish(scatter, k);
		if (status != STRETTO_OK)
			break;
		update_block(average, own, other, k);
		status = stretto_route_start(gather, k);
		own->chained++;
	}
	if (own->chained > 0 && !wait && status == STRETTO_OK)
		stretto_route_look(gather, own->chained - 1);
	return status;
}

/* Ends the chain in flight, and books it. */
static stretto_status finish(struct stretto_average *average, struct acco *own)
{
	size_t other = 1 - own->half;
	const struct stretto_route *scatter = &own->scatters[other];
	struct stretto_route *gather = &own->gathers[1 - other];
	stretto_status status = advance(average, own, true);

	for (size_t k = 0; k < gather->count && status == STRETTO_OK; k++)
		status = stretto_route_finish(gather, k);
	average->log.flights++;
	average->log.bytes += average->options.parameters * sizeof(float);
	average->log.exposed += own->log.exposed;
	average->log.in_flight += gather->seen_time - scatter->start_time;
	average->updates += other == 1;
	own->log = (struct stretto_flight_log){0};
	own->chained = 0;
	own->flying = false;
	return status;
}

static stretto_status ready_acco(struct stretto_average *average)
{
	struct acco *own = average->own;

	return own->flying ? advance(average, own, false) : STRETTO_OK;
}

static stretto_status step_acco(struct stretto_average *average)
{
	struct acco *own = average->own;
	bool flew = own->flying;
	stretto_status status = flew ? finish(average, own) : STRETTO_OK;

	own->log.trace = average->log.trace;
	for (size_t k = 0; k < own->scatters[0].count && status == STRETTO_OK; k++)
		status = stretto_route_start(&own->scatters[own->half], k);
	own->flying = true;
	/* The first half goes on from the weights, as does the first step; the second from the estimate. */
	average->weights = own->weights[own->half];
	own->half = 1 - own->half;
	average->gradients = own->gradients[own->half];
	return status;
}

/* Waits for what the first half of an update has in flight, which nothing will use. */
static stretto_status give_up(struct acco *own)
{
	stretto_status status = STRETTO_OK;

	for (size_t k = 0; k < own->scatters[0].count && status == STRETTO_OK; k++)
		status = stretto_route_finish(&own->scatters[0], k);
	own->log = (struct stretto_flight_log){0};
	own->flying = false;
	return status;
}

static stretto_status drain_acco(struct stretto_average *average)
{
	struct acco *own = average->own;
	stretto_status status = STRETTO_OK;

	if (own->flying)
		status = own->half == 0 ? finish(average, own) : give_up(own);
	own->half = 0;
	average->weights = own->weights[0];
	average->gradients = own->gradients[0];
	return status;
}

const struct stretto_strategy_ops stretto_strategy_acco = {
	.check = check,
	.open = open_acco,
	.close = close_acco,
	.ready = ready_acco,
	.step = step_acco,
	.drain = drain_acco,
};
