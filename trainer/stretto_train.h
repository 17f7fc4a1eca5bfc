/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto_train.h: the public interface of the averaging strategies for data-parallel training.
 *
 * Give it a number of parameters and a strategy; it gives you one arena of weights and one of
 * gradients, both registered memory. Then, for every local step:
 *
 *	w = stretto_average_weights(a);            forward and backward read the weights here
 *	g = stretto_average_gradients(a);          backward writes the gradients here
 *	stretto_average_ready(a, first, count);    ... and tells so, from the last layer to the first
 *	stretto_average_step(a, update, context);  one pass: optimiser, merge, start of the average
 *
 * and stretto_average_drain(a) at the end. The layers, the data and the optimiser are yours; the
 * trainer in this folder is one user. The averages themselves run in the background.
 *
 * Notation: M ranks; w_i(t) the weights of rank i after t local steps; S_i one step of its
 * optimiser; tau local steps make a round; an average started at the end of a round is merged
 * d = delay local steps later; p = own weight in [0, 1); avg(t) = mean over ranks of w_i(t).
 *
 * none         w_i(t+1) = S_i(w_i(t)). Nothing is in flight: independent replicas, to compare with.
 *              Arenas: 1 of weights, 1 of gradients. A round is one step.
 * sync         w(t+1) = S(w(t)) with g = mean over ranks of g_i. Slices of the gradient arena are
 *              averaged in place while backward is busy with earlier layers, and each is waited for
 *              just before the pass uses it: the last one is never hidden. A round is one step.
 *              Arenas: 1 + 1. Li et al., "PyTorch Distributed" (VLDB 2020), without the packing.
 * local        Every tau steps w_i <- p w_i + (1-p) avg, waited for on the spot. Arenas: 1 + 1 for
 *              p = 0 (averaged in place), else 2 + 1. Effective steps a round: tau.
 *              Stich, "Local SGD Converges Fast and Communicates Little" (ICLR 2019).
 * dasgd        At t = r tau the average of w(t) starts; w_i(t+d) <- p w_i(t+d) + (1-p) avg(t). The
 *              share 1-p of the d steps made meanwhile is thrown away: effective steps a round are
 *              tau - d (1-p). In flight: one average under d steps. Arenas: 3 + 1.
 *              "Squeezing SGD Parallelization Performance in Distributed Training Using Delayed
 *              Averaging" (arXiv 2006.00441).
 * dasgd-delta  The same flight, merged as w_i(t+d) <- w_i(t+d) + (1-p) (avg(t) - w_i(t)): no step
 *              is lost (effective steps: tau), and the mean over ranks moves as plain local steps
 *              would move it. Arenas: 3 + 1. With p = 0 and d = tau it is CoCoD-SGD (Shen et al.,
 *              "Faster Distributed Deep Net Training", IJCAI 2019).
 *
 * Why three arenas, and why no copy: the pass reads the weights from one arena and writes the next
 * weights to another whenever the first is in flight, so that the old arena *is* the snapshot. It
 * cannot be averaged in place, since the next forward and backward still read it; the average goes
 * to the third. Rule B finds its snapshot untouched there and needs no further arena. An optimiser
 * with momentum adds one arena of its own, so dasgd holds 5 parameter copies where SGD holds 3.
 *
 * d = 0 makes dasgd and dasgd-delta the same as local. If d = tau, the merge comes before the next
 * snapshot, in the same pass. Nothing is merged in round 0, since no average has been started.
 * With M = 1 there is nobody to average with, and every strategy is plain local steps, bit for bit.
 *
 * The averages travel in slices, each a persistent allreduce: the pass waits for slice k of the old
 * average, updates slice k, and starts slice k of the new one, so that the pass itself hides
 * communication at both ends.
 *
 * Threads: the calls on one averager from one thread at a time; they use the communicator it was
 * made for, whose rules apply.
 */
#ifndef STRETTO_TRAIN_H
#define STRETTO_TRAIN_H

#include "collectives/stretto_coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strategies: name, the word the tools use for it. */
#define STRETTO_STRATEGY_MAP(X)                                                                    \
	X(STRETTO_STRATEGY_NONE, "none")                                                           \
	X(STRETTO_STRATEGY_SYNC, "sync")                                                           \
	X(STRETTO_STRATEGY_LOCAL, "local")                                                         \
	X(STRETTO_STRATEGY_DASGD, "dasgd")                                                         \
	X(STRETTO_STRATEGY_DASGD_DELTA, "dasgd-delta")

enum stretto_strategy {
#define X(name, word) name,
	STRETTO_STRATEGY_MAP(X)
#undef X
		STRETTO_STRATEGY_COUNT
};

/* What and how to average; the same on all ranks. */
struct stretto_average_options {
	enum stretto_strategy strategy;
	size_t parameters; /* floats of an arena, >= 1 */
	size_t tau;        /* local steps a round, >= 1; not read by none and sync */
	size_t delay;      /* local steps in flight, 0 <= delay <= tau; dasgd and dasgd-delta */
	float own_weight;  /* 0 <= p < 1; local, dasgd and dasgd-delta */
	size_t slice;      /* floats sent by one allreduce; 0: chosen, at most 8 slices */
};

/* One slice of the pass over the arenas. All pointers are to the first element of the slice. */
struct stretto_pass {
	const float *weights;   /* before the step */
	const float *gradients; /* of the step; averaged over the ranks by sync */
	float *next;            /* after the step; equal to weights, or not overlapping it */
	const float *average;   /* to be merged; NULL: nothing is due */
	const float *snapshot;  /* rule B: what this rank gave to the average; NULL: rule A */
	float own_weight;       /* p */
	size_t first;           /* place of the slice in the arena, for the optimiser's own state */
	size_t count;           /* elements, >= 1 */
};

/*
 * One optimiser step on a slice: next[i] = merge(step(weights[i], gradients[i])) with
 *	merge(w) = w                                          average == NULL
 *	merge(w) = p w + (1 - p) average[i]                   snapshot == NULL
 *	merge(w) = w + (1 - p) (average[i] - snapshot[i])     otherwise.
 * An optimiser that does not fuse the merge writes next and calls stretto_pass_merge(). Each
 * element is in exactly one slice of a step; the order of the slices is not defined.
 */
typedef void stretto_update(void *context, const struct stretto_pass *pass);

/* The merge alone, in place on pass->next: a second pass, for optimisers that do not fuse it. */
STRETTO_API void stretto_pass_merge(const struct stretto_pass *pass);

/* What was measured since the averager was made. */
struct stretto_average_stats {
	uint64_t steps;    /* local steps */
	uint64_t averages; /* collectives completed: averages of all weights, or of all gradients */
	uint64_t bytes_averaged;  /* payload given to them */
	uint64_t bytes_copied;    /* moved by import and export; nothing else ever copies */
	double exposed_seconds;   /* spent waiting for an average */
	double in_flight_seconds; /* from a start to its completion, see stretto_average_stats() */
	size_t weight_arenas;     /* held */
	size_t gradient_arenas;   /* held */
};

/* An averager. Opaque. */
struct stretto_average;

/* The word of a strategy ("?" out of range), and back: false if there is no such word. */
STRETTO_API const char *stretto_strategy_name(enum stretto_strategy strategy);
STRETTO_API bool stretto_strategy_find(const char *word, enum stretto_strategy *strategy);

/* Why the options are not valid, as a static text that names the rule; NULL if they are. */
STRETTO_API const char *stretto_average_check(const struct stretto_average_options *options);

/*
 * Local steps' worth of progress that a round keeps, in local steps (rule A: tau - d (1 - p));
 * derived for equal ranks and small steps. Pure.
 */
STRETTO_API double stretto_average_effective_steps(const struct stretto_average_options *options,
						   int ranks);

/*
 * Makes an averager on comm with zeroed arenas. Local, but all ranks must use it alike. The caller
 * owns *out and frees it before the communicator. STRETTO_INVALID as by stretto_average_check().
 */
STRETTO_API stretto_status stretto_average_new(struct stretto_comm *comm,
					       const struct stretto_average_options *options,
					       struct stretto_average **out);

/* Frees it and its arenas, after waiting for what is in flight. NULL does nothing. */
STRETTO_API void stretto_average_free(struct stretto_average *average);

/*
 * The weights now, and the place of the next gradients: parameters floats each, page aligned, owned
 * by the averager, valid until the next stretto_average_step() or drain. The caller writes the
 * initial weights here (the same on all ranks) before the first step and only reads after it;
 * gradients are read and written between the start of a step and stretto_average_ready() on them.
 */
STRETTO_API float *stretto_average_weights(struct stretto_average *average);
STRETTO_API float *stretto_average_gradients(struct stretto_average *average);

/*
 * Tells that gradients [first, first + count) are final. Calls of a step go down without gaps from
 * the end of the arena: first + count is the previous call's first. Starts what can be started;
 * never waits. The rest is taken as ready by stretto_average_step(), so the calls may be left out
 * at the price of overlap. STRETTO_INVALID for another order; else errors of an allreduce.
 */
STRETTO_API stretto_status stretto_average_ready(struct stretto_average *average, size_t first,
						 size_t count);

/*
 * Ends a local step: calls update(context, ...) once for every slice, waiting for what is due and
 * starting what begins. Errors of an allreduce, after which the averager can only be freed.
 */
STRETTO_API stretto_status stretto_average_step(struct stretto_average *average,
						stretto_update *update, void *context);

/*
 * The end of training: merges the average in flight, then averages the weights of all ranks once
 * more, so that all hold the same (none and sync: nothing). Collective; blocks. Training may go on.
 */
STRETTO_API stretto_status stretto_average_drain(struct stretto_average *average);

/*
 * The measurements so far. An average that was waited for counts from its first start to the end of
 * the wait. One found complete is known only to have ended between two looks (at every
 * stretto_average_ready() and step); it counts up to the earlier one. So in_flight_seconds is never
 * too long, and 1 - exposed / in flight never flatters.
 */
STRETTO_API void stretto_average_stats(const struct stretto_average *average,
				       struct stretto_average_stats *stats);

/*
 * For codes that keep their weights elsewhere: copies [first, first + count) of the weights in from
 * source, or out to target. The only copies there are; bytes_copied counts them. Import only where
 * writing the weights is allowed.
 */
STRETTO_API void stretto_average_import(struct stretto_average *average, size_t first, size_t count,
					const float *source);
STRETTO_API void stretto_average_export(struct stretto_average *average, size_t first, size_t count,
					float *target);

#ifdef __cplusplus
}
#endif

#endif
