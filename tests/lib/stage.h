/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.h: two ranks in one process that meet between the calls, for tests that look into their
 * channels and count.
 */
#ifndef STRETTO_TESTS_LIB_STAGE_H
#define STRETTO_TESTS_LIB_STAGE_H

#include <pthread.h>

#include "collectives/request.h"
#include "tests/lib/ranks.h"

#define QUIET    "STRETTO_LOG=error"
#define DEADLINE "STRETTO_TIMEOUT_SECONDS=20"
/* Windows of WINDOW floats: a message of two ranks goes in one slot. */
#define SMALL "STRETTO_WINDOW=4K"
enum { WINDOW = 1024, RANKS = 2, MANY = 64 };

/* What the two ranks share. */
struct stage {
	pthread_barrier_t barrier;
	struct stretto_channel *channels[RANKS];
	/* Each rank's, for the one that drives both. */
	struct stretto_request *low[RANKS], *high[RANKS], *several[RANKS][MANY];
};

/* Runs `function` on both, as run_ranks() does; its argument is the stage. */
void on_stage(const char *const *settings, rank_function function);
/* Returns when both have called it; the library is not used for that. */
void meet(struct stage *stage);

/* The first channel of a communicator's world. */
struct stretto_channel *channel_of(struct stretto_comm *comm);

/* Memory with rank + 1 in every element; and the check that it is the sum over all ranks of that. */
float *ones(struct stretto_comm *world, size_t count);
void check_sum(struct stretto_comm *comm, const float *data, size_t count);

/* The sum of `data` in place over all ranks: as a description, and started. */
struct stretto_coll_args sum_of(float *data, size_t count, int priority);
struct stretto_request *start(struct stretto_comm *comm, float *data, size_t count, int priority);
bool is_done(struct stretto_request *request);

#endif
