/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checker.h: proves a collective by running all ranks' schedules in memory, in random legal orders.
 *
 * Elements are symbolic: a sum of contributions (rank, element) and a hash of the order in which
 * they were combined. It proves, for one set of schedules: every send meets its receive with equal
 * length; no deadlock; no two unordered steps touch the same elements with one of them writing (a
 * buffer is busy from the post of a send or receive to its completion); every output element holds
 * each contribution exactly once and passed exactly one FINAL step (reductions); all ranks combined
 * in an order that gives the same bits, and if the algorithm says that it is canonical, in that one;
 * inputs are left as they were.
 *
 * Both ways of executing are run: RECV and REDUCE as separate steps, and fused into one that starts
 * when both could.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_CHECKER_H
#define STRETTO_COLLECTIVES_CHECKER_H

#include "collectives/schedule.h"

/*
 * Checks schedules[0 .. size) of one operation, all sealed, where schedules[r] is rank r's. Each
 * order tried is drawn from `seed`. Returns STRETTO_OK, STRETTO_NO_MEMORY, or STRETTO_INTERNAL with
 * one line in why[] (of why_size bytes) that names the rank, the step and the element.
 */
stretto_status stretto_check(const struct stretto_schedule *schedules, int size, uint64_t seed,
			     char *why, size_t why_size);

#endif
