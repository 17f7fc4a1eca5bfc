/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/kernels.h"
#include "tests/lib/ranks.h"

enum { GUARD = 192, PATTERN = 0xa5 };

/* An integer as bytes; little endian, so that the low ones are the value in any type. */
static void whole_set(void *at, size_t size, double value)
{
	int64_t whole = (int64_t)value;

	memcpy(at, &whole, size);
}

static bool is_unsigned(enum stretto_type type)
{
	return type == STRETTO_U8 || type == STRETTO_U16 || type == STRETTO_U32 ||
	       type == STRETTO_U64;
}

static double whole_get(enum stretto_type type, const void *at)
{
	size_t size = stretto_type_size(type);
	int shift = 64 - 8 * (int)size;
	uint64_t whole = 0;

	memcpy(&whole, at, size);
	return is_unsigned(type) ? (double)whole : (double)((int64_t)(whole << shift) >> shift);
}

void value_set(enum stretto_type type, void *array, size_t i, double value)
{
	switch (type) {
	case STRETTO_F16:
		((uint16_t *)array)[i] = stretto_f32_to_f16((float)value);
		break;
	case STRETTO_BF16:
		((uint16_t *)array)[i] = stretto_f32_to_bf16((float)value);
		break;
	case STRETTO_F32:
		((float *)array)[i] = (float)value;
		break;
	case STRETTO_F64:
		((double *)array)[i] = value;
		break;
	case STRETTO_C64:
		((float *)array)[2 * i] = (float)value;
		((float *)array)[2 * i + 1] = 0;
		break;
	case STRETTO_C128:
		((double *)array)[2 * i] = value;
		((double *)array)[2 * i + 1] = 0;
		break;
	default:
		whole_set((char *)array + i * stretto_type_size(type), stretto_type_size(type),
			  value);
	}
}

static double complex_get(double real, double imaginary)
{
	return imaginary == 0 ? real : (double)NAN;
}

double value_get(enum stretto_type type, const void *array, size_t i)
{
	const double *wide = array;
	const float *narrow = array;

	switch (type) {
	case STRETTO_F16:
		return (double)stretto_f16_to_f32(((const uint16_t *)array)[i]);
	case STRETTO_BF16:
		return (double)stretto_bf16_to_f32(((const uint16_t *)array)[i]);
	case STRETTO_F32:
		return (double)narrow[i];
	case STRETTO_F64:
		return wide[i];
	case STRETTO_C64:
		return complex_get((double)narrow[2 * i], (double)narrow[2 * i + 1]);
	case STRETTO_C128:
		return complex_get(wide[2 * i], wide[2 * i + 1]);
	default:
		return whole_get(type, (const char *)array + i * stretto_type_size(type));
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

/* a op b; a sum where op is an average. */
static double combined(enum stretto_op op, double a, double b)
{
	int left = (int)a, right = (int)b;

	switch (op) {
	case STRETTO_PROD:
		return a * b;
	case STRETTO_MIN:
		return b < a ? b : a;
	case STRETTO_MAX:
		return b > a ? b : a;
	case STRETTO_BAND:
		return left & right;
	case STRETTO_BOR:
		return left | right;
	case STRETTO_BXOR:
		return left ^ right;
	case STRETTO_LAND:
		return left && right;
	case STRETTO_LOR:
		return left || right;
	case STRETTO_LXOR:
		return !left != !right;
	default:
		return a + b;
	}
}

double value_reduced(enum stretto_type type, enum stretto_op op, int size, size_t i, unsigned round)
{
	double result = value_input(op, 0, i, round);
	char rounded[16];

	for (int rank = 1; rank < size; rank++)
		result = combined(op, result, value_input(op, rank, i, round));
	if (op == STRETTO_AVG) {
		result /= size;
		if (type != STRETTO_F64 && type != STRETTO_C128)
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
