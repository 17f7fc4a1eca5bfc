/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sched_print.h: the schedules of all ranks as text, by rounds. For stretto-sched; one thread.
 *
 * Rounds are found from the steps alone: those of messages by who waits for whom, those without
 * messages by the phases that the ranks meet in.
 */
#ifndef STRETTO_TOOLS_LIB_SCHED_PRINT_H
#define STRETTO_TOOLS_LIB_SCHED_PRINT_H

#include "collectives/counts.h"
#include "collectives/schedule.h"
#include "collectives/selection.h"

/* All ranks' schedules and the round of every step. */
struct sched_group {
	struct stretto_schedule *all;   /* by rank; owned */
	struct stretto_counts **counts; /* of the shape of each, or NULL; owned */
	struct stretto_choice choice;
	int **rounds; /* rounds[rank][step]: of the message that a step sends, gets or works on */
	int size;
};

/* Memory for `count` items, zeroed, at least one; the caller frees it. Ends the program without. */
void *sched_allocate(size_t count, size_t size);

/* Sets `rounds`, which the caller frees, each rank's and the list. */
void sched_find_rounds(struct sched_group *group);

/* Prints what is asked for, what it costs at most on any rank, and why it was chosen. */
void sched_print_header(const struct sched_group *group);

/* Prints the steps of rank r, round by round. */
void sched_print_rank(const struct sched_group *group, int r);

#endif
