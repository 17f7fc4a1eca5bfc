/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm.h"
#include "tools/lib/machine.h"
#ifdef STRETTO_HAVE_VERBS
#include "runtime/transports/verbs.h"
#endif

enum { EXIT_NO_JOB = 3 };

/* What a rank says of itself; the texts are what is printed. */
struct job_rank {
	char host[64];
	char numa[32];  /* nodes that its cores belong to */
	char cores[96]; /* that it may run on */
	char rdma[128]; /* devices of its channels, with their distances */
};

/* Columns of the table. */
enum { RANK, HOST, NODE, LOCAL, PLACE, NUMA, CORES, RDMA, COLUMNS };

static const struct {
	const char *title; /* of the table */
	const char *key;   /* in JSON */
	bool is_text;      /* in JSON */
} columns[COLUMNS] = {
	[RANK] = {"rank", "rank", false},   [HOST] = {"host", "host", true},
	[NODE] = {"node", "node", false},   [LOCAL] = {"local", "local_rank", false},
	[PLACE] = {"ring", "ring", false},  [NUMA] = {"NUMA", "numa", true},
	[CORES] = {"cores", "cores", true}, [RDMA] = {"RDMA (distance)", "rdma", true},
};

void job_name_devices(const struct stretto_world *world, char *text, size_t size)
{
	text[0] = '\0';
#ifdef STRETTO_HAVE_VERBS
	for (size_t c = 0; c < world->config.channels; c++)
		for (int d = 0; d < world->channels[c]->device_count; d++) {
			const struct stretto_device *device = world->channels[c]->devices[d];
			const struct verbs_port *port;
			char name[64];
			size_t used = strlen(text);

			if (device->transport != &stretto_transport_verbs)
				continue;
			port = &verbs_device_of(device)->port;
			snprintf(name, sizeof name, "%s:%u (%d)", port->device, port->number,
				 verbs_distance(port->device));
			if (!strstr(text, name))
				snprintf(text + used, size - used, "%s%s", used ? " " : "", name);
		}
#else
	(void)world;
#endif
	if (text[0] == '\0')
		snprintf(text, size, "-");
}

static struct job_rank describe(const struct stretto_world *world)
{
	struct job_rank me = {.host = ""};

	if (gethostname(me.host, sizeof me.host - 1) != 0)
		snprintf(me.host, sizeof me.host, "?");
	machine_numa(me.numa, sizeof me.numa);
	machine_cores(me.cores, sizeof me.cores);
	job_name_devices(world, me.rdma, sizeof me.rdma);
	return me;
}

/* One cell. Texts of other ranks are not trusted to end. */
static void cell_text(const struct stretto_topology *topology, const struct job_rank *ranks,
		      int rank, int column, char text[128])
{
	const struct job_rank *of = &ranks[rank];
	const int numbers[COLUMNS] = {
		[RANK] = rank,
		[NODE] = topology->node[rank],
		[LOCAL] = topology->local_rank[rank],
		[PLACE] = topology->place[rank],
	};

	switch (column) {
	case HOST:
		snprintf(text, 128, "%.*s", (int)sizeof of->host - 1, of->host);
		break;
	case NUMA:
		snprintf(text, 128, "%.*s", (int)sizeof of->numa - 1, of->numa);
		break;
	case CORES:
		snprintf(text, 128, "%.*s", (int)sizeof of->cores - 1, of->cores);
		break;
	case RDMA:
		snprintf(text, 128, "%.*s", (int)sizeof of->rdma - 1, of->rdma);
		break;
	default:
		snprintf(text, 128, "%d", numbers[column]);
	}
}

static void print_table(const struct stretto_topology *topology, const struct job_rank *ranks)
{
	int width[COLUMNS];
	char text[128];

	for (int column = 0; column < COLUMNS; column++) {
		width[column] = (int)strlen(columns[column].title);
		for (int rank = 0; rank < topology->size; rank++) {
			cell_text(topology, ranks, rank, column, text);
			if ((int)strlen(text) > width[column])
				width[column] = (int)strlen(text);
		}
	}
	for (int rank = -1; rank < topology->size; rank++)
		for (int column = 0; column < COLUMNS; column++) {
			snprintf(text, sizeof text, "%s", columns[column].title);
			if (rank >= 0)
				cell_text(topology, ranks, rank, column, text);
			if (column == COLUMNS - 1)
				printf("%s\n", text);
			else
				printf("%-*s  ", width[column], text);
		}
}

/* "ring: 0 2 | 1 3": a bar where it goes from node to node. */
static void print_ring(const struct stretto_topology *topology)
{
	printf("ring:");
	for (int place = 0; place < topology->size; place++)
		printf("%s %d",
		       place > 0 && topology->node_at[place] != topology->node_at[place - 1] ? " |"
											     : "",
		       topology->order[place]);
	printf("\n");
}

static void print_text(const struct stretto_comm *comm, const struct job_rank *ranks)
{
	const struct stretto_topology *topology = &comm->topology;

	printf("ranks: %d; nodes: %d, of %d to %d ranks; met by %s; %s\n", topology->size,
	       topology->nodes, topology->least, topology->most, comm->world->bootstrap->ops->name,
	       comm->world->mapped ? "ranks of a node share memory"
				   : "shm is not used by all: no memory is shared");
	print_table(topology, ranks);
	print_ring(topology);
}

static void print_json(const struct stretto_comm *comm, const struct job_rank *ranks)
{
	const struct stretto_topology *topology = &comm->topology;
	char text[128];

	printf("{\n \"ranks\": %d, \"nodes\": %d, \"least\": %d, \"most\": %d,\n", topology->size,
	       topology->nodes, topology->least, topology->most);
	printf(" \"bootstrap\": \"%s\", \"shared_memory\": %s,\n \"table\": [",
	       comm->world->bootstrap->ops->name, comm->world->mapped ? "true" : "false");
	for (int rank = 0; rank < topology->size; rank++)
		for (int column = 0; column < COLUMNS; column++) {
			cell_text(topology, ranks, rank, column, text);
			printf("%s\"%s\": ",
			       column > 0 ? ", "
			       : rank > 0 ? "},\n  {"
					  : "\n  {",
			       columns[column].key);
			if (columns[column].is_text)
				machine_json_text(stdout, text);
			else
				printf("%s", text);
		}
	printf("}\n ]\n}\n");
}

/* Over the bootstrap, which reaches also those that no transport does. */
static stretto_status gather(const struct stretto_world *world, struct job_rank *ranks)
{
	struct job_rank me = describe(world);

	return world->bootstrap->ops->allgather(world->bootstrap, &me, sizeof me, ranks);
}

int job_show(bool json)
{
	struct stretto_comm *comm;
	struct job_rank *ranks;
	stretto_status status;

	if (stretto_init(NULL, &comm) != STRETTO_OK)
		return EXIT_NO_JOB; /* the log has said why */
	ranks = calloc((size_t)comm->size, sizeof *ranks);
	status = ranks ? gather(comm->world, ranks) : STRETTO_NO_MEMORY;
	if (status == STRETTO_OK && comm->rank == 0) {
		if (json)
			print_json(comm, ranks);
		else
			print_text(comm, ranks);
	}
	free(ranks);
	if (stretto_finalize(comm) != STRETTO_OK)
		status = STRETTO_BOOTSTRAP;
	return status == STRETTO_OK ? 0 : EXIT_NO_JOB;
}
