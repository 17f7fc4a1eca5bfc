/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stretto_coll.h>

int main(void)
{
	enum { N = 1 << 20 };
	struct stretto_comm *world;
	struct stretto_request *request;
	void *memory;

	if (stretto_init(NULL, &world) || stretto_alloc(world, N * sizeof(float), &memory))
		return 1; /* the log says why */
	float *x = memory;
	for (int i = 0; i < N; i++)
		x[i] = (float)(stretto_comm_rank(world) + 1);
	if (stretto_iallreduce(world, x, x, N, STRETTO_F32, STRETTO_SUM, &request))
		return 1;
	/* Compute here, on other data: the sum goes on by itself, without a call from us. */
	if (stretto_wait(request))
		return 1;
	printf("rank %d of %d: %g\n", stretto_comm_rank(world), stretto_comm_size(world), x[N - 1]);
	return stretto_finalize(world) != STRETTO_OK; /* also frees the memory */
}
