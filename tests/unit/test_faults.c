/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_faults.c: what goes wrong in a job ends with the right status on every rank, in bounded
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "collectives/traits.h"
#include "tests/lib/ranks.h"

/* Errors are expected here, and each is written by every rank: keep the output short. */
#define QUIET "STRETTO_LOG=error"

/* A deadline only against hanging for ever; nothing waits that long when the code is right. */
#define LONG_TIME 60.0

/* One way in which one rank calls something else than the others. */
struct mismatch {
	const char *what;
	struct stretto_coll_args right;
	struct stretto_coll_args wrong;
	const char *right_text; /* must be in the message of every rank */
	const char *wrong_text; /* likewise */
	int odd;                /* the rank that differs */
};

static void set_buffers(struct stretto_coll_args *args, float *buffer)
{
	args->in = args->collective == STRETTO_BROADCAST ? NULL : buffer;
	args->out = buffer;
	if (stretto_traits_blocks(args->collective)) {
		args->in = buffer;
		args->out = buffer + 20000;
	}
}

static void mismatch_rank(struct stretto_comm *world, void *argument)
{
	const struct mismatch *mismatch = argument;
	int rank = stretto_comm_rank(world);
	struct stretto_coll_args args = rank == mismatch->odd ? mismatch->wrong : mismatch->right;
	float *buffer = calloc(40000, sizeof *buffer);
	stretto_status status;

	require(buffer);
	set_buffers(&args, buffer);
	status = stretto_coll_run(world, &args);
	/* who is not the root may have had what it needs before; its next call tells */
	if (status == STRETTO_OK && stretto_traits_of(args.collective)->rooted &&
	    rank != args.root && rank != mismatch->odd)
		status = stretto_barrier(world);
	if (status != STRETTO_MISMATCH) {
		fprintf(stderr, "%s, rank %d of %d (odd: %d): %s\n", mismatch->what, rank,
			stretto_comm_size(world), mismatch->odd, stretto_status_name(status));
		require(status == STRETTO_MISMATCH);
	}
	if (!strstr(stretto_comm_error(world), mismatch->right_text) ||
	    !strstr(stretto_comm_error(world), mismatch->wrong_text)) {
		fprintf(stderr, "%s, rank %d: message is \"%s\"\n", mismatch->what, rank,
			stretto_comm_error(world));
		require(strstr(stretto_comm_error(world), "both sides"));
	}
	/* it stays broken, and says so at once */
	require(stretto_comm_status(world) == STRETTO_MISMATCH);
	require(stretto_barrier(world) == STRETTO_MISMATCH);
	free(buffer);
}

#define ARGS(coll, n, t, o, r, algo)                                                               \
	{                                                                                          \
		.collective = STRETTO_##coll, .count = (n), .type = STRETTO_##t,                   \
		.op = STRETTO_##o, .root = (r), .algorithm = (algo)                                \
	}

static void run_mismatch(struct mismatch mismatch, int size)
{
	for (mismatch.odd = 0; mismatch.odd < size; mismatch.odd++)
		run_ranks(size, (const char *const[]){QUIET, "STRETTO_TIMEOUT_SECONDS=60", NULL},
			  mismatch_rank, &mismatch);
}

static void mismatches_are_told_to_all(void **state)
{
	static const struct mismatch mismatches[] = {
		{"count", ARGS(ALLREDUCE, 5, F32, SUM, 0, NULL),
		 ARGS(ALLREDUCE, 6, F32, SUM, 0, NULL), "count 5", "count 6", 0},
		{"count, short and long", ARGS(ALLREDUCE, 20000, F32, SUM, 0, "ring"),
		 ARGS(ALLREDUCE, 1, F32, SUM, 0, "doubling"), "count 20000", "count 1,", 0},
		{"count zero", ARGS(ALLREDUCE, 20000, F32, SUM, 0, "ring"),
		 ARGS(ALLREDUCE, 0, F32, SUM, 0, "ring"), "count 20000", "count 0", 0},
		{"type of the same size", ARGS(ALLREDUCE, 5000, F32, SUM, 0, "tree"),
		 ARGS(ALLREDUCE, 5000, I32, SUM, 0, "tree"), "float", "int32", 0},
		{"op", ARGS(ALLREDUCE, 100, F32, SUM, 0, NULL),
		 ARGS(ALLREDUCE, 100, F32, MAX, 0, NULL), "sum", "max", 0},
		{"root", ARGS(BROADCAST, 100, F32, SUM, 0, "binomial"),
		 ARGS(BROADCAST, 100, F32, SUM, 1, "binomial"), "root 0", "root 1", 0},
		{"root, chain", ARGS(BROADCAST, 10000, F32, SUM, 1, "chain"),
		 ARGS(BROADCAST, 10000, F32, SUM, 0, "chain"), "root 1", "root 0", 0},
		{"root of a reduce", ARGS(REDUCE, 100, F32, SUM, 0, "binomial"),
		 ARGS(REDUCE, 100, F32, SUM, 1, "binomial"), "root 0", "root 1", 0},
		{"count of an alltoall", ARGS(ALLTOALL, 100, F32, SUM, 0, "bruck"),
		 ARGS(ALLTOALL, 101, F32, SUM, 0, "bruck"), "count 100", "count 101", 0},
		{"count of a broadcast", ARGS(BROADCAST, 100, F32, SUM, 0, NULL),
		 ARGS(BROADCAST, 99, F32, SUM, 0, NULL), "count 100", "count 99", 0},
		{"collective", ARGS(ALLREDUCE, 100, F32, SUM, 0, NULL),
		 ARGS(BARRIER, 0, F32, SUM, 0, NULL), "allreduce", "barrier", 0},
		{"collective, ring and tree", ARGS(ALLGATHER, 500, F32, SUM, 0, NULL),
		 ARGS(BROADCAST, 500, F32, SUM, 0, NULL), "allgather", "broadcast", 0},
		{"reduce_scatter", ARGS(REDUCE_SCATTER, 500, F32, SUM, 0, NULL),
		 ARGS(REDUCE_SCATTER, 501, F32, SUM, 0, NULL), "count 500", "count 501", 0},
		{"algorithm", ARGS(ALLREDUCE, 1000, F32, SUM, 0, "ring"),
		 ARGS(ALLREDUCE, 1000, F32, SUM, 0, "doubling"), "by ring", "by doubling", 0},
	};
	static const int sizes[] = {2, 3, 5, 8}; /* the middle ones alone under sanitizers */

	(void)state;
	for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++)
		for (size_t s = TEST_SANITIZED; s < sizeof sizes / sizeof *sizes - TEST_SANITIZED;
		     s++)
			run_mismatch(mismatches[i], sizes[s]);
}

/* One rank comes when the others have given up: all end with the deadline, which names it. */
static void late_rank(struct stretto_comm *world, void *argument)
{
	int late = *(const int *)argument;
	char name[64];
	float x = 1;

	require(stretto_barrier(world) == STRETTO_OK);
	if (stretto_comm_rank(world) == late)
		usleep(700000);
	require(stretto_allreduce(world, &x, &x, 1, STRETTO_F32, STRETTO_SUM) == STRETTO_TIMEOUT);
	snprintf(name, sizeof name, "rank %d has entered only operation 1", late);
	if (stretto_comm_size(world) == 2 && stretto_comm_rank(world) != late)
		require(strstr(stretto_comm_error(world), name));
	require(stretto_barrier(world) == STRETTO_TIMEOUT);
}

static void deadline_names_the_missing_rank(void **state)
{
	(void)state;
	for (int size = 2; size <= 4; size++)
		run_ranks(size, (const char *const[]){QUIET, "STRETTO_TIMEOUT_SECONDS=0.3", NULL},
			  late_rank, &(int){size - 1});
}

static void abort_rank(struct stretto_comm *world, void *argument)
{
	stretto_status status = stretto_barrier(world);
	float x = 1;

	(void)argument;
	/* rank 1 may abort while another rank has yet to leave the barrier */
	require(status == STRETTO_OK ||
		(status == STRETTO_ABORTED && stretto_comm_rank(world) != 1));
	if (stretto_comm_rank(world) == 1) {
		stretto_comm_abort(world);
		require(stretto_barrier(world) == STRETTO_ABORTED);
		return;
	}
	require(stretto_allreduce(world, &x, &x, 1, STRETTO_F32, STRETTO_SUM) == STRETTO_ABORTED);
	require(strstr(stretto_comm_error(world), "rank 1"));
}

static void abort_reaches_the_others(void **state)
{
	(void)state;
	for (int size = 2; size <= 5; size++)
		run_ranks(size, (const char *const[]){QUIET, NULL}, abort_rank, NULL);
}

/* A rank is killed by SIGKILL at some moment; the survivors all see STRETTO_PEER_FAILED. */
struct killing {
	int victim;
	int after;       /* operations */
	size_t count;    /* elements of each */
	bool background; /* the survivors only test */
};

static stretto_status one_operation(struct stretto_comm *world, float *x, size_t count,
				    bool background)
{
	struct stretto_request *request;
	bool done = false;
	stretto_status status;

	if (!background)
		return stretto_allreduce(world, x, x, count, STRETTO_F32, STRETTO_MAX);
	status = stretto_iallreduce(world, x, x, count, STRETTO_F32, STRETTO_MAX, &request);
	if (status != STRETTO_OK)
		return status;
	while (!done) {
		usleep(200);
		stretto_test(request, &done);
	}
	return stretto_wait(request);
}

static void killed_rank(struct stretto_comm *world, void *argument)
{
	const struct killing *killing = argument;
	stretto_status status = STRETTO_OK;
	float *x;

	require(stretto_alloc(world, (killing->count + 1) * sizeof *x, (void **)&x) == STRETTO_OK);
	for (int i = 0; status == STRETTO_OK; i++) {
		if (stretto_comm_rank(world) == killing->victim && i == killing->after)
			raise(SIGKILL);
		status = one_operation(world, x, killing->count, killing->background);
	}
	require(status == STRETTO_PEER_FAILED);
	require(stretto_comm_error(world)[0] != '\0');
}

static int entries(const char *path)
{
	DIR *folder = opendir(path);
	int count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

static void killed_rank_fails_the_others_and_leaves_nothing(void **state)
{
	static const struct killing killings[] = {
		{1, 0, 10, false},      /* before it connected to anyone */
		{0, 1, 10, false},      /* */
		{1, 3, 1000000, false}, /* among large transfers */
		{0, 20, 30000, true},   /* progress threads alone */
		{2, 2, 0, true},        /* messages without payload */
	};
	int shm = entries("/dev/shm");

	(void)state;
	for (size_t i = 0; i < sizeof killings / sizeof *killings; i++) {
		struct killing killing = killings[i];

		for (int size = 3; size <= 7; size += 2) {
			int failed = run_processes(size, (const char *const[]){QUIET, NULL},
						   killed_rank, &killing, LONG_TIME);

			/* the victim only */
			assert_int_equal(failed, 1);
		}
	}
	assert_int_equal(entries("/dev/shm"), shm);
}

/* A rank that breaks its communicator can still finalize, and so can the others. */
static void split_fault_rank(struct stretto_comm *world, void *argument)
{
	struct stretto_comm *part;
	int32_t x = 1;

	(void)argument;
	require(stretto_comm_split(world, 0, 0, &part) == STRETTO_OK);
	if (stretto_comm_rank(world) == 0)
		stretto_comm_abort(part);
	require(stretto_allreduce(part, &x, &x, 1, STRETTO_I32, STRETTO_SUM) == STRETTO_ABORTED);
	/* the world is not touched by that */
	require(stretto_allreduce(world, &x, &x, 1, STRETTO_I32, STRETTO_MAX) == STRETTO_OK);
	stretto_comm_free(part);
	require(stretto_barrier(world) == STRETTO_OK);
}

static void faults_stay_in_their_communicator(void **state)
{
	(void)state;
	for (int size = 2; size <= 4; size++)
		run_ranks(size, (const char *const[]){QUIET, NULL}, split_fault_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mismatches_are_told_to_all),
		cmocka_unit_test(deadline_names_the_missing_rank),
		cmocka_unit_test(abort_reaches_the_others),
		cmocka_unit_test(faults_stay_in_their_communicator),
		cmocka_unit_test(killed_rank_fails_the_others_and_leaves_nothing),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
