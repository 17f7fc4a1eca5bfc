/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <string.h>

#include "collectives/types.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

enum {
	ALGORITHM = TOOL_LONG_ONLY,
	TRANSPORT,
	PACE,
	JSON,
	COMPUTE,
	FORMAT,
	FULL,
	PLACE,
	NONBLOCKING,
	PERSISTENT,
	ROTATE,
	MIN_BW,
	TIMEOUT,
	FIX,
};

/* The letters are those of nccl-tests. */
static const struct tool_option options_table[] = {
	{"minbytes", 'b', "SIZE", "first size (8; overlap: 64K)"},
	{"maxbytes", 'e', "SIZE", "last size (32M; overlap: 16M; p2p: 8M; tune: 4M)"},
	{"stepfactor", 'f', "N", "multiply from size to size (2; overlap: 4)"},
	{"stepbytes", 'i', "SIZE", "add from size to size instead"},
	{"iters", 'n', "N", "timed iterations of each size (20; p2p: 1000; tune: 50)"},
	{"warmup_iters", 'w', "N", "iterations before that (5)"},
	{"check", 'c', "0|1", "fill and check all data of every iteration (1)"},
	{"datatype", 'd', "TYPE", "int8 uint8 ... double complex64 ..., see below, or all (float)"},
	{"op", 'o', "OP", "sum prod min max avg ..., see below, or all that TYPE has (sum)"},
	{"output", 'o', "FILE", "tune: the tuning file to write (stdout)"},
	{"fix", FIX, NULL, "tune: fix the fastest algorithms of these ranks too"},
	{"root", 'r', "RANK", "of a broadcast, or all (0)"},
	{"registered", 'R', "0|1", "buffers from stretto_alloc (1), or from malloc (0)"},
	{"json", JSON, "FILE", "write the results there too"},
	{"algorithm", ALGORITHM, "NAME", "use this algorithm"},
	{"transport", TRANSPORT, "LIST", "use these transports, such as self,shm"},
	{"pace", PACE, "RATE:LATENCY", "deliver as such a link would: 10gbit:20us"},
	{"compute", COMPUTE, "KIND", "overlap: gemm, or sleep for an idle core (gemm)"},
	{"format", FORMAT, "KIND",
	 "nccl osu imb csv or json (nccl); p2p: table or perftest (table)"},
	{"full", FULL, NULL, "osu: minimum, maximum, validation and percentiles too"},
	{"place", PLACE, "WHERE", "buffers: out of place, in place, or both (both; osu, imb: out)"},
	{"nonblocking", NONBLOCKING, NULL, "call start and wait"},
	{"persistent", PERSISTENT, NULL, "start and wait of operations made once a size"},
	{"rotate-buffers", ROTATE, "N", "use N sets of buffers in turn (1)"},
	{"min-bw", MIN_BW, "GB/s", "exit 1 if the busbw of a row is below"},
	{"timeout", TIMEOUT, "SECONDS", "end the whole run after that, with exit 4"},
	{NULL, 0, NULL, NULL},
};

static const struct tool tool = {
	"COLLECTIVE|overlap|p2p|tune [OPTIONS]",
	"Measures a collective, how much of a nonblocking allreduce hides behind compute, "
	"messages,\nor what STRETTO_TUNING shall say.",
	options_table,
	"COLLECTIVE is one of: " STRETTO_COLLECTIVE_WORDS "\n"
	"TYPE is one of: " STRETTO_TYPE_WORDS "\n"
	"OP is one of: " STRETTO_OP_WORDS "\n"
	"Sizes take the suffixes K, M and G (powers of 1024). Run it under stretto-run.\n"
	"Exit: 1 wrong data, below --min-bw or no tuning file, 2 wrong command line, 3 "
	"communication failed,\n"
	"4 --timeout has passed. docs/stretto-perf.md describes it all.",
	false,
};

/* The mask of one word of a list of `count` words, or of all of them. */
static unsigned mask_of(const char *option, const char *word, const char *(*name)(int), int count)
{
	if (strcmp(word, "all") == 0)
		return (1u << count) - 1;
	for (int i = 0; i < count; i++)
		if (strcmp(word, name(i)) == 0)
			return 1u << i;
	tool_fail("%s %s is not known", option, word);
}

static const char *type_name(int type)
{
	return stretto_type_name((enum stretto_type)type);
}

static const char *op_name(int op)
{
	return stretto_op_name((enum stretto_op)op);
}

static void add_setting(struct perf_options *options, const char *name, const char *prefix,
			const char *value)
{
	size_t room = sizeof options->settings[0];
	char *setting = options->settings[options->setting_count++];
	int length;

	for (int i = 0; i < options->setting_count - 1; i++)
		if (strncmp(options->settings[i], name, strlen(name)) == 0)
			tool_fail("the option for %s is given twice", name);
	length = snprintf(setting, room, "%s=%s%s", name, prefix, value);
	if (length < 0 || (size_t)length >= room)
		tool_fail("the value for %s is too long", name);
}

static void read_test(struct perf_options *options, int argc, char **argv, int operand)
{
	if (operand >= argc)
		tool_fail("name a test: " STRETTO_COLLECTIVE_WORDS "overlap, p2p or tune");
	if (operand + 1 < argc)
		tool_fail("one test at a time: '%s' is too much", argv[operand + 1]);
	options->overlap = strcmp(argv[operand], "overlap") == 0;
	options->p2p = strcmp(argv[operand], "p2p") == 0;
	options->tune = strcmp(argv[operand], "tune") == 0;
	if (options->overlap || options->p2p || options->tune)
		return; /* STRETTO_ALLREDUCE is 0 */
	for (int i = 0; i < STRETTO_COLLECTIVE_COUNT; i++) {
		if (strcmp(argv[operand], stretto_collective_name((enum stretto_collective)i)) ==
		    0) {
			options->collective = (enum stretto_collective)i;
			return;
		}
	}
	tool_fail("there is no test '%s'", argv[operand]);
}

/* What -o means depends on the test, which comes last. */
static void read_o(struct perf_options *options, const char *value)
{
	if (options->tune)
		options->output = value;
	else if (value)
		options->ops = mask_of("-o", value, op_name, STRETTO_OP_COUNT);
}

/* The format's name depends on the test, which comes last. */
static void choose_format(struct perf_options *options, const char *name)
{
	if (options->p2p) {
		options->perftest = name && strcmp(name, "perftest") == 0;
		if (name && !options->perftest && strcmp(name, "table") != 0)
			tool_fail("p2p --format %s must be table or perftest", name);
		return;
	}
	if (options->tune && name)
		tool_fail("tune has no --format");
	if (options->tune)
		return;
	if (name && strcmp(name, "json") == 0) {
		if (options->json)
			tool_fail("--format json writes to stdout, --json to a file: choose one");
		return;
	}
	for (size_t i = 0; i < perf_formats_count; i++)
		if (!name || strcmp(name, perf_formats[i].name) == 0) {
			options->format = &perf_formats[i];
			return;
		}
	tool_fail("--format %s must be nccl, osu, imb, csv or json", name);
}

static void choose_mode(struct perf_options *options, enum perf_mode mode)
{
	if (options->mode != PERF_BLOCKING && options->mode != mode)
		tool_fail("--nonblocking and --persistent exclude each other");
	options->mode = mode;
}

static unsigned place_of(const char *value)
{
	if (strcmp(value, "both") == 0)
		return PERF_OUT_OF_PLACE | PERF_IN_PLACE;
	if (strcmp(value, "out") != 0 && strcmp(value, "in") != 0)
		tool_fail("--place %s must be out, in or both", value);
	return value[0] == 'o' ? PERF_OUT_OF_PLACE : PERF_IN_PLACE;
}

/* How calls are made, and what ends the run. */
static void read_mode(struct perf_options *options, int id, const char *value)
{
	switch (id) {
	case FULL:
		options->full = true;
		break;
	case PLACE:
		options->places = place_of(value);
		break;
	case NONBLOCKING:
		choose_mode(options, PERF_NONBLOCKING);
		break;
	case PERSISTENT:
		choose_mode(options, PERF_PERSISTENT);
		break;
	case ROTATE:
		options->sets = (int)tool_int("--rotate-buffers", value, 1, 4096);
		break;
	case MIN_BW:
		options->least_bandwidth = tool_double("--min-bw", value, 1e-9, 1e9);
		break;
	default:
		options->timeout = tool_seconds("--timeout", value, 1e-3, 1e7);
	}
}

/* What is understood only when the test's name is known. */
struct late {
	const char *algorithm;
	const char *format;
	const char *o; /* an operation, or tune's file */
};

/* The options that become settings of the library, and those with words. */
static void read_option(struct perf_options *options, int id, const char *value, struct late *given)
{
	switch (id) {
	case 'r':
		options->root = strcmp(value, "all") == 0 ? PERF_ALL_ROOTS
							  : (int)tool_int("-r", value, 0, INT_MAX);
		break;
	case 'R':
		options->registered = tool_int("-R", value, 0, 1) == 1;
		break;
	case JSON:
		options->json = value;
		break;
	case ALGORITHM:
		given->algorithm = value;
		break;
	case TRANSPORT:
		add_setting(options, "STRETTO_TRANSPORTS", "", value);
		break;
	case PACE:
		add_setting(options, "STRETTO_PACE", "", value);
		break;
	case COMPUTE:
		options->sleep_compute = strcmp(value, "sleep") == 0;
		if (!options->sleep_compute && strcmp(value, "gemm") != 0)
			tool_fail("--compute %s must be gemm or sleep", value);
		break;
	case FORMAT:
		given->format = value;
		break;
	case 'o':
		given->o = value;
		break;
	case FIX:
		options->fixes = true;
		break;
	default:
		read_mode(options, id, value);
	}
}

/* The options of nccl-tests that are numbers. */
static bool read_number(struct perf_options *options, int id, const char *value)
{
	const size_t most = (size_t)1 << 40;

	switch (id) {
	case 'b':
		options->min_bytes = tool_bytes("-b", value, 1, most);
		return true;
	case 'e':
		options->max_bytes = tool_bytes("-e", value, 1, most);
		return true;
	case 'f':
		options->factor = (size_t)tool_int("-f", value, 2, 1 << 20);
		return true;
	case 'i':
		options->step_bytes = tool_bytes("-i", value, 1, most);
		return true;
	case 'n':
		options->iterations = (int)tool_int("-n", value, 1, 10000000);
		return true;
	case 'w':
		options->warmup = (int)tool_int("-w", value, 0, 10000000);
		return true;
	case 'c':
		options->check = tool_int("-c", value, 0, 1) == 1;
		return true;
	case 'd':
		options->types = mask_of("-d", value, type_name, STRETTO_TYPE_COUNT);
		return true;
	default:
		return false;
	}
}

static void set_defaults(struct perf_options *options)
{
	if (options->min_bytes == 0)
		options->min_bytes = options->overlap ? 64 << 10 : 8;
	if (options->max_bytes == 0) {
		options->max_bytes = options->p2p       ? 8 << 20
				     : options->tune    ? 4 << 20
				     : options->overlap ? 16 << 20
							: 32 << 20;
		if (options->max_bytes < options->min_bytes)
			options->max_bytes = options->min_bytes;
	}
	if (options->factor == 0)
		options->factor = options->overlap ? 4 : 2;
	if (options->iterations == 0)
		options->iterations = options->p2p ? 1000 : options->tune ? 50 : 20;
	if ((options->p2p || options->tune) && options->json)
		tool_fail("%s has no --json", perf_test_name(options));
	if (options->min_bytes > options->max_bytes)
		tool_fail("-b %zu is more than -e %zu", options->min_bytes, options->max_bytes);
}

bool perf_selects(const struct perf_options *options, enum stretto_type type, enum stretto_op op)
{
	return (options->types >> type & 1) && (options->ops >> op & 1) &&
	       stretto_type_has_op(type, op);
}

/* Some type must have some operation; what a type lacks is left out of the rest. */
static void refuse_ops(const struct perf_options *options)
{
	char ops[STRETTO_OPS_TEXT];
	int type = 0;

	for (int op = 0; op < STRETTO_OP_COUNT; op++)
		for (int t = 0; t < STRETTO_TYPE_COUNT; t++)
			if (perf_selects(options, (enum stretto_type)t, (enum stretto_op)op))
				return;
	while (!(options->types >> type & 1))
		type++;
	tool_fail("-o: %s has only %s", type_name(type),
		  stretto_ops_text((enum stretto_type)type, ops));
}

/* What a test or a format cannot do. */
static void refuse(const struct perf_options *options, const struct late *given)
{
	bool one_place = options->format && options->format->one_place;
	bool osu = options->format && strcmp(options->format->name, "osu") == 0;

	if (perf_collectives[options->collective].reduces)
		refuse_ops(options);
	if (options->full && !osu)
		tool_fail("--full needs --format osu");
	if (one_place && options->places == (PERF_OUT_OF_PLACE | PERF_IN_PLACE))
		tool_fail("--place both: a row of %s has room for one", options->format->name);
	if (options->least_bandwidth > 0 && (options->overlap || options->p2p || options->tune ||
					     perf_collectives[options->collective].no_data))
		tool_fail("--min-bw: %s has no bandwidth to compare", perf_test_name(options));
	if (options->overlap && options->mode == PERF_NONBLOCKING)
		tool_fail("overlap is nonblocking by itself");
	if (options->overlap && options->places == PERF_IN_PLACE)
		tool_fail("overlap is out of place");
	if ((options->p2p || options->tune) &&
	    (options->mode || options->sets > 1 || options->places || given->algorithm))
		tool_fail("%s has no --nonblocking, --persistent, --rotate-buffers, --place or "
			  "--algorithm",
			  perf_test_name(options));
	if (options->fixes && !options->tune)
		tool_fail("--fix is for tune");
}

/* All that a row can show. */
static void choose_places(struct perf_options *options)
{
	bool one_place = options->format && options->format->one_place;

	if (options->places == 0 && !options->p2p && !options->tune)
		options->places = PERF_OUT_OF_PLACE | (one_place ? 0 : PERF_IN_PLACE);
}

void perf_options_read(struct perf_options *options, int argc, char **argv)
{
	struct late given = {NULL, NULL, NULL};
	char prefix[64];
	int id;

	*options = (struct perf_options){
		.warmup = 5,
		.check = true,
		.registered = true,
		.sets = 1,
		.types = 1u << STRETTO_F32,
		.ops = 1u << STRETTO_SUM,
		.argc = argc,
		.argv = argv,
	};
	while ((id = tool_next(&tool, argc, argv)) >= 0)
		if (!read_number(options, id, optarg))
			read_option(options, id, optarg, &given);
	read_test(options, argc, argv, optind);
	read_o(options, given.o);
	choose_format(options, given.format);
	set_defaults(options);
	refuse(options, &given);
	choose_places(options);
	if (given.algorithm) {
		snprintf(prefix, sizeof prefix,
			 "%s=", stretto_collective_name(options->collective));
		add_setting(options, "STRETTO_ALGORITHM", prefix, given.algorithm);
	}
}
