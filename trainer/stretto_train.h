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
 *	stretto_average_step(a, update, context);  one pass: optimiser, merge, next average
 *
 * and stretto_average_drain(a) at the end. The layers, the data and the optimiser are yours; the
 * trainer in this folder is one user. The averages themselves run in the background.
 *
 * Notation: M ranks; w_i(t) the weights of rank i after t local steps; g_i its gradients; S_i one
 * step of its optimiser; tau local steps make a round; an average started at the end of a round is
 * merged d = delay local steps later; p = own weight in [0, 1); avg(t) = mean over ranks of w_i(t).
 * "Copies" counts arenas, one for every parameter each: of weights + of gradients. The optimiser's
 * state comes on top (1 with momentum, 2 for Adam). "Effective" is the progress that a round keeps,
 * in local steps, for equal ranks and small steps.
 *
 * none         w_i(t+1) = S_i(w_i(t)). In flight: nothing; independent replicas, to compare with.
 *              Copies 1 + 1. A round is one step; effective 1.
 * sync         w(t+1) = S(w(t)) with g = mean over ranks of g_i. In flight: slices of the gradient
 *              arena, averaged in place while backward is busy with earlier layers, each waited for
 *              just before the pass uses it: the last one is never hidden. Copies 1 + 1. A round is
 *              one step; effective 1.
 *              Li et al., "PyTorch Distributed" (VLDB 2020), without the packing.
 * local        Every tau steps w_i <- p w_i + (1-p) avg, waited for on the spot: nothing is hidden.
 *              Copies 1 + 1 for p = 0 (averaged in place), else 2 + 1. Effective tau.
 *              Stich, "Local SGD Converges Fast and Communicates Little" (ICLR 2019).
 * post-local   sync for the first `warmup` steps, then local. Copies and what is in flight as these;
 *              effective tau, then.
 *              Lin et al., "Don't Use Large Mini-Batches, Use Local SGD" (ICLR 2020).
 * dasgd        At t = r tau the average of w(t) starts; w_i(t+d) <- p w_i(t+d) + (1-p) avg(t). The
 *              share 1-p of the d steps made meanwhile is thrown away: effective tau - d (1-p). In
 *              flight: one average under d steps. Copies 3 + 1.
 *              "Squeezing SGD Parallelization Performance in Distributed Training Using Delayed
 *              Averaging" (arXiv 2006.00441).
 * dasgd-delta  The same flight, merged as w_i(t+d) <- w_i(t+d) + (1-p) (avg(t) - w_i(t)): no step
 *              is lost (effective tau), and the mean over ranks moves as plain local steps would
 *              move it. Copies 3 + 1. With p = 0 and d = tau it is CoCoD-SGD (Shen et al., "Faster
 *              Distributed Deep Net Training", IJCAI 2019).
 * overlap-local  At t = r tau, where avg(t - tau) has arrived, with beta = outer_momentum: an anchor
 *              moves, v <- beta v + (avg(t - tau) - z), z <- z + v, and pulls the weights,
 *              w_i <- p w_i + (1-p) z (the authors' alpha is 1-p). In flight: one average under tau
 *              steps. Copies 3 + 1, with beta > 0 5 + 1 (z and v). Effective p tau / (1 - (1-p) beta).
 *              z starts as the initial weights; the authors also pull towards those at the end of
 *              the first round, here round 0 merges nothing. With beta = 0: dasgd with d = tau.
 *              Wang, Liang, Joshi, "Overlap Local-SGD" (ICASSP 2020, arXiv 2002.09539).
 * dga          Steps with its own gradient at once, and corrects that d steps later:
 *              w_i(t+1) = S_i(w_i(t)) with g = g_i(t) + (mean over ranks of g_j(t-d) - g_i(t-d)).
 *              The correction goes through the optimiser; without momentum that is the authors'
 *              w <- w - eta (mean - own). In flight: d averages of gradients, d = 1 to 20. Copies
 *              1 + 2 (d+1): the d+1 gradients that take turns, and their averages (not in place:
 *              the own gradient is needed again). A round is one step; effective 1.
 *              Zhu et al., "Delayed Gradient Averaging" (NeurIPS 2021).
 * co2          Rounds start from an outer iterate z, the same on all ranks. At the end of round r,
 *              where the average of the weights at the end of round r-1 has arrived:
 *              m <- beta m + clip((z(r-1) - avg) / L), z(r+1) = z(r) - outer_rate m, and all ranks
 *              go on from z(r+1); the round just made counts one round later. L is the penalty of
 *              staleness, L = 1 + |z(r) - z(r-1)| / |z(r-1) - avg|, and clip limits to
 *              +-outer_clip (0: not). Both act on each parameter: the gap-aware form of Barkai et
 *              al. (ICLR 2020), since the norm of the whole would have to be known before the first
 *              slice is merged. In flight: one average under tau steps, in place. Copies 5 + 1 (two
 *              of weights, two of z, m). Effective tau (sqrt(1 + 4 k) - 1) / 2 with
 *              k = outer_rate / (1 - beta): tau for k = 2.
 *              Sun et al., "CO2" (ICLR 2024, arXiv 2401.16265); outer momentum as SlowMo (ICLR 2020).
 * acco         Two local steps, each on half of the batch, make one update, with the optimiser's
 *              state sharded. Of update u: the even step computes g~ at an estimate w~(u) of w(u)
 *              while w(u) is made, the odd one computes g at w(u) while the next estimate is made:
 *              w~(u+1) = S(w(u)) with g~, tried only: the state stays as it was;
 *              w(u+1) = S(w(u)) with (g + g~) / 2; each a mean over ranks. So no update uses
 *              weights that are a step old, other than through the estimate. In flight under each
 *              step: a reduce-scatter, the optimiser on the rank's own share, an all-gather.
 *              Copies 2 + 2 + 2/M, and 1/M of the optimiser's state. A round is two steps; effective
 *              1. The learning rate is set before the backward pass, where updates may happen.
 *              Nabli et al., "ACCO: Accumulate While You Communicate" (arXiv 2406.02613).
 * streaming    The arena is cut in `fragments` F; fragment f is averaged as dasgd does, but begins
 *              tau/F steps after the one before it, d <= tau/F: the traffic is spread over the
 *              round. An outer optimiser moves an anchor, with e = avg(t) - z, v <- beta v + e,
 *              z <- z + outer_rate (e + beta v) (Nesterov), and w_i <- p w_i + (1-p) z. Copies 3 + 1;
 *              5 + 1 (z and v) unless outer_rate is 1 and beta 0, where z is avg(t) and F = 1 is
 *              dasgd. Effective (tau - d (1-p)) / (p + (1-p) (1-beta) / outer_rate).
 *              Douillard et al., "Streaming DiLoCo" (arXiv 2501.18512).
 *
 * Why three arenas, and why no copy: the pass reads the weights from one arena and writes the next
 * weights to another whenever the first is in flight, so that the old arena *is* the snapshot. It
 * cannot be averaged in place, since the next forward and backward still read it; the average goes
 * to the third. Rule B finds its snapshot untouched there and needs no further arena. An anchor
 * starts as the arena of the initial weights, which the first step leaves for another.
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

/*
 * Strategies: name, the word the tools use for it, and what trainer/strategies/ calls it. Adding one
 * is a file there and a line here.
 */
#define STRETTO_STRATEGY_MAP(X)                                                                    \
	X(STRETTO_STRATEGY_NONE, "none", none)                                                     \
	X(STRETTO_STRATEGY_SYNC, "sync", sync)                                                     \
	X(STRETTO_STRATEGY_LOCAL, "local", local)                                                  \
	X(STRETTO_STRATEGY_DASGD, "dasgd", dasgd)                                                  \
	X(STRETTO_STRATEGY_DASGD_DELTA, "dasgd-delta", dasgd_delta)                                \
	X(STRETTO_STRATEGY_POST_LOCAL, "post-local", post_local)                                   \
	X(STRETTO_STRATEGY_OVERLAP_LOCAL, "overlap-local", overlap_local)                          \
	X(STRETTO_STRATEGY_DGA, "dga", dga)                                                        \
	X(STRETTO_STRATEGY_CO2, "co2", co2)                                                        \
	X(STRETTO_STRATEGY_ACCO, "acco", acco)                                                     \
	X(STRETTO_STRATEGY_STREAMING, "streaming", streaming)

enum stretto_strategy {
#define X(name, word, symbol) name,
	STRETTO_STRATEGY_MAP(X)
#undef X
		STRETTO_STRATEGY_COUNT
};

/* Their words as one text, for messages: "none sync ... ". */
#define STRETTO_STRATEGY_WORD(name, word, symbol) word " "
#define STRETTO_STRATEGY_WORDS                    STRETTO_STRATEGY_MAP(STRETTO_STRATEGY_WORD)

/* dga: steps in flight at most. */
enum { STRETTO_DGA_DELAY = 20 };

/* What and how to average; the same on all ranks. What a strategy has no use for is not read. */
struct stretto_average_options {
	enum stretto_strategy strategy;
	size_t parameters;    /* floats of an arena, >= 1 */
	size_t tau;           /* local steps a round, >= 1 */
	size_t delay;         /* local steps in flight: dasgd, dasgd-delta, dga, streaming */
	float own_weight;     /* 0 <= p < 1 */
	size_t slice;         /* floats sent by one operation; 0: chosen, at most 8 slices */
	size_t warmup;        /* post-local: steps of sync before */
	size_t fragments;     /* streaming: a divisor of tau; 0: 1 */
	float outer_rate;     /* streaming, co2: > 0; 0: 1 */
	float outer_momentum; /* overlap-local, streaming, co2: beta, 0 <= beta < 1 */
	float outer_clip;     /* co2: > 0; 0: not */
	float clip;           /* greatest norm of a step's gradients; 0: any. Not with acco */
};

/*
 * A piece of the pass over the arenas. All pointers are to its first element. clip applies to the
 * gradients of the rank, before dga's correction; with sync to their mean.
 */
struct stretto_pass {
	const float *weights; /* before the update */
	const float
		*gradients; /* to step with; averaged, corrected and clipped as the strategy says */
	float *next;        /* after the update; equal to weights, or not overlapping it */
	size_t first;       /* place of the piece in the arenas */
	size_t state;    /* its place in the optimiser's own state, see stretto_average_state() */
	size_t count;    /* elements, >= 1 */
	uint64_t update; /* number of this update of the weights, from 1: for bias corrections */
	bool trial;      /* acco's estimate: next is wanted, the state must stay as it is */
};

/*
 * One optimiser step on a piece: next[i] = step(weights[i], gradients[i]). Averages are merged into
 * `next` by the averager right after it, while the piece is in the cache. Each element that this
 * rank updates is in exactly one piece of an update; the order of the pieces is not defined. The
 * optimiser's settings, such as the learning rate, may be changed between stretto_average_step()
 * and the first stretto_average_ready() of the next step only, and the same on all ranks.
 */
typedef void stretto_update(void *context, const struct stretto_pass *pass);

/* What was measured since the averager was made. */
struct stretto_average_stats {
	uint64_t steps;          /* local steps */
	uint64_t averages;       /* completed: of all weights, of a fragment, or of all gradients */
	uint64_t bytes_averaged; /* payload given to them */
	uint64_t bytes_copied;   /* moved by import and export; nothing else ever copies */
	double exposed_seconds;  /* spent waiting for an average */
	double in_flight_seconds; /* from a start to its completion, see stretto_average_stats() */
	size_t weight_arenas;     /* held: weights, averages, anchors, outer momentum */
	size_t gradient_arenas;   /* held: gradients and their averages */
	size_t memory;            /* bytes held, all arenas and shares of them */
};

/* An averager. Opaque. */
struct stretto_average;

/* The word of a strategy ("?" out of range), and back: false if there is no such word. */
STRETTO_API const char *stretto_strategy_name(enum stretto_strategy strategy);
STRETTO_API bool stretto_strategy_find(const char *word, enum stretto_strategy *strategy);

/* Why the options are not valid, as a static text that names the rule; NULL if they are. */
STRETTO_API const char *stretto_average_check(const struct stretto_average_options *options);

/* Progress that a round keeps, in local steps: "effective" above; rule A: tau - d (1 - p). Pure. */
STRETTO_API double stretto_average_effective_steps(const struct stretto_average_options *options,
						   int ranks);

/* Measured times, in seconds: of a step without communication, and of an average of all weights. */
struct stretto_average_times {
	double step;
	double average;
};

/* What stretto_average_fit() could do. */
enum stretto_fit {
	STRETTO_FIT_NOTHING, /* the strategy has no delay to choose, or these times say nothing */
	STRETTO_FIT_HIDES,   /* averages are hidden as a whole */
	STRETTO_FIT_LATENCY, /* dga: they are if the link can take one in every step */
	STRETTO_FIT_SHORT,   /* nothing hides them: the longest delay that is possible was chosen */
};

/*
 * Chooses the smallest delay whose steps take no less than an average, and a tau that is no smaller
 * than the delay, and otherwise as it was; where the delay is tau, that. tau stays <= most_tau. Pure:
 * ranks that give the same times, such as the maximum over all, choose the same.
 */
STRETTO_API enum stretto_fit stretto_average_fit(struct stretto_average_options *options,
						 const struct stretto_average_times *times,
						 size_t most_tau);

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
 * Of how many parameters this rank must keep the optimiser's state: all, but a share with acco. The
 * places `state` of a pass are below it.
 */
STRETTO_API size_t stretto_average_state(const struct stretto_average *average);

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
 * Ends a local step: calls update(context, ...) for pieces that make up the arena, waiting for what
 * is due and starting what begins. With acco update(context, ...) is also called by
 * stretto_average_ready(), so both must be the same in every call and stay valid. Errors of a
 * collective, after which the averager can only be freed.
 */
STRETTO_API stretto_status stretto_average_step(struct stretto_average *average,
						stretto_update *update, void *context);

/*
 * The end of training: merges what is in flight, then averages the weights of all ranks once more,
 * so that all hold the same (none and sync: nothing). dga gives up the corrections in flight, whose
 * mean is 0; co2 adds the outer step in flight to the weights; acco completes the update in flight,
 * or gives up the half batch that was the first of one.
 * Collective; blocks. Training may go on.
 */
STRETTO_API stretto_status stretto_average_drain(struct stretto_average *average);

/*
 * For checkpoints: what an averager needs to go on as another would, besides what is in flight. Calls
 * visit(context, name, data, bytes) for each part, in an order that depends on the options alone; the
 * visitor copies the data out of the one (restore false) and into the other (restore true, before
 * its first step). Both are in the state that a drain leaves. name is static. Ends early with the
 * status of visit() if that is not STRETTO_OK. Local. bytes_copied does not count these.
 */
typedef stretto_status stretto_average_visitor(void *context, const char *name, void *data,
					       size_t bytes);
STRETTO_API stretto_status stretto_average_visit(struct stretto_average *average, bool restore,
						 stretto_average_visitor *visit, void *context);

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
