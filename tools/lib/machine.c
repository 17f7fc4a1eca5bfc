/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/machine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/hardware.h"

void machine_cores(char *text, size_t size)
{
	cpu_set_t mask;
	size_t used = 0;

	text[0] = '\0';
	if (sched_getaffinity(0, sizeof mask, &mask) != 0)
		return;
	for (size_t first = 0; first < CPU_SETSIZE; first++) {
		size_t last = first;
		int length;

		if (!CPU_ISSET(first, &mask))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &mask))
			last++;
		length = snprintf(text + used, size - used, "%s%zu", used ? "," : "", first);
		if (last > first && length > 0 && used + (size_t)length < size)
			length += snprintf(text + used + length, size - used - (size_t)length,
					   "-%zu", last);
		if (length < 0 || used + (size_t)length >= size)
			return;
		used += (size_t)length;
		first = last;
	}
}

void machine_numa(char *text, size_t size)
{
	snprintf(text, size, "?");
#ifdef STRETTO_HAVE_HWLOC
	hwloc_topology_t topology = stretto_hardware();
	hwloc_bitmap_t cores = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();

	if (topology && cores && nodes &&
	    hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_THREAD) == 0 &&
	    hwloc_cpuset_to_nodeset(topology, cores, nodes) == 0)
		hwloc_bitmap_list_snprintf(text, size, nodes);
	hwloc_bitmap_free(cores);
	hwloc_bitmap_free(nodes);
#endif
}

static int first_core(void)
{
	cpu_set_t mask;

	if (sched_getaffinity(0, sizeof mask, &mask) != 0)
		return 0;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET((size_t)core, &mask))
			return core;
	return 0;
}

void machine_governor(char *text, size_t size)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
		 first_core());
	file = fopen(path, "r");
	if (!file || !fgets(text, (int)size, file) || text[0] == '\n')
		snprintf(text, size, "not readable");
	text[strcspn(text, "\n")] = '\0';
	if (file)
		fclose(file);
}

void machine_load(char *text, size_t size)
{
	double loads[3];

	if (getloadavg(loads, 3) == 3)
		snprintf(text, size, "%.2f %.2f %.2f", loads[0], loads[1], loads[2]);
	else
		snprintf(text, size, "unknown");
}

void machine_json_text(FILE *file, const char *text)
{
	putc('"', file);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(file, "\\u%04x", c);
		else
			putc(c, file);
	}
	putc('"', file);
}
