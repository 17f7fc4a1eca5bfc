/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trial.h: a small training by ranks that are threads, whose weights after every step are kept, so
 * that averaging strategies can be compared with references that keep the whole history in plain
 * arrays: no arenas that rotate, no slices, nothing in flight.
 *
 * With two ranks the references are met bit for bit: (a + b) / 2 is the same in any order. With
 * more ranks the order of additions is the library's, so that a few roundings are allowed.
 */
#ifndef STRETTO_TESTS_LIB_TRIAL_H
#define STRETTO_TESTS_LIB_TRIAL_H

#include "trainer/optimizer.h"

/* Parameters (in several slices, the last one shorter), steps, steps at most, and ranks at most. */
enum { PARAMETERS = 211, SLICE = 48, STEPS = 13, MOST_STEPS = 96, RANKS = 3 };

typedef float history[MOST_STEPS + 1][PARAMETERS];

/* One training to be done by all ranks, and what they did. */
struct trial {
	struct stretto_average_options average;
	struct stretto_optimizer_options optimizer;
	int ranks;
	size_t steps;
	bool tell_ready;                  /* gradients as they come, or all by the step */
	bool same_data;                   /* all ranks have the same optimum */
	history w[RANKS];                 /* weights of each rank after each step */
	float drained[RANKS][PARAMETERS]; /* after the drain */
	size_t state[RANKS];              /* parameters with optimiser state */
	struct stretto_average_stats stats[RANKS];
	bool failed[RANKS];
};

/* The trial that trial_prepare() fills in, and one for references. */
extern struct trial trial, reference;

/* Rank r pulls parameter i towards its own optimum: the gradient of a quadratic, curvature 1/2. */
float trial_gradient(const struct trial *t, int rank, size_t i, float w);

/* The weights at the beginning. */
float trial_initial(size_t i);

/* A trial of STEPS steps with sgd, lr 1/8, momentum 1/2. */
struct trial *trial_prepare(enum stretto_strategy strategy, int ranks, size_t tau, size_t delay,
			    float own_weight);

/* Runs it; fails the test if a rank fails. */
void trial_run(struct trial *t);

/* Mean over the ranks of element i at a step, in the order of ranks. */
float trial_mean(const struct trial *t, size_t step, size_t i);

/* All weights of all ranks after all steps as in `reference`; two ranks and one: bit for bit. */
void trial_compare(const struct trial *t, const char *name);

#endif
