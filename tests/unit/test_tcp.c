/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp rendezvous as ranks see it: forked processes that meet over loopback, with strangers at
 * the door, ranks that never come, and ranks that die. Each rank's log is read back by the parent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/bootstrap/tcp_wire.h"
#include "tests/lib/tcp_job.h"

#define OTHER_TOKEN "00112233445566778899aabbccddeefe"

/* Bodies of ranks: 0 if what they saw was right. */

static unsigned char byte_of(int rank, size_t index, int round)
{
	return (unsigned char)((size_t)rank * 131 + index * 7 + (size_t)round * 29);
}

static int gather_once(struct stretto_bootstrap *bootstrap, size_t bytes, int round)
{
	unsigned char *mine = malloc(bytes + 1);
	unsigned char *all = malloc((size_t)bootstrap->size * bytes + 1);
	int wrong = 0;

	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(bootstrap->rank, i, round);
	all[(size_t)bootstrap->size * bytes] = 0xa5;
	if (bootstrap->ops->allgather(bootstrap, mine, bytes, all) != STRETTO_OK)
		wrong = 50;
	for (int rank = 0; !wrong && rank < bootstrap->size; rank++)
		for (size_t i = 0; i < bytes; i++)
			if (all[(size_t)rank * bytes + i] != byte_of(rank, i, round))
				wrong = 51;
	if (all[(size_t)bootstrap->size * bytes] != 0xa5)
		wrong = 52;
	free(mine);
	free(all);
	return wrong;
}

static int gather_sizes(struct stretto_bootstrap *bootstrap)
{
	static const size_t sizes[] = {1, 3, 8, 127, 4096, 65535, STRETTO_BOOTSTRAP_BLOB_MAX};
	int wrong = 0;

	for (size_t i = 0; !wrong && i < sizeof sizes / sizeof *sizes; i++)
		wrong = gather_once(bootstrap, sizes[i], (int)i);
	if (!wrong && stretto_bootstrap_barrier(bootstrap) != STRETTO_OK)
		wrong = 53;
	for (int round = 0; !wrong && round < 50; round++)
		wrong = gather_once(bootstrap, 17, round);
	return wrong;
}

static int gather_small(struct stretto_bootstrap *bootstrap)
{
	return gather_once(bootstrap, 5, 1);
}

static int gather_too_much(struct stretto_bootstrap *bootstrap)
{
	static char all[4 * (STRETTO_BOOTSTRAP_BLOB_MAX + 1)];
	static char mine[STRETTO_BOOTSTRAP_BLOB_MAX + 1];
	stretto_status status = bootstrap->ops->allgather(bootstrap, mine, sizeof mine, all);

	/* refused before anything was sent: the ranks can go on */
	return status == STRETTO_INVALID ? gather_small(bootstrap) : 60;
}

static int late_barrier(struct stretto_bootstrap *bootstrap)
{
	double begin = job_now();

	if (bootstrap->rank == 1)
		job_nap(0.3);
	if (stretto_bootstrap_barrier(bootstrap) != STRETTO_OK)
		return 61;
	return bootstrap->rank == 1 || job_now() - begin > 0.2 ? 0 : 62;
}

/* Rank 2 dies after half a message; the others are in the allgather. */
static int die_amid(struct stretto_bootstrap *bootstrap)
{
	int wrong = gather_small(bootstrap);

	if (wrong)
		return wrong;
	if (bootstrap->rank == 2)
		raise(SIGKILL);
	return gather_once(bootstrap, 40000, 2);
}

static int vanish_silently(struct stretto_bootstrap *bootstrap)
{
	if (bootstrap->rank == 1)
		job_nap(3);
	return bootstrap->rank == 1 ? 0 : gather_small(bootstrap);
}

static int come_late(struct stretto_bootstrap *bootstrap)
{
	if (bootstrap->rank == 2)
		job_nap(2);
	return gather_small(bootstrap);
}

static int unequal_bytes(struct stretto_bootstrap *bootstrap)
{
	return gather_once(bootstrap, bootstrap->rank == 2 ? 8 : 9, 0);
}

/* Tests. */

static void gathers_the_blobs_of_all_ranks(void **state)
{
	(void)state;
	for (int size = 1; size <= JOB_RANKS; size++)
		job_run(size, gather_sizes);
}

static void barrier_waits_for_the_last(void **state)
{
	(void)state;
	job_run(3, late_barrier);
}

static void blob_over_the_limit_is_refused(void **state)
{
	(void)state;
	job_run(3, gather_too_much);
}

static void root_listens_at_its_address(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 3, gather_small);
	close(job.listener); /* rank 0 opens the same port by itself, after the others knock */
	job.listener = -1;
	job_start(&job, 1);
	job_start(&job, 2);
	job_nap(0.2);
	job_start(&job, 0);
	job_finish_well(&job);
}

static void missing_ranks_are_named_to_all(void **state)
{
	struct job job;
	double begin = job_now();

	(void)state;
	job_init(&job, 8, gather_small);
	job.seconds = 1;
	job_start(&job, 0);
	job_start(&job, 1);
	job_start(&job, 4);
	for (int i = 0; i < 3; i++) {
		static const int present[] = {0, 1, 4};

		assert_int_equal(job_finish(&job, present[i]), STRETTO_BOOTSTRAP);
		job_assert_says(&job, "ranks 2-3,5-7 of 8 did not join within 1 s");
	}
	assert_true(job_now() - begin < 4);
	close(job.listener);
}

static void absent_root_is_an_error_in_time(void **state)
{
	struct job job;
	double begin = job_now();

	(void)state;
	job_init(&job, 2, gather_small);
	job.seconds = 0.5;
	job_start(&job, 1); /* the port is open, nobody serves it */
	assert_int_equal(job_finish(&job, 1), STRETTO_BOOTSTRAP);
	job_assert_says(&job, "did not answer within 0.5 s");
	close(job.listener);
	job_start(&job, 1); /* now the port is closed */
	assert_int_equal(job_finish(&job, 1), STRETTO_BOOTSTRAP);
	job_assert_says(&job, "could not be joined within 0.5 s (Connection refused)");
	assert_true(job_now() - begin < 4);
}

static void wrong_token_is_refused_and_harms_nobody(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 2, gather_small);
	job_start(&job, 0);
	job.token = OTHER_TOKEN;
	job_start_as(&job, 7, 1);
	assert_int_equal(job_finish(&job, 7), STRETTO_BOOTSTRAP);
	job_assert_says(&job, "refused rank 1: wrong token (STRETTO_TOKEN must be the same");
	job.token = JOB_TOKEN;
	job_start(&job, 1);
	assert_int_equal(job_finish(&job, 0), 0);
	job_assert_says(&job, "refused a connection from 127.0.0.1 port ");
	assert_int_equal(job_finish(&job, 1), 0);
	close(job.listener);
}

static void second_of_a_rank_is_refused(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 3, gather_small);
	job_start(&job, 0);
	job_start(&job, 1);
	job_nap(0.3);
	job_start_as(&job, 7, 1);
	assert_int_equal(job_finish(&job, 7), STRETTO_BOOTSTRAP);
	job_assert_says(&job, "this rank has joined already");
	job_start(&job, 2);
	job_finish_well(&job);
}

static void wrong_size_and_rank_are_refused(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 2, gather_small);
	job_start(&job, 0);
	job.size = 4;
	job_start_as(&job, 7, 3);
	assert_int_equal(job_finish(&job, 7), STRETTO_BOOTSTRAP);
	job_assert_says(&job, "wrong size (STRETTO_SIZE must be the same on all ranks): rank 0 has "
			      "size 2, rank 3 size 4");
	job.size = 2;
	job_start(&job, 1);
	job_finish_well(&job);
}

/* More silent connections than rank 0 keeps, senseless ones, half a hello, one byte at a time. */
static void strangers_do_not_stop_the_ranks(void **state)
{
	static const char garbage[] = "GET / HTTP/1.1\r\nHost: stretto.example.org\r\n\r\n";
	unsigned char token[STRETTO_TCP_TOKEN];
	unsigned char hello[STRETTO_TCP_HELLO];
	struct job job;
	int fds[100];
	double begin = job_now();

	(void)state;
	assert_true(stretto_tcp_parse_token(JOB_TOKEN, token));
	stretto_tcp_make_hello(hello, token, 1, 3);
	job_init(&job, 3, gather_sizes);
	for (int i = 0; i < 20; i++)
		fds[i] = job_connect(&job); /* before rank 0 is there */
	job_start(&job, 0);
	for (int i = 20; i < 100; i++) {
		fds[i] = job_connect(&job);
		if (i % 3 == 1)
			send(fds[i], garbage, sizeof garbage, MSG_NOSIGNAL);
		if (i % 3 == 2) /* the right token, but never its end */
			send(fds[i], hello, STRETTO_TCP_HELLO - 1, MSG_NOSIGNAL);
	}
	job_start(&job, 1);
	job_nap(0.3);
	for (int i = 0; i < 10; i++) {
		send(fds[99], &garbage[i], 1, MSG_NOSIGNAL);
		job_nap(0.01);
	}
	job_start(&job, 2);
	job_finish_well(&job);
	assert_true(job_now() - begin < 3);
	for (int i = 0; i < 100; i++)
		close(fds[i]);
}

static void silent_connections_are_closed(void **state)
{
	struct job job;
	char byte;
	int fd;
	double begin;

	(void)state;
	job_init(&job, 2, gather_small);
	job_start(&job, 0);
	fd = job_connect(&job);
	begin = job_now();
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	assert_true(job_now() - begin > 1 && job_now() - begin < 6);
	close(fd);
	job_start(&job, 1);
	assert_int_equal(job_finish(&job, 0), 0);
	job_assert_says(&job, "it did not say hello in time");
	assert_int_equal(job_finish(&job, 1), 0);
	close(job.listener);
}

static void strangers_do_not_fill_the_log(void **state)
{
	struct job job;
	size_t lines = 0;

	(void)state;
	job_init(&job, 2, gather_small);
	job_start(&job, 0);
	for (int i = 0; i < 40; i++) {
		int fd = job_connect(&job);

		send(fd, "hello, is this the rendezvous? no? sorry", 40, MSG_NOSIGNAL);
		close(fd);
	}
	job_start(&job, 1);
	assert_int_equal(job_finish(&job, 0), 0);
	for (const char *at = job.text; (at = strstr(at, "refused a connection")); at++)
		lines++;
	assert_true(lines >= 1 && lines <= 8);
	assert_int_equal(job_finish(&job, 1), 0);
	close(job.listener);
}

static void death_amid_an_allgather_is_named(void **state)
{
	struct job job;
	double begin = job_now();

	(void)state;
	job_init(&job, 4, die_amid);
	for (int rank = 0; rank < 4; rank++)
		job_start(&job, rank);
	for (int rank = 0; rank < 4; rank++) {
		int result = job_finish(&job, rank);

		if (rank == 2) {
			assert_int_equal(result, 128 + SIGKILL);
			continue;
		}
		assert_int_equal(result, 50);
		job_assert_says(&job, "rank 2 closed its connection during allgather 2");
	}
	assert_true(job_now() - begin < 5);
	close(job.listener);
}

static void death_before_all_are_there_is_named(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 4, gather_small);
	job_start(&job, 0);
	job_start(&job, 1);
	job_start(&job, 2);
	job_nap(0.3);
	kill(job.pids[2], SIGKILL);
	assert_int_equal(job_finish(&job, 2), 128 + SIGKILL);
	for (int rank = 0; rank < 2; rank++) {
		assert_int_equal(job_finish(&job, rank), STRETTO_BOOTSTRAP);
		job_assert_says(&job, "rank 2 went away before all 4 ranks were there");
	}
	close(job.listener);
}

/* Rank 2 comes late; rank 1 is killed while it waits for it. */
static void death_while_others_are_awaited_is_named(void **state)
{
	struct job job;
	double begin;

	(void)state;
	job_init(&job, 3, come_late);
	for (int rank = 0; rank < 3; rank++)
		job_start(&job, rank);
	job_nap(0.5);
	begin = job_now();
	kill(job.pids[1], SIGKILL);
	assert_int_equal(job_finish(&job, 1), 128 + SIGKILL);
	assert_int_equal(job_finish(&job, 0), 50);
	job_assert_says(&job, "rank 1 closed its connection during allgather 1");
	assert_true(job_now() - begin < 1);
	assert_int_equal(job_finish(&job, 2), 50);
	job_assert_says(&job, "rank 0 ended the job: rank 1 closed its connection");
	close(job.listener);
}

static void rank_that_does_not_take_part_is_named(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 3, vanish_silently);
	job.seconds = 1;
	for (int rank = 0; rank < 3; rank++)
		job_start(&job, rank);
	for (int rank = 0; rank < 3; rank += 2) {
		assert_int_equal(job_finish(&job, rank), 50);
		job_assert_says(&job, "rank 1 did not take part in allgather 1 within 1 s");
	}
	assert_int_equal(job_finish(&job, 1), 0);
	close(job.listener);
}

static void unequal_blobs_are_an_error(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 3, unequal_bytes);
	for (int rank = 0; rank < 3; rank++)
		job_start(&job, rank);
	for (int rank = 0; rank < 3; rank++) {
		assert_int_equal(job_finish(&job, rank), 50);
		job_assert_says(&job, "rank 2 sent 8 bytes for allgather 1, where 9 bytes");
	}
	close(job.listener);
}

static void process_may_meet_twice(void **state)
{
	struct job job;

	(void)state;
	for (int inherited = 1; inherited >= 0; inherited--) {
		job_init(&job, 3, gather_small);
		job.meetings = 2;
		if (!inherited) {
			close(job.listener);
			job.listener = -1;
		}
		for (int rank = 0; rank < 3; rank++)
			job_start(&job, rank);
		job_finish_well(&job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gathers_the_blobs_of_all_ranks),
		cmocka_unit_test(barrier_waits_for_the_last),
		cmocka_unit_test(blob_over_the_limit_is_refused),
		cmocka_unit_test(root_listens_at_its_address),
		cmocka_unit_test(process_may_meet_twice),
		cmocka_unit_test(missing_ranks_are_named_to_all),
		cmocka_unit_test(absent_root_is_an_error_in_time),
		cmocka_unit_test(wrong_token_is_refused_and_harms_nobody),
		cmocka_unit_test(second_of_a_rank_is_refused),
		cmocka_unit_test(wrong_size_and_rank_are_refused),
		cmocka_unit_test(strangers_do_not_stop_the_ranks),
		cmocka_unit_test(silent_connections_are_closed),
		cmocka_unit_test(strangers_do_not_fill_the_log),
		cmocka_unit_test(death_amid_an_allgather_is_named),
		cmocka_unit_test(death_before_all_are_there_is_named),
		cmocka_unit_test(death_while_others_are_awaited_is_named),
		cmocka_unit_test(rank_that_does_not_take_part_is_named),
		cmocka_unit_test(unequal_blobs_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
