/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck's alltoall: in round k a rank sends, in one message, all blocks that still have to go 2^k
 * ranks further.
 *
 * Slot j of a rank holds a block that has j ranks to go in all. Three ranks; block "01" is what 0
 * has for 1:
 *
 *             slot 0, 1, 2 of rank 0    rank 1        rank 2
 *   start     00 01 02                  11 12 10      22 20 21
 *   round 0   slot 1 goes 1 further:    (bit 0 of the slot is set)
 *             00 20 02                  11 01 10      22 12 21
 *   round 1   slot 2 goes 2 further:    (bit 1 is set)
 *             00 20 10                  11 01 21      22 12 02
 *   end       slot j holds the block of rank - j
 *
 * A block stays where it is until it is sent (in the caller's buffer, or in the message it came
 * with), so nothing is moved before the first round or after a message.
 *
 * Cost: ceil(log2 n) rounds; about half of all blocks sent in each; as many blocks of scratch sent
 * and received.
 * Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8 (1997).
 */
#include <stdlib.h>

#include "collectives/algorithm.h"
#include "collectives/algorithms/model.h"

struct slot {
	struct stretto_span span; /* where its block is */
	int made;                 /* the step that put it there */
	int packed;               /* the COPY that read it from the caller's buffer */
};

/* One round over `distance` ranks. */
static void pass(struct stretto_schedule *schedule, struct slot *slots, int distance)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;
	size_t blocks = 0;
	int packed = STRETTO_NO_STEP;

	for (int j = 0; j < size; j++)
		blocks += (j & distance) != 0;
	struct stretto_span out = stretto_schedule_tmp(schedule, blocks * shape->count);
	struct stretto_span in = stretto_schedule_tmp(schedule, blocks * shape->count);
	int recv = stretto_schedule_recv(schedule, (shape->rank + size - distance) % size, in,
					 STRETTO_NO_STEP, STRETTO_NO_STEP);
	for (int j = 0; j < size; j++) {
		if (!(j & distance))
			continue;
		struct stretto_span place = {STRETTO_BUF_TMP, out.first, shape->count};
		packed = stretto_schedule_copy(schedule, place, slots[j].span, slots[j].made,
					       packed);
		if (slots[j].span.buffer != STRETTO_BUF_TMP)
			slots[j].packed = packed;
		slots[j].span = (struct stretto_span){STRETTO_BUF_TMP, in.first, shape->count};
		slots[j].made = recv;
		out.first += shape->count;
		in.first += shape->count;
	}
	out.first -= out.count;
	stretto_schedule_send(schedule, (shape->rank + distance) % size, out, packed,
			      STRETTO_NO_STEP);
}

/* Moves all blocks to OUT; in place, over a block that was packed before. */
static void unpack(struct stretto_schedule *schedule, const struct slot *slots)
{
	const struct stretto_shape *shape = &schedule->shape;
	int size = shape->size;

	for (int j = shape->in_place ? 1 : 0; j < size; j++) {
		int busy = shape->in_place ? slots[size - j].packed : STRETTO_NO_STEP;

		stretto_schedule_copy(
			schedule,
			stretto_block(shape, STRETTO_BUF_OUT, (shape->rank + size - j) % size),
			slots[j].span, slots[j].made, busy);
	}
}

static void build(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	enum stretto_buffer in = shape->in_place ? STRETTO_BUF_OUT : STRETTO_BUF_IN;
	struct slot *slots = calloc((size_t)shape->size, sizeof *slots);

	if (!slots) {
		schedule->failed = true;
		return;
	}
	for (int j = 0; j < shape->size; j++)
		slots[j] = (struct slot){stretto_block(shape, in, (shape->rank + j) % shape->size),
					 STRETTO_NO_STEP, STRETTO_NO_STEP};
	for (int distance = 1; distance < shape->size; distance *= 2)
		pass(schedule, slots, distance);
	unpack(schedule, slots);
	free(slots);
}

static double cost(const struct stretto_group *group, size_t bytes, size_t window)
{
	double share = group->nodes > 1 ? group->most : 1; /* of a node's way to the others */
	double half = (double)bytes / 2;
	double copy = 2 * half * group->near->per_byte; /* packed, and at the end unpacked */

	(void)window; /* every window takes all rounds */
	return stretto_log2_ceil(group->size) *
	       (group->link->latency + half * group->link->per_byte * share + copy);
}

static size_t window(const struct stretto_group *group, size_t bytes)
{
	(void)group;
	(void)bytes;
	return SIZE_MAX;
}

const struct stretto_algorithm stretto_alltoall_bruck = {
	.name = "bruck",
	.collective = STRETTO_ALLTOALL,
	.build = build,
	.cost = cost,
	.window = window,
};
