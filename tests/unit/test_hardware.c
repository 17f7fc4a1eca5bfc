/* SPDX-License-Identifier: BSD-3-Clause */
/* test_hardware.c: distances between processors and devices, on machines that hwloc makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/hardware.h"

#ifdef STRETTO_HAVE_HWLOC

#include <hwloc/distances.h>

enum { NODES = 4 };

/* Four memories with two units each. */
static hwloc_topology_t make_machine(void)
{
	hwloc_topology_t topology;

	assert_int_equal(hwloc_topology_init(&topology), 0);
	assert_int_equal(hwloc_topology_set_synthetic(topology, "node:4 pu:2"), 0);
	assert_int_equal(hwloc_topology_load(topology), 0);
	return topology;
}

static void tell_distances(hwloc_topology_t topology)
{
	hwloc_uint64_t table[NODES * NODES] = {10, 12, 21, 31, 12, 10, 31, 21,
					       21, 31, 10, 12, 31, 21, 12, 10};
	hwloc_obj_t nodes[NODES];
	hwloc_distances_add_handle_t handle;

	for (unsigned i = 0; i < NODES; i++)
		nodes[i] = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, i);
	handle = hwloc_distances_add_create(
		topology, "test",
		HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
	assert_non_null(handle);
	assert_int_equal(hwloc_distances_add_values(topology, handle, NODES, nodes, table, 0), 0);
	assert_int_equal(hwloc_distances_add_commit(topology, handle, 0), 0);
}

/* To a device that is near the units first to last. */
static int distance(hwloc_topology_t topology, unsigned unit, unsigned first, int last)
{
	hwloc_cpuset_t near = hwloc_bitmap_alloc();
	int found;

	assert_non_null(near);
	hwloc_bitmap_set_range(near, first, last);
	found = stretto_numa_distance(topology, unit, near);
	hwloc_bitmap_free(near);
	return found;
}

static void distances_are_the_firmwares(void **state)
{
	hwloc_topology_t topology = make_machine();

	(void)state;
	tell_distances(topology);
	assert_int_equal(distance(topology, 0, 0, 1), 10);
	assert_int_equal(distance(topology, 1, 0, 1), 10);
	assert_int_equal(distance(topology, 0, 2, 3), 12);
	assert_int_equal(distance(topology, 3, 6, 7), 21);
	assert_int_equal(distance(topology, 7, 0, 1), 31);
	/* near a socket of two memories: the nearest of them */
	assert_int_equal(distance(topology, 2, 4, 7), 21);
	/* near all */
	assert_int_equal(distance(topology, 2, 0, 7), 10);
	hwloc_topology_destroy(topology);
}

static void without_a_table_it_is_here_or_not(void **state)
{
	hwloc_topology_t topology = make_machine();

	(void)state;
	assert_int_equal(distance(topology, 0, 0, 1), 10);
	assert_int_equal(distance(topology, 0, 4, 5), 20);
	/* units that do not exist */
	assert_int_equal(distance(topology, 99, 4, 5), 10);
	assert_int_equal(distance(topology, 0, 98, 99), 10);
	hwloc_topology_destroy(topology);
}

static void this_machine_is_loaded_once(void **state)
{
	(void)state;
	assert_non_null(stretto_hardware());
	assert_ptr_equal(stretto_hardware(), stretto_hardware());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances_are_the_firmwares),
		cmocka_unit_test(without_a_table_it_is_here_or_not),
		cmocka_unit_test(this_machine_is_loaded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
	printf("skip hardware: this build has no hwloc\n");
	return 77;
}

#endif
