/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_stretto.c: this library. */
#include "collectives/stretto_coll.h"
#include "tests/peers/peer.h"

static struct stretto_comm *world;

static int init(int *argc, char ***argv, int *rank, int *size)
{
	(void)argc;
	(void)argv;
	if (stretto_init(NULL, &world) != STRETTO_OK)
		return 1;
	*rank = stretto_comm_rank(world);
	*size = stretto_comm_size(world);
	return 0;
}

static void *alloc(size_t bytes)
{
	void *memory;

	return stretto_alloc(world, bytes, &memory) == STRETTO_OK ? memory : NULL;
}

static int barrier(void)
{
	return stretto_barrier(world) != STRETTO_OK;
}

static int sum(const float *in, float *out, size_t count)
{
	return stretto_allreduce(world, in, out, count, STRETTO_F32, STRETTO_SUM) != STRETTO_OK;
}

static struct stretto_request *request;

static int start(const float *in, float *out, size_t count)
{
	return stretto_iallreduce(world, in, out, count, STRETTO_F32, STRETTO_SUM, &request) !=
	       STRETTO_OK;
}

static int wait_for(void)
{
	return stretto_wait(request) != STRETTO_OK;
}

static int max(double *values, size_t count)
{
	return stretto_allreduce(world, values, values, count, STRETTO_F64, STRETTO_MAX) !=
	       STRETTO_OK;
}

static int fini(void)
{
	return stretto_finalize(world) != STRETTO_OK;
}

const struct peer peer = {"stretto", init, alloc, barrier, sum, start, wait_for, max, fini};
