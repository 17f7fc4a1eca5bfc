/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/stage.h"

void on_stage(const char *const *settings, rank_function function)
{
	struct stage stage = {0};

	pthread_barrier_init(&stage.barrier, NULL, RANKS);
	run_ranks(RANKS, settings, function, &stage);
	pthread_barrier_destroy(&stage.barrier);
}

void meet(struct stage *stage)
{
	pthread_barrier_wait(&stage->barrier);
}

struct stretto_channel *channel_of(struct stretto_comm *comm)
{
	return comm->world->channels[0];
}

float *ones(struct stretto_comm *world, size_t count)
{
	float *data;

	require(stretto_alloc(world, count * sizeof *data, (void **)&data) == STRETTO_OK);
	for (size_t i = 0; i < count; i++)
		data[i] = (float)(stretto_comm_rank(world) + 1);
	return data;
}

void check_sum(struct stretto_comm *comm, const float *data, size_t count)
{
	int size = stretto_comm_size(comm);

	for (size_t i = 0; i < count; i++)
		require(data[i] == (float)(size * (size + 1) / 2));
}

struct stretto_coll_args sum_of(float *data, size_t count, int priority)
{
	return (struct stretto_coll_args){
		.collective = STRETTO_ALLREDUCE,
		.type = STRETTO_F32,
		.op = STRETTO_SUM,
		.count = count,
		.in = data,
		.out = data,
		.priority = priority,
	};
}

struct stretto_request *start(struct stretto_comm *comm, float *data, size_t count, int priority)
{
	struct stretto_coll_args args = sum_of(data, count, priority);
	struct stretto_request *request;

	require(stretto_coll_start(comm, &args, &request) == STRETTO_OK);
	return request;
}

bool is_done(struct stretto_request *request)
{
	bool done;

	require(stretto_test(request, &done) == STRETTO_OK);
	return done;
}
