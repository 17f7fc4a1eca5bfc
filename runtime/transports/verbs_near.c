/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_near.c: how far a device is from where we run. */
#include <sched.h>
#include <stdio.h>

#include "runtime/transports/verbs.h"

enum { NEAR = 10 };

/* The node-th number of a line of numbers in a file; `otherwise` if there is none. */
static int number_in(const char *path, int node, int otherwise)
{
	FILE *file = fopen(path, "re");
	int value = otherwise;

	if (!file)
		return otherwise;
	for (int i = 0; i <= node; i++)
		if (fscanf(file, "%d", &value) != 1) {
			value = otherwise;
			break;
		}
	fclose(file);
	return value;
}

int verbs_distance(const char *device)
{
	char path[128];
	unsigned ours = 0;
	int theirs;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
	theirs = number_in(path, 0, -1);
	if (theirs < 0 || getcpu(NULL, &ours) != 0)
		return NEAR;
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", ours);
	return number_in(path, theirs, NEAR);
}
