/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_counts.c: schedules of blocks of unequal length. Every algorithm is proved for 1 to 64 ranks,
 * with empty blocks, gaps and ranks that differ in place and displacements. test_unequal.c runs them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "collectives/algorithm.h"
#include "collectives/checker.h"
#include "collectives/traits.h"
#include "tests/lib/lengths.h"
#include "tests/lib/ranks.h"

enum { MOST_RANKS = TEST_SLOW ? 12 : 64 };

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

	if (is_symmetric(proof)) {
		*in = arrays_symmetric(proof->lengths, r, proof->size);
		*out = arrays_symmetric(proof->lengths, r, proof->size);
	} else {
		*in = arrays_of(proof->collective, proof->lengths, r, proof->size, false);
		*out = arrays_of(proof->collective, proof->lengths, r, proof->size, true);
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

/* Up to 17 ranks all there is; above, blocks that are uneven, in place or not in turn. */
static bool takes(const struct proof *proof)
{
	if (proof->size <= (TEST_SLOW ? 9 : 17))
		return true;
	return proof->lengths == UNEVEN && proof->in_place == proof->size % 3;
}

static void prove_all(enum stretto_collective collective)
{
	struct proof proof = {.collective = collective};
	const struct stretto_algorithm *algorithm;

	for (int which = 0; (algorithm = algorithm_of(collective, which)); which++)
		for (proof.size = 1; proof.size <= MOST_RANKS; proof.size++)
			for (int lengths = 0; lengths < TURNED; lengths++)
				for (proof.in_place = 0; proof.in_place < 3; proof.in_place++) {
					proof.lengths = (enum lengths)lengths;
					if (takes(&proof))
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
