/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <string.h>

#include "tools/lib/options.h"
#include "tools/lib/perf.h"

enum { ALGORITHM = TOOL_LONG_ONLY, TRANSPORT, PACE, JSON, COMPUTE, FORMAT };

/* The letters are those of nccl-tests. */
static const struct tool_option options_table[] = {
	{"minbytes", 'b', "SIZE", "first size (8; overlap: 64K)"},
	{"maxbytes", 'e', "SIZE", "last size (32M; overlap: 16M; p2p: 8M)"},
	{"stepfactor", 'f', "N", "multiply from size to size (2; overlap: 4)"},
	{"stepbytes", 'i', "SIZE", "add from size to size instead"},
	{"iters", 'n', "N", "timed iterations of each size (20; p2p: 1000)"},
	{"warmup_iters", 'w', "N", "iterations before that (5)"},
	{"check", 'c', "0|1", "fill and check all data of every iteration (1)"},
	{"datatype", 'd', "TYPE", "uint8 int32 int64 half bfloat16 float double, or all (float)"},
	{"op", 'o', "OP", "sum prod min max avg, or all (sum)"},
	{"root", 'r', "RANK", "of a broadcast, or all (0)"},
	{"registered", 'R', "0|1", "buffers from stretto_alloc (1), or from malloc (0)"},
	{"json", JSON, "FILE", "write the results there too"},
	{"algorithm", ALGORITHM, "NAME", "use this algorithm"},
	{"transport", TRANSPORT, "LIST", "use these transports, such as self,shm"},
	{"pace", PACE, "RATE:LATENCY", "deliver as such a link would: 10gbit:20us"},
	{"compute", COMPUTE, "KIND", "overlap: gemm, or sleep for an idle core (gemm)"},
	{"format", FORMAT, "KIND", "p2p: table, or the columns of perftest (table)"},
	{NULL, 0, NULL, NULL},
};

static const struct tool tool = {
	"COLLECTIVE|overlap|p2p [OPTIONS]",
	"Measures a collective, how much of a nonblocking allreduce hides behind compute, or "
	"messages.",
	options_table,
	"COLLECTIVE is one of: " STRETTO_COLLECTIVE_WORDS "\n"
	"Sizes take the suffixes K, M and G (powers of 1024). Run it under stretto-run.\n"
	"Exit: 1 wrong data, 2 wrong command line, 3 communication failed.\n"
	"docs/benchmarking.md says what the columns mean.",
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
		tool_fail("name a test: " STRETTO_COLLECTIVE_WORDS "overlap or p2p");
	if (operand + 1 < argc)
		tool_fail("one test at a time: '%s' is too much", argv[operand + 1]);
	options->overlap = strcmp(argv[operand], "overlap") == 0;
	options->p2p = strcmp(argv[operand], "p2p") == 0;
	if (options->overlap || options->p2p)
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

/* The options that become settings of the library; an algorithm waits for the test's name. */
static void read_option(struct perf_options *options, int id, const char *value,
			const char **algorithm)
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
		*algorithm = value;
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
		options->perftest = strcmp(value, "perftest") == 0;
		if (!options->perftest && strcmp(value, "table") != 0)
			tool_fail("--format %s must be table or perftest", value);
		break;
	default:
		break;
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
	case 'o':
		options->ops = mask_of("-o", value, op_name, STRETTO_OP_COUNT);
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
				     : options->overlap ? 16 << 20
							: 32 << 20;
		if (options->max_bytes < options->min_bytes)
			options->max_bytes = options->min_bytes;
	}
	if (options->factor == 0)
		options->factor = options->overlap ? 4 : 2;
	if (options->iterations == 0)
		options->iterations = options->p2p ? 1000 : 20;
	if (options->p2p && options->json)
		tool_fail("p2p has no --json");
	if (options->min_bytes > options->max_bytes)
		tool_fail("-b %zu is more than -e %zu", options->min_bytes, options->max_bytes);
}

void perf_options_read(struct perf_options *options, int argc, char **argv)
{
	const char *algorithm = NULL;
	char prefix[64];
	int id;

	*options = (struct perf_options){
		.warmup = 5,
		.check = true,
		.registered = true,
		.types = 1u << STRETTO_F32,
		.ops = 1u << STRETTO_SUM,
		.argc = argc,
		.argv = argv,
	};
	while ((id = tool_next(&tool, argc, argv)) >= 0)
		if (!read_number(options, id, optarg))
			read_option(options, id, optarg, &algorithm);
	read_test(options, argc, argv, optind);
	set_defaults(options);
	if (algorithm) {
		snprintf(prefix, sizeof prefix,
			 "%s=", stretto_collective_name(options->collective));
		add_setting(options, "STRETTO_ALGORITHM", prefix, algorithm);
	}
}
