/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/straggler.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void stretto_straggler_pick(double *compute, int ranks, struct stretto_straggler *straggler)
{
	int slowest = 0;
	double median;

	for (int r = 1; r < ranks; r++)
		if (compute[r] > compute[slowest])
			slowest = r;
	straggler->rank = slowest;
	straggler->compute = compute[slowest];
	qsort(compute, (size_t)ranks, sizeof(*compute), order);
	median = (compute[(ranks - 1) / 2] + compute[ranks / 2]) / 2;
	straggler->median = median;
	straggler->slower_percent = median > 0 ? 100 * (straggler->compute / median - 1) : 0;
}

stretto_status stretto_straggler_find(struct stretto_comm *comm, double compute,
				      struct stretto_straggler *straggler)
{
	size_t ranks = (size_t)stretto_comm_size(comm);
	char host[STRETTO_STRAGGLER_HOST] = "?";
	double *times = malloc(ranks * sizeof(*times));
	char *hosts = malloc(ranks * sizeof(host));
	stretto_status status = times && hosts ? STRETTO_OK : STRETTO_NO_MEMORY;

	gethostname(host, sizeof(host) - 1);
	if (status == STRETTO_OK)
		status = stretto_gather(comm, &compute, times, 1, STRETTO_F64, 0);
	if (status == STRETTO_OK)
		status = stretto_gather(comm, host, hosts, sizeof(host), STRETTO_U8, 0);
	if (status == STRETTO_OK && stretto_comm_rank(comm) == 0) {
		stretto_straggler_pick(times, (int)ranks, straggler);
		memcpy(straggler->host, hosts + (size_t)straggler->rank * sizeof(host),
		       sizeof(host));
	}
	free(times);
	free(hosts);
	return status;
}
