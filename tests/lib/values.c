/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/kernels.h"
#include "tests/lib/ranks.h"

enum { GUARD = 192, PATTERN = 0xa5 };

void value_set(enum stretto_type type, void *array, size_t i, double value)
{
	switch (type) {
	case STRETTO_U8:
		((uint8_t *)array)[i] = (uint8_t)value;
		break;
	case STRETTO_I32:
		((int32_t *)array)[i] = (int32_t)value;
		break;
	case STRETTO_I64:
		((int64_t *)array)[i] = (int64_t)value;
		break;
	case STRETTO_F16:
		((uint16_t *)array)[i] = stretto_f32_to_f16((float)value);
		break;
	case STRETTO_BF16:
		((uint16_t *)array)[i] = stretto_f32_to_bf16((float)value);
		break;
	case STRETTO_F32:
		((float *)array)[i] = (float)value;
		break;
	default:
		((double *)array)[i] = value;
	}
}

double value_get(enum stretto_type type, const void *array, size_t i)
{
	switch (type) {
	case STRETTO_U8:
		return ((const uint8_t *)array)[i];
	case STRETTO_I32:
		return ((const int32_t *)array)[i];
	case STRETTO_I64:
		return (double)((const int64_t *)array)[i];
	case STRETTO_F16:
		return (double)stretto_f16_to_f32(((const uint16_t *)array)[i]);
	case STRETTO_BF16:
		return (double)stretto_bf16_to_f32(((const uint16_t *)array)[i]);
	case STRETTO_F32:
		return (double)((const float *)array)[i];
	default:
		return ((const double *)array)[i];
	}
}

double value_input(enum stretto_op op, int rank, size_t i, unsigned round)
{
	size_t mix = (size_t)rank * 5 + i * 3 + i / 7 + round;

	/* at most one rank in 16 doubles a product */
	if (op == STRETTO_PROD)
		return mix % 16 == 3 ? 2 : 1;
	return (double)(mix % 4);
}

double value_reduced(enum stretto_type type, enum stretto_op op, int size, size_t i, unsigned round)
{
	double result = value_input(op, 0, i, round);
	char rounded[8];

	for (int rank = 1; rank < size; rank++) {
		double value = value_input(op, rank, i, round);

		if (op == STRETTO_PROD)
			result *= value;
		else if (op == STRETTO_MIN)
			result = value < result ? value : result;
		else if (op == STRETTO_MAX)
			result = value > result ? value : result;
		else
			result += value;
	}
	if (op == STRETTO_AVG) {
		result /= size;
		if (type == STRETTO_F16 || type == STRETTO_BF16 || type == STRETTO_F32)
			result = (double)((float)(result * size) / (float)size);
	}
	value_set(type, rounded, 0, result);
	return value_get(type, rounded, 0);
}

struct guarded guarded_new(struct stretto_comm *comm, size_t bytes, size_t misalign)
{
	struct guarded memory = {.bytes = bytes, .comm = comm};
	size_t all = bytes + 2 * GUARD + misalign;
	void *base;

	if (comm)
		require(stretto_alloc(comm, all, &base) == STRETTO_OK);
	else
		require(posix_memalign(&base, 64, all) == 0);
	memory.all = base;
	memset(memory.all, PATTERN, all);
	memory.data = memory.all + GUARD + misalign;
	return memory;
}

void guarded_check(const struct guarded *memory, const char *what)
{
	const unsigned char *data = memory->data;

	for (const unsigned char *byte = memory->all; byte < data; byte++)
		if (*byte != PATTERN) {
			printf("%s: a byte before the buffer was changed\n", what);
			test_failed("guard bytes");
		}
	for (size_t i = 0; i < GUARD; i++)
		if (data[memory->bytes + i] != PATTERN) {
			printf("%s: byte %zu after the buffer was changed\n", what, i);
			test_failed("guard bytes");
		}
}

void guarded_free(struct guarded *memory)
{
	if (memory->comm)
		require(stretto_free(memory->comm, memory->all) == STRETTO_OK);
	else
		free(memory->all);
}
