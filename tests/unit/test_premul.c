/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of scaled inputs: the bits of the plain sum of an input that was scaled before, by every
 * algorithm, in and out of place; and no more passes over memory than a copy of what is sent as it
 * is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "collectives/algorithm.h"
#include "collectives/checker.h"
#include "collectives/kernels_internal.h"
#include "collectives/request.h"
#include "collectives/traits.h"
#include "runtime/comm.h"
#include "tests/lib/ranks.h"

/* Whether an algorithm sums, and scales as it goes: those by messages do. */
static bool sums(const struct stretto_algorithm *algorithm)
{
	return stretto_traits_of(algorithm->collective)->reduces && !algorithm->mapped;
}

/* A collective on two pairs of buffers: scaled as it goes, and scaled before. */
struct premul {
	struct stretto_coll_args args;
	size_t elements; /* of in */
	unsigned char *in, *out, *before, *wanted;
};

static struct premul premul_new(const struct stretto_coll_args *args, int size)
{
	struct premul premul = {.args = *args, .elements = args->count};
	size_t bytes;

	if (stretto_traits_into_block(args->collective))
		premul.elements *= (size_t)size;
	bytes = (premul.elements + 1) * stretto_type_size(args->type);
	premul.in = calloc(1, bytes);
	premul.out = calloc(1, bytes);
	premul.before = calloc(1, bytes);
	premul.wanted = calloc(1, bytes);
	require(premul.in && premul.out && premul.before && premul.wanted);
	return premul;
}

static void premul_free(struct premul *premul)
{
	free(premul->in);
	free(premul->out);
	free(premul->before);
	free(premul->wanted);
}

/* Small integers of the type; for halves and floats with a few bits more, that products round. */
static void set_values(enum stretto_type type, unsigned char *to, size_t count, uint64_t *random)
{
	size_t size = stretto_type_size(type);

	for (size_t i = 0; i < count * size; i++)
		to[i] = (unsigned char)next_random(random);
	for (size_t i = 0; type == STRETTO_F32 && i < count; i++)
		((float *)(void *)to)[i] = (float)(next_random(random) % 1000000) / 7;
	for (size_t i = 0; type == STRETTO_BF16 && i < count; i++)
		((uint16_t *)(void *)to)[i] =
			stretto_f32_to_bf16((float)(next_random(random) % 1000) / 7);
	for (size_t i = 0; type == STRETTO_C128 && i < 2 * count; i++)
		((double *)(void *)to)[i] = (double)(next_random(random) % 1000000) / 7;
}

static void run(struct stretto_comm *comm, struct stretto_coll_args *args, unsigned char *in,
		unsigned char *out, bool in_place)
{
	size_t block = args->count * stretto_type_size(args->type);

	args->in = in;
	args->out = !in_place                                     ? out
		    : stretto_traits_into_block(args->collective) ? in + block * (size_t)comm->rank
								  : in;
	if (args->collective == STRETTO_REDUCE && in_place && comm->rank != args->root)
		args->out = out;
	require(stretto_coll_run(comm, args) == STRETTO_OK);
}

/* One collective by one algorithm; the rank's factor is its own. */
static void compare(struct stretto_comm *comm, const struct stretto_coll_args *form, bool in_place)
{
	struct premul premul = premul_new(form, comm->size);
	struct stretto_coll_args args = *form;
	_Alignas(16) unsigned char factor[16];
	uint64_t random = (uint64_t)comm->rank + 1;
	size_t size = stretto_type_size(form->type), bytes = form->count * size;
	const unsigned char *result, *wanted;

	set_values(form->type, factor, 1, &random);
	set_values(form->type, premul.in, premul.elements, &random);
	for (size_t i = 0; i < premul.elements; i++)
		stretto_kernel(form->type, STRETTO_PROD)(premul.before + i * size,
							 premul.in + i * size, factor, 1);
	run(comm, &args, premul.before, premul.wanted, in_place);
	wanted = args.out;
	args.scale = factor;
	run(comm, &args, premul.in, premul.out, in_place);
	result = args.out;
	if (args.collective != STRETTO_REDUCE || comm->rank == args.root)
		require(memcmp(result, wanted, bytes) == 0);
	premul_free(&premul);
}

static void all_rank(struct stretto_comm *comm, void *argument)
{
	static const enum stretto_type types[] = {STRETTO_F32, STRETTO_BF16, STRETTO_I16,
						  STRETTO_C128};
	static const size_t counts[] = {0, 1, 7, 1009};

	(void)argument;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (size_t k = 0; sums(stretto_algorithms[i]) && k < 4 * 4 * 2; k++) {
			const struct stretto_coll_args args = {
				.collective = stretto_algorithms[i]->collective,
				.algorithm = stretto_algorithms[i]->name,
				.type = types[k % 4],
				.op = k % 3 == 2 ? STRETTO_AVG : STRETTO_SUM,
				.root = comm->size - 1,
				.count = counts[k / 4 % 4]};

			compare(comm, &args, k / 16);
		}
}

static void bits_are_those_of_input_that_was_scaled_before(void **state)
{
	static const int sizes[] = {1, 2, 3, 5, 6};
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (!TEST_SLOW || sizes[i] == 3)
			run_ranks(sizes[i], NULL, all_rank, NULL);
}

static void any_window_channel_and_way(void **state)
{
	(void)state;
	run_ranks(3, (const char *const[]){"STRETTO_WINDOW=1K", "STRETTO_WINDOWS=3", NULL},
		  all_rank, NULL);
	run_ranks(4, (const char *const[]){"STRETTO_SHM_EAGER=0", "STRETTO_CHANNELS=2", NULL},
		  all_rank, NULL);
	run_ranks(3,
		  (const char *const[]){"STRETTO_REPRODUCIBLE=0", "STRETTO_PACE=40gbit:2us", NULL},
		  all_rank, NULL);
}

/* Elements that are sent as they are: what the copies of a scaled sum may be more than the plain. */
static size_t own_sent(const struct stretto_schedule *plain)
{
	size_t sent = 0;

	for (int i = 0; i < plain->step_count; i++)
		if (plain->steps[i].kind == STRETTO_STEP_SEND &&
		    plain->steps[i].a.buffer == STRETTO_BUF_IN)
			sent += plain->steps[i].a.count;
	return sent;
}

static size_t elements(const struct stretto_schedule *schedule, enum stretto_step_kind kind)
{
	size_t count = 0;

	for (int i = 0; i < schedule->step_count; i++)
		if (schedule->steps[i].kind == kind)
			count += kind == STRETTO_STEP_SEND ? schedule->steps[i].a.count
							   : schedule->steps[i].dst.count;
	return count;
}

/* The passes of one algorithm: reductions and messages as they were, copies of what is sent. */
static void count_passes(const struct stretto_algorithm *algorithm, struct stretto_shape shape)
{
	struct stretto_schedule plain, scaled;

	assert_int_equal(stretto_algorithm_build(algorithm, &shape, &plain), STRETTO_OK);
	shape.scaled = true;
	assert_int_equal(stretto_algorithm_build(algorithm, &shape, &scaled), STRETTO_OK);
	for (int kind = STRETTO_STEP_SEND; kind <= STRETTO_STEP_REDUCE; kind++)
		assert_int_equal(elements(&scaled, (enum stretto_step_kind)kind),
				 elements(&plain, (enum stretto_step_kind)kind));
	assert_in_range(elements(&scaled, STRETTO_STEP_COPY) - elements(&plain, STRETTO_STEP_COPY),
			0, shape.in_place ? SIZE_MAX / 2 : own_sent(&plain));
	for (int i = 0; i < scaled.step_count; i++) {
		const struct stretto_step *step = &scaled.steps[i];

		if (shape.in_place || step->kind == STRETTO_STEP_RECV)
			continue;
		/* IN is never sent, and scaled wherever it is read */
		if (step->a.count && step->a.buffer == STRETTO_BUF_IN)
			assert_true(step->flags & STRETTO_STEP_OWN_A);
		if (step->kind == STRETTO_STEP_REDUCE && step->b.count &&
		    step->b.buffer == STRETTO_BUF_IN)
			assert_true(step->flags & STRETTO_STEP_OWN_B);
	}
	stretto_schedule_fini(&plain);
	stretto_schedule_fini(&scaled);
}

static void only_what_is_sent_is_copied(void **state)
{
	(void)state;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (int size = 2; sums(stretto_algorithms[i]) && size <= 24; size++)
			for (int rank = 0; rank < size; rank++) {
				bool reduce = stretto_algorithms[i]->collective == STRETTO_REDUCE;
				struct stretto_shape shape = {
					.collective = stretto_algorithms[i]->collective,
					.rank = rank,
					.size = size,
					.root = size / 2,
					.count = 1000,
					.stride = 1000};

				count_passes(stretto_algorithms[i], shape);
				shape.in_place = !reduce || rank == shape.root;
				count_passes(stretto_algorithms[i], shape);
			}
}

/* All ranks' schedules of one operation, run in many orders by the checker. */
static void prove(const struct stretto_algorithm *algorithm, int size, bool in_place)
{
	struct stretto_schedule schedules[9] = {{.steps = NULL}};
	char why[256];

	for (int rank = 0; rank < size; rank++) {
		bool reduce = algorithm->collective == STRETTO_REDUCE;
		struct stretto_shape shape = {.collective = algorithm->collective,
					      .rank = rank,
					      .size = size,
					      .root = size / 2,
					      .count = 37,
					      .stride = 37,
					      .in_place = in_place && (!reduce || rank == size / 2),
					      .scaled = true};

		assert_int_equal(stretto_algorithm_build(algorithm, &shape, &schedules[rank]),
				 STRETTO_OK);
	}
	if (stretto_check(schedules, size, 1, why, sizeof(why)) != STRETTO_OK)
		fail_msg("%s on %d ranks: %s", algorithm->name, size, why);
	for (int rank = 0; rank < size; rank++)
		stretto_schedule_fini(&schedules[rank]);
}

static void rewritten_schedules_are_proved(void **state)
{
	(void)state;
	for (size_t i = 0; stretto_algorithms[i]; i++)
		for (int size = 2; sums(stretto_algorithms[i]) && size <= 9; size++) {
			prove(stretto_algorithms[i], size, false);
			prove(stretto_algorithms[i], size, true);
		}
}

/* In a run: a ring of n copies one of the n blocks, and an average copies nothing. */
static void counted_rank(struct stretto_comm *comm, void *argument)
{
	static const enum stretto_op ops[] = {STRETTO_SUM, STRETTO_AVG};
	float in[400], out[400], factor = 0.5f;

	(void)argument;
	for (int i = 0; i < 400; i++)
		in[i] = (float)i;
	for (int k = 0; k < 4; k++) {
		struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
						 .algorithm = "ring",
						 .type = STRETTO_F32,
						 .op = ops[k % 2],
						 .count = 400,
						 .in = in,
						 .out = out,
						 .scale = k < 2 ? NULL : &factor};
		struct stretto_request *request;

		require(stretto_coll_init(comm, &args, &request) == STRETTO_OK);
		require(stretto_start(request) == STRETTO_OK &&
			stretto_wait(request) == STRETTO_OK);
		require(stretto_request_counts(request).copied_bytes ==
			(k < 2 ? 0 : sizeof(in) / 4));
		factor = 0.25f; /* read at each start */
		require(stretto_start(request) == STRETTO_OK &&
			stretto_wait(request) == STRETTO_OK);
		require(out[4] == (k == 0 ? 16.0f : k == 1 ? 4.0f : k == 2 ? 4.0f : 1.0f));
		factor = 0.5f;
		stretto_request_free(request);
	}
}

static void passes_are_counted_where_it_runs(void **state)
{
	(void)state;
	run_ranks(4, (const char *const[]){"STRETTO_WINDOW=1M", NULL}, counted_rank, NULL);
}

/* Each table's bits, lengths around a block, every choice of operands. */
static void all_tables_give_the_same_bits(void **state)
{
	const struct stretto_kernel_table *tables[] = {
		&stretto_kernels_portable, stretto_kernels_avx2(), stretto_kernels_avx512()};
	static _Alignas(16) unsigned char a[24000], b[24000], factor[16], out[2][24000];
	uint64_t random = 1;
	(void)state;
	for (int k = 0; k < STRETTO_TYPE_COUNT * 8 * 3; k++) {
		struct stretto_scaled_sum sum = {.type = (enum stretto_type)(k / 24),
						 .factor = factor,
						 .scaled = {k & 1, k & 2},
						 .ranks = k & 4 ? 3 : 0};
		size_t count = (size_t[]){1, 1023, 1500}[k / 8 % 3];
		size_t bytes = count * stretto_type_size(sum.type);

		set_values(sum.type, a, count, &random);
		set_values(sum.type, b, count, &random);
		set_values(sum.type, factor, 1, &random);
		for (int t = 0; t < 3; t++) {
			if (!tables[t])
				continue;
			stretto_kernel_scaled_sum_with(tables[t], &sum, out[t > 0], a, b, count);
			assert_memory_equal(out[t > 0], out[0], bytes);
			stretto_kernel_scale_with(tables[t], sum.type, out[t > 0], a, count, factor,
						  sum.ranks);
			if (t > 0)
				stretto_kernel_scale_with(tables[0], sum.type, out[0], a, count,
							  factor, sum.ranks);
			assert_memory_equal(out[t > 0], out[0], bytes);
			stretto_kernel_scaled_sum_with(tables[0], &sum, out[0], a, b, count);
		}
	}
}

static void wrong_rank(struct stretto_comm *comm, void *argument)
{
	float x = 1, factor = 2;
	struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
					 .type = STRETTO_F32,
					 .op = STRETTO_MAX,
					 .count = 1,
					 .in = &x,
					 .out = &x,
					 .scale = &factor};

	(void)argument;
	require(stretto_coll_run(comm, &args) == STRETTO_INVALID);
	require(stretto_sum_premul(comm, &x, &x, 1, STRETTO_F32, NULL) == STRETTO_INVALID);
	require(stretto_sum_premul(comm, &x, &x, 1, STRETTO_F32, &factor) == STRETTO_OK && x == 4);
	args.op = STRETTO_SUM;
	args.scale = comm->rank == 0 ? &factor : NULL;
	require(stretto_coll_run(comm, &args) == STRETTO_MISMATCH);
	require(strstr(stretto_comm_error(comm), "float, sum, scaled)"));
}

static void what_is_wrong_is_refused(void **state)
{
	(void)state;
	run_ranks(2, NULL, wrong_rank, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_are_those_of_input_that_was_scaled_before),
		cmocka_unit_test(any_window_channel_and_way),
		cmocka_unit_test(only_what_is_sent_is_copied),
		cmocka_unit_test(rewritten_schedules_are_proved),
		cmocka_unit_test(passes_are_counted_where_it_runs),
		cmocka_unit_test(all_tables_give_the_same_bits),
		cmocka_unit_test(what_is_wrong_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
