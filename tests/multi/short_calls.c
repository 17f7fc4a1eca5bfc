/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * short_calls.c: blocking calls of few bytes, as a tool that counts instructions should see them.
 *
 *   short_calls CALLS BYTES    CALLS allreduce calls of BYTES bytes
 *
 * Rank 0 comes to each call when the others are long there, so that it never has to wait in it and
 * does the same each time. Checks the results and exits 0, else 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "tests/lib/ranks.h"

enum { LATE_MICROSECONDS = 5000, WARM_CALLS = 4 };

int main(int argc, char **argv)
{
	long calls = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) / sizeof(int32_t) : 0;
	struct stretto_comm *world;
	int rank, size;
	int32_t *data;

	if (calls <= 0 || count == 0) {
		fprintf(stderr, "usage: short_calls CALLS BYTES\n");
		return 2;
	}
	data = malloc(count * sizeof *data);
	require(data);
	require(stretto_init(NULL, &world) == STRETTO_OK);
	rank = stretto_comm_rank(world);
	size = stretto_comm_size(world);
	for (long call = 0; call < WARM_CALLS + calls; call++) {
		for (size_t i = 0; i < count; i++)
			data[i] = (int32_t)call + (int32_t)i;
		if (rank == 0)
			usleep(LATE_MICROSECONDS);
		require(stretto_allreduce(world, data, data, count, STRETTO_I32, STRETTO_SUM) ==
			STRETTO_OK);
		for (size_t i = 0; i < count; i++)
			require(data[i] == size * ((int32_t)call + (int32_t)i));
	}
	free(data);
	require(stretto_finalize(world) == STRETTO_OK);
	return 0;
}
