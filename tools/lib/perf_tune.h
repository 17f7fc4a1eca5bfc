/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_tune.h: the second half of stretto-perf tune: algorithms fixed because they were measured to
 * be the fastest.
 *
 * Threads: the main thread only.
 */
#ifndef STRETTO_TOOLS_PERF_TUNE_H
#define STRETTO_TOOLS_PERF_TUNE_H

struct perf;
struct stretto_tuning;

/*
 * Measures all algorithms that suit the job's ranks, of all collectives that move data and at all
 * sizes of the command line, and adds a rule where one is faster than the one that the tuning would
 * choose by more than noise. Prints what it fixed. Collective.
 */
void perf_tune_fix(struct perf *perf, struct stretto_tuning *tuning);

#endif
