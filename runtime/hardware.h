/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hardware.h: the machine as hwloc sees it; only in builds with hwloc.
 *
 * To load it takes a large machine a good part of a second, so it is loaded when it is first needed,
 * once in a process, and kept until that ends. Nobody changes it. Any thread.
 */
#ifndef STRETTO_RUNTIME_HARDWARE_H
#define STRETTO_RUNTIME_HARDWARE_H

#ifdef STRETTO_HAVE_HWLOC

#include <hwloc.h>

/* NULL: it cannot be loaded. */
hwloc_topology_t stretto_hardware(void);

/*
 * NUMA distance, 10 being the least, from processing unit `unit` (its number in the system) to what
 * is near the units in `near`: of the memories there the nearest counts. 20 if it is another memory
 * and the firmware says no more; 10 if nothing is known of either.
 */
int stretto_numa_distance(hwloc_topology_t topology, unsigned unit, hwloc_const_cpuset_t near);

#endif
#endif
