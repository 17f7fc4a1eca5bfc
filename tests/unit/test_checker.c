/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Breaks good schedules on purpose: the checker must reject each and say what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/checker.h"

enum { MOST_RANKS = 4, SEEDS = 5 };

static const int none = STRETTO_NO_STEP;

/* The schedules of one operation. */
struct group {
	struct stretto_schedule all[MOST_RANKS];
	int size;
	char why[512];
};

static void check_group(struct group *group, uint64_t seed, stretto_status want)
{
	stretto_status status =
		stretto_check(group->all, group->size, seed, group->why, sizeof(group->why));
	if (status != want)
		fail_msg("seed %d: %s: %s", (int)seed, stretto_status_name(status), group->why);
}

static void accept(struct group *group)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		check_group(group, seed, STRETTO_OK);
}

/* Seals what a test has changed; the checker must find it whatever the order. */
static void reject_sealed(struct group *group, const char *word)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		check_group(group, seed, STRETTO_INTERNAL);
		if (!strstr(group->why, word))
			fail_msg("expected \"%s\" in: %s", word, group->why);
		if (!strstr(group->why, "rank "))
			fail_msg("no rank in: %s", group->why);
	}
}

static void seal(struct group *group)
{
	for (int r = 0; r < group->size; r++)
		assert_int_equal(stretto_schedule_seal(&group->all[r]), STRETTO_OK);
}

static void reject(struct group *group, const char *word)
{
	seal(group);
	reject_sealed(group, word);
}

static void end(struct group *group)
{
	for (int r = 0; r < group->size; r++)
		stretto_schedule_fini(&group->all[r]);
}

/* A good group, 2 elements a rank, already accepted once. */
static void make(struct group *group, enum stretto_collective collective, const char *name,
		 int size, bool in_place)
{
	bool vector = collective == STRETTO_ALLREDUCE || collective == STRETTO_BROADCAST;
	struct stretto_shape shape = {
		.collective = collective, .size = size, .stride = 3, .in_place = in_place};

	shape.count = vector ? 2 * (size_t)size : 2;
	*group = (struct group){.size = size};
	for (int r = 0; r < size; r++) {
		shape.rank = r;
		assert_int_equal(stretto_algorithm_build(stretto_algorithm_find(collective, name),
							 &shape, &group->all[r]),
				 STRETTO_OK);
	}
	accept(group);
}

/* An empty group, for schedules written by hand. */
static void make_empty(struct group *group, enum stretto_collective collective, int size,
		       size_t count)
{
	*group = (struct group){.size = size};
	for (int r = 0; r < size; r++) {
		struct stretto_shape shape = {.collective = collective,
					      .rank = r,
					      .size = size,
					      .count = count,
					      .stride = count};
		stretto_schedule_init(&group->all[r], &shape, "by hand");
	}
}

/* The n-th step of a kind of a rank. */
static struct stretto_step *find(struct group *group, int rank, enum stretto_step_kind kind, int n)
{
	struct stretto_schedule *schedule = &group->all[rank];
	for (int i = 0; i < schedule->step_count; i++)
		if (schedule->steps[i].kind == kind && n-- == 0)
			return &schedule->steps[i];
	fail_msg("rank %d has no such step", rank);
	return NULL;
}

static int index_of(struct group *group, int rank, const struct stretto_step *step)
{
	return (int)(step - group->all[rank].steps);
}

static void drop_dependencies(struct stretto_step *step)
{
	step->after[0] = STRETTO_NO_STEP;
	step->after[1] = STRETTO_NO_STEP;
}

static struct stretto_span out(size_t first, size_t count)
{
	return (struct stretto_span){STRETTO_BUF_OUT, first, count};
}

static struct stretto_span in(size_t first, size_t count)
{
	return (struct stretto_span){STRETTO_BUF_IN, first, count};
}

static void dropped_dependency(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 4, false);
	drop_dependencies(find(&group, 1, STRETTO_STEP_REDUCE, 1));
	reject(&group, "rank 1: nothing orders two steps that touch TMP[");
	end(&group);

	make(&group, STRETTO_ALLREDUCE, "tree", 4, false);
	drop_dependencies(find(&group, 0, STRETTO_STEP_SEND, 1));
	reject(&group, "rank 0: nothing orders two steps that touch OUT[");
	end(&group);
}

static void buffer_still_being_sent(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 4, false);
	struct stretto_step *recv = find(&group, 2, STRETTO_STEP_RECV, 4); /* of the allgather */
	assert_int_equal(recv->dst.buffer, STRETTO_BUF_OUT);
	assert_int_equal(group.all[2].steps[recv->after[0]].kind, STRETTO_STEP_SEND);
	recv->after[0] = group.all[2].steps[recv->after[0]].after[0]; /* the sum, not its send */
	reject(&group, "rank 2: nothing orders two steps that touch OUT[");
	assert_non_null(strstr(group.why, "SEND"));
	end(&group);

	/* What made the data is no substitute for the end of the send that reads it. */
	make(&group, STRETTO_ALLREDUCE, "doubling", 4, true);
	struct stretto_step *reduce = find(&group, 3, STRETTO_STEP_REDUCE, 1);
	reduce->after[1] = index_of(&group, 3, find(&group, 3, STRETTO_STEP_REDUCE, 0));
	reject(&group, "rank 3: nothing orders two steps that touch OUT[0]");
	end(&group);
}

static void swapped_peer(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLGATHER, "ring", 4, false);
	find(&group, 1, STRETTO_STEP_SEND, 1)->peer = 3;
	reject(&group, "has no send that meets it");
	end(&group);

	make(&group, STRETTO_BARRIER, "dissemination", 4, false);
	struct stretto_step *extra = find(&group, 2, STRETTO_STEP_RECV, 1);
	stretto_schedule_send(&group.all[2], extra->peer, out(0, 0), none, none);
	reject(&group, "has no receive that meets it");
	end(&group);
}

static void wrong_count(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 3, false);
	find(&group, 1, STRETTO_STEP_SEND, 0)->a.count = 1;
	reject(&group, "receives 2 elements, but rank 1 sends 1");
	end(&group);
}

static void twice_and_never(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_REDUCE_SCATTER, "ring", 3, false);
	int last = index_of(&group, 1, find(&group, 1, STRETTO_STEP_REDUCE, 1));
	stretto_schedule_reduce(&group.all[1], out(0, 2), out(0, 2), in(3, 2), last, none);
	reject(&group, "rank 1: OUT[0] holds the contribution of rank 1 twice");
	end(&group);

	make(&group, STRETTO_ALLREDUCE, "ring", 3,
	     false); /* rank 1 forwards what it should add to */
	struct stretto_step *reduce = find(&group, 1, STRETTO_STEP_REDUCE, 0);
	reduce->kind = STRETTO_STEP_COPY;
	reduce->b = (struct stretto_span){.count = 0};
	reject(&group, "lacks the contribution of rank 1");
	end(&group);
}

static void wrong_elements(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_REDUCE_SCATTER, "ring", 3, false);
	find(&group, 0, STRETTO_STEP_REDUCE, 0)->b.first = 6; /* block 2 instead of 1 */
	reject(&group, "adds element 4 to element 2");
	end(&group);

	make(&group, STRETTO_ALLGATHER, "ring", 3, false);
	struct stretto_step *first = find(&group, 2, STRETTO_STEP_RECV, 0);
	struct stretto_step *second = find(&group, 2, STRETTO_STEP_RECV, 1);
	struct stretto_span span = first->dst;
	first->dst = second->dst;
	second->dst = span;
	find(&group, 2, STRETTO_STEP_SEND, 1)->a = first->dst;
	reject(&group, "rank 2: OUT[0] holds element 2 instead of 0");
	end(&group);
}

static void missing_final(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "doubling", 3, false);
	find(&group, 2, STRETTO_STEP_REDUCE, 0)->flags = 0;
	reject(&group, "rank 2: OUT[0] passed 0 FINAL steps instead of 1");
	end(&group);
}

static void early_and_double_final(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 3, false);
	find(&group, 1, STRETTO_STEP_REDUCE, 0)->flags = STRETTO_STEP_FINAL;
	reject(&group, "is final, but its element 0 lacks the contribution of rank 2");
	end(&group);

	make(&group, STRETTO_REDUCE_SCATTER, "ring", 3, false);
	struct stretto_step *last = find(&group, 1, STRETTO_STEP_REDUCE, 1);
	last->dst = stretto_schedule_tmp(&group.all[1], 2);
	stretto_schedule_final(&group.all[1],
			       stretto_schedule_copy(&group.all[1], out(0, 2), last->dst,
						     index_of(&group, 1, last), none));
	reject(&group, "rank 1: OUT[0] passed 2 FINAL steps instead of 1");
	end(&group);
}

static void other_operand_order(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "doubling", 4, false);
	struct stretto_step *reduce = find(&group, 2, STRETTO_STEP_REDUCE, 1);
	struct stretto_span a = reduce->a;
	reduce->a = reduce->b;
	reduce->b = a;
	reject(&group, "rank 2: OUT[0] was combined in another order than on rank 0");
	end(&group);
}

/* What a ring does is right in itself, but not for an algorithm that says it is canonical. */
static void another_order_than_promised(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 3, false);
	for (int r = 0; r < 3; r++)
		group.all[r].algorithm = "doubling";
	reject_sealed(&group, "not combined in the canonical order");
	end(&group);
	make(&group, STRETTO_REDUCE_SCATTER, "ring", 3, true);
	for (int r = 0; r < 3; r++)
		group.all[r].algorithm = "halving";
	reject_sealed(&group, "not combined in the canonical order");
	end(&group);
}

static void deadlock_of_receives(void **state)
{
	struct group group;
	(void)state;
	make_empty(&group, STRETTO_BARRIER, 2, 0);
	for (int r = 0; r < 2; r++) {
		int got = stretto_schedule_recv(&group.all[r], 1 - r, out(0, 0), none, none);
		stretto_schedule_send(&group.all[r], 1 - r, out(0, 0), got, none);
	}
	reject(&group, "deadlock (rendezvous): rank 0 waits in step 0: RECV");
	end(&group);
}

/* Works only as long as the transport buffers what is sent. */
static void deadlock_of_sends(void **state)
{
	struct group group;
	(void)state;
	make_empty(&group, STRETTO_BARRIER, 2, 0);
	for (int r = 0; r < 2; r++) {
		int sent = stretto_schedule_send(&group.all[r], 1 - r, out(0, 0), none, none);
		stretto_schedule_recv(&group.all[r], 1 - r, out(0, 0), sent, none);
	}
	reject(&group, "deadlock (rendezvous): rank 0 waits in step 0: SEND");
	end(&group);
}

/* Fused, the receive would wait for our send, which waits for the peer's receive, and so on. */
static void deadlock_of_fusion(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "doubling", 2, true);
	for (int r = 0; r < 2; r++) {
		struct stretto_step *recv = find(&group, r, STRETTO_STEP_RECV, 0);
		struct stretto_step *reduce = find(&group, r, STRETTO_STEP_REDUCE, 0);
		assert_int_equal(recv->fused, STRETTO_NO_STEP); /* so seal keeps them apart */
		recv->fused = index_of(&group, r, reduce);
		reduce->fused = index_of(&group, r, recv);
	}
	reject_sealed(&group, "deadlock (rendezvous, fused): rank 0");
	end(&group);
}

/* Fused, what was received is never in TMP, where a later step looks for it. */
static void fused_data_used_again(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_REDUCE_SCATTER, "ring", 2, false);
	struct stretto_step *recv = find(&group, 0, STRETTO_STEP_RECV, 0);
	int reduced = index_of(&group, 0, find(&group, 0, STRETTO_STEP_REDUCE, 0));
	struct stretto_span elsewhere = stretto_schedule_tmp(&group.all[0], 2);
	int got = index_of(&group, 0, recv);
	stretto_schedule_copy(&group.all[0], elsewhere, recv->dst, reduced, none);
	seal(&group);
	assert_int_equal(group.all[0].steps[got].fused, STRETTO_NO_STEP);
	accept(&group);
	group.all[0].steps[got].fused = reduced;
	group.all[0].steps[reduced].fused = got;
	reject_sealed(&group, "reads TMP[0], which nothing has written");
	end(&group);
}

static void written_input(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLREDUCE, "ring", 3, false);
	struct stretto_step *reduce = find(&group, 1, STRETTO_STEP_REDUCE, 0);
	reduce->dst.buffer = STRETTO_BUF_IN;
	reject(&group, "writes an input");
	end(&group);

	make(&group, STRETTO_REDUCE_SCATTER, "ring", 3, true); /* own block only */
	reduce = find(&group, 1, STRETTO_STEP_REDUCE, 0);
	reduce->dst = reduce->b;
	reject(&group, "writes an input");
	end(&group);
}

static void unwritten(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_ALLGATHER, "ring", 3, false);
	find(&group, 1, STRETTO_STEP_COPY, 0)->dst.count = 1;
	find(&group, 1, STRETTO_STEP_COPY, 0)->a.count = 1;
	reject(&group, "rank 1: OUT[4] was never written");
	end(&group);

	make(&group, STRETTO_ALLREDUCE, "ring", 3, false);
	find(&group, 2, STRETTO_STEP_SEND, 0)->a = stretto_schedule_tmp(&group.all[2], 2);
	reject(&group, "which nothing has written");
	end(&group);
}

static void wrong_root(void **state)
{
	struct group group;
	(void)state;
	make(&group, STRETTO_BROADCAST, "chain", 3, false);
	group.all[2].shape.root = 1;
	reject(&group, "rank 2: its collective, count or root is not that of rank 0");
	end(&group);
}

static void done_too_early(void **state)
{
	struct group group;
	(void)state;
	make_empty(&group, STRETTO_BROADCAST, 2, 4); /* without confirmation */
	stretto_schedule_send(&group.all[0], 1, out(0, 4), none, none);
	stretto_schedule_recv(&group.all[1], 0, out(0, 4), none, none);
	reject(&group, "rank 0: can be done before rank 1 has entered");
	end(&group);

	/* A later round may overtake an earlier one that comes from another rank. */
	make(&group, STRETTO_BARRIER, "dissemination", 4, false);
	for (int r = 0; r < 4; r++)
		drop_dependencies(find(&group, r, STRETTO_STEP_SEND, 1));
	reject(&group, "has entered");
	end(&group);
}

static void steps_that_share_nothing_need_no_order(void **state)
{
	struct group group;
	(void)state;
	make_empty(&group, STRETTO_BROADCAST, 3, 4);
	int first = stretto_schedule_recv(&group.all[0], 1, out(0, 0), none, none);
	stretto_schedule_send(&group.all[0], 1, out(0, 4), none, none); /* two reads of one span */
	stretto_schedule_send(&group.all[0], 2, out(0, 4), none, none);
	stretto_schedule_recv(&group.all[0], 2, out(0, 0), first, none);
	for (int r = 1; r < 3; r++) {
		stretto_schedule_recv(&group.all[r], 0, out(0, 4), none, none);
		stretto_schedule_send(&group.all[r], 0, out(0, 0), none, none);
	}
	seal(&group);
	accept(&group);
	end(&group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dropped_dependency),
		cmocka_unit_test(buffer_still_being_sent),
		cmocka_unit_test(swapped_peer),
		cmocka_unit_test(wrong_count),
		cmocka_unit_test(twice_and_never),
		cmocka_unit_test(wrong_elements),
		cmocka_unit_test(missing_final),
		cmocka_unit_test(early_and_double_final),
		cmocka_unit_test(other_operand_order),
		cmocka_unit_test(another_order_than_promised),
		cmocka_unit_test(deadlock_of_receives),
		cmocka_unit_test(deadlock_of_sends),
		cmocka_unit_test(deadlock_of_fusion),
		cmocka_unit_test(fused_data_used_again),
		cmocka_unit_test(written_input),
		cmocka_unit_test(unwritten),
		cmocka_unit_test(wrong_root),
		cmocka_unit_test(done_too_early),
		cmocka_unit_test(steps_that_share_nothing_need_no_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
