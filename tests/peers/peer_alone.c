/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_alone.c: no library, a job of one rank: for tests of the loops themselves. If PEER_WRONG is
 * set, the last element of each sum is wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/peers/peer.h"

static int init(int *argc, char ***argv, int *rank, int *size)
{
	(void)argc;
	(void)argv;
	*rank = 0;
	*size = 1;
	return 0;
}

static int nothing(void)
{
	return 0;
}

static int sum(const float *in, float *out, size_t count)
{
	if (in != out)
		memcpy(out, in, count * sizeof *in);
	if (getenv("PEER_WRONG"))
		out[count - 1] += 1;
	return 0;
}

static int max(double *values, size_t count)
{
	(void)values;
	(void)count;
	return 0;
}

const struct peer peer = {"alone", init, malloc, nothing, sum, sum, nothing, max, nothing};
