/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.h: what REDUCE and COPY steps do to elements, for the executor: the operation of the
 * call, the division of an average where a step is FINAL, and the factor of this rank's input where
 * an operand is own (premul.h). All of it in one pass over memory.
 *
 * Threads: pure functions of the caller's buffers.
 */
#ifndef STRETTO_COLLECTIVES_COMBINE_H
#define STRETTO_COLLECTIVES_COMBINE_H

#include "collectives/executor.h"

/* dst = operands[0] op operands[1], which are the step's a and b; dst may be one of them. */
void stretto_combine(const struct stretto_exec *exec, const struct stretto_step *step, char *dst,
		     const char *const operands[2], size_t count);

/* dst = source, the step's a; they do not overlap. */
void stretto_combine_copy(const struct stretto_exec *exec, const struct stretto_step *step,
			  char *dst, const char *source, size_t count);

#endif
