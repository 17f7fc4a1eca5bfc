/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/comm.h"
#include "tools/lib/job.h"
#include "tools/lib/machine.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

extern char **environ;

const char *perf_test_name(const struct perf_options *options)
{
	if (options->p2p)
		return "p2p";
	if (options->tune)
		return "tune";
	return options->overlap ? "overlap" : stretto_collective_name(options->collective);
}

const char *perf_mode_name(enum perf_mode mode)
{
	static const char *const names[] = {
		[PERF_BLOCKING] = "blocking",
		[PERF_NONBLOCKING] = "nonblocking",
		[PERF_PERSISTENT] = "persistent",
	};

	return names[mode];
}

const char *perf_type_word(const struct perf_case *test)
{
	return perf_collectives[test->collective].no_data ? "none" : stretto_type_name(test->type);
}

const char *perf_op_word(const struct perf_case *test)
{
	return perf_collectives[test->collective].reduces ? stretto_op_name(test->op) : "none";
}

int perf_root(const struct perf_case *test)
{
	return perf_collectives[test->collective].rooted ? test->root : -1;
}

double perf_algbw(const struct perf_case *test, const struct perf_result *result)
{
	return result->median > 0 ? (double)test->bytes / result->median / 1e9 : 0;
}

double perf_busbw(const struct perf *perf, const struct perf_case *test,
		  const struct perf_result *result)
{
	int passes = perf_collectives[test->collective].passes;
	double algbw = perf_algbw(test, result);

	return passes ? algbw * passes * (perf->size - 1) / perf->size : algbw;
}

/* The transports of the first channel, in the order in which they are tried. */
static void list_transports(const struct perf *perf, char *text, size_t size)
{
	const struct stretto_world *world = perf->comm->world;
	const struct stretto_channel *channel = world->channels[0];
	char rdma[96];
	size_t used = 0;

	job_name_devices(world, rdma, sizeof rdma);
	text[0] = '\0';
	for (int i = 0; i < channel->device_count && used < size; i++) {
		int length = snprintf(text + used, size - used, "%s%s", i ? " " : "",
				      channel->devices[i]->transport->name);

		used += length > 0 ? (size_t)length : 0;
	}
	if (used < size && strcmp(rdma, "-") != 0)
		snprintf(text + used, size - used, "; %s", rdma);
}

static struct perf_facts own_facts(const struct perf *perf)
{
	struct perf_facts facts;
	struct rlimit limit;

	memset(&facts, 0, sizeof facts);
	if (gethostname(facts.host, sizeof facts.host - 1) != 0)
		facts.host[0] = '?';
	machine_cores(facts.cores, sizeof facts.cores);
	machine_governor(facts.governor, sizeof facts.governor);
	list_transports(perf, facts.transports, sizeof facts.transports);
	facts.pid = getpid();
	facts.memlock = -1;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		facts.memlock = (int64_t)limit.rlim_cur;
	facts.compute_cores = stretto_compute_cores(perf->comm);
	return facts;
}

static int count_hosts(const struct perf_facts *facts, int size)
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

int perf_each_setting(const struct perf_options *options,
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

static void print_ranks(const struct perf *perf, const struct perf_facts *facts)
{
	int hosts = count_hosts(facts, perf->size);

	printf("# Using %d rank%s on %d host%s\n", perf->size, perf->size > 1 ? "s" : "", hosts,
	       hosts > 1 ? "s" : "");
	for (int i = 0; i < perf->size; i++) {
		char memlock[32] = "unlimited";

		if (facts[i].memlock >= 0)
			snprintf(memlock, sizeof memlock, "%lld", (long long)facts[i].memlock);
		printf("#  Rank %2d Pid %6lld on %s: affinity %s, compute cores %lld, memlock %s, "
		       "governor %s, transports %s\n",
		       i, (long long)facts[i].pid, facts[i].host, facts[i].cores,
		       (long long)facts[i].compute_cores, memlock, facts[i].governor,
		       facts[i].transports);
	}
}

static void print_header(const struct perf *perf, const struct perf_facts *facts)
{
	const struct perf_options *options = perf->options;
	char load[64];

	machine_load(load, sizeof load);
	printf("# Collective test starting: stretto-perf %s, stretto %s\n", perf_test_name(options),
	       stretto_version());
	printf("# minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
	       "validation: %d registered: %d\n",
	       options->min_bytes, options->max_bytes,
	       options->step_bytes ? options->step_bytes : options->factor,
	       options->step_bytes ? "bytes" : "factor", options->warmup, options->iterations,
	       options->check, options->registered);
	if (!options->p2p && !options->tune)
		printf("# calls: %s, sets of buffers: %d\n", perf_mode_name(options->mode),
		       options->sets);
	printf("# settings: ");
	if (perf_each_setting(options, print_plain, stdout, " ") == 0)
		printf("all default");
	printf("\n# load average %s, cores online %ld\n", load, sysconf(_SC_NPROCESSORS_ONLN));
	print_ranks(perf, facts);
	if (options->format)
		options->format->columns(perf);
	fflush(stdout);
}

/* The JSON goes to a file, or to stdout alone. */
static void open_json(struct perf *perf)
{
	const struct perf_options *options = perf->options;

	if (!options->json && (options->format || options->p2p || options->tune))
		return;
	perf->json = options->json ? fopen(options->json, "w") : stdout;
	if (!perf->json)
		tool_fail("--json %s: %s", options->json, strerror(errno));
}

/* stdout is not the JSON's. */
static bool prints_text(const struct perf *perf)
{
	return perf->rank == 0 && perf->json != stdout;
}

void perf_report_open(struct perf *perf)
{
	struct perf_facts mine = own_facts(perf);
	struct perf_facts *all;

	if (perf->rank == 0)
		open_json(perf);
	all = calloc((size_t)perf->size, sizeof *all);
	if (!all)
		tool_die(PERF_COMMUNICATION, "no memory for the report");
	perf_must(perf, stretto_allgather(perf->comm, &mine, all, sizeof mine, STRETTO_U8),
		  "allgather of the ranks' facts");
	if (perf->json)
		perf_json_open(perf, all);
	if (prints_text(perf))
		print_header(perf, all);
	free(all);
}

/* All ranks have the same times, so they agree on what is too slow. */
static void judge(struct perf *perf, const struct perf_case *test, const struct perf_result *result,
		  const char *place)
{
	double bandwidth;

	if (!result)
		return;
	bandwidth = perf_busbw(perf, test, result);
	perf->bus_bandwidth += bandwidth;
	perf->bandwidths++;
	if (bandwidth >= perf->options->least_bandwidth)
		return;
	perf->too_slow++;
	if (perf->rank == 0)
		fprintf(stderr,
			"stretto-perf: %s of %zu bytes, %s %s, %s: busbw %.4f GB/s is below "
			"--min-bw %g\n",
			perf_test_name(perf->options), test->bytes, perf_type_word(test),
			perf_op_word(test), place, bandwidth, perf->options->least_bandwidth);
}

void perf_report_row(struct perf *perf, const struct perf_case *test,
		     const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	judge(perf, test, out_of_place, "out of place");
	judge(perf, test, in_place, "in place");
	if (perf->json)
		perf_json_row(perf, test, out_of_place, in_place);
	if (!prints_text(perf))
		return;
	perf->options->format->row(perf, test, out_of_place, in_place);
	fflush(stdout);
}

void perf_report_overlap_row(struct perf *perf, const struct perf_overlap_row *row)
{
	if (perf->json)
		perf_json_overlap_row(perf, row);
	if (!prints_text(perf))
		return;
	perf->options->format->overlap_row(perf, row);
	fflush(stdout);
}

void perf_report_close(struct perf *perf)
{
	const struct perf_options *options = perf->options;

	if (prints_text(perf) && !options->tune) {
		printf("# Out of bounds values : %lld %s\n", (long long)perf->total_wrong,
		       perf->total_wrong == 0 ? "OK" : "FAILED");
		if (!options->overlap && !options->p2p)
			printf("# Avg bus bandwidth    : %g\n",
			       perf->bandwidths ? perf->bus_bandwidth / perf->bandwidths : 0);
		printf("#\n# Collective test concluded: stretto-perf %s\n",
		       perf_test_name(options));
	}
	if (perf->json)
		perf_json_close(perf);
}
