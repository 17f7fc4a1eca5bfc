/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dissemination barrier: in round k each rank tells the rank 2^k further on what it knows.
 *
 * Three ranks; "knows" lists the ranks that are known to have entered:
 *
 *   round 0  0 -> 1, 1 -> 2, 2 -> 0   0 knows 0 2     1 knows 1 0     2 knows 2 1
 *   round 1  0 -> 2, 1 -> 0, 2 -> 1   all know all
 *
 * A round's message may overtake that of an earlier round from another rank, so a receive waits for
 * the one before it: what a rank sends on then speaks for all earlier rounds.
 *
 * Cost: ceil(log2 n) rounds of one empty message each; no scratch.
 * Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", IJPP 17
 * (1988).
 */
#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_span nothing = {STRETTO_BUF_OUT, 0, 0};
	int size = schedule->shape.size;
	int rank = schedule->shape.rank;
	int got = STRETTO_NO_STEP;

	for (int distance = 1; distance < size; distance *= 2) {
		stretto_schedule_send(schedule, (rank + distance) % size, nothing, got,
				      STRETTO_NO_STEP);
		got = stretto_schedule_recv(schedule, (rank + size - distance) % size, nothing, got,
					    STRETTO_NO_STEP);
	}
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	(void)bytes;
	(void)window;
	return stretto_log2_ceil(group->size) * group->link->latency;
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_barrier_dissemination = {
	.name = "dissemination",
	.collective = STRETTO_BARRIER,
	.build = build,
	.cost = cost,
	.window = window,
};
