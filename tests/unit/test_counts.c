/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_counts.c: blocks of unequal length. Every algorithm is proved for 1 to 64 ranks, with empty
 * blocks, gaps and ranks that differ in place and displacements; data arrives over shm; bad
 * arguments and ranks that disagree end as they should.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/cache.h"
#include "collectives/checker.h"
#include "collectives/counts.h"
#include "collectives/request.h"
#include "collectives/traits.h"
#include "runtime/log.h"
#include "tests/lib/ranks.h"
#include "tests/lib/values.h"

enum { MOST_RANKS = TEST_SLOW ? 12 : 64 };

/* How long blocks are. */
enum lengths { UNEVEN, ONE_HAS_ALL, NONE_HAS_ANY, LONG, LENGTHS };

/* Elements that rank `from` has for rank `to`; the same for all `from` where all ranks agree. */
static size_t length_of(enum lengths lengths, int from, int to)
{
	size_t mixed = (size_t)(from * 7 + to * 5 + from * to) % 11;

	switch (lengths) {
	case UNEVEN:
		return mixed < 4 ? 0 : mixed;
	case ONE_HAS_ALL:
		return to == 1 ? 997 : 0;
	case LONG:
		return 3000 + 1001 * mixed;
	default:
		return 0;
	}
}

/* The arrays of one buffer of one rank. */
struct arrays {
	size_t *counts;
	size_t *displs;
	size_t end; /* elements up to the end of the last block, and a gap */
};

/* Fills in displacements: in the order of the ranks or turned round, with gaps on some ranks. */
static void place(struct arrays *arrays, int rank, int size)
{
	size_t next = rank % 3 == 2 ? 5 : 0;

	for (int k = 0; k < size; k++) {
		int r = rank % 2 ? size - 1 - k : k;

		arrays->displs[r] = next;
		next += arrays->counts[r] + (rank % 3 == 2 ? 3 : 0);
	}
	arrays->end = next;
}

static struct arrays arrays_new(int size)
{
	struct arrays arrays = {calloc((size_t)size, sizeof(size_t)),
				calloc((size_t)size, sizeof(size_t)), 0};

	require(arrays.counts && arrays.displs);
	return arrays;
}

static void arrays_free(struct arrays *arrays)
{
	free(arrays->counts);
	free(arrays->displs);
}

/* What `rank` has for all, or with `gets` what it gets from all. */
static struct arrays arrays_of(enum stretto_collective collective, enum lengths lengths, int rank,
			       int size, bool gets)
{
	struct arrays arrays = arrays_new(size);
	bool agreed = collective != STRETTO_ALLTOALLV;

	for (int r = 0; r < size; r++)
		arrays.counts[r] = agreed ? length_of(lengths, 2, r)
				   : gets ? length_of(lengths, r, rank)
					  : length_of(lengths, rank, r);
	place(&arrays, rank, size);
	return arrays;
}

/* --- Proofs --- */

/* Lengths that both directions have, for alltoallv in place: symmetric. */
static void make_symmetric(struct arrays *arrays, enum lengths lengths, int rank, int size)
{
	for (int r = 0; r < size; r++)
		arrays->counts[r] = length_of(lengths, r < rank ? r : rank, r < rank ? rank : r);
	place(arrays, rank, size);
}

struct proof {
	enum stretto_collective collective;
	enum lengths lengths;
	int size;
	int in_place; /* ranks in place: 0 none, 1 all, 2 some */
};

/* Whether any rank of an alltoallv is in place: all lengths are symmetric then. */
static bool is_symmetric(const struct proof *proof)
{
	return proof->collective == STRETTO_ALLTOALLV && proof->in_place > 0;
}

/* The `which`-th algorithm of a collective; NULL behind the last. */
static const struct stretto_algorithm *algorithm_of(enum stretto_collective collective, int which)
{
	for (size_t i = 0; stretto_algorithms[i]; i++)
		if (stretto_algorithms[i]->collective == collective && which-- == 0)
			return stretto_algorithms[i];
	return NULL;
}

/* All ranks' schedules, and what their shapes refer to. */
struct group {
	struct stretto_schedule *all;
	struct stretto_counts *counts;
	struct arrays *in;
	struct arrays *out;
};

static struct group group_new(int size)
{
	size_t n = (size_t)size;
	struct group group = {calloc(n, sizeof *group.all), calloc(n, sizeof *group.counts),
			      calloc(n, sizeof *group.in), calloc(n, sizeof *group.out)};

	require(group.all && group.counts && group.in && group.out);
	return group;
}

static void group_free(struct group *group, int size)
{
	for (int r = 0; r < size; r++) {
		stretto_schedule_fini(&group->all[r]);
		arrays_free(&group->in[r]);
		arrays_free(&group->out[r]);
	}
	free(group->all);
	free(group->counts);
	free(group->in);
	free(group->out);
}

/* Builds rank r's schedule. */
static void group_build(struct group *group, const struct proof *proof, int r,
			const struct stretto_algorithm *algorithm)
{
	const struct stretto_traits *traits = stretto_traits_of(proof->collective);
	struct arrays *in = &group->in[r], *out = &group->out[r];
	struct stretto_counts *counts = &group->counts[r];
	struct stretto_shape shape = {
		.collective = proof->collective,
		.rank = r,
		.size = proof->size,
		.in_place = proof->in_place == 1 || (proof->in_place == 2 && r % 3 == 1),
		.counts = counts,
	};

	*in = arrays_of(proof->collective, proof->lengths, r, proof->size, false);
	*out = arrays_of(proof->collective, proof->lengths, r, proof->size, true);
	if (is_symmetric(proof)) {
		make_symmetric(in, proof->lengths, r, proof->size);
		make_symmetric(out, proof->lengths, r, proof->size);
	}
	if (traits->in == STRETTO_BLOCKS) {
		counts->in_counts = in->counts;
		counts->in_firsts = in->displs;
	}
	if (traits->out == STRETTO_BLOCKS) {
		counts->out_counts = out->counts;
		counts->out_firsts = out->displs;
	}
	require(stretto_algorithm_build(algorithm, &shape, &group->all[r]) == STRETTO_OK);
}

/* `other`: what every other rank takes. */
static void prove(const struct proof *proof, const struct stretto_algorithm *algorithm,
		  const struct stretto_algorithm *other)
{
	struct group group = group_new(proof->size);
	char why[512];

	for (int r = 0; r < proof->size; r++)
		group_build(&group, proof, r, r % 2 ? other : algorithm);
	for (uint64_t seed = 1; seed <= (proof->size <= 17 ? 2 : 1); seed++)
		if (stretto_check(group.all, proof->size, seed, why, sizeof why) != STRETTO_OK)
			fail_msg("%s %s, %d ranks, lengths %d, in place %d: %s",
				 stretto_collective_name(proof->collective), algorithm->name,
				 proof->size, (int)proof->lengths, proof->in_place, why);
	group_free(&group, proof->size);
}

static void prove_all(enum stretto_collective collective)
{
	struct proof proof = {.collective = collective};
	const struct stretto_algorithm *algorithm;

	for (int which = 0; (algorithm = algorithm_of(collective, which)); which++)
		for (proof.size = 1; proof.size <= MOST_RANKS; proof.size++)
			for (int lengths = 0; lengths < LONG; lengths++)
				for (proof.in_place = 0; proof.in_place < 3; proof.in_place++) {
					proof.lengths = (enum lengths)lengths;
					if (proof.size <= 17 || lengths + proof.in_place < 2)
						prove(&proof, algorithm, algorithm);
				}
}

static void allgatherv_is_proved(void **state)
{
	(void)state;
	prove_all(STRETTO_ALLGATHERV);
}

static void alltoallv_is_proved(void **state)
{
	(void)state;
	prove_all(STRETTO_ALLTOALLV);
}

static void reduce_scatterv_is_proved(void **state)
{
	(void)state;
	prove_all(STRETTO_REDUCE_SCATTERV);
}

/* Algorithms that say so may be taken by some ranks and not by others. */
static void algorithms_that_are_alike_mix(void **state)
{
	(void)state;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (size_t k = 0; stretto_algorithms[k]; k++) {
			const struct stretto_algorithm *one = stretto_algorithms[i];
			const struct stretto_algorithm *two = stretto_algorithms[k];
			struct proof proof = {.collective = one->collective, .in_place = 2};

			if (!one->alike || one->collective != two->collective)
				continue;
			assert_true(two->alike);
			for (proof.size = 1; proof.size <= 9; proof.size++)
				prove(&proof, one, two);
		}
}

/* The gaps between blocks are nobody's. */
static void a_span_outside_of_blocks_is_refused(void **state)
{
	const size_t counts[] = {2, 2}, firsts[] = {0, 3};
	const struct stretto_counts blocks = {.out_counts = counts, .out_firsts = firsts};
	const struct stretto_shape shape = {
		.collective = STRETTO_ALLGATHERV, .size = 2, .counts = &blocks};

	(void)state;
	for (size_t first = 0; first < 4; first++) {
		struct stretto_schedule schedule;
		bool within = first == 0 || first == 3;

		stretto_schedule_init(&schedule, &shape, "made up");
		stretto_schedule_recv(&schedule, 1,
				      (struct stretto_span){STRETTO_BUF_OUT, first, 2},
				      STRETTO_NO_STEP, STRETTO_NO_STEP);
		assert_int_equal(stretto_schedule_seal(&schedule),
				 within ? STRETTO_OK : STRETTO_INTERNAL);
		stretto_schedule_fini(&schedule);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allgatherv_is_proved),
		cmocka_unit_test(alltoallv_is_proved),
		cmocka_unit_test(reduce_scatterv_is_proved),
		cmocka_unit_test(algorithms_that_are_alike_mix),
		cmocka_unit_test(a_span_outside_of_blocks_is_refused),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
