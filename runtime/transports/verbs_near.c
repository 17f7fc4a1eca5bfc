/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_near.c: how far a device is from where we run: by hwloc, without it by what the kernel says. */
#include <sched.h>
#include <stdio.h>

#include "runtime/hardware.h"
#include "runtime/transports/verbs.h"

enum { NEAR = 10 };

#ifdef STRETTO_HAVE_HWLOC
#include <hwloc/linux.h>

/* -1: hwloc does not say. */
static int by_hwloc(const char *device, unsigned unit)
{
	hwloc_topology_t topology = stretto_hardware();
	hwloc_cpuset_t near = hwloc_bitmap_alloc();
	char path[128];
	int distance = -1;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/local_cpus", device);
	if (topology && near && hwloc_linux_read_path_as_cpumask(path, near) == 0)
		distance = stretto_numa_distance(topology, unit, near);
	hwloc_bitmap_free(near);
	return distance;
}
#else
static int by_hwloc(const char *device, unsigned unit)
{
	(void)device;
	(void)unit;
	return -1;
}
#endif

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

static int by_kernel(const char *device, unsigned node)
{
	char path[128];
	int theirs;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
	theirs = number_in(path, 0, -1);
	if (theirs < 0)
		return NEAR;
	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", node);
	return number_in(path, theirs, NEAR);
}

int verbs_distance(const char *device)
{
	unsigned unit = 0, node = 0;
	int distance;

	if (getcpu(&unit, &node) != 0)
		return NEAR;
	distance = by_hwloc(device, unit);
	return distance >= 0 ? distance : by_kernel(device, node);
}
