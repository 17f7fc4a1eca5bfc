/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "collectives/traits.h"
#include "tools/lib/machine.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

extern char **environ;

/* What each rank says of itself; gathered as bytes. */
struct rank_facts {
	char host[64];
	char cores[96]; /* affinity mask as a list */
	int64_t pid;
	int64_t memlock;       /* soft limit, bytes; -1 for none */
	int64_t compute_cores; /* stretto_compute_cores() */
};

static const char *test_name(const struct perf *perf)
{
	if (perf->options->p2p)
		return "p2p";
	return perf->options->overlap ? "overlap"
				      : stretto_collective_name(perf->options->collective);
}

static struct rank_facts own_facts(const struct perf *perf)
{
	struct rank_facts facts;
	struct rlimit limit;

	memset(&facts, 0, sizeof facts);
	if (gethostname(facts.host, sizeof facts.host - 1) != 0)
		facts.host[0] = '?';
	machine_cores(facts.cores, sizeof facts.cores);
	facts.pid = getpid();
	facts.memlock = -1;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		facts.memlock = (int64_t)limit.rlim_cur;
	facts.compute_cores = stretto_compute_cores(perf->comm);
	return facts;
}

static int count_hosts(const struct rank_facts *facts, int size)
{
	int hosts = 0;

	for (int i = 0; i < size; i++) {
		bool seen = false;

		for (int j = 0; j < i && !seen; j++)
			seen = strcmp(facts[i].host, facts[j].host) == 0;
		hosts += !seen;
	}
	return hosts;
}

/* What a launcher sets is no choice of the user's. */
static bool is_choice(const char *assignment)
{
	static const char *const placed[] = {
		"STRETTO_RANK=", "STRETTO_SIZE=",  "STRETTO_LOCAL_RANK=", "STRETTO_LOCAL_SIZE=",
		"STRETTO_ROOT=", "STRETTO_TOKEN=", "STRETTO_LISTEN_FD="};

	for (size_t i = 0; i < sizeof placed / sizeof *placed; i++)
		if (strncmp(assignment, placed[i], strlen(placed[i])) == 0)
			return false;
	return strncmp(assignment, "STRETTO_", 8) == 0;
}

/* Calls print for every setting that somebody chose: by option, then by environment. */
static int each_setting(const struct perf_options *options,
			void (*print)(FILE *file, const char *setting), FILE *file,
			const char *between)
{
	int count = 0;

	for (int i = 0; i < options->setting_count; i++) {
		fputs(count++ ? between : "", file);
		print(file, options->settings[i]);
	}
	for (char **entry = environ; entry && *entry; entry++) {
		if (!is_choice(*entry))
			continue;
		fputs(count++ ? between : "", file);
		print(file, *entry);
	}
	return count;
}

static void print_plain(FILE *file, const char *text)
{
	fputs(text, file);
}

static void print_ranks(const struct perf *perf, const struct rank_facts *facts)
{
	printf("# Using %d rank%s on %d host%s\n", perf->size, perf->size > 1 ? "s" : "",
	       count_hosts(facts, perf->size), count_hosts(facts, perf->size) > 1 ? "s" : "");
	for (int i = 0; i < perf->size; i++) {
		char memlock[32] = "unlimited";

		if (facts[i].memlock >= 0)
			snprintf(memlock, sizeof memlock, "%lld", (long long)facts[i].memlock);
		printf("#  Rank %2d Pid %6lld on %s: affinity %s, compute cores %lld, memlock %s\n",
		       i, (long long)facts[i].pid, facts[i].host, facts[i].cores,
		       (long long)facts[i].compute_cores, memlock);
	}
}

static void print_columns(const struct perf *perf)
{
	if (perf->options->overlap) {
		printf("#\n# compute: %s; no call into the library between start and wait\n",
		       perf->options->sleep_compute ? "sleep" : "gemm");
		printf("# %12s  %12s  %12s  %12s  %12s  %10s  %6s\n", "size", "count", "t_pure",
		       "t_compute", "t_total", "overlap", "#wrong");
		printf("# %12s  %12s  %12s  %12s  %12s  %10s\n", "(B)", "(elements)", "(us)",
		       "(us)", "(us)", "(%)");
		return;
	}
	printf("#\n# %62s %34s\n", "out-of-place", "in-place");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size",
	       "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
	       "algbw", "busbw", "#wrong");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s\n", "(B)",
	       "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
	       "(GB/s)");
}

static void print_header(const struct perf *perf, const struct rank_facts *facts)
{
	const struct perf_options *options = perf->options;
	char load[64];

	machine_load(load, sizeof load);
	printf("# Collective test starting: stretto-perf %s, stretto %s\n", test_name(perf),
	       stretto_version());
	printf("# minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
	       "validation: %d registered: %d\n",
	       options->min_bytes, options->max_bytes,
	       options->step_bytes ? options->step_bytes : options->factor,
	       options->step_bytes ? "bytes" : "factor", options->warmup, options->iterations,
	       options->check, options->registered);
	printf("# settings: ");
	if (each_setting(options, print_plain, stdout, " ") == 0)
		printf("all default");
	printf("\n# load average %s, cores online %ld\n", load, sysconf(_SC_NPROCESSORS_ONLN));
	print_ranks(perf, facts);
	if (!options->p2p) {
		printf("# time: median over the iterations; each is the slowest rank's, after a "
		       "barrier\n");
		print_columns(perf);
	}
	fflush(stdout);
}

static void start_json(const struct perf *perf, const struct rank_facts *facts)
{
	const struct perf_options *options = perf->options;
	FILE *file = perf->json;
	char load[64];

	machine_load(load, sizeof load);
	fprintf(file,
		"{\"version\": \"%s\", \"test\": \"%s\",\n \"start_time\": %lld,\n \"args\": [",
		stretto_version(), test_name(perf), (long long)time(NULL));
	for (int i = 0; i < options->argc; i++) {
		fputs(i ? ", " : "", file);
		machine_json_text(file, options->argv[i]);
	}
	fprintf(file, "],\n \"settings\": [");
	each_setting(options, machine_json_text, file, ", ");
	fprintf(file,
		"],\n \"config\": {\"minbytes\": %zu, \"maxbytes\": %zu, \"stepfactor\": %zu, "
		"\"stepbytes\": %zu, \"warmup_iters\": %d, \"iters\": %d, \"check\": %d, "
		"\"registered\": %d, \"compute\": \"%s\", \"load_average\": \"%s\"},\n \"ranks\": "
		"[",
		options->min_bytes, options->max_bytes, options->factor, options->step_bytes,
		options->warmup, options->iterations, options->check, options->registered,
		options->sleep_compute ? "sleep" : "gemm", load);
	for (int i = 0; i < perf->size; i++) {
		fprintf(file, "%s\n  {\"rank\": %d, \"host\": ", i ? "," : "", i);
		machine_json_text(file, facts[i].host);
		fprintf(file,
			", \"pid\": %lld, \"affinity\": \"%s\", \"compute_cores\": %lld, "
			"\"memlock\": %lld}",
			(long long)facts[i].pid, facts[i].cores, (long long)facts[i].compute_cores,
			(long long)facts[i].memlock);
	}
	fprintf(file, "],\n \"results\": [");
}

void perf_report_open(struct perf *perf)
{
	struct rank_facts mine = own_facts(perf);
	struct rank_facts *all;

	if (perf->rank == 0 && perf->options->json) {
		perf->json = fopen(perf->options->json, "w");
		if (!perf->json)
			tool_fail("--json %s: %s", perf->options->json, strerror(errno));
	}
	all = calloc((size_t)perf->size, sizeof *all);
	if (!all)
		tool_die(PERF_COMMUNICATION, "no memory for the report");
	perf_must(perf, stretto_allgather(perf->comm, &mine, all, sizeof mine, STRETTO_U8),
		  "allgather of the ranks' facts");
	if (perf->rank == 0) {
		if (perf->json)
			start_json(perf, all);
		print_header(perf, all);
	}
	free(all);
}

/* A number in at most `width` characters, with two decimals where they fit. */
static const char *fit(char *text, size_t size, double value, int width)
{
	int decimals = 2;

	while (snprintf(text, size, "%.*f", decimals, value) > width && decimals > 0)
		decimals--;
	return text;
}

static double algorithm_bandwidth(const struct perf_case *test, const struct perf_result *result)
{
	return result->median > 0 ? (double)test->bytes / result->median / 1e9 : 0;
}

/* The share of the traffic that the slowest link must carry, as nccl-tests defines it. */
static double bus_bandwidth(const struct perf *perf, const struct perf_case *test,
			    const struct perf_result *result)
{
	double n = perf->size, bandwidth = algorithm_bandwidth(test, result);

	switch (test->collective) {
	case STRETTO_ALLREDUCE:
		return bandwidth * 2 * (n - 1) / n;
	case STRETTO_ALLGATHER:
	case STRETTO_REDUCE_SCATTER:
	case STRETTO_ALLTOALL:
	case STRETTO_GATHER:
	case STRETTO_SCATTER:
		return bandwidth * (n - 1) / n;
	default:
		return bandwidth;
	}
}

static void print_half(struct perf *perf, const struct perf_case *test,
		       const struct perf_result *result)
{
	char time[32], algbw[32], busbw[32];

	if (!result) {
		printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	perf->bus_bandwidth += bus_bandwidth(perf, test, result);
	perf->bandwidths++;
	printf("  %7s  %6s  %6s", fit(time, sizeof time, 1e6 * result->median, 7),
	       fit(algbw, sizeof algbw, algorithm_bandwidth(test, result), 6),
	       fit(busbw, sizeof busbw, bus_bandwidth(perf, test, result), 6));
	if (result->wrong < 0)
		printf("  %6s", "N/A");
	else
		printf("  %6lld", (long long)result->wrong);
}

static void json_result(FILE *file, const struct perf_result *result)
{
	fprintf(file,
		"\"time\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, "
		"\"avg_us\": %.3f, \"nwrong\": ",
		1e6 * result->median, 1e6 * result->median, 1e6 * result->p99, 1e6 * result->min,
		1e6 * result->max, 1e6 * result->mean);
	if (result->wrong < 0)
		fprintf(file, "null");
	else
		fprintf(file, "%lld", (long long)result->wrong);
}

static void json_half(const struct perf *perf, const struct perf_case *test, const char *name,
		      const struct perf_result *result)
{
	if (!result) {
		fprintf(perf->json, ",\n   \"%s\": null", name);
		return;
	}
	fprintf(perf->json, ",\n   \"%s\": {", name);
	json_result(perf->json, result);
	fprintf(perf->json, ", \"alg_bw\": %.4f, \"bus_bw\": %.4f}",
		algorithm_bandwidth(test, result), bus_bandwidth(perf, test, result));
}

void perf_report_row(struct perf *perf, const struct perf_case *test,
		     const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	const struct stretto_traits *traits = stretto_traits_of(test->collective);
	const char *type =
		test->collective == STRETTO_BARRIER ? "none" : stretto_type_name(test->type);
	const char *op = traits->reduces ? stretto_op_name(test->op) : "none";
	int root = traits->rooted ? test->root : -1;

	if (perf->rank != 0)
		return;
	printf("%12zu  %12zu  %8s  %6s  %6d", test->bytes, test->count, type, op, root);
	print_half(perf, test, out_of_place);
	print_half(perf, test, in_place);
	printf("\n");
	fflush(stdout);
	if (!perf->json)
		return;
	fprintf(perf->json,
		"%s\n  {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\", "
		"\"root\": %d",
		perf->json_rows++ ? "," : "", test->bytes, test->count, type, op, root);
	json_half(perf, test, "out_of_place", out_of_place);
	json_half(perf, test, "in_place", in_place);
	fprintf(perf->json, "}");
}

void perf_report_overlap_row(struct perf *perf, const struct perf_overlap_row *row)
{
	char wrong[32] = "N/A";

	if (perf->rank != 0)
		return;
	if (row->pure.wrong >= 0)
		snprintf(wrong, sizeof wrong, "%lld",
			 (long long)(row->pure.wrong + row->total.wrong));
	printf("%14zu  %12zu  %12.2f  %12.2f  %12.2f  %10.1f  %6s\n", row->bytes, row->count,
	       1e6 * row->pure.median, 1e6 * row->compute.median, 1e6 * row->total.median, row->osu,
	       wrong);
	fflush(stdout);
	if (!perf->json)
		return;
	fprintf(perf->json, "%s\n  {\"size\": %zu, \"count\": %zu,\n   \"pure\": {",
		perf->json_rows++ ? "," : "", row->bytes, row->count);
	json_result(perf->json, &row->pure);
	fprintf(perf->json, "},\n   \"compute\": {");
	json_result(perf->json, &row->compute);
	fprintf(perf->json, "},\n   \"total\": {");
	json_result(perf->json, &row->total);
	fprintf(perf->json, "},\n   \"overlap_osu\": %.2f, \"overlap_imb\": %.2f}", row->osu,
		row->imb);
}

void perf_report_close(struct perf *perf)
{
	double average = perf->bandwidths ? perf->bus_bandwidth / perf->bandwidths : 0;
	bool okay = perf->total_wrong == 0;

	if (perf->rank != 0)
		return;
	printf("# Out of bounds values : %lld %s\n", (long long)perf->total_wrong,
	       okay ? "OK" : "FAILED");
	if (!perf->options->overlap && !perf->options->p2p)
		printf("# Avg bus bandwidth    : %g\n", average);
	printf("#\n# Collective test concluded: stretto-perf %s\n", test_name(perf));
	if (!perf->json)
		return;
	fprintf(perf->json,
		"],\n \"out_of_bounds\": {\"count\": %lld, \"okay\": %s},\n "
		"\"average_bus_bandwidth\": {\"bandwidth\": %.4f},\n \"end_time\": %lld}\n",
		(long long)perf->total_wrong, okay ? "true" : "false", average,
		(long long)time(NULL));
	if (ferror(perf->json) | fclose(perf->json))
		tool_die(PERF_USAGE, "--json %s: cannot write: %s", perf->options->json,
			 strerror(errno));
}
