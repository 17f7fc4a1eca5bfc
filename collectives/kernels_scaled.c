/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scaled sums from the loops that there are: a block of the vector, short enough for the first-level
 * cache, is multiplied by a block of nothing but the factor, and added from there. So memory is
 * passed over once, and the bits are those of a product and a sum by any of the tables.
 */
#include <string.h>

#include "collectives/kernels_internal.h"

enum { BLOCK_BYTES = 2048 };

/* The factor, for as many elements as a block or the vector has. Returns the elements of a block. */
static size_t fill(unsigned char *factors, const void *factor, size_t size, size_t count)
{
	size_t block = BLOCK_BYTES / size;

	for (size_t i = 0; i < block && i < count; i++)
		memcpy(factors + i * size, factor, size);
	return block;
}

void stretto_kernel_scale_with(const struct stretto_kernel_table *table, enum stretto_type type,
			       void *dst, const void *a, size_t count, const void *factor,
			       int ranks)
{
	_Alignas(64) unsigned char factors[BLOCK_BYTES];
	size_t size = stretto_type_size(type), block = fill(factors, factor, size, count);

	for (size_t done = 0; done < count; done += block) {
		size_t now = count - done < block ? count - done : block;
		unsigned char *to = (unsigned char *)dst + done * size;

		table->reduce[type][STRETTO_PROD](to, (const unsigned char *)a + done * size,
						  factors, now);
		if (ranks)
			table->divide[type](to, to, now, ranks);
	}
}

void stretto_kernel_scaled_sum_with(const struct stretto_kernel_table *table,
				    const struct stretto_scaled_sum *sum, void *dst, const void *a,
				    const void *b, size_t count)
{
	_Alignas(64) unsigned char factors[BLOCK_BYTES], products[2][BLOCK_BYTES];
	size_t size = stretto_type_size(sum->type);
	size_t block = fill(factors, sum->factor, size, count);

	for (size_t done = 0; done < count; done += block) {
		size_t now = count - done < block ? count - done : block;
		const unsigned char *operands[2] = {(const unsigned char *)a + done * size,
						    (const unsigned char *)b + done * size};
		unsigned char *to = (unsigned char *)dst + done * size;

		for (int i = 0; i < 2; i++)
			if (sum->scaled[i]) {
				table->reduce[sum->type][STRETTO_PROD](products[i], operands[i],
								       factors, now);
				operands[i] = products[i];
			}
		if (sum->ranks)
			table->sum_divide[sum->type](to, operands[0], operands[1], now, sum->ranks);
		else
			table->reduce[sum->type][STRETTO_SUM](to, operands[0], operands[1], now);
	}
}

void stretto_kernel_scale(enum stretto_type type, void *dst, const void *a, size_t count,
			  const void *factor, int ranks)
{
	stretto_kernel_scale_with(stretto_kernels_chosen(), type, dst, a, count, factor, ranks);
}

void stretto_kernel_scaled_sum(const struct stretto_scaled_sum *sum, void *dst, const void *a,
			       const void *b, size_t count)
{
	stretto_kernel_scaled_sum_with(stretto_kernels_chosen(), sum, dst, a, b, count);
}
