/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ledger.c: what ranks agree on after connections were lost, and along which tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/recovery.h"
#include "tests/lib/ranks.h"

enum { COMM = 7, FIRST = 0 };

static struct stretto_ledger ledger_of(uint32_t entered, const uint32_t *open, size_t count)
{
	struct stretto_ledger ledger = {.group_count = 0};
	uint32_t group = stretto_ledger_add(&ledger, COMM, FIRST, entered);

	for (size_t i = 0; i < count; i++)
		stretto_ledger_add_open(&ledger, group, open[i]);
	return ledger;
}

static void finished_anywhere_is_finished(void **state)
{
	/* one has finished 4 and 6, the other nothing from 4 on */
	struct stretto_ledger a = ledger_of(7, (const uint32_t[]){5, 7}, 2);
	struct stretto_ledger b = ledger_of(6, (const uint32_t[]){4, 5, 6}, 3);
	static const enum stretto_entry want[] = {
		[3] = STRETTO_ENTRY_FINISHED, [4] = STRETTO_ENTRY_FINISHED,
		[5] = STRETTO_ENTRY_OPEN,     [6] = STRETTO_ENTRY_FINISHED,
		[7] = STRETTO_ENTRY_OPEN,     [8] = STRETTO_ENTRY_NONE};

	(void)state;
	stretto_ledger_merge(&a, &b);
	for (uint32_t sequence = 3; sequence <= 8; sequence++)
		assert_int_equal(stretto_ledger_entry(&a, COMM, FIRST, sequence), want[sequence]);
}

static void groups_of_a_split_are_apart(void **state)
{
	struct stretto_ledger a = ledger_of(3, (const uint32_t[]){3}, 1);
	struct stretto_ledger b = {.group_count = 0};

	(void)state;
	stretto_ledger_add(&b, COMM, FIRST + 2, 3); /* the other group has finished its third */
	stretto_ledger_merge(&a, &b);
	assert_int_equal(stretto_ledger_entry(&a, COMM, FIRST, 3), STRETTO_ENTRY_OPEN);
	assert_int_equal(stretto_ledger_entry(&a, COMM, FIRST + 2, 3), STRETTO_ENTRY_FINISHED);
	/* a rank that has not made the communicator yet has finished nothing of it */
	b = (struct stretto_ledger){.group_count = 0};
	stretto_ledger_merge(&b, &a);
	assert_int_equal(stretto_ledger_entry(&b, COMM, FIRST, 3), STRETTO_ENTRY_OPEN);
}

static void numbers_wrap_around(void **state)
{
	struct stretto_ledger a = ledger_of(2, (const uint32_t[]){UINT32_MAX}, 1);
	struct stretto_ledger b = ledger_of(UINT32_MAX, (const uint32_t[]){UINT32_MAX}, 1);

	(void)state;
	stretto_ledger_merge(&b, &a);
	assert_int_equal(stretto_ledger_entry(&b, COMM, FIRST, UINT32_MAX), STRETTO_ENTRY_OPEN);
	assert_int_equal(stretto_ledger_entry(&b, COMM, FIRST, 2), STRETTO_ENTRY_FINISHED);
	assert_int_equal(stretto_ledger_entry(&b, COMM, FIRST, 3), STRETTO_ENTRY_NONE);
}

static void too_much_is_said(void **state)
{
	struct stretto_ledger a = ledger_of(1000, NULL, 0), b = ledger_of(0, NULL, 0);

	(void)state;
	for (uint32_t i = 0; i <= STRETTO_LEDGER_OPEN; i++)
		stretto_ledger_add_open(&a, 0, 1 + i);
	assert_true(stretto_ledger_good(&a));
	stretto_ledger_merge(&b, &a);
	assert_int_equal(b.full, 1);
	a.open[3].group = STRETTO_LEDGER_GROUPS;
	assert_false(stretto_ledger_good(&a));
	a.open_count = STRETTO_LEDGER_OPEN + 1;
	assert_false(stretto_ledger_good(&a));
}

/* Ranks in any order, some of them twice: the same verdict. */
static void the_order_does_not_matter(void **state)
{
	enum { RANKS = 5, LAST = 12 };
	uint64_t random = test_seed();

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct stretto_ledger ranks[RANKS], one = {.group_count = 0}, two = one;

		for (int rank = 0; rank < RANKS; rank++) {
			ranks[rank] = ledger_of(4 + (uint32_t)(next_random(&random) % 9), NULL, 0);
			for (uint32_t s = 1; s <= ranks[rank].groups[0].entered; s++)
				if (next_random(&random) % 4 > 0)
					stretto_ledger_add_open(&ranks[rank], 0, s);
			stretto_ledger_merge(&one, &ranks[rank]);
		}
		for (int rank = RANKS - 1; rank >= 0; rank--) {
			stretto_ledger_merge(&two, &ranks[rank]);
			stretto_ledger_merge(&two, &ranks[RANKS - 1]);
		}
		for (uint32_t s = 1; s <= LAST; s++)
			assert_int_equal(stretto_ledger_entry(&one, COMM, FIRST, s),
					 stretto_ledger_entry(&two, COMM, FIRST, s));
	}
}

static void the_tree_has_every_rank_once(void **state)
{
	(void)state;
	for (int size = 1; size <= 130; size++) {
		int seen = 0;

		for (int rank = 0; rank < size; rank++) {
			int children[31];
			int count = stretto_agreement_children(rank, size, children);

			for (int i = 0; i < count; i++) {
				assert_true(children[i] > rank && children[i] < size);
				assert_int_equal(stretto_agreement_parent(children[i]), rank);
			}
			seen += count;
		}
		assert_int_equal(seen, size - 1);
	}
	assert_int_equal(stretto_agreement_parent(0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_anywhere_is_finished),
		cmocka_unit_test(groups_of_a_split_are_apart),
		cmocka_unit_test(numbers_wrap_around),
		cmocka_unit_test(too_much_is_said),
		cmocka_unit_test(the_order_does_not_matter),
		cmocka_unit_test(the_tree_has_every_rank_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
