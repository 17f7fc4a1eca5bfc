/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * train.h: the training loop of a rank, from initial weights to test accuracy.
 *
 * Every rank starts from the same weights, trains on its own shard, and leaves all communication to
 * the averaging strategy. Times are measured as they are: a step is compute and exposed
 * communication (waiting for an average), nothing else is taken out of it.
 *
 * Several trainings can run side by side in turns of a round, so that a machine's changing speed meets
 * all of them alike and their times can be compared. A turn begins and ends where no average is in
 * flight, and only a training's own turns count as its time.
 *
 * Threads: one at a time for each communicator.
 */
#ifndef STRETTO_TRAINER_TRAIN_H
#define STRETTO_TRAINER_TRAIN_H

#include <signal.h>

#include "trainer/data/batches.h"
#include "trainer/data/prefetch.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/probe.h"
#include "trainer/rate.h"
#include "trainer/straggler.h"
#include "trainer/stretto_train.h"
#include "trainer/trace.h"
#include "trainer/vote.h"
#include "trainer/windows.h"

/* What an observer sees after each local step of its rank. */
struct stretto_train_step {
	size_t step;      /* local steps done, from 1 */
	size_t begun;     /* of which before it was resumed */
	size_t steps;     /* that there will be */
	size_t epoch;     /* of this step, from 1 */
	double loss;      /* mean of this rank's batch */
	double rate;      /* learning rate */
	double seconds;   /* that the training has taken */
	double exposed;   /* of which waiting for averages */
	double in_flight; /* time that averages were in flight, see stretto_average_stats() */
	double accuracy;  /* of a test after this step, see test_every; NaN: there was none */
	struct stretto_probe_found
		probe; /* after this step, see probe_every; NaN: none was taken */
};

/* Called after every step, on every rank; false asks to stop all ranks (which takes some steps). */
typedef bool stretto_train_observer(void *context, const struct stretto_train_step *step);

/* Where and when the state is kept; one training at a time. */
struct stretto_train_keep {
	const char *folder;                    /* of checkpoints; NULL: none */
	size_t every;                          /* local steps between two; 0: only on a signal */
	const char *resume;                    /* folder of the one to go on from; NULL: none */
	const volatile sig_atomic_t *signaled; /* not 0: stop with a checkpoint; NULL: never */
};

/*
 * Batches made ahead by a thread, by default: one if the runtime has set a core apart for its own
 * threads (stretto_helper_core()), where this one goes too. None where it has not: then the thread
 * would take its time from the core that computes, and two changes of context a step besides.
 */
enum { STRETTO_TRAIN_PREFETCH_AUTO = -1 };

/* All the same on all ranks, but for the observer and the signal. */
struct stretto_train_options {
	const struct stretto_dataset *dataset;  /* borrowed */
	struct stretto_model_options model;     /* model.batch: samples of a rank in a step */
	struct stretto_average_options average; /* parameters is filled in */
	struct stretto_optimizer_options optimizer;
	struct stretto_rate rate;
	size_t epochs; /* >= 1 */
	size_t steps;  /* stop after so many local steps; 0: not */
	/*
	 * Local steps between two tests of the weights as they are: each replica on its share of the
	 * test images. They change no bit and count as no time. 0: none but the one at the end.
	 */
	size_t test_every;
	size_t probe_every; /* local steps between two probes (probe.h), likewise. 0: none */
	uint64_t seed;      /* of weights, shuffles and augmentation */
	struct stretto_augment augment; /* of the images to train on; all zero: as they are */
	int prefetch; /* batches ahead, to STRETTO_PREFETCH_MOST, 0: none; STRETTO_TRAIN_PREFETCH_AUTO */
	struct stretto_train_keep keep;
	struct stretto_trace *trace;      /* of one training; borrowed. NULL: none */
	stretto_train_observer *observer; /* NULL: none */
	void *context;                    /* of the observer */
};

/* What came out; of this rank, where not said otherwise. */
struct stretto_train_result {
	size_t parameters;                  /* floats of the model's arena */
	size_t steps;                       /* local steps done */
	double seconds;                     /* the whole training loop */
	struct stretto_window step;         /* times of a step, see windows.h */
	double samples_per_second;          /* of all ranks */
	double loss;                        /* mean over this rank's last window of steps */
	double accuracy;                    /* share of the test images, summed over ranks */
	struct stretto_straggler straggler; /* on rank 0 alone */
	struct stretto_average_stats stats; /* at the end of the loop, before the drain */
	bool saved;                         /* a checkpoint of the last step was written */
	struct stretto_verdict verdict;     /* stop is STRETTO_STOP_NONE if it ran to its end */
};

/* Local steps of the whole training on `ranks` ranks; 0 if the data is too little for one. Pure. */
size_t stretto_train_steps(const struct stretto_train_options *options, int ranks);

/* How many trainings can run side by side. */
enum { STRETTO_TRAIN_SIDE_BY_SIDE = 8 };

/*
 * Trains and tests `count` trainings side by side; one is simply run from start to end. Collective. STRETTO_INVALID if the options do not fit together (logged), else
 * errors of an allreduce. If the ranks agreed to stop, STRETTO_OK, with the verdict in the result of
 * the training that it is about, and no accuracy in any.
 */
stretto_status stretto_train_run(struct stretto_comm *comm,
				 const struct stretto_train_options *options, size_t count,
				 struct stretto_train_result *results);

/* The share of its time in flight that the communication was hidden, 0 to 1; NaN if none flew. */
double stretto_train_hidden(const struct stretto_train_result *result);

/* The same of two times, in any unit; NaN if nothing was in flight. Pure. */
double stretto_train_share_hidden(double exposed, double in_flight);

#endif
