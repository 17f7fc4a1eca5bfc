/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c: a rank of the tests under launchers.
 *
 *	rank meet      exchanges blobs of several sizes through the bootstrap alone, twice
 *	rank die RANK  that rank ends after it has met the others, who must notice
 *	rank reduce    a job of the whole library, twice: a sum and a barrier
 *
 * Exit: 0 if what it saw was right. Rank 0 prints a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/clock.h"
#include "runtime/config.h"

/* Every byte value, those that a text cannot hold too. */
static char byte_of(int rank, size_t at)
{
	return (char)(at * 7 + (size_t)rank * 31);
}

/* Whether an exchange of so many bytes brings what each rank gave. */
static bool exchange(struct stretto_bootstrap *bootstrap, size_t bytes)
{
	char *mine = malloc(bytes);
	char *all = calloc((size_t)bootstrap->size, bytes);
	bool good = mine && all;

	for (size_t i = 0; good && i < bytes; i++)
		mine[i] = byte_of(bootstrap->rank, i);
	good = good && bootstrap->ops->allgather(bootstrap, mine, bytes, all) == STRETTO_OK;
	for (int rank = 0; good && rank < bootstrap->size; rank++)
		for (size_t i = 0; good && i < bytes; i++)
			good = all[(size_t)rank * bytes + i] == byte_of(rank, i);
	free(mine);
	free(all);
	return good;
}

static struct stretto_bootstrap *join(void)
{
	struct stretto_config config;
	struct stretto_bootstrap *bootstrap;

	if (stretto_config_load(&config, NULL) != STRETTO_OK ||
	    stretto_bootstrap_open(&config, NULL, &bootstrap) != STRETTO_OK)
		exit(1);
	return bootstrap;
}

static int meet(void)
{
	static const size_t sizes[] = {4, 1, 719, 720, 721, 300, 5000};

	for (int again = 0; again < 2; again++) {
		uint64_t start = stretto_now();
		struct stretto_bootstrap *bootstrap = join();

		if (stretto_bootstrap_barrier(bootstrap) != STRETTO_OK)
			return 2;
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (!exchange(bootstrap, sizes[i])) {
				fprintf(stderr, "rank %d: exchange of %zu bytes failed\n",
					bootstrap->rank, sizes[i]);
				return 3;
			}
		if (stretto_bootstrap_barrier(bootstrap) != STRETTO_OK)
			return 4;
		if (bootstrap->rank == 0)
			printf("met: %d ranks in %.0f ms\n", bootstrap->size,
			       (double)(stretto_now() - start) * 1e-6);
		bootstrap->ops->close(bootstrap);
	}
	return 0;
}

static int die(int victim)
{
	struct stretto_bootstrap *bootstrap = join();

	if (!exchange(bootstrap, 100))
		return 2;
	if (bootstrap->rank == victim)
		_exit(0);
	/* the launcher may end us before: that is right too */
	if (exchange(bootstrap, 100)) {
		fprintf(stderr, "rank %d: an exchange without rank %d went well\n", bootstrap->rank,
			victim);
		return 3;
	}
	printf("noticed: rank %d\n", bootstrap->rank);
	bootstrap->ops->close(bootstrap);
	return 0;
}

static int reduce(void)
{
	enum { COUNT = 100000 };

	for (int again = 0; again < 2; again++) {
		struct stretto_comm *world;
		void *memory;
		uint64_t start = stretto_now(), up;
		int size;
		float *x;

		if (stretto_init(NULL, &world) != STRETTO_OK ||
		    stretto_alloc(world, COUNT * sizeof *x, &memory) != STRETTO_OK)
			return 2;
		up = stretto_now();
		size = stretto_comm_size(world);
		x = memory;
		for (int i = 0; i < COUNT; i++)
			x[i] = (float)(stretto_comm_rank(world) + 1);
		if (stretto_allreduce(world, x, x, COUNT, STRETTO_F32, STRETTO_SUM) != STRETTO_OK)
			return 3;
		for (int i = 0; i < COUNT; i++)
			if (x[i] != (float)(size * (size + 1) / 2))
				return 4;
		if (stretto_barrier(world) != STRETTO_OK)
			return 5;
		if (stretto_comm_rank(world) == 0)
			printf("reduced: %d ranks, up in %.0f ms\n", size,
			       (double)(up - start) * 1e-6);
		if (stretto_finalize(world) != STRETTO_OK)
			return 6;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "meet") == 0)
		return meet();
	if (argc == 2 && strcmp(argv[1], "reduce") == 0)
		return reduce();
	if (argc == 3 && strcmp(argv[1], "die") == 0)
		return die((int)strtol(argv[2], NULL, 10));
	fprintf(stderr, "usage: rank meet | reduce | die RANK\n");
	return 2;
}
