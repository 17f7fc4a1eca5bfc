/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * premul.h: schedules that multiply this rank's input by a factor where they first read it.
 *
 * A sum of scaled inputs (stretto_coll_args.scale) runs the schedule of the plain sum, rewritten. A
 * value of the input that nothing has been added to yet is *own*: all of IN, and in place what no
 * step has written. Of three ranks, rank 0 of the ring of an allreduce of six elements:
 *
 *   SEND to 1 IN[0,2)                     COPY TMP = own IN[0,2), SEND to 1 TMP
 *   RECV TMP, REDUCE OUT = TMP + IN[4,6)  RECV TMP, REDUCE OUT = TMP + own IN[4,6)
 *
 * A REDUCE or COPY of an own operand multiplies on the way, block by block in the first-level
 * cache. Only what is sent as it is, which the transport takes where it lies, costs a pass: a copy
 * into scratch of the size of the message. Cost: one read and one write more for the own elements
 * that are sent, nothing for the others; a ring sends 1/n of the input so, halving 1/2, and doubling
 * all of it. docs/collectives.md has the others.
 *
 * Each own element is multiplied and rounded to its type before it is added, wherever that happens:
 * the bits are those of the plain sum of a scaled input, by every algorithm and instruction set.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_PREMUL_H
#define STRETTO_COLLECTIVES_PREMUL_H

#include "collectives/schedule.h"

/*
 * Makes the schedule that scales, of the shape of a sealed one (and of shape.scaled), and seals it.
 * The caller ends *scaled with stretto_schedule_fini(), also on failure. STRETTO_NO_MEMORY, or
 * STRETTO_INTERNAL, logged, if a step reads own and other elements as one.
 */
stretto_status stretto_premul_rewrite(const struct stretto_schedule *plain,
				      struct stretto_schedule *scaled);

#endif
