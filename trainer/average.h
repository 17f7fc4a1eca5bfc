/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * average.h: what a strategy is, and what all of them share. The interface for users, with the
 * equations, is in stretto_train.h.
 *
 * A strategy is one file in trainer/strategies/ that defines a struct stretto_strategy_ops, and a line of
 * STRETTO_STRATEGY_MAP. It allocates its arenas, says where the current weights and gradients are,
 * and makes the pass over them. Two engines do that for several: gradients.h (averages of every
 * step's gradients) and periodic.h (averages of the weights every tau steps).
 *
 * Threads: as in stretto_train.h.
 */
#ifndef STRETTO_TRAINER_AVERAGE_H
#define STRETTO_TRAINER_AVERAGE_H

#include "trainer/route.h"
#include "trainer/stretto_train.h"

/* Arenas of an averager at most: dga holds the most. */
enum { STRETTO_ARENAS = 2 * (STRETTO_DGA_DELAY + 1) + 2 };

/* What an arena holds, for the statistics. */
enum stretto_arena_kind {
	STRETTO_ARENA_WEIGHTS,
	STRETTO_ARENA_GRADIENTS,
	STRETTO_ARENA_SHARE, /* less than all parameters */
};

/* NULL stands for: nothing to do. */
struct stretto_strategy_ops {
	/* As stretto_average_check(), which has checked what all have in common. */
	const char *(*check)(const struct stretto_average_options *options);
	/* As stretto_average_effective_steps(), for several ranks; NULL: 1. */
	double (*effective_steps)(const struct stretto_average_options *options);
	/*
	 * Chooses delay and tau <= most for an average that takes as long as `steps` steps, >= 1. NULL:
	 * there is nothing to choose.
	 */
	enum stretto_fit (*fit)(struct stretto_average_options *options, size_t steps, size_t most);
	/* Allocates; sets `weights` and `gradients`, and `own` if it needs it. Never NULL. */
	stretto_status (*open)(struct stretto_average *average);
	/* Ends what is in flight and frees `own`, also after a failed open. The arenas go later. */
	void (*close)(struct stretto_average *average);
	/* Gradients [ready, parameters) are final. */
	stretto_status (*ready)(struct stretto_average *average);
	/* The pass; all gradients are ready. Leaves `weights` and `gradients` for the next step. Never
	 * NULL. */
	stretto_status (*step)(struct stretto_average *average);
	/* As stretto_average_drain(). */
	stretto_status (*drain)(struct stretto_average *average);
	/* As stretto_average_visit(), for what is not in struct stretto_average; before `weights`. */
	stretto_status (*visit)(struct stretto_average *average, bool restore,
				stretto_average_visitor *visit, void *context);
};

struct stretto_average {
	struct stretto_comm *comm;                   /* borrowed */
	struct stretto_average_options options;      /* with defaults in the place of zeros */
	const struct stretto_strategy_ops *strategy; /* none's if there is one rank */
	float *arenas[STRETTO_ARENAS];               /* registered, owned */
	size_t arena_count;                          /* of them */
	size_t weight_arenas;                        /* for the statistics, as memory */
	size_t gradient_arenas;
	size_t memory;                 /* bytes */
	float *weights;                /* current, an arena */
	float *gradients;              /* of this step, an arena */
	size_t state;                  /* parameters whose optimiser state is here */
	size_t step;                   /* local steps done */
	uint64_t updates;              /* of the weights done: bias corrections count these */
	size_t ready;                  /* gradients [ready, parameters) are final */
	float scale;                   /* of the gradients, by clipping; 1 in most steps */
	stretto_update *update;        /* of the last step */
	void *context;                 /* of update */
	struct stretto_flight_log log; /* of all routes */
	uint64_t bytes_copied;         /* by import and export */
	void *own;                     /* the strategy's, owned by it */
};

#define X(name, word, symbol) extern const struct stretto_strategy_ops stretto_strategy_##symbol;
STRETTO_STRATEGY_MAP(X)
#undef X

/* Allocates `floats` of registered memory, zeroed, that live as long as the averager. */
stretto_status stretto_average_allocate(struct stretto_average *average,
					enum stretto_arena_kind kind, size_t floats, float **arena);

/*
 * Floats of a slice of `count` floats: the option, or chosen: up to eight slices of whole cache
 * lines, of at least `least` floats.
 */
size_t stretto_average_slice(const struct stretto_average *average, size_t count, size_t least);

/*
 * Least slices. Each wakes the progress thread several times, which on a shared core is taken from
 * compute: weights have steps of time and travel in slices of a MiB or more; gradients have only
 * the rest of a pass, and take smaller ones.
 */
enum { STRETTO_WEIGHTS_SLICE = 262144, STRETTO_GRADIENTS_SLICE = 65536 };

/*
 * What is done to the elements [first, first + count) of the arenas beside the optimiser's work, a
 * block at a time, while they are in the cache.
 */
typedef void stretto_block(void *context, size_t first, size_t count);

/* The pass over a part of the arenas. */
struct stretto_work {
	const float *weights; /* arenas */
	float *gradients;     /* scaled in place when the step is clipped */
	const float *stepped; /* gradients to step with; NULL: `gradients` */
	float *next;
	stretto_block *before; /* after the clipping, before the optimiser; NULL: nothing */
	stretto_block *after;  /* after the optimiser; NULL: nothing */
	void *context;         /* of both */
};

/* Makes the pass over [first, first + count), in blocks that stay in the cache. */
void stretto_average_pass(struct stretto_average *average, const struct stretto_work *work,
			  size_t first, size_t count);

/*
 * Sets `scale` so that the norm of the gradients is at most the option's; a pass of reading, only if
 * the option is given. Called when they are complete, before the first pass of a step.
 */
void stretto_average_clip(struct stretto_average *average);

/* Notes slices in flight, waits and merges in `trace` (borrowed) from now on; NULL: no longer. */
void stretto_average_trace(struct stretto_average *average, struct stretto_trace *trace);

/* Rules that several strategies share, for their check(): NULL, or what is wrong. */
const char *stretto_check_round(const struct stretto_average_options *options);
const char *stretto_check_own_weight(const struct stretto_average_options *options);
/* Both of these, and the delay at most tau. */
const char *stretto_check_delayed(const struct stretto_average_options *options);
const char *stretto_check_outer(const struct stretto_average_options *options);

/* fit() of strategies whose delay is an option of its own, and of those where it is tau. */
enum stretto_fit stretto_fit_delay(struct stretto_average_options *options, size_t steps,
				   size_t most);
enum stretto_fit stretto_fit_tau(struct stretto_average_options *options, size_t steps,
				 size_t most);

#endif
