/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/kernels.h"

#include <stdatomic.h>

#include "collectives/kernels_internal.h"
#include "collectives/kernels_ops.h"

const struct stretto_kernel_table *stretto_kernels_chosen(void)
{
	static _Atomic(const struct stretto_kernel_table *) chosen;
	/* relaxed: the tables are constant, and threads that race here store the same pointer */
	const struct stretto_kernel_table *table =
		atomic_load_explicit(&chosen, memory_order_relaxed);

	if (table)
		return table;
	table = stretto_kernels_avx512();
	if (!table)
		table = stretto_kernels_avx2();
	if (!table)
		table = &stretto_kernels_portable;
	atomic_store_explicit(&chosen, table, memory_order_relaxed);
	return table;
}

stretto_reduce_fn stretto_kernel(enum stretto_type type, enum stretto_op op)
{
	return stretto_kernels_chosen()->reduce[type][op == STRETTO_AVG ? STRETTO_SUM : op];
}

void stretto_kernel_sum_divide(enum stretto_type type, void *dst, const void *a, const void *b,
			       size_t count, int ranks)
{
	stretto_kernels_chosen()->sum_divide[type](dst, a, b, count, ranks);
}

void stretto_kernel_divide(enum stretto_type type, void *dst, const void *a, size_t count,
			   int ranks)
{
	stretto_kernels_chosen()->divide[type](dst, a, count, ranks);
}

/* The conversions for one value: as the kernels', and a NaN keeps sign and upper payload, quieted.
 */
float stretto_f16_to_f32(uint16_t bits)
{
	uint32_t wide = stretto_f32_to_bits(stretto_widen_f16(bits));

	return stretto_bits_to_f32((bits & 0x7fff) > 0x7c00 ? wide | 0x00400000u : wide);
}

uint16_t stretto_f32_to_f16(float value)
{
	uint32_t bits = stretto_f32_to_bits(value);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(((bits >> 16) & 0x8000u) | 0x7e00u | ((bits >> 13) & 0x3ffu));
	return stretto_narrow_f16(value);
}

float stretto_bf16_to_f32(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;

	return stretto_bits_to_f32((bits & 0x7fff) > 0x7f80 ? wide | 0x00400000u : wide);
}

uint16_t stretto_f32_to_bf16(float value)
{
	uint32_t bits = stretto_f32_to_bits(value);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)((bits >> 16) | 0x40u);
	return stretto_narrow_bf16(value);
}
