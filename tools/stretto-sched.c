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

/* More ranks than anyone reads. */
enum { RANKS_MAX = 256, SIZE_DEFAULT = 4, SEEDS = 3 };

/* A round that was not found yet. */
enum { UNKNOWN = -1 };

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

/* All ranks' schedules and the round of every step. */
struct group {
	struct stretto_schedule *all;
	struct stretto_counts **counts; /* of the shape of each, or NULL */
	struct stretto_choice choice;
	int **rounds; /* rounds[rank][step]: of the message that a step sends, gets or works on */
	int size;
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

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count + 1, size);
	if (!memory)
		tool_die(1, "out of memory");
	return memory;
}

static int find_round(struct group *group, int r, int i);

/* The round in which the data of a RECV of rank `r` leaves the peer. */
static int round_of_message(struct group *group, int r, const struct stretto_step *recv)
{
	const struct stretto_schedule *peer = &group->all[recv->peer];
	for (int s = 0; s < peer->step_count; s++)
		if (peer->steps[s].kind == STRETTO_STEP_SEND && peer->steps[s].peer == r &&
		    peer->steps[s].ordinal == recv->ordinal)
			return find_round(group, recv->peer, s);
	return 0;
}

/*
 * The round of a step, counted from 1: a SEND is one round behind the last message that its rank
 * had to wait for; all else is in the round of the message it gets or works on. A cycle, which only
 * a broken schedule has, counts as nothing.
 */
static int find_round(struct group *group, int r, int i)
{
	const struct stretto_step *step = &group->all[r].steps[i];
	int *round = &group->rounds[r][i];

	if (*round != UNKNOWN)
		return *round;
	*round = 0;
	int latest = 0;
	for (int k = 0; k < 2; k++) {
		int before = step->after[k];
		if (before == STRETTO_NO_STEP)
			continue;
		int at = find_round(group, r, before);
		if (group->all[r].steps[before].kind == STRETTO_STEP_SEND)
			at--; /* its end, not what it waited for */
		latest = at > latest ? at : latest;
	}
	if (step->kind == STRETTO_STEP_SEND)
		latest++;
	if (step->kind == STRETTO_STEP_RECV) {
		int at = round_of_message(group, r, step);
		latest = at > latest ? at : latest;
	}
	*round = latest;
	return latest;
}

/* Without messages the steps follow each other, and a round is the phase that was met last. */
static void find_phases(const struct stretto_schedule *schedule, int *rounds)
{
	int phase = 0;

	for (int i = 0; i < schedule->step_count; i++) {
		phase = schedule->steps[i].phase > phase ? schedule->steps[i].phase : phase;
		rounds[i] = phase;
	}
}

static void find_rounds(struct group *group)
{
	group->rounds = allocate((size_t)group->size, sizeof(*group->rounds));
	for (int r = 0; r < group->size; r++) {
		group->rounds[r] = allocate((size_t)group->all[r].step_count, sizeof(int));
		for (int i = 0; i < group->all[r].step_count; i++)
			group->rounds[r][i] = UNKNOWN;
	}
	for (int r = 0; r < group->size; r++)
		if (group->all[r].mapped)
			find_phases(&group->all[r], group->rounds[r]);
	for (int r = 0; r < group->size; r++)
		for (int i = 0; i < group->all[r].step_count; i++)
			find_round(group, r, i);
}

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

static struct group build_group(const struct request *request)
{
	struct stretto_shape shape = request->shape;
	struct group group = {.size = shape.size, .choice = choose(request)};
	bool rooted = stretto_traits_of(shape.collective)->rooted;

	if (request->nodes > 0) {
		shape.node = request->node;
		shape.nodes = request->nodes;
	}
	group.all = allocate((size_t)shape.size, sizeof(*group.all));
	group.counts = allocate((size_t)shape.size, sizeof(*group.counts));
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

static void free_group(struct group *group)
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

/* --- Printing --- */

/* The most that any rank has of something. */
struct totals {
	int rounds;
	int messages; /* sent */
	size_t sent;  /* elements */
	size_t far;   /* of them, to other nodes */
	size_t tmp;   /* elements of scratch */
	size_t read;  /* elements, without messages */
	size_t written;
};

/* Adds what a step without messages reads and writes, of its own and of others' memory. */
static void add_passes(const struct stretto_step *step, int size, struct totals *totals)
{
	size_t reduces = step->kind == STRETTO_STEP_REDUCE_ALL ? (size_t)size : 1;
	size_t writes = step->flags & STRETTO_STEP_TO_ALL ? (size_t)size : 1;

	totals->read += reduces * step->dst.count;
	totals->written += writes * step->dst.count;
}

static struct totals find_totals(const struct group *group)
{
	struct totals most = {0};

	for (int r = 0; r < group->size; r++) {
		const struct stretto_schedule *schedule = &group->all[r];
		const int *node = schedule->shape.node;
		struct totals passes = {0};
		int messages = 0;
		size_t sent = 0, far = 0;
		for (int i = 0; i < schedule->step_count; i++) {
			const struct stretto_step *step = &schedule->steps[i];
			int round = group->rounds[r][i];
			if (step->kind == STRETTO_STEP_SEND) {
				messages++;
				sent += step->a.count;
				far += node && node[r] != node[step->peer] ? step->a.count : 0;
			}
			most.rounds = round > most.rounds ? round : most.rounds;
			if (schedule->mapped)
				add_passes(step, group->size, &passes);
		}
		most.read = passes.read > most.read ? passes.read : most.read;
		most.written = passes.written > most.written ? passes.written : most.written;
		most.messages = messages > most.messages ? messages : most.messages;
		most.sent = sent > most.sent ? sent : most.sent;
		most.far = far > most.far ? far : most.far;
		most.tmp = schedule->tmp_count > most.tmp ? schedule->tmp_count : most.tmp;
	}
	return most;
}

/* "8", or "3,0,5": rank 0 knows all lengths, as what it has for all or as what it gets from all. */
static void print_count(const struct stretto_shape *shape)
{
	const struct stretto_counts *counts = shape->counts;

	if (!counts)
		printf("%zu", shape->count);
	for (int b = 0; counts && b < shape->size; b++)
		printf("%s%zu", b > 0 ? "," : "",
		       (counts->in_counts ? counts->in_counts : counts->out_counts)[b]);
}

static void print_header(const struct group *group)
{
	const struct stretto_shape *shape = &group->all[0].shape;
	struct totals most = find_totals(group);

	printf("%s, algorithm %s: %d ranks, ", stretto_collective_name(shape->collective),
	       group->all[0].algorithm, shape->size);
	print_count(shape);
	printf(" elements%s", group->all[shape->root].shape.in_place ? ", in place" : "");
	if (stretto_traits_of(shape->collective)->rooted)
		printf(", root %d", shape->root);
	if (group->all[0].mapped)
		printf("\ncost: %d meetings; a rank reads at most %zu elements and writes %zu; "
		       "scratch of %zu elements\n",
		       most.rounds, most.read, most.written, most.tmp);
	else
		printf("\ncost: %d rounds; a rank sends at most %d messages, %zu elements; scratch "
		       "of %zu elements\n",
		       most.rounds, most.messages, most.sent, most.tmp);
	printf("chosen: window %zu elements, estimated %.4g us (%s)\n", group->choice.window,
	       1e6 * group->choice.seconds, group->choice.reason);
	if (shape->node)
		printf("%d nodes: a rank sends at most %zu elements to others\n", shape->nodes,
		       most.far);
}

static const char *span_text(const struct stretto_span *span, char *buf, size_t size)
{
	static const char *const names[STRETTO_BUF_COUNT] = {"IN", "OUT", "TMP"};
	snprintf(buf, size, "%s[%zu,%zu)", names[span->buffer], span->first,
		 span->first + span->count);
	return buf;
}

/* An operand: a span, or the data of the fused RECV. */
static const char *operand_text(const struct stretto_step *recv, const struct stretto_span *span,
				char *buf, size_t size)
{
	bool received = recv && span->buffer == STRETTO_BUF_TMP && span->first == recv->dst.first;
	return received ? "received" : span_text(span, buf, size);
}

/* What a step without messages does. */
static void mapped_text(const struct stretto_step *step, char *buf, size_t size)
{
	char dst[56];
	char a[56];
	const char *whose = step->flags & STRETTO_STEP_TO_ALL ? " of all" : "";

	span_text(&step->dst, dst, sizeof(dst));
	span_text(&step->a, a, sizeof(a));
	if (step->phase > 0)
		snprintf(buf, size, "phase %d", step->phase);
	else if (step->dst.count == 0)
		snprintf(buf, size, "(nothing)");
	else if (step->kind == STRETTO_STEP_REDUCE_ALL)
		snprintf(buf, size, "%s%s = sum of %s of all", dst, whose, a);
	else
		snprintf(buf, size, "%s = %s", dst, a);
}

/* What a step does, as an assignment; `recv` is the RECV fused with a REDUCE, or NULL. */
static void action_text(const struct stretto_step *step, const struct stretto_step *recv, char *buf,
			size_t size)
{
	char dst[56];
	char a[56];
	char b[56];
	bool sends = step->kind == STRETTO_STEP_SEND;
	bool empty = (sends ? step->a.count : step->dst.count) == 0;

	span_text(&step->dst, dst, sizeof(dst));
	if (empty)
		snprintf(buf, size, "(nothing)");
	else if (sends)
		span_text(&step->a, buf, size);
	else if (step->kind == STRETTO_STEP_RECV)
		snprintf(buf, size, "%s = received", dst);
	else if (step->kind == STRETTO_STEP_COPY)
		snprintf(buf, size, "%s = %s", dst, span_text(&step->a, a, sizeof(a)));
	else
		snprintf(buf, size, "%s = %s + %s", dst, operand_text(recv, &step->a, a, sizeof(a)),
			 operand_text(recv, &step->b, b, sizeof(b)));
	size_t used = strlen(buf);
	if (step->flags & STRETTO_STEP_FINAL)
		snprintf(buf + used, size - used, "  final");
}

/* "2, 5": the steps it waits for, that of its fused RECV left out and its waits put in. */
static void waits_text(const struct stretto_step *step, const struct stretto_step *recv, char *buf,
		       size_t size)
{
	int list[4];
	int n = 0;

	for (int k = 0; recv && k < 2; k++)
		if (recv->after[k] != STRETTO_NO_STEP)
			list[n++] = recv->after[k];
	for (int k = 0; k < 2; k++)
		if (step->after[k] != STRETTO_NO_STEP && !(recv && step->after[k] == step->fused))
			list[n++] = step->after[k];
	buf[0] = '\0';
	for (int k = 0; k < n; k++) {
		size_t used = strlen(buf);
		snprintf(buf + used, size - used, "%s%d", k > 0 ? ", " : "", list[k]);
	}
}

/* One step as a line; the round is shown where it changes. */
static void print_step(const struct stretto_schedule *schedule, int i, int round, bool show_round)
{
	const struct stretto_step *step = &schedule->steps[i];
	const struct stretto_step *recv = NULL;
	char number[32];
	char peer[24] = "";
	char round_text[16] = "";
	char action[200];
	char waits[64];

	snprintf(number, sizeof(number), "%d", i);
	if (step->fused != STRETTO_NO_STEP) {
		recv = &schedule->steps[step->fused];
		snprintf(number, sizeof(number), "%d+%d", step->fused, i);
	}
	if (step->kind == STRETTO_STEP_SEND)
		snprintf(peer, sizeof(peer), "--> %d", step->peer);
	else if (step->kind == STRETTO_STEP_SIGNAL)
		snprintf(peer, sizeof(peer), "--> all");
	else if (step->peer >= 0 || recv)
		snprintf(peer, sizeof(peer), "<-- %d", recv ? recv->peer : step->peer);
	if (show_round)
		snprintf(round_text, sizeof(round_text), "%d", round);
	if (schedule->mapped)
		mapped_text(step, action, sizeof(action));
	else
		action_text(step, recv, action, sizeof(action));
	waits_text(step, recv, waits, sizeof(waits));
	printf("  %5s  %7s  %-8s  %-*s%s%s\n", round_text, number, peer, waits[0] ? 36 : 0, action,
	       waits[0] ? "  after " : "", waits);
}

/* The steps of one rank by round, those of a round in the order of the schedule. */
static void print_rank(const struct group *group, int r, int rounds)
{
	const struct stretto_schedule *schedule = &group->all[r];

	printf("\nrank %d\n  round     step  peer      what\n", r);
	for (int round = 0; round <= rounds; round++) {
		bool first = true;
		for (int i = 0; i < schedule->step_count; i++) {
			const struct stretto_step *step = &schedule->steps[i];
			bool hidden = step->kind == STRETTO_STEP_RECV &&
				      step->fused != STRETTO_NO_STEP; /* shown by its REDUCE */
			if (group->rounds[r][i] != round || hidden)
				continue;
			print_step(schedule, i, round, first);
			first = false;
		}
	}
}

static int prove(const struct group *group)
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
	struct group group = build_group(&request);
	int code = 0;

	find_rounds(&group);
	print_header(&group);
	if (request.check)
		code = prove(&group);
	else if (request.rank >= 0)
		print_rank(&group, (int)request.rank, find_totals(&group).rounds);
	else
		for (int r = 0; r < group.size; r++)
			print_rank(&group, r, find_totals(&group).rounds);
	free_group(&group);
	return tool_end(code);
}
