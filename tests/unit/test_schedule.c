/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "collectives/cache.h"
#include "collectives/schedule.h"

static const int none = STRETTO_NO_STEP;

static struct stretto_span span(enum stretto_buffer buffer, size_t first, size_t count)
{
	return (struct stretto_span){buffer, first, count};
}

static struct stretto_span in(size_t first, size_t count)
{
	return span(STRETTO_BUF_IN, first, count);
}

static struct stretto_span out(size_t first, size_t count)
{
	return span(STRETTO_BUF_OUT, first, count);
}

/* An empty schedule of rank 1 of 4, 10 elements, blocks 12 apart. */
static struct stretto_schedule make(enum stretto_collective collective)
{
	struct stretto_shape shape = {
		.collective = collective, .rank = 1, .size = 4, .count = 10, .stride = 12};
	struct stretto_schedule schedule;
	stretto_schedule_init(&schedule, &shape, "test");
	return schedule;
}

static void seal_and_end(struct stretto_schedule *schedule, stretto_status want)
{
	assert_int_equal(stretto_schedule_seal(schedule), want);
	stretto_schedule_fini(schedule);
}

static void parts_cover_a_vector(void **state)
{
	(void)state;
	for (size_t count = 0; count < 40; count++)
		for (int parts = 1; parts <= 17; parts++) {
			size_t next = 0;
			for (int b = 0; b < parts; b++) {
				struct stretto_span part =
					stretto_part(STRETTO_BUF_OUT, count, parts, b);
				assert_int_equal(part.buffer, STRETTO_BUF_OUT);
				assert_int_equal(part.first, next);
				assert_in_range(part.count, count / (size_t)parts,
						count / (size_t)parts + 1);
				next += part.count;
			}
			assert_int_equal(next, count);
		}
}

static void buffers_have_the_size_of_the_shape(void **state)
{
	const struct {
		enum stretto_collective collective;
		bool in_place;
		size_t in;
		size_t out;
	} rows[] = {
		{STRETTO_ALLREDUCE, false, 10, 10},    {STRETTO_ALLREDUCE, true, 0, 10},
		{STRETTO_BROADCAST, false, 0, 10},     {STRETTO_ALLGATHER, false, 10, 46},
		{STRETTO_ALLGATHER, true, 0, 46},      {STRETTO_REDUCE_SCATTER, false, 46, 10},
		{STRETTO_REDUCE_SCATTER, true, 46, 0}, {STRETTO_BARRIER, false, 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stretto_shape shape = {.collective = rows[i].collective,
					      .size = 4,
					      .count = 10,
					      .stride = 12,
					      .in_place = rows[i].in_place};
		assert_int_equal(stretto_shape_in_count(&shape), rows[i].in);
		assert_int_equal(stretto_shape_out_count(&shape), rows[i].out);
	}
}

static void messages_are_numbered_per_peer_and_kind(void **state)
{
	struct stretto_schedule schedule = make(STRETTO_BROADCAST);
	(void)state;
	stretto_schedule_send(&schedule, 0, out(0, 1), none, none);
	stretto_schedule_send(&schedule, 2, out(0, 1), none, none);
	stretto_schedule_recv(&schedule, 0, out(1, 1), none, none);
	stretto_schedule_send(&schedule, 0, out(0, 1), none, none);
	assert_int_equal(stretto_schedule_seal(&schedule), STRETTO_OK);
	const uint32_t ordinals[] = {0, 0, 0, 1};
	const uint32_t pitches[] = {2, 1, 1, 2};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(schedule.steps[i].ordinal, ordinals[i]);
		assert_int_equal(schedule.steps[i].pitch, pitches[i]);
	}
	stretto_schedule_fini(&schedule);
}

static void followers_are_the_steps_that_wait(void **state)
{
	struct stretto_schedule schedule = make(STRETTO_BROADCAST);
	(void)state;
	int a = stretto_schedule_recv(&schedule, 0, out(0, 1), none, none);
	int b = stretto_schedule_recv(&schedule, 0, out(1, 1), none, a);
	int c = stretto_schedule_send(&schedule, 2, out(0, 2), a, b);
	int d = stretto_schedule_send(&schedule, 3, out(0, 2), a, a); /* one wait, not two */
	assert_int_equal(stretto_schedule_seal(&schedule), STRETTO_OK);
	const struct stretto_step *steps = schedule.steps;
	const int *of_a = schedule.followers + steps[a].successors;
	const int *of_b = schedule.followers + steps[b].successors;
	assert_int_equal(steps[a].successor_count, 3);
	assert_int_equal(of_a[0], b);
	assert_int_equal(of_a[1], c);
	assert_int_equal(of_a[2], d);
	assert_int_equal(steps[b].successor_count, 1);
	assert_int_equal(of_b[0], c);
	assert_int_equal(steps[c].successor_count, 0);
	assert_int_equal(steps[b].after[0], a);
	stretto_schedule_fini(&schedule);
}

/* RECV into TMP and REDUCE of it; the tests vary one thing. Returns the RECV; the REDUCE is next.
 */
static int receive_and_reduce(struct stretto_schedule *schedule, int other)
{
	struct stretto_span tmp = stretto_schedule_tmp(schedule, 4);
	int recv = stretto_schedule_recv(schedule, 0, tmp, none, none);
	stretto_schedule_reduce(schedule, out(0, 4), tmp, in(0, 4), recv, other);
	return recv;
}

static void a_receive_is_fused_with_its_reduction(void **state)
{
	struct stretto_schedule schedule = make(STRETTO_ALLREDUCE);
	(void)state;
	int first = receive_and_reduce(&schedule, none);
	struct stretto_span tmp = stretto_schedule_tmp(&schedule, 4);
	int second = stretto_schedule_recv(&schedule, 2, tmp, none, none);
	stretto_schedule_reduce(&schedule, out(0, 4), out(0, 4), tmp, first + 1, second);
	for (int sealed = 0; sealed < 2; sealed++) { /* sealing again changes nothing */
		assert_int_equal(stretto_schedule_seal(&schedule), STRETTO_OK);
		assert_int_equal(schedule.steps[first].fused, first + 1);
		assert_int_equal(schedule.steps[first + 1].fused, first);
		assert_int_equal(schedule.steps[second].fused, second + 1);
		assert_int_equal(schedule.steps[second + 1].fused, second);
	}
	stretto_schedule_fini(&schedule);
}

static void assert_apart(struct stretto_schedule *schedule, int recv)
{
	assert_int_equal(stretto_schedule_seal(schedule), STRETTO_OK);
	assert_int_equal(schedule->steps[recv].fused, STRETTO_NO_STEP);
	assert_int_equal(schedule->steps[recv + 1].fused, STRETTO_NO_STEP);
	stretto_schedule_fini(schedule);
}

static void what_others_need_is_not_fused(void **state)
{
	(void)state;
	/* Another step waits for the receive. */
	struct stretto_schedule schedule = make(STRETTO_ALLREDUCE);
	int recv = receive_and_reduce(&schedule, none);
	stretto_schedule_send(&schedule, 2, in(0, 1), recv, none);
	assert_apart(&schedule, recv);

	/* Another step reads a part of the span. */
	schedule = make(STRETTO_ALLREDUCE);
	recv = receive_and_reduce(&schedule, none);
	stretto_schedule_send(&schedule, 2, span(STRETTO_BUF_TMP, 3, 1), recv + 1, none);
	assert_apart(&schedule, recv);

	/* Another step reuses a part of the span. */
	schedule = make(STRETTO_ALLREDUCE);
	recv = receive_and_reduce(&schedule, none);
	stretto_schedule_tmp(&schedule, 4);
	stretto_schedule_recv(&schedule, 2, span(STRETTO_BUF_TMP, 2, 4), recv + 1, none);
	assert_apart(&schedule, recv);

	/* The reduction waits for a send of ours, which may wait for the peer's receive. */
	schedule = make(STRETTO_ALLREDUCE);
	int sent = stretto_schedule_send(&schedule, 0, in(0, 4), none, none);
	recv = receive_and_reduce(&schedule, sent);
	assert_apart(&schedule, recv);
}

static void what_does_not_fit_is_not_fused(void **state)
{
	(void)state;
	/* The reduction takes only a part of what was received. */
	struct stretto_schedule schedule = make(STRETTO_ALLREDUCE);
	struct stretto_span tmp = stretto_schedule_tmp(&schedule, 4);
	int recv = stretto_schedule_recv(&schedule, 0, tmp, none, none);
	tmp.count = 3;
	stretto_schedule_reduce(&schedule, out(0, 3), tmp, in(0, 3), recv, none);
	assert_apart(&schedule, recv);

	/* It was not received into scratch. */
	schedule = make(STRETTO_ALLREDUCE);
	recv = stretto_schedule_recv(&schedule, 0, out(0, 4), none, none);
	stretto_schedule_reduce(&schedule, out(0, 4), out(0, 4), in(0, 4), recv, none);
	assert_apart(&schedule, recv);

	/* The result stays in the scratch. */
	schedule = make(STRETTO_ALLREDUCE);
	tmp = stretto_schedule_tmp(&schedule, 4);
	recv = stretto_schedule_recv(&schedule, 0, tmp, none, none);
	stretto_schedule_reduce(&schedule, tmp, tmp, in(0, 4), recv, none);
	assert_apart(&schedule, recv);
}

static void malformed_steps_are_refused(void **state)
{
	struct stretto_schedule schedule;
	(void)state;
	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_send(&schedule, 0, in(0, 1), 0, none); /* waits for itself */
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_send(&schedule, 1, in(0, 1), none, none); /* to itself */
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_recv(&schedule, 4, out(0, 1), none, none); /* no such rank */
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_copy(&schedule, out(0, 2), in(0, 3), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_copy(&schedule, out(1, 3), out(0, 3), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_reduce(&schedule, out(1, 3), out(0, 3), in(1, 3), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	schedule.failed = true;
	seal_and_end(&schedule, STRETTO_NO_MEMORY);
}

static void spans_stay_in_their_buffer_and_window(void **state)
{
	struct stretto_schedule schedule;
	(void)state;
	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_recv(&schedule, 0, out(8, 3), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_recv(&schedule, 0, out(SIZE_MAX, 2), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLREDUCE);
	stretto_schedule_recv(&schedule, 0, span(STRETTO_BUF_TMP, 0, 1), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_ALLGATHER); /* block 1 is [12, 22) */
	stretto_schedule_recv(&schedule, 0, out(12, 10), none, none);
	stretto_schedule_recv(&schedule, 0, out(0, 0), none, none);
	seal_and_end(&schedule, STRETTO_OK);

	schedule = make(STRETTO_ALLGATHER);
	stretto_schedule_recv(&schedule, 0, out(13, 10), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);

	schedule = make(STRETTO_REDUCE_SCATTER);
	stretto_schedule_send(&schedule, 0, in(0, 11), none, none);
	seal_and_end(&schedule, STRETTO_INTERNAL);
}

static void steps_read_as_text(void **state)
{
	char text[160];
	struct stretto_schedule schedule = make(STRETTO_ALLREDUCE);
	(void)state;
	stretto_schedule_send(&schedule, 2, in(0, 4), none, none);
	int recv = receive_and_reduce(&schedule, 0);
	int copy = stretto_schedule_copy(&schedule, out(4, 2), in(4, 2), 0, recv + 1);
	stretto_schedule_final(&schedule, copy);
	stretto_schedule_recv(&schedule, 3, out(0, 0), copy, none);
	struct stretto_span tmp = stretto_schedule_tmp(&schedule, 1);
	int second = stretto_schedule_recv(&schedule, 3, tmp, 1, none);
	stretto_schedule_reduce(&schedule, out(9, 1), in(9, 1), tmp, second, copy);
	assert_int_equal(stretto_schedule_seal(&schedule), STRETTO_OK);

	const char *const want[] = {
		"0: SEND  to 2  IN[0,4)",
		"1: RECV  from 0  TMP[0,4)",
		"2: REDUCE  OUT[0,4) = TMP[0,4) + IN[0,4)  after 1, 0",
		"3: COPY  OUT[4,6) = IN[4,6)  final  after 0, 2",
		"4: RECV  from 3  nothing  after 3",
		"5: RECV  from 3  TMP[4,5)  in 6  after 1",
		"6: RECV+REDUCE  from 3  OUT[9,10) = IN[9,10) + recv  after 1, 3",
	};
	for (int i = 0; i < schedule.step_count; i++)
		assert_string_equal(stretto_step_text(&schedule, i, text, sizeof(text)), want[i]);
	assert_string_equal(stretto_step_text(&schedule, 0, text, 8), "0: SEND");
	stretto_schedule_fini(&schedule);
}

/* Schedules are found again by all of their shape, where ranks are included. */
static void the_cache_tells_placements_apart(void **state)
{
	static const int blocks[] = {0, 0, 1, 1}, same[] = {0, 0, 1, 1}, cyclic[] = {0, 1, 0, 1};
	const int *const nodes[] = {blocks, same, cyclic, NULL};
	const struct stretto_algorithm *algorithm =
		stretto_algorithm_find(STRETTO_ALLREDUCE, "hierarchical");
	const struct stretto_schedule *made[4];
	struct stretto_list cache;

	(void)state;
	assert_non_null(algorithm);
	stretto_list_init(&cache);
	for (int i = 0; i < 4; i++) {
		struct stretto_shape shape = {
			.collective = STRETTO_ALLREDUCE,
			.size = 4,
			.count = 8,
			.stride = 8,
			.node = nodes[i],
			.nodes = 2,
		};
		assert_int_equal(stretto_schedule_get(&cache, 10, algorithm, &shape, &made[i]),
				 STRETTO_OK);
	}
	assert_ptr_equal(made[0], made[1]);
	assert_ptr_not_equal(made[0], made[2]);
	assert_ptr_not_equal(made[0], made[3]);
	assert_ptr_not_equal(made[2], made[3]);
	for (int i = 0; i < 4; i++)
		stretto_schedule_put(made[i]);
	stretto_schedules_free(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_cover_a_vector),
		cmocka_unit_test(buffers_have_the_size_of_the_shape),
		cmocka_unit_test(messages_are_numbered_per_peer_and_kind),
		cmocka_unit_test(followers_are_the_steps_that_wait),
		cmocka_unit_test(a_receive_is_fused_with_its_reduction),
		cmocka_unit_test(what_others_need_is_not_fused),
		cmocka_unit_test(what_does_not_fit_is_not_fused),
		cmocka_unit_test(malformed_steps_are_refused),
		cmocka_unit_test(spans_stay_in_their_buffer_and_window),
		cmocka_unit_test(steps_read_as_text),
		cmocka_unit_test(the_cache_tells_placements_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
