/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/combine.h"

#include <string.h>

#include "runtime/comm.h"

/* The divisor of a step, 0 for none. */
static int divisor_of(const struct stretto_exec *exec, const struct stretto_step *step)
{
	bool divides = step->flags & STRETTO_STEP_FINAL && exec->call.op == STRETTO_AVG;

	return divides ? exec->plan.comm->size : 0;
}

void stretto_combine(const struct stretto_exec *exec, const struct stretto_step *step, char *dst,
		     const char *const operands[2], size_t count)
{
	const struct stretto_exec_call *call = &exec->call;
	const struct stretto_scaled_sum sum = {
		.type = call->type,
		.factor = call->scale,
		.scaled = {step->flags & STRETTO_STEP_OWN_A, step->flags & STRETTO_STEP_OWN_B},
		.ranks = divisor_of(exec, step),
	};

	if (sum.scaled[0] || sum.scaled[1])
		stretto_kernel_scaled_sum(&sum, dst, operands[0], operands[1], count);
	else if (sum.ranks)
		stretto_kernel_sum_divide(call->type, dst, operands[0], operands[1], count,
					  sum.ranks);
	else
		exec->reduce(dst, operands[0], operands[1], count);
}

void stretto_combine_copy(const struct stretto_exec *exec, const struct stretto_step *step,
			  char *dst, const char *source, size_t count)
{
	const struct stretto_exec_call *call = &exec->call;
	int ranks = divisor_of(exec, step);

	if (step->flags & STRETTO_STEP_OWN_A)
		stretto_kernel_scale(call->type, dst, source, count, call->scale, ranks);
	else if (ranks)
		stretto_kernel_divide(call->type, dst, source, count, ranks);
	else
		memcpy(dst, source, count * exec->plan.element_size);
}
