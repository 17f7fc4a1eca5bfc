/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-sched: prints what each rank does in a collective, and proves it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/checker.h"
#include "collectives/counts.h"
#include "collectives/selection.h"
#include "collectives/traits.h"
#include "tools/lib/options.h"
#include "tools/lib/sched_print.h"

/* More ranks than anyone reads. */
enum { RANKS_MAX = 256, SIZE_DEFAULT = 4, SEEDS = 3 };

/* What the command line asks for. */
struct request {
	struct stretto_shape shape;
	const char *algorithm;     /* NULL: the library's choice */
	long rank;                 /* the one to print; -1 for all */
	bool check;                /* prove instead of print */
	int nodes;                 /* number of nodes; 0: not asked for, all are on one */
	int counts[RANKS_MAX];     /* ranks on each node */
	bool cyclic;               /* ranks are dealt out to the nodes */
	int node[RANKS_MAX];       /* by rank: its node */
	int listed;                /* number of lengths; 0: not asked for, all blocks are alike */
	size_t lengths[RANKS_MAX]; /* by rank: elements of its block */
};

enum { OPTION_IN_PLACE = TOOL_LONG_ONLY, OPTION_CYCLIC, OPTION_MALLOC, OPTION_COUNTS };

/* Elements of a block, so that all blocks together stay below what --count takes. */
static const size_t length_max = (size_t)1 << 32;

static const struct tool_option options[] = {
	{"algorithm", 'a', "NAME", "algorithm (default: the library's choice for float)"},
	{"size", 'n', "RANKS", "number of ranks (default 4)"},
	{"count", 'c', "ELEMENTS", "elements: of the vector, or of each rank's block (default 8)"},
	{"counts", OPTION_COUNTS, "LIST",
	 "elements of each rank's block, such as 3,0,5; in place of --size and --count"},
	{"rank", 'r', "RANK", "print only this rank"},
	{"root", 'R', "RANK", "root of a collective that has one (default 0)"},
	{"nodes", 'N', "LIST", "ranks on each node, such as 2,1,3; in place of --size"},
	{"cyclic", OPTION_CYCLIC, NULL, "ranks go to the nodes in turn, not node by node"},
	{"in-place", OPTION_IN_PLACE, NULL, "in and out are one buffer"},
	{"malloc", OPTION_MALLOC, NULL, "buffers that other ranks cannot map (default: they can)"},
	{"check", 'k', NULL, "prove the schedules of all ranks instead of printing them"},
	{0},
};

static const struct tool tool = {
	.usage = "COLLECTIVE [OPTION]...",
	.summary = "Prints what each rank does in a collective, step by step, or proves it.",
	.options = options,
	.notes = "COLLECTIVE is one of: " STRETTO_COLLECTIVE_WORDS "\n"
		 "IN and OUT are the caller's buffers, TMP is scratch; [3,6) are elements 3, 4 and "
		 "5.\n"
		 "A step 4+5 receives and reduces in one.",
};

static enum stretto_collective read_collective(const char *word)
{
	for (int c = 0; c < STRETTO_COLLECTIVE_COUNT; c++)
		if (strcmp(word, stretto_collective_name((enum stretto_collective)c)) == 0)
			return (enum stretto_collective)c;
	tool_fail("no collective is called \"%s\"", word);
}

/* Takes the next word of "2,1,3", and what is behind its comma is left; "" behind a last comma. */
static void next_word(const char *option, const char **list, char *word, size_t size)
{
	size_t length = strcspn(*list, ",");

	if (length >= size)
		tool_fail("%s: a number has more than %zu characters", option, size - 1);
	snprintf(word, size, "%.*s", (int)length, *list);
	*list += length;
	*list += **list == ',' && (*list)[1];
}

static void read_nodes(struct request *request, const char *list)
{
	request->shape.size = 0;
	for (request->nodes = 0; request->nodes == 0 || *list; request->nodes++) {
		char word[16];

		next_word("--nodes", &list, word, sizeof word);
		long count = tool_int("--nodes", word, 1, RANKS_MAX);
		if (request->shape.size + count > RANKS_MAX)
			tool_fail("--nodes: more than %d ranks", RANKS_MAX);
		request->counts[request->nodes] = (int)count;
		request->shape.size += (int)count;
	}
}

static void read_counts(struct request *request, const char *list)
{
	for (request->listed = 0; request->listed == 0 || *list; request->listed++) {
		char word[16];

		if (request->listed == RANKS_MAX)
			tool_fail("--counts: more than %d ranks", RANKS_MAX);
		next_word("--counts", &list, word, sizeof word);
		request->lengths[request->listed] = tool_bytes("--counts", word, 0, length_max);
	}
}

/* The number of ranks, and whether the blocks can have the lengths that are asked for. */
static void check_counts(struct request *request)
{
	struct stretto_shape *shape = &request->shape;

	if (shape->size == 0)
		shape->size = request->listed > 0 ? request->listed : SIZE_DEFAULT;
	if (request->listed == 0)
		return;
	if (!stretto_traits_of(shape->collective)->varies)
		tool_fail("--counts: the blocks of %s are all of one length",
			  stretto_collective_name(shape->collective));
	if (request->listed != shape->size)
		tool_fail("--counts has %d numbers for %d ranks", request->listed, shape->size);
	if (shape->collective == STRETTO_ALLTOALLV && shape->in_place)
		tool_fail("--counts: in place, ranks have as much for each other as they get");
	shape->count = 0;
}

/* Gives each rank its node. */
static void place_ranks(struct request *request)
{
	int rank = 0;

	for (int turn = 0; rank < request->shape.size; turn++)
		for (int node = 0; node < request->nodes; node++) {
			int share = request->cyclic ? 1 : request->counts[node];
			int before = turn * share;

			for (int i = 0; i < share && before + i < request->counts[node]; i++)
				request->node[rank++] = node;
		}
}

static struct request read_request(int argc, char **argv)
{
	struct request request = {
		.shape = {.count = 8, .in_mapped = true, .out_mapped = true},
		.rank = -1,
	};
	int id;

	while ((id = tool_next(&tool, argc, argv)) >= 0)
		switch (id) {
		case 'a':
			request.algorithm = optarg;
			break;
		case 'n':
			request.shape.size = (int)tool_int("--size", optarg, 1, RANKS_MAX);
			break;
		case 'c':
			request.shape.count = tool_bytes("--count", optarg, 0, (size_t)1 << 40);
			break;
		case 'r':
			request.rank = tool_int("--rank", optarg, 0, RANKS_MAX - 1);
			break;
		case 'R':
			request.shape.root = (int)tool_int("--root", optarg, 0, RANKS_MAX - 1);
			break;
		case 'N':
			read_nodes(&request, optarg);
			break;
		case OPTION_COUNTS:
			read_counts(&request, optarg);
			break;
		case OPTION_CYCLIC:
			request.cyclic = true;
			break;
		case OPTION_IN_PLACE:
			request.shape.in_place = true;
			break;
		case OPTION_MALLOC:
			request.shape.in_mapped = false;
			request.shape.out_mapped = false;
			break;
		default:
			request.check = true;
		}
	if (optind != argc - 1)
		tool_fail("name one collective");
	request.shape.collective = read_collective(argv[optind]);
	check_counts(&request);
	if (request.rank >= request.shape.size || request.shape.root >= request.shape.size)
		tool_fail("the ranks of %d are 0 to %d", request.shape.size,
			  request.shape.size - 1);
	if (request.cyclic && request.nodes == 0)
		tool_fail("--cyclic needs --nodes");
	if (request.shape.collective == STRETTO_BARRIER)
		request.shape.count = 0;
	if (request.nodes > 0)
		place_ranks(&request);
	request.shape.stride = request.shape.count;
	return request;
}

/* --- Building --- */

/*
 * The call of a rank. Of an alltoallv every rank has blocks of the lengths asked for, and so gets
 * from each as much as its own is: `gets`.
 */
static struct stretto_coll_args args_of(const struct request *request, int rank,
					size_t gets[RANKS_MAX])
{
	struct stretto_coll_args args = {.collective = request->shape.collective,
					 .type = STRETTO_F32,
					 .count = request->shape.count,
					 .algorithm = request->algorithm};
	bool exchange = args.collective == STRETTO_ALLTOALLV;

	if (request->listed == 0)
		return args;
	for (int r = 0; r < request->listed; r++)
		gets[r] = request->lengths[rank];
	args.in_counts = request->lengths;
	args.out_counts = exchange ? gets : request->lengths;
	stretto_counts_normal(&args);
	return args;
}

/* The library's choice, or what is asked for. */
static struct stretto_choice choose(const struct request *request)
{
	const struct stretto_config config = {0};
	size_t gets[RANKS_MAX];
	const struct stretto_coll_args args = args_of(request, 0, gets);
	struct stretto_group group = stretto_group_on_node(request->shape.size);
	struct stretto_choice choice;

	if (request->nodes > 1) {
		group.nodes = request->nodes;
		group.board = false;
		group.link = &stretto_link_network;
		group.most = 0;
		for (int node = 0; node < request->nodes; node++) {
			int count = request->counts[node];
			group.least = count < group.least ? count : group.least;
			group.most = count > group.most ? count : group.most;
		}
	}
	if (stretto_select(&config, &group, &args, &choice) != STRETTO_OK)
		exit(TOOL_USAGE); /* the log has said why */
	return choice;
}

/* The lengths of a rank's blocks, or NULL where all are alike. */
static struct stretto_counts *counts_of(const struct request *request, int rank)
{
	size_t gets[RANKS_MAX];
	const struct stretto_coll_args args = args_of(request, rank, gets);
	struct stretto_counts *counts = NULL;

	if (stretto_counts_given(&args) &&
	    stretto_counts_new(&args, request->shape.size, &counts) != STRETTO_OK)
		tool_die(1, "out of memory");
	return counts;
}

static struct sched_group build_group(const struct request *request)
{
	struct stretto_shape shape = request->shape;
	struct sched_group group = {.size = shape.size, .choice = choose(request)};
	bool rooted = stretto_traits_of(shape.collective)->rooted;

	if (request->nodes > 0) {
		shape.node = request->node;
		shape.nodes = request->nodes;
	}
	group.all = sched_allocate((size_t)shape.size, sizeof(*group.all));
	group.counts = sched_allocate((size_t)shape.size, sizeof(*group.counts));
	for (int r = 0; r < shape.size; r++) {
		shape.rank = r;
		shape.counts = group.counts[r] = counts_of(request, r);
		shape.in_place = request->shape.in_place && (!rooted || r == shape.root);
		if (stretto_algorithm_build(group.choice.algorithm, &shape, &group.all[r]) !=
		    STRETTO_OK)
			exit(1); /* the log has said why */
	}
	return group;
}

static void free_group(struct sched_group *group)
{
	for (int r = 0; r < group->size; r++) {
		stretto_schedule_fini(&group->all[r]);
		stretto_counts_free(group->counts[r]);
		if (group->rounds)
			free(group->rounds[r]);
	}
	free(group->rounds);
	free(group->counts);
	free(group->all);
}

/* --- Proving --- */

static int prove(const struct sched_group *group)
{
	char why[512];

	for (int seed = 1; seed <= SEEDS; seed++)
		if (stretto_check(group->all, group->size, (uint64_t)seed, why, sizeof(why)) !=
		    STRETTO_OK) {
			printf("not proved (seed %d): %s\n", seed, why);
			return 1;
		}
	if (group->all[0].mapped)
		printf("proved: no deadlock, nothing is read before it is there nor written while "
		       "another\n"
		       "        rank reads it, every result is complete and the same on all ranks\n"
		       "        (%d random orders)\n",
		       SEEDS);
	else
		printf("proved: every message has two ends of one length, no deadlock, no "
		       "conflict,\n"
		       "        every result is complete and the same on all ranks (%d random "
		       "orders, by\n"
		       "        rendezvous, eager and fused)\n",
		       SEEDS);
	return 0;
}

int main(int argc, char **argv)
{
	struct request request = read_request(argc, argv);
	struct sched_group group = build_group(&request);
	int code = 0;

	sched_find_rounds(&group);
	sched_print_header(&group);
	if (request.check)
		code = prove(&group);
	else if (request.rank >= 0)
		sched_print_rank(&group, (int)request.rank);
	else
		for (int r = 0; r < group.size; r++)
			sched_print_rank(&group, r);
	free_group(&group);
	return tool_end(code);
}
