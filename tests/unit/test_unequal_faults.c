/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_unequal_faults.c: allgatherv, alltoallv and reduce_scatterv that go wrong. Bad arguments are
 * refused with one line, and ranks that disagree on lengths end with an error, all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "tests/lib/ranks.h"

/* Errors are expected of ranks that disagree; a deadline only against hanging for ever. */
#define QUIET ((const char *const[]){"STRETTO_LOG=error", "STRETTO_TIMEOUT_SECONDS=60", NULL})

/* What no block holds: memory outside of the blocks must keep it. */
static const uint32_t gap = 0xdeadbeef;

/* --- Bad arguments --- */

/* What is wrong with a call, and what the line about it must say. */
struct bad_call {
	const char *text;
	struct stretto_coll_args args;
};

static uint32_t words[16];
static const size_t two[] = {2, 2}, one_two[] = {1, 2}, none[] = {0, 0};
static const size_t huge[] = {1, SIZE_MAX / 8}, whole[] = {SIZE_MAX / 16 - 8, SIZE_MAX / 16 - 8};
static const size_t far[] = {0, SIZE_MAX - 1}, wrapping[] = {SIZE_MAX, SIZE_MAX};
static const size_t touching[] = {0, 1}, turned[] = {1, 0}, apart[] = {0, 5};

#define IN_COUNTS(counts, displs)  .in_counts = (counts), .in_displs = (displs)
#define OUT_COUNTS(counts, displs) .out_counts = (counts), .out_displs = (displs)
#define CALL(coll, from, to, ...)                                                                  \
	{                                                                                          \
		.collective = STRETTO_##coll, .type = STRETTO_U32, .in = (from), .out = (to),      \
		__VA_ARGS__                                                                        \
	}

static const struct bad_call bad_calls[] = {
	{"allgatherv: out_counts is NULL", CALL(ALLGATHERV, words, words, OUT_COUNTS(NULL, two))},
	{"alltoallv: in_counts is NULL", CALL(ALLTOALLV, words, words + 8, OUT_COUNTS(two, NULL))},
	{"alltoallv: out_counts is NULL", CALL(ALLTOALLV, words, words + 8, IN_COUNTS(two, NULL))},
	{"allgatherv: out: the block of rank 1",
	 CALL(ALLGATHERV, words, words, OUT_COUNTS(huge, NULL))},
	{"allgatherv: out: the block of rank 1",
	 CALL(ALLGATHERV, words, words, OUT_COUNTS(whole, NULL))},
	{"is larger than any memory", CALL(ALLGATHERV, words, words, OUT_COUNTS(whole, none))},
	{"is larger than any memory", CALL(ALLGATHERV, words, words, OUT_COUNTS(wrapping, NULL))},
	{"alltoallv: out: the block of rank 1, 2 elements from",
	 CALL(ALLTOALLV, words, words + 8, IN_COUNTS(two, NULL), OUT_COUNTS(two, far))},
	{"alltoallv: in: the block of rank 1, 2 elements from",
	 CALL(ALLTOALLV, words, words + 8, IN_COUNTS(two, far), OUT_COUNTS(two, NULL))},
	{"reduce_scatterv: in: the block of rank 1, 2 elements from",
	 CALL(REDUCE_SCATTERV, words, words + 8, IN_COUNTS(two, far))},
	{"allgatherv: out_displs: the blocks of ranks 0 and 1 overlap at element 1",
	 CALL(ALLGATHERV, words + 8, words, OUT_COUNTS(two, touching))},
	{"alltoallv: out_displs: the blocks of ranks 1 and 0 overlap at element 1",
	 CALL(ALLTOALLV, words, words + 8, IN_COUNTS(two, NULL), OUT_COUNTS(two, turned))},
	{"reduce_scatterv: in_displs: the blocks of ranks 0 and 1 overlap at element 1",
	 CALL(REDUCE_SCATTERV, words, words, IN_COUNTS(two, touching))},
	{"alltoallv: in place, but the blocks of rank 0 differ: in has 2 elements from 0 on, out "
	 "has 1 "
	 "from 0 on",
	 CALL(ALLTOALLV, words, words, IN_COUNTS(two, NULL), OUT_COUNTS(one_two, NULL))},
	{"alltoallv: in place, but the blocks of rank 1 differ: in has 2 elements from 2 on, out "
	 "has 2 "
	 "from 5 on",
	 CALL(ALLTOALLV, words, words, IN_COUNTS(two, NULL), OUT_COUNTS(two, apart))},
	{"allgatherv: in is NULL", CALL(ALLGATHERV, NULL, words, OUT_COUNTS(two, NULL))},
	{"allgatherv: out is NULL", CALL(ALLGATHERV, words, NULL, OUT_COUNTS(two, NULL))},
	{"alltoallv: in is NULL",
	 CALL(ALLTOALLV, NULL, words, IN_COUNTS(two, NULL), OUT_COUNTS(two, NULL))},
	{"alltoallv: out is NULL",
	 CALL(ALLTOALLV, words, NULL, IN_COUNTS(two, NULL), OUT_COUNTS(two, NULL))},
	{"reduce_scatterv: in is NULL", CALL(REDUCE_SCATTERV, NULL, words, IN_COUNTS(two, NULL))},
	{"reduce_scatterv: out is NULL", CALL(REDUCE_SCATTERV, words, NULL, IN_COUNTS(two, NULL))},
};

/* What is written to stderr goes to a file from here on. Returns the stderr there was. */
static int catch_lines(FILE *file)
{
	int before = dup(2);

	require(before >= 0 && dup2(fileno(file), 2) == 2);
	return before;
}

/* Puts stderr back; fails unless `file` has one line, which says `text`. Ends both. */
static void expect_line(FILE *file, int before, const char *text)
{
	char lines[1024];
	size_t length;

	require(dup2(before, 2) == 2);
	require(close(before) == 0);
	rewind(file);
	length = fread(lines, 1, sizeof lines - 1, file);
	lines[length] = '\0';
	fclose(file);
	if (strstr(lines, text) && strchr(lines, '\n') == lines + length - 1)
		return;
	fprintf(stderr, "not one line with \"%s\": \"%s\"\n", text, lines);
	test_failed("a line that says what is wrong");
}

/* Rank 0 alone: all is refused before anything is sent, however it is called. */
static void refuse_all(struct stretto_comm *world)
{
	struct stretto_request *request = NULL;

	for (size_t i = 0; i < sizeof bad_calls / sizeof *bad_calls; i++)
		for (int way = 0; way < 3; way++) {
			const struct stretto_coll_args *args = &bad_calls[i].args;
			FILE *file = tmpfile();
			stretto_status status;

			require(file);
			int before = catch_lines(file);

			status = way == 0   ? stretto_coll_run(world, args)
				 : way == 1 ? stretto_coll_start(world, args, &request)
					    : stretto_coll_init(world, args, &request);
			expect_line(file, before, bad_calls[i].text);
			require(status == STRETTO_INVALID && !request);
		}
}

/* The named calls mean blocks of their own lengths: they do not go without counts. */
static void refuse_none(struct stretto_comm *world)
{
	FILE *file = tmpfile();

	require(file);
	int before = catch_lines(file);
	stretto_status status = stretto_allgatherv(world, words, words, NULL, NULL, STRETTO_U32);

	expect_line(file, before, "allgatherv: counts is NULL");
	require(status == STRETTO_INVALID);
}

static void bad_rank(struct stretto_comm *world, void *argument)
{
	(void)argument;
	if (stretto_comm_rank(world) == 0) {
		refuse_all(world);
		refuse_none(world);
	}
	/* none of it hurt the communicator; and nothing needs no buffer */
	require(stretto_allgatherv(world, NULL, NULL, none, NULL, STRETTO_U32) == STRETTO_OK);
	require(stretto_alltoallv(world, NULL, none, NULL, NULL, none, NULL, STRETTO_U32) ==
		STRETTO_OK);
	require(stretto_reduce_scatterv(world, NULL, NULL, none, STRETTO_U32, STRETTO_SUM) ==
		STRETTO_OK);
}

static void bad_arguments_are_refused_with_one_line(void **state)
{
	(void)state;
	run_ranks(2, (const char *const[]){"STRETTO_LOG=error", NULL}, bad_rank, NULL);
}

/* --- Ranks that disagree --- */

enum { DISAGREED = 20000 }; /* elements of a buffer: five ranks, and a block beyond what is eager */

/* What the ranks say of their blocks, but one, and that one. */
struct disagreement {
	const char *what;
	enum stretto_collective collective;
	size_t right;    /* elements of each block */
	size_t wrong[2]; /* of the first and the last block, says the odd one */
	int odd;
};

/* Checks the message of a rank, and that the communicator stays broken. */
static void expect_mismatch(struct stretto_comm *comm, const struct disagreement *disagreement,
			    const char *text)
{
	if (!strstr(stretto_comm_error(comm), text)) {
		fprintf(stderr, "%s, odd %d, rank %d of %d: message is \"%s\"\n",
			disagreement->what, disagreement->odd, stretto_comm_rank(comm),
			stretto_comm_size(comm), stretto_comm_error(comm));
		test_failed("a message that says what differs");
	}
	require(stretto_comm_status(comm) == STRETTO_MISMATCH);
	require(stretto_barrier(comm) == STRETTO_MISMATCH);
}

/* Where all must give the same: every rank's call fails and says both sums. */
static void disagree(struct stretto_comm *comm, const struct disagreement *disagreement)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	bool is_odd = rank == disagreement->odd;
	uint32_t *in = calloc(DISAGREED, 4), *out = calloc(DISAGREED, 4);
	size_t counts[8], right = disagreement->right;
	char text[64];
	stretto_status status;

	require(in && out);
	for (int r = 0; r < size; r++)
		counts[r] = right;
	counts[0] = is_odd ? disagreement->wrong[0] : right;
	counts[size - 1] = is_odd ? disagreement->wrong[1] : right;
	status = disagreement->collective == STRETTO_ALLGATHERV
			 ? stretto_allgatherv(comm, in, out, counts, NULL, STRETTO_U32)
			 : stretto_reduce_scatterv(comm, in, out, counts, STRETTO_U32, STRETTO_SUM);
	require(status == STRETTO_MISMATCH);
	snprintf(text, sizeof text, "counts of %zu in all", (size_t)size * right);
	expect_mismatch(comm, disagreement, text);
	snprintf(text, sizeof text, "counts of %zu in all",
		 (size_t)size * right - 2 * right + disagreement->wrong[0] +
			 disagreement->wrong[1]);
	expect_mismatch(comm, disagreement, text);
	free(in);
	free(out);
}

/* Each on a communicator of its own, which it breaks. */
static void with_each(struct stretto_comm *world, const struct disagreement *all, size_t n,
		      void (*run)(struct stretto_comm *, const struct disagreement *))
{
	for (size_t i = 0; i < n; i++) {
		struct disagreement one = all[i];
		struct stretto_comm *comm;

		one.odd = (int)(i + i / 2) % stretto_comm_size(world);
		require(stretto_comm_split(world, 0, 0, &comm) == STRETTO_OK);
		require(stretto_barrier(world) == STRETTO_OK); /* all have made it */
		run(comm, &one);
		require(stretto_barrier(world) == STRETTO_OK); /* all have heard of the end */
		stretto_comm_free(comm);
	}
}

static void agreed_rank(struct stretto_comm *world, void *argument)
{
	static const struct disagreement all[] = {
		{"one more", STRETTO_ALLGATHERV, 5, {6, 5}, 0},
		{"nothing", STRETTO_ALLGATHERV, 3000, {0, 0}, 0},
		{"as many, elsewhere", STRETTO_ALLGATHERV, 5, {6, 4}, 0},
		{"one less", STRETTO_REDUCE_SCATTERV, 3000, {3000, 2999}, 0},
		{"as many, elsewhere", STRETTO_REDUCE_SCATTERV, 5, {4, 6}, 0},
		{"one less, at the end", STRETTO_ALLGATHERV, 3000, {3000, 2999}, 0},
		{"more than all", STRETTO_REDUCE_SCATTERV, 0, {3000, 3000}, 0},
	};

	(void)argument;
	with_each(world, all, sizeof all / sizeof *all, disagree);
}

static void counts_that_differ_are_told_to_all(void **state)
{
	(void)state;
	for (int size = 2; size <= 5; size++)
		run_ranks(size, QUIET, agreed_rank, NULL);
}

/* The odd rank says that rank 1 behind it gets another length than that rank says. */
static void disagree_in_exchange(struct stretto_comm *comm, const struct disagreement *disagreement)
{
	int rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);
	int odd = disagreement->odd, getter = (odd + 1) % size;
	uint32_t *in = calloc(DISAGREED, 4), *out = calloc(DISAGREED + 1, 4);
	size_t in_counts[8], out_counts[8], displs[8];
	char text[64];
	stretto_status status;

	require(in && out);
	for (int r = 0; r < size; r++) {
		in_counts[r] = out_counts[r] = disagreement->right;
		displs[r] = (size_t)r * (DISAGREED / 5);
	}
	if (rank == odd)
		in_counts[getter] = disagreement->wrong[0];
	for (size_t i = 0; i < DISAGREED; i++) {
		in[i] = (uint32_t)rank;
		out[i] = gap;
	}
	status = stretto_alltoallv(comm, in, in_counts, displs, out, out_counts, displs,
				   STRETTO_U32);
	/* who had all before it heard of it has the right data */
	if (status == STRETTO_OK) {
		require(rank != getter);
		for (size_t i = 0; i < DISAGREED / 5 * (size_t)size; i++)
			require(i % (DISAGREED / 5) >= disagreement->right ||
				out[i] == i / (DISAGREED / 5));
		status = stretto_barrier(comm);
	}
	require(status == STRETTO_MISMATCH);
	/* nothing is written outside of the blocks, whatever was sent */
	for (size_t i = 0; i < DISAGREED; i++)
		require(i % (DISAGREED / 5) < disagreement->right || out[i] == gap);
	snprintf(text, sizeof text, "alltoallv");
	if (rank == getter)
		snprintf(text, sizeof text, "what rank %d has for rank %d is not as long", odd,
			 getter);
	expect_mismatch(comm, disagreement, text);
	free(in);
	free(out);
}

static void exchange_rank(struct stretto_comm *world, void *argument)
{
	static const struct disagreement all[] = {
		{"5 for 7", STRETTO_ALLTOALLV, 7, {5}, 0},
		{"7 for 5", STRETTO_ALLTOALLV, 5, {7}, 0},
		{"nothing for 5", STRETTO_ALLTOALLV, 5, {0}, 0},
		{"5 for nothing", STRETTO_ALLTOALLV, 0, {5}, 0},
		{"long for short", STRETTO_ALLTOALLV, 5, {4000}, 0},
		{"short for long", STRETTO_ALLTOALLV, 3900, {5}, 0},
		{"longer for long", STRETTO_ALLTOALLV, 3900, {3999}, 0},
	};

	(void)argument;
	with_each(world, all, sizeof all / sizeof *all, disagree_in_exchange);
}

static void an_exchange_that_disagrees_ends_on_all_ranks(void **state)
{
	(void)state;
	for (int size = 2; size <= 5; size++)
		run_ranks(size, QUIET, exchange_rank, NULL);
}

/* Equal blocks by counts and without are two calls, even where the lengths are the same. */
static void mixed_rank(struct stretto_comm *world, void *argument)
{
	const struct disagreement *disagreement = argument;
	uint32_t in[4] = {0}, out[4];
	struct stretto_coll_args args = CALL(ALLTOALLV, in, out, .count = 2);

	if (stretto_comm_rank(world) == disagreement->odd)
		args = (struct stretto_coll_args)CALL(ALLTOALLV, in, out, IN_COUNTS(two, NULL),
						      OUT_COUNTS(two, NULL));
	require(stretto_coll_run(world, &args) == STRETTO_MISMATCH);
	expect_mismatch(world, disagreement, "counts by rank");
	expect_mismatch(world, disagreement, "count 2");
}

static void all_ranks_give_counts_or_none(void **state)
{
	struct disagreement mixed = {.what = "mixed"};

	(void)state;
	for (mixed.odd = 0; mixed.odd < 2; mixed.odd++)
		run_ranks(2, QUIET, mixed_rank, &mixed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_arguments_are_refused_with_one_line),
		cmocka_unit_test(counts_that_differ_are_told_to_all),
		cmocka_unit_test(an_exchange_that_disagrees_ends_on_all_ranks),
		cmocka_unit_test(all_ranks_give_counts_or_none),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
