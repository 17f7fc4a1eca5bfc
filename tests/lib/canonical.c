/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/canonical.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/kernels.h"
#include "collectives/traits.h"
#include "tests/lib/cells.h"
#include "tests/lib/ranks.h"
#include "tests/lib/values.h"

/* Element i of rank r: of different sizes and signs, so that the order of additions shows. */
static double input(int rank, size_t i)
{
	uint64_t state = (uint64_t)rank << 32 | (uint64_t)i;
	uint64_t random = next_random(&state);
	double value = (double)(1 << (random & 3)) * (1 + (double)(random >> 12) / 0x1p52);

	return random & 4 ? value : -value;
}

static char *inputs(enum stretto_type type, int rank, size_t first, size_t count)
{
	char *all = malloc(count * stretto_type_size(type) + 1);

	require(all);
	for (size_t i = 0; i < count; i++)
		value_set(type, all, i, input(rank, first + i));
	return all;
}

/* a = a op b; the last one of an average divides on the way. */
static void combine(const struct canonical *canonical, char *a, const char *b, int divisor)
{
	if (divisor && canonical->op == STRETTO_AVG)
		stretto_kernel_sum_divide(canonical->type, a, a, b, canonical->count, divisor);
	else
		stretto_kernel(canonical->type, canonical->op)(a, a, b, canonical->count);
}

/* What `size` ranks get for elements from `first` on; the caller frees it. */
static char *expected(const struct canonical *canonical, int size, size_t first)
{
	char **all = calloc((size_t)size, sizeof *all);
	int left = size;
	char *result;

	require(all);
	for (int r = 0; r < size; r++)
		all[r] = inputs(canonical->type, r, first, canonical->count);
	while (left & (left - 1)) /* down to a power of two */
		left &= left - 1;
	int extras = size - left;
	for (int i = 0; i < extras; i++) {
		combine(canonical, all[2 * i], all[2 * i + 1], 0);
		free(all[2 * i + 1]);
		all[i] = all[2 * i];
	}
	memmove(all + extras, all + 2 * extras, (size_t)(left - extras) * sizeof *all);
	for (; left > 1; left /= 2)
		for (int i = 0; i < left / 2; i++) {
			combine(canonical, all[2 * i], all[2 * i + 1], left == 2 ? size : 0);
			free(all[2 * i + 1]);
			all[i] = all[2 * i];
		}
	result = all[0];
	free(all);
	return result;
}

size_t canonical_differing(struct stretto_comm *comm, const struct canonical *canonical)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	const struct stretto_traits *traits = stretto_traits_of(canonical->collective);
	bool scatters = stretto_traits_into_block(canonical->collective);
	size_t element = stretto_type_size(canonical->type), count = canonical->count;
	size_t first = scatters ? (size_t)rank * count : 0, differing = 0;
	char *in = inputs(canonical->type, rank, 0, scatters ? (size_t)size * count : count);
	char *out = canonical->in_place ? in + first * element : malloc(count * element + 1);
	char *want = expected(canonical, size, first);
	struct stretto_coll_args args = {
		.collective = canonical->collective,
		.type = canonical->type,
		.op = canonical->op,
		.count = count,
		.in = in,
		.out = out,
		.root = traits->rooted ? size / 2 : 0,
		.algorithm = canonical->algorithm,
	};

	require(out);
	args.algorithm = usable(comm, &args);
	require(stretto_coll_run(comm, &args) == STRETTO_OK);
	for (size_t i = 0; i < count && (!traits->out_at_root || rank == args.root); i++)
		differing += memcmp(out + i * element, want + i * element, element) != 0;
	if (!canonical->in_place)
		free(out);
	free(in);
	free(want);
	return differing;
}

/* One algorithm, NULL for the library's choice, with everything that the bits must not depend on. */
static void run_algorithm(struct stretto_comm *world, enum stretto_collective collective,
			  const char *algorithm, size_t large)
{
	static const enum stretto_type types[] = {STRETTO_F32, STRETTO_F64, STRETTO_F16,
						  STRETTO_BF16};
	static const enum stretto_op ops[] = {STRETTO_SUM, STRETTO_PROD, STRETTO_AVG};
	const size_t counts[] = {1, 67, 1501, large};

	for (size_t k = 0; k < 4 * 3 * 4; k += TEST_SANITIZED ? 5 : 1) {
		struct canonical canonical = {
			.collective = collective,
			.type = types[k % 4],
			.op = ops[k / 4 % 3],
			.count = counts[k / 12],
			.algorithm = algorithm,
			.in_place = k % 2,
		};
		size_t differing = canonical_differing(world, &canonical);

		if (differing == 0)
			continue;
		fprintf(stderr, "rank %d of %d: %s of %zu x %s, %s, by %s: %zu elements differ\n",
			stretto_comm_rank(world), stretto_comm_size(world),
			stretto_collective_name(collective), canonical.count,
			stretto_type_name(canonical.type), stretto_op_name(canonical.op),
			algorithm ? algorithm : "choice", differing);
		test_failed("canonical bits");
	}
}

void canonical_rank(struct stretto_comm *world, void *argument)
{
	size_t large = *(const size_t *)argument;

	run_algorithm(world, STRETTO_ALLREDUCE, NULL, large);
	run_algorithm(world, STRETTO_REDUCE_SCATTER, NULL, large);
	run_algorithm(world, STRETTO_REDUCE, NULL, large);
	for (size_t i = 0; stretto_algorithms[i]; i++)
		if (stretto_algorithms[i]->canonical)
			run_algorithm(world, stretto_algorithms[i]->collective,
				      stretto_algorithms[i]->name, large);
}
