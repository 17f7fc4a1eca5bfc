/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_unequal.c: allgatherv, alltoallv and reduce_scatterv as they run. Data arrives over the
 * transports in its place and nowhere else; requests and schedules are found by their counts.
 * test_unequal_faults.c has what goes wrong.
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
#include "collectives/traits.h"
#include "tests/lib/lengths.h"
#include "tests/lib/ranks.h"
#include "tests/lib/values.h"

/* What no block holds: memory outside of the blocks must keep it. */
static const uint32_t gap = 0xdeadbeef;

/* One operation. */
struct trial {
	enum stretto_collective collective;
	const char *algorithm; /* NULL: the library's choice */
	enum lengths lengths;
	enum stretto_op op;
	int in_place; /* ranks in place: 0 none, 1 all, 2 some */
	bool packed;  /* no displacements are given */
	bool registered;
	bool scaled;
	unsigned round;
	int rank, size;
};

/* Its memory on one rank, the caller's arguments, and what the memory must hold in the end. */
struct job {
	struct trial trial;
	struct arrays in, out; /* a buffer without blocks has one, this rank's, at its beginning */
	struct guarded in_memory, out_memory;
	uint32_t *in_data, *out_data; /* as passed */
	uint32_t *in_want, *out_want; /* of the memories */
	uint32_t scale;
	struct stretto_request *request;
};

/* Element i of what `from` has for `to`, or for all. */
static uint32_t value_of(const struct trial *trial, int from, int to, size_t i)
{
	bool to_all = trial->collective == STRETTO_ALLGATHERV;

	return (uint32_t)(from + 1) * 1000003u + (to_all ? 0u : (uint32_t)(to + 1) * 70001u) +
	       (uint32_t)i * 31u + trial->round * 7919u;
}

static uint32_t input_of(const struct trial *trial, int b, size_t i)
{
	return value_of(trial, trial->rank, b, i);
}

static uint32_t scale_of(int rank)
{
	return (uint32_t)rank + 2;
}

/* Element i of block b of the output. */
static uint32_t result_of(const struct trial *trial, int b, size_t i)
{
	uint32_t sum = 0;

	if (trial->collective != STRETTO_REDUCE_SCATTERV)
		return value_of(trial, b, trial->rank, i);
	for (int r = 0; r < trial->size; r++)
		sum += value_of(trial, r, trial->rank, i) * (trial->scaled ? scale_of(r) : 1);
	return trial->op == STRETTO_AVG ? sum / (uint32_t)trial->size : sum;
}

/* Writes all blocks of a buffer. */
static void paint(const struct trial *trial, uint32_t *data, const struct arrays *blocks,
		  uint32_t (*value)(const struct trial *, int, size_t))
{
	for (int b = 0; b < trial->size; b++)
		for (size_t i = 0; i < blocks->counts[b]; i++)
			data[blocks->displs[b] + i] = value(trial, b, i);
}

/* The arrays of a buffer: of blocks, or of one vector as long as this rank's block of the other. */
static struct arrays blocks_of(const struct trial *trial, enum stretto_extent extent, bool gets)
{
	bool symmetric = trial->collective == STRETTO_ALLTOALLV && trial->in_place > 0;
	struct arrays blocks = symmetric
				       ? arrays_symmetric(trial->lengths, trial->rank, trial->size)
				       : arrays_of(trial->collective, trial->lengths, trial->rank,
						   trial->size, gets);

	for (int r = 0; extent == STRETTO_VECTOR && r < trial->size; r++)
		if (r != trial->rank)
			blocks.counts[r] = 0;
	if (extent == STRETTO_VECTOR || trial->packed)
		arrays_pack(&blocks, trial->size);
	return blocks;
}

static bool is_in_place(const struct trial *trial)
{
	return trial->in_place == 1 || (trial->in_place == 2 && trial->rank % 2 == 1);
}

static struct job job_new(struct stretto_comm *comm, struct trial trial)
{
	const struct stretto_traits *traits = stretto_traits_of(trial.collective);
	struct stretto_comm *owner = trial.registered ? comm : NULL;
	struct job job;

	trial.rank = stretto_comm_rank(comm);
	trial.size = stretto_comm_size(comm);
	job = (struct job){.trial = trial, .scale = scale_of(trial.rank)};
	job.in = blocks_of(&trial, traits->in, false);
	job.out = blocks_of(&trial, traits->out, true);
	job.in_memory = guarded_new(owner, 4 * job.in.end, trial.lengths % 3 * 4);
	job.out_memory = guarded_new(owner, 4 * job.out.end, trial.lengths % 3 * 4);
	job.in_data = job.in_memory.data;
	job.out_data = job.out_memory.data;
	if (is_in_place(&trial) && trial.collective == STRETTO_REDUCE_SCATTERV)
		job.out_data = job.in_data + job.in.displs[trial.rank];
	else if (is_in_place(&trial) && trial.collective == STRETTO_ALLGATHERV)
		job.in_data = job.out_data + job.out.displs[trial.rank];
	else if (is_in_place(&trial))
		job.in_data = job.out_data;
	job.in_want = malloc(4 * job.in.end + 4);
	job.out_want = malloc(4 * job.out.end + 4);
	require(job.in_want && job.out_want);
	return job;
}

static void job_free(struct job *job)
{
	guarded_check(&job->in_memory, "input");
	guarded_check(&job->out_memory, "output");
	guarded_free(&job->in_memory);
	guarded_free(&job->out_memory);
	arrays_free(&job->in);
	arrays_free(&job->out);
	free(job->in_want);
	free(job->out_want);
}

/* Fills the memories, and says what they must hold in the end: the outputs, and else the same. */
static void job_fill(struct job *job)
{
	uint32_t *in = job->in_memory.data, *out = job->out_memory.data;
	bool into_in = job->out_data >= in && job->out_data < in + job->in.end;

	for (size_t i = 0; i < job->in.end; i++)
		in[i] = gap;
	for (size_t i = 0; i < job->out.end; i++)
		out[i] = gap;
	paint(&job->trial, job->in_data, &job->in, input_of);
	memcpy(job->in_want, in, 4 * job->in.end);
	memcpy(job->out_want, out, 4 * job->out.end);
	paint(&job->trial,
	      into_in ? job->in_want + (job->out_data - in) : job->out_want + (job->out_data - out),
	      &job->out, result_of);
}

static void complain(const struct job *job, const char *buffer, size_t i, uint32_t want,
		     uint32_t got)
{
	const struct trial *trial = &job->trial;

	fprintf(stderr,
		"%s by %s, lengths %d, in place %d, %s, %s, round %u, rank %d of %d: element %zu "
		"of "
		"%s is %x, not %x\n",
		stretto_collective_name(trial->collective),
		trial->algorithm ? trial->algorithm : "choice", (int)trial->lengths,
		trial->in_place, trial->packed ? "packed" : "placed",
		trial->registered ? "registered" : "malloc", trial->round, trial->rank, trial->size,
		i, buffer, (unsigned)got, (unsigned)want);
	test_failed("wrong result");
}

static void job_check(const struct job *job)
{
	const uint32_t *in = job->in_memory.data, *out = job->out_memory.data;

	for (size_t i = 0; i < job->in.end; i++)
		if (in[i] != job->in_want[i])
			complain(job, "in", i, job->in_want[i], in[i]);
	for (size_t i = 0; i < job->out.end; i++)
		if (out[i] != job->out_want[i])
			complain(job, "out", i, job->out_want[i], out[i]);
}

/* The call; arrays that the collective does not take are not given. */
static struct stretto_coll_args job_args(const struct job *job)
{
	const struct stretto_traits *traits = stretto_traits_of(job->trial.collective);
	bool in = traits->in == STRETTO_BLOCKS, out = traits->out == STRETTO_BLOCKS;
	bool placed = !job->trial.packed;

	return (struct stretto_coll_args){
		.collective = job->trial.collective,
		.algorithm = job->trial.algorithm,
		.type = STRETTO_U32,
		.op = job->trial.op,
		.in = job->in_data,
		.out = job->out_data,
		.in_counts = in ? job->in.counts : NULL,
		.in_displs = in && placed ? job->in.displs : NULL,
		.out_counts = out ? job->out.counts : NULL,
		.out_displs = out && placed ? job->out.displs : NULL,
		.scale = job->trial.scaled ? &job->scale : NULL,
	};
}

/* The caller's arrays are his own again after the call: they are spoilt. */
static void spoil(struct job *job)
{
	size_t bytes = (size_t)job->trial.size * sizeof(size_t);

	memset(job->in.counts, 0xff, bytes);
	memset(job->in.displs, 0xff, bytes);
	memset(job->out.counts, 0xff, bytes);
	memset(job->out.displs, 0xff, bytes);
}

/* --- Right data --- */

/* Runs a trial, blocking, nonblocking or persistent and then twice, by its round. */
static void run_trial(struct stretto_comm *comm, struct trial trial)
{
	struct job job = job_new(comm, trial);
	struct stretto_coll_args args = job_args(&job);

	job_fill(&job);
	if (trial.round % 3 == 0) {
		require(stretto_coll_run(comm, &args) == STRETTO_OK);
	} else if (trial.round % 3 == 1) {
		require(stretto_coll_start(comm, &args, &job.request) == STRETTO_OK);
		spoil(&job);
		require(stretto_wait(job.request) == STRETTO_OK);
	} else {
		require(stretto_coll_init(comm, &args, &job.request) == STRETTO_OK);
		for (int k = 0; k < 2; k++) {
			job.trial.round += (unsigned)k;
			job_fill(&job);
			require(stretto_start(job.request) == STRETTO_OK);
			require(stretto_wait(job.request) == STRETTO_OK);
			job_check(&job);
		}
		stretto_request_free(job.request);
	}
	job_check(&job);
	job_free(&job);
}

/* All ranks take the next trial: the next way to call, place blocks and get memory. */
static void vary(struct trial *trial)
{
	trial->round++;
	trial->packed = trial->round / 3 % 2;
	trial->registered = trial->round / 6 % 2;
	trial->scaled = trial->collective == STRETTO_REDUCE_SCATTERV && trial->round % 5 == 0;
	trial->op = trial->collective == STRETTO_REDUCE_SCATTERV && trial->round % 4 == 0
			    ? STRETTO_AVG
			    : STRETTO_SUM;
}

/* Lengths change from one operation to the next on the same communicator. */
static void run_algorithm(struct stretto_comm *comm, struct trial *trial)
{
	for (trial->in_place = 0; trial->in_place < 3; trial->in_place++)
		for (int lengths = 0; lengths < LENGTHS; lengths++) {
			trial->lengths = (enum lengths)lengths;
			vary(trial);
			run_trial(comm, *trial);
		}
}

static void data_rank(struct stretto_comm *world, void *argument)
{
	struct trial trial = {0};

	(void)argument;
	for (size_t i = 0; stretto_algorithms[i]; i++) {
		trial.collective = stretto_algorithms[i]->collective;
		trial.algorithm = stretto_algorithms[i]->name;
		if (stretto_traits_of(trial.collective)->varies)
			run_algorithm(world, &trial);
	}
	trial.algorithm = NULL;
	for (int c = STRETTO_ALLGATHERV; c <= STRETTO_REDUCE_SCATTERV; c++) {
		trial.collective = (enum stretto_collective)c;
		run_algorithm(world, &trial);
	}
}

/* On 1 to 5 ranks, in steps. */
static void run_sizes(const char *const *settings, int step)
{
	for (int size = TEST_SLOW ? 3 : 1; size <= (TEST_SLOW ? 3 : 5); size += step)
		run_ranks(size, settings, data_rank, NULL);
}

static void data_arrives_over_shm(void **state)
{
	(void)state;
	run_sizes(NULL, 1);
}

/* Blocks of unequal length are never cut into windows, however short these are. */
static void data_arrives_with_short_windows(void **state)
{
	(void)state;
	run_sizes((const char *const[]){"STRETTO_WINDOW=1K", "STRETTO_WINDOWS=4",
					"STRETTO_CHANNELS=2", NULL},
		  2);
}

static void data_arrives_through_slots(void **state)
{
	(void)state;
	run_sizes((const char *const[]){"STRETTO_SHM_CMA=no", "STRETTO_SHM_EAGER=100", NULL}, 2);
}

static void data_arrives_over_paced(void **state)
{
	(void)state;
	run_ranks(3, (const char *const[]){"STRETTO_PACE=40gbit:2us", NULL}, data_rank, NULL);
}

/* Persistent requests of all collectives, algorithms and lengths, all in flight at once. */
enum { JOBS_MAX = 64 };

static size_t make_requests(struct stretto_comm *world, struct job *jobs)
{
	size_t n = 0;

	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (int lengths = 0; lengths < LENGTHS; lengths++) {
			struct trial trial = {
				.collective = stretto_algorithms[i]->collective,
				.algorithm = stretto_algorithms[i]->name,
				.lengths = (enum lengths)lengths,
				.packed = n % 2,
				.in_place = (int)(n % 3),
			};

			if (!stretto_traits_of(trial.collective)->varies)
				continue;
			require(n < JOBS_MAX);
			jobs[n] = job_new(world, trial);
			struct stretto_coll_args args = job_args(&jobs[n]);

			require(stretto_coll_init(world, &args, &jobs[n].request) == STRETTO_OK);
			n++;
		}
	return n;
}

static void persistent_rank(struct stretto_comm *world, void *argument)
{
	struct job jobs[JOBS_MAX];
	size_t n = make_requests(world, jobs);

	(void)argument;
	for (unsigned round = 0; round < 3; round++) {
		for (size_t k = 0; k < n; k++) {
			jobs[k].trial.round = round;
			job_fill(&jobs[k]);
		}
		for (size_t k = 0; k < n; k++)
			require(stretto_start(jobs[(k + round) % n].request) == STRETTO_OK);
		for (size_t k = n; k-- > 0;) {
			require(stretto_wait(jobs[k].request) == STRETTO_OK);
			job_check(&jobs[k]);
		}
	}
	for (size_t k = 0; k < n; k++) {
		stretto_request_free(jobs[k].request);
		job_free(&jobs[k]);
	}
}

static void persistent_requests_are_started_again(void **state)
{
	(void)state;
	for (int size = TEST_SLOW ? 3 : 2; size <= (TEST_SLOW ? 3 : 5); size++)
		run_ranks(size, NULL, persistent_rank, NULL);
}

/* --- What is found again --- */

/* The request of an allgatherv with these arrays; its data is checked on two ranks. */
static struct stretto_request *gather_once(struct stretto_comm *world, const size_t *counts,
					   const size_t *displs)
{
	int rank = stretto_comm_rank(world);
	size_t first[2] = {displs ? displs[0] : 0, displs ? displs[1] : counts[0]};
	uint32_t in[8], out[16];
	struct stretto_request *request;

	for (size_t i = 0; i < 8; i++)
		in[i] = (uint32_t)(100 * rank + (int)i);
	for (size_t i = 0; i < 16; i++)
		out[i] = gap;
	require(stretto_iallgatherv(world, in, out, counts, displs, STRETTO_U32, &request) ==
		STRETTO_OK);
	require(stretto_wait(request) == STRETTO_OK);
	for (size_t i = 0; i < 16; i++)
		for (int r = 0; r < 2; r++)
			if (i >= first[r] && i < first[r] + counts[r])
				require(out[i] == (uint32_t)(100 * r) + i - first[r]);
	return request;
}

static void found_rank(struct stretto_comm *world, void *argument)
{
	const size_t one[] = {1, 3}, other[] = {3, 1}, same[] = {1, 3}, behind[] = {0, 1};
	const size_t apart[] = {0, 5};
	struct stretto_request *first = gather_once(world, one, NULL);

	(void)argument;
	require(gather_once(world, other, NULL) != first);
	require(gather_once(world, one, apart) != first);
	/* the same blocks, in other arrays and in other words */
	require(gather_once(world, same, NULL) == first);
	require(gather_once(world, same, behind) == first);
}

static void requests_are_found_by_counts(void **state)
{
	(void)state;
	run_ranks(2, NULL, found_rank, NULL);
}

/* What is only read may overlap: both ranks get the same three elements. */
static void overlap_rank(struct stretto_comm *world, void *argument)
{
	const uint32_t in[] = {7, 8, 9};
	const size_t counts[] = {3, 3}, displs[] = {0, 0};
	uint32_t out[6] = {0};

	(void)argument;
	require(stretto_alltoallv(world, in, counts, displs, out, counts, NULL, STRETTO_U32) ==
		STRETTO_OK);
	for (size_t i = 0; i < 6; i++)
		require(out[i] == in[i % 3]);
}

static void inputs_may_overlap(void **state)
{
	(void)state;
	run_ranks(2, NULL, overlap_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_arrives_over_shm),
		cmocka_unit_test(data_arrives_with_short_windows),
		cmocka_unit_test(data_arrives_through_slots),
		cmocka_unit_test(data_arrives_over_paced),
		cmocka_unit_test(persistent_requests_are_started_again),
		cmocka_unit_test(requests_are_found_by_counts),
		cmocka_unit_test(inputs_may_overlap),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
