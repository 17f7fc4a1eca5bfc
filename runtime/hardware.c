/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/hardware.h"

#ifdef STRETTO_HAVE_HWLOC

#include <hwloc/distances.h>
#include <pthread.h>

#include "runtime/log.h"

enum { HERE = 10, ELSEWHERE = 20 };

static hwloc_topology_t loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology) != 0)
		return;
	if (hwloc_topology_load(topology) == 0) {
		loaded = topology;
		return;
	}
	stretto_info("hwloc cannot load the topology of this machine; see lstopo");
	hwloc_topology_destroy(topology);
}

hwloc_topology_t stretto_hardware(void)
{
	pthread_once(&once, load);
	return loaded;
}

/* Between two memories, by the firmware's table. */
static int between(struct hwloc_distances_s *table, hwloc_obj_t from, hwloc_obj_t to)
{
	int row = hwloc_distances_obj_index(table, from);
	int column = hwloc_distances_obj_index(table, to);

	if (row < 0 || column < 0)
		return ELSEWHERE;
	return (int)table->values[(unsigned)row * table->nbobjs + (unsigned)column];
}

/* From a memory to the nearest of a set that it is not in. */
static int to_nearest(hwloc_topology_t topology, hwloc_obj_t from, hwloc_const_nodeset_t nodes)
{
	struct hwloc_distances_s *table = NULL;
	unsigned tables = 1;
	hwloc_obj_t to = NULL;
	int least = 0;

	if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &tables, &table,
					HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
	    tables == 0)
		return ELSEWHERE;
	while ((to = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, to))) {
		int distance = between(table, from, to);

		if (hwloc_bitmap_isset(nodes, to->os_index) && (least == 0 || distance < least))
			least = distance;
	}
	hwloc_distances_release(topology, table);
	return least ? least : ELSEWHERE;
}

int stretto_numa_distance(hwloc_topology_t topology, unsigned unit, hwloc_const_cpuset_t near)
{
	hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, unit);
	hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
	hwloc_obj_t own = NULL;
	int distance = HERE;

	if (pu && nodes && hwloc_cpuset_to_nodeset(topology, near, nodes) == 0 &&
	    !hwloc_bitmap_iszero(nodes) && !hwloc_bitmap_intersects(nodes, pu->nodeset))
		own = hwloc_get_numanode_obj_by_os_index(topology,
							 (unsigned)hwloc_bitmap_first(pu->nodeset));
	if (own)
		distance = to_nearest(topology, own, nodes);
	hwloc_bitmap_free(nodes);
	return distance;
}

#endif
