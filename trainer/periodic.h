/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * periodic.h: the engine of the strategies that average the weights every tau steps: local,
 * post-local, dasgd, dasgd-delta, overlap-local, streaming. They differ in the delay, in the rule by
 * which an average is merged, and in the number of fragments.
 *
 * Two ranks, tau = 2, d = 1, arenas X Y Z; "X>Z" is the average of X into Z in flight:
 *
 *	step  pass reads  waits  merges  writes  starts  in flight during the next step
 *	1     X           -      -       X       -       -
 *	2     X           -      -       X       X>Z     X>Z  (X is the snapshot of round 1)
 *	3     X           X>Z    Z       Y       -       -    (X was in flight when it began)
 *	4     Y           -      -       Y       Y>Z     Y>Z
 *	5     Y           Y>Z    Z       X       -       -
 *
 * With d = 2 = tau, step 4 reads Y (written by step 3, since X was in flight), merges Z of X>Z, and
 * starts Y>Z: slice by slice, so that Z is never written before its old contents were merged.
 *
 * A fragment is a part of the arenas with a flight of its own. Fragments start tau/F steps apart and
 * d <= tau/F, so only one is in flight during a step, and two arenas that take turns are enough.
 *
 * Threads: as its averager.
 */
#ifndef STRETTO_TRAINER_PERIODIC_H
#define STRETTO_TRAINER_PERIODIC_H

#include "trainer/average.h"

/* A block where an average is due. All pointers are to its first element. */
struct stretto_merge {
	const struct stretto_average_options *options;
	float *next;           /* the weights after the optimiser; merged in place */
	const float *average;  /* over the ranks */
	const float *snapshot; /* what this rank gave to the average */
	float *anchor;         /* z; NULL unless anchored */
	float *velocity;       /* of z; NULL unless anchored */
	size_t count;
};

typedef void stretto_merge_rule(const struct stretto_merge *merge);

/* next <- p next + (1 - p) average. */
stretto_merge_rule stretto_merge_overwrite;

/* What tells the strategies apart. */
struct stretto_periodic_options {
	stretto_merge_rule *rule;
	size_t delay;     /* steps in flight, <= tau / fragments; 0: merged at once */
	size_t fragments; /* F, a divisor of tau */
	size_t origin;    /* steps before the first round */
	bool anchored;    /* the rule has an anchor and its velocity */
};

struct stretto_fragment {
	struct stretto_slicing slicing;
	struct stretto_route routes[2]; /* from turns[i] */
	struct stretto_route *flight;   /* not merged yet; NULL: none */
	size_t first;                   /* place in the arenas */
	size_t offset;                  /* starts where step % tau is this */
	size_t merge_step;              /* when the flight is due */
};

struct stretto_periodic {
	struct stretto_periodic_options options;
	float *turns[2]; /* weights: current, and a snapshot; [1] NULL without delay */
	float *average;  /* target of the averages; turns[0] if in place */
	float *anchor;   /* NULL unless anchored */
	float *velocity; /* NULL unless anchored */
	struct stretto_fragment *fragments; /* owned */
};

/*
 * Allocates all arenas, the gradients too, and makes *periodic. Sets the averager's `weights` and
 * `gradients`.
 */
stretto_status stretto_periodic_open(struct stretto_average *average,
				     const struct stretto_periodic_options *options,
				     struct stretto_periodic *periodic);
/* Also after a failed open. */
void stretto_periodic_close(struct stretto_periodic *periodic);

stretto_status stretto_periodic_step(struct stretto_average *average,
				     struct stretto_periodic *periodic);
stretto_status stretto_periodic_drain(struct stretto_average *average,
				      struct stretto_periodic *periodic);
stretto_status stretto_periodic_visit(struct stretto_average *average,
				      const struct stretto_periodic *periodic, bool restore,
				      stretto_average_visitor *visit, void *context);

/* The functions of a strategy whose `own` is a struct stretto_periodic alone. */
stretto_status stretto_periodic_own_open(struct stretto_average *average,
					 const struct stretto_periodic_options *options);
void stretto_periodic_own_close(struct stretto_average *average);
stretto_status stretto_periodic_own_ready(struct stretto_average *average);
stretto_status stretto_periodic_own_step(struct stretto_average *average);
stretto_status stretto_periodic_own_drain(struct stretto_average *average);
stretto_status stretto_periodic_own_visit(struct stretto_average *average, bool restore,
					  stretto_average_visitor *visit, void *context);

#endif
