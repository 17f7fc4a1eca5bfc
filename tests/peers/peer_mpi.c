/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_mpi.c: an MPI library, whichever mpicc compiles for. */
#include <mpi.h>

#include "tests/peers/peer.h"

static int init(int *argc, char ***argv, int *rank, int *size)
{
	return MPI_Init(argc, argv) || MPI_Comm_rank(MPI_COMM_WORLD, rank) ||
	       MPI_Comm_size(MPI_COMM_WORLD, size);
}

static void *alloc(size_t bytes)
{
	void *memory;

	return MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory) ? NULL : memory;
}

static int barrier(void)
{
	return MPI_Barrier(MPI_COMM_WORLD);
}

static const void *from(const float *in, const float *out)
{
	return in == out ? MPI_IN_PLACE : in;
}

static int sum(const float *in, float *out, size_t count)
{
	return MPI_Allreduce(from(in, out), out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static MPI_Request request;

static int start(const float *in, float *out, size_t count)
{
	return MPI_Iallreduce(from(in, out), out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
			      &request);
}

static int wait_for(void)
{
	return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int max(double *values, size_t count)
{
	return MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static int fini(void)
{
	return MPI_Finalize();
}

const struct peer peer = {"mpi", init, alloc, barrier, sum, start, wait_for, max, fini};
