/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_progress.c: who goes on when. Priorities, shares of communicators, pauses, many operations
 * in flight. Everything is counted, nothing is timed.
 *
 * Where the order of events matters both ranks are paused, and one thread drives their channels,
 * turn by turn: then nothing depends on the scheduler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "tests/lib/stage.h"

/* STRETTO_WINDOWS */
enum { WINDOWS = 3 };

/* Connects the ranks, then has nothing drive them but take_turns(). */
static void set_stage(struct stage *stage, struct stretto_comm *world)
{
	struct stretto_channel *channel = channel_of(world);

	require(stretto_barrier(world) == STRETTO_OK);
	require(stretto_progress_pause(world) == STRETTO_OK);
	channel->patience = (uint64_t)3600 * 1000000000; /* nothing counts as stalled */
	stage->channels[stretto_comm_rank(world)] = channel;
	meet(stage);
}

static void turn(struct stretto_channel *channel)
{
	stretto_channel_take_baton(channel);
	stretto_channel_turn(channel);
	stretto_channel_leave_baton(channel);
}

static void take_turns(struct stage *stage)
{
	for (int rank = 0; rank < RANKS; rank++)
		turn(stage->channels[rank]);
}

static size_t begun(const struct stretto_request *request)
{
	return request->parts[0]->next_window;
}

static size_t complete(const struct stretto_request *request)
{
	return request->parts[0]->plan.windows - request->parts[0]->windows_left;
}

/* Drives until the low one is well under way on both ranks. */
static void drive_low(struct stage *stage)
{
	while (begun(stage->low[0]) < 8 || begun(stage->low[1]) < 8)
		take_turns(stage);
	require(!is_done(stage->low[0]) && !is_done(stage->low[1]));
}

/* Drives until the high one is done, and sees that the low one begins nothing as long as it is not. */
static void drive_high(struct stage *stage)
{
	size_t before[RANKS] = {begun(stage->low[0]), begun(stage->low[1])};

	for (int rank = 0; !is_done(stage->high[0]) || !is_done(stage->high[1]);
	     rank = (rank + 1) % RANKS) {
		if (is_done(stage->high[rank]))
			continue;
		require(begun(stage->low[rank]) == before[rank]);
		turn(stage->channels[rank]);
		if (is_done(stage->high[rank]))
			require(complete(stage->low[rank]) <= before[rank]);
	}
}

static void overtaking_rank(struct stretto_comm *world, void *argument)
{
	enum { LOW = 64 * WINDOW, HIGH = 16 * WINDOW };
	struct stage *stage = argument;
	int rank = stretto_comm_rank(world);
	float *low = ones(world, LOW), *high = ones(world, HIGH);

	set_stage(stage, world);
	stage->low[rank] = start(world, low, LOW, -1);
	meet(stage);
	if (rank == 0)
		drive_low(stage);
	meet(stage);
	stage->high[rank] = start(world, high, HIGH, 0);
	meet(stage);
	if (rank == 0)
		drive_high(stage);
	meet(stage);
	require(!is_done(stage->low[rank]));
	require(stretto_wait(stage->high[rank]) == STRETTO_OK);
	require(stretto_wait(stage->low[rank]) == STRETTO_OK);
	check_sum(world, low, LOW);
	check_sum(world, high, HIGH);
}

static void higher_priority_overtakes_at_the_next_window(void **state)
{
	(void)state;
	on_stage((const char *const[]){QUIET, DEADLINE, SMALL, NULL}, overtaking_rank);
}

/* Rank 1 enters the high one only when the low one is complete, which rank 0 holds back for it. */
static void late_rank(struct stretto_comm *world, void *argument)
{
	enum { LONG = 40 * WINDOW };
	bool late = stretto_comm_rank(world) == 1;

	(void)argument;
	for (int round = 0; round < 10; round++) {
		float *low_data = ones(world, LONG), *high_data = ones(world, LONG);
		struct stretto_request *low = start(world, low_data, LONG, 0), *high;

		if (late)
			require(stretto_wait(low) == STRETTO_OK);
		high = start(world, high_data, LONG, 1);
		require(stretto_wait(high) == STRETTO_OK);
		if (!late)
			require(stretto_wait(low) == STRETTO_OK);
		check_sum(world, low_data, LONG);
		check_sum(world, high_data, LONG);
		require(stretto_free(world, low_data) == STRETTO_OK);
		require(stretto_free(world, high_data) == STRETTO_OK);
	}
}

/* What one rank hurries the other one holds back. */
static void disagreeing_rank(struct stretto_comm *world, void *argument)
{
	enum { LONG = 20 * WINDOW };
	int rank = stretto_comm_rank(world);
	float *a_data = ones(world, LONG), *b_data = ones(world, LONG);
	struct stretto_request *a, *b;

	(void)argument;
	a = start(world, a_data, LONG, rank);
	b = start(world, b_data, LONG, 1 - rank);
	require(stretto_wait(rank == 0 ? a : b) == STRETTO_OK);
	require(stretto_wait(rank == 0 ? b : a) == STRETTO_OK);
	check_sum(world, a_data, LONG);
	check_sum(world, b_data, LONG);
}

static void work_that_stalls_holds_nobody_up(void **state)
{
	static const char *const settings[] = {QUIET, DEADLINE, SMALL, NULL};
	static const char *const asleep[] = {QUIET, DEADLINE, SMALL, "STRETTO_SPIN_SECONDS=0",
					     NULL};

	(void)state;
	run_ranks(2, settings, late_rank, NULL);
	run_ranks(2, asleep, late_rank, NULL);
	run_ranks(2, settings, disagreeing_rank, NULL);
	run_ranks(2, asleep, disagreeing_rank, NULL);
}

/* One communicator has one long operation, another has the same in several. */
enum { SEVERAL = 16, EACH = 4 };

static size_t complete_of_several(struct stage *stage, int rank)
{
	size_t sum = 0;

	for (int i = 0; i < SEVERAL; i++)
		sum += complete(stage->several[rank][i]);
	return sum;
}

static size_t under_way_of_several(struct stage *stage, int rank)
{
	size_t sum = 0;

	for (int i = 0; i < SEVERAL; i++)
		sum += begun(stage->several[rank][i]) - complete(stage->several[rank][i]);
	return sum;
}

static void check_shares(struct stage *stage, int rank)
{
	size_t one = complete(stage->low[rank]), other = complete_of_several(stage, rank);

	require(under_way_of_several(stage, rank) <= WINDOWS);
	require(one + WINDOWS >= other / 2 && other + WINDOWS >= one / 2);
}

static void sharing_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	int rank = stretto_comm_rank(world);
	float *long_data = ones(world, SEVERAL * EACH * WINDOW);
	float *short_data = ones(world, SEVERAL * EACH * WINDOW);
	struct stretto_comm *other;

	require(stretto_comm_split(world, 0, rank, &other) == STRETTO_OK);
	set_stage(stage, world);
	for (int i = 0; i < SEVERAL; i++)
		stage->several[rank][i] =
			start(other, short_data + i * EACH * WINDOW, EACH * WINDOW, 0);
	stage->low[rank] = start(world, long_data, SEVERAL * EACH * WINDOW, 0);
	meet(stage);
	while (rank == 0 && !is_done(stage->low[0])) {
		take_turns(stage);
		check_shares(stage, 0);
		check_shares(stage, 1);
	}
	meet(stage);
	for (int i = 0; i < SEVERAL; i++)
		require(stretto_wait(stage->several[rank][i]) == STRETTO_OK);
	require(stretto_wait(stage->low[rank]) == STRETTO_OK);
	check_sum(world, long_data, SEVERAL * EACH * WINDOW);
	check_sum(world, short_data, SEVERAL * EACH * WINDOW);
	stretto_comm_free(other);
}

static void communicators_get_equal_shares(void **state)
{
	(void)state;
	on_stage((const char *const[]){QUIET, DEADLINE, SMALL, NULL}, sharing_rank);
}

static void pausing_rank(struct stretto_comm *world, void *argument)
{
	struct stage *stage = argument;
	float *data = ones(world, WINDOW);
	struct stretto_request *request;

	require(stretto_progress_resume(world) == STRETTO_INVALID);
	/* paused: it does not go on by itself; a wait drives it */
	require(stretto_progress_pause(world) == STRETTO_OK);
	request = start(world, data, WINDOW, 0);
	meet(stage);
	usleep(20000);
	require(!is_done(request));
	meet(stage);
	require(stretto_wait(request) == STRETTO_OK);
	/* nested: the first of two resumes changes nothing */
	require(stretto_progress_pause(world) == STRETTO_OK);
	request = start(world, data, WINDOW, 0);
	meet(stage);
	require(stretto_progress_resume(world) == STRETTO_OK);
	usleep(20000);
	require(!is_done(request));
	meet(stage);
	require(stretto_progress_resume(world) == STRETTO_OK);
	while (!is_done(request))
		usleep(1000);
	require(stretto_wait(request) == STRETTO_OK);
	require(stretto_progress_resume(world) == STRETTO_INVALID);
	/* one that is in flight already: the thread that sleeps for it parks */
	if (stretto_comm_rank(world) == 0) {
		request = start(world, data, WINDOW, 0);
		require(stretto_progress_pause(world) == STRETTO_OK);
		for (int tries = 0; atomic_load(&channel_of(world)->parked) == 0; tries++) {
			require(tries < 20000);
			usleep(1000);
		}
		require(!is_done(request));
		require(stretto_progress_resume(world) == STRETTO_OK);
	}
	meet(stage);
	if (stretto_comm_rank(world) == 1)
		request = start(world, data, WINDOW, 0);
	require(stretto_wait(request) == STRETTO_OK);
	/* and into the finalize */
	require(stretto_progress_pause(world) == STRETTO_OK);
	require(stretto_progress_pause(world) == STRETTO_OK);
}

static void a_pause_stops_the_progress_thread_only(void **state)
{
	static const char *const quiet[] = {QUIET, DEADLINE, NULL};

	(void)state;
	on_stage(quiet, pausing_rank);
}

/* A peer still needs us after our part is done; a finalize must not leave it behind a pause. */
static void pause_in_flight_rank(struct stretto_comm *world, void *argument)
{
	float *data = ones(world, 64 * WINDOW);
	struct stretto_request *request;

	(void)argument;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 64 * WINDOW; i++)
			data[i] = (float)(stretto_comm_rank(world) + 1);
		require(stretto_barrier(world) == STRETTO_OK);
		request = start(world, data, 64 * WINDOW, 0);
		require(stretto_progress_pause(world) == STRETTO_OK);
		require(stretto_progress_resume(world) == STRETTO_OK);
		while (!is_done(request))
			usleep(100);
		require(stretto_wait(request) == STRETTO_OK);
		check_sum(world, data, 64 * WINDOW);
	}
	require(stretto_progress_pause(world) == STRETTO_OK);
	require(stretto_barrier(world) == STRETTO_OK);
}

static void a_pause_loses_nothing_that_is_in_flight(void **state)
{
	(void)state;
	run_ranks(3, (const char *const[]){QUIET, DEADLINE, SMALL, NULL}, pause_in_flight_rank,
		  NULL);
}

/* Many operations of all sizes, waited for in an order that each rank makes up. */
static void many_rank(struct stretto_comm *world, void *argument)
{
	uint64_t common = *(const uint64_t *)argument;
	uint64_t own = common ^ (uint64_t)(stretto_comm_rank(world) + 1) << 32;
	struct stretto_request *requests[MANY];
	size_t counts[MANY];
	float *data[MANY];

	for (int i = 0; i < MANY; i++) {
		counts[i] = next_random(&common) % (1u << next_random(&common) % 18);
		data[i] = ones(world, counts[i] + 1);
		requests[i] = start(world, data[i], counts[i], (int)(next_random(&common) % 3));
	}
	for (int left = MANY; left > 0;) {
		int i = (int)(next_random(&own) % MANY);

		if (!requests[i])
			continue;
		require(stretto_wait(requests[i]) == STRETTO_OK);
		check_sum(world, data[i], counts[i]);
		require(stretto_free(world, data[i]) == STRETTO_OK);
		requests[i] = NULL;
		left--;
	}
}

static void many_are_in_flight_on_one_communicator(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (int size = 2; size <= 4; size++)
		run_ranks(size, (const char *const[]){QUIET, DEADLINE, SMALL, NULL}, many_rank,
			  &seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(higher_priority_overtakes_at_the_next_window),
		cmocka_unit_test(work_that_stalls_holds_nobody_up),
		cmocka_unit_test(communicators_get_equal_shares),
		cmocka_unit_test(a_pause_stops_the_progress_thread_only),
		cmocka_unit_test(a_pause_loses_nothing_that_is_in_flight),
		cmocka_unit_test(many_are_in_flight_on_one_communicator),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
