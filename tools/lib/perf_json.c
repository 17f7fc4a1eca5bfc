/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tools/lib/machine.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

static void json_rank(FILE *file, int rank, const struct perf_facts *facts)
{
	fprintf(file, "%s\n  {\"rank\": %d, \"host\": ", rank ? "," : "", rank);
	machine_json_text(file, facts->host);
	fprintf(file,
		", \"pid\": %lld, \"affinity\": \"%s\", \"compute_cores\": %lld, \"memlock\": "
		"%lld, "
		"\"governor\": ",
		(long long)facts->pid, facts->cores, (long long)facts->compute_cores,
		(long long)facts->memlock);
	machine_json_text(file, facts->governor);
	fprintf(file, ", \"transports\": ");
	machine_json_text(file, facts->transports);
	fprintf(file, "}");
}

void perf_json_open(struct perf *perf, const struct perf_facts *facts)
{
	const struct perf_options *options = perf->options;
	FILE *file = perf->json;
	char load[64];

	machine_load(load, sizeof load);
	fprintf(file,
		"{\"version\": \"%s\", \"test\": \"%s\",\n \"start_time\": %lld,\n \"args\": [",
		stretto_version(), perf_test_name(options), (long long)time(NULL));
	for (int i = 0; i < options->argc; i++) {
		fputs(i ? ", " : "", file);
		machine_json_text(file, options->argv[i]);
	}
	fprintf(file, "],\n \"settings\": [");
	perf_each_setting(options, machine_json_text, file, ", ");
	fprintf(file,
		"],\n \"config\": {\"minbytes\": %zu, \"maxbytes\": %zu, \"stepfactor\": %zu, "
		"\"stepbytes\": %zu, \"warmup_iters\": %d, \"iters\": %d, \"check\": %d, "
		"\"registered\": %d, \"compute\": \"%s\", \"calls\": \"%s\", \"sets\": %d, "
		"\"load_average\": \"%s\"},\n \"ranks\": "
		"[",
		options->min_bytes, options->max_bytes, options->factor, options->step_bytes,
		options->warmup, options->iterations, options->check, options->registered,
		options->sleep_compute ? "sleep" : "gemm", perf_mode_name(options->mode),
		options->sets, load);
	for (int i = 0; i < perf->size; i++)
		json_rank(file, i, &facts[i]);
	fprintf(file, "],\n \"results\": [");
}

static void json_result(FILE *file, const struct perf_result *result)
{
	fprintf(file,
		"\"time\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, "
		"\"avg_us\": %.3f, \"rank_avg_us\": %.3f, \"rank_min_us\": %.3f, \"rank_max_us\": "
		"%.3f, \"nwrong\": ",
		1e6 * result->median, 1e6 * result->median, 1e6 * result->p99, 1e6 * result->min,
		1e6 * result->max, 1e6 * result->mean, 1e6 * result->rank_mean,
		1e6 * result->rank_min, 1e6 * result->rank_max);
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
	fprintf(perf->json, ", \"alg_bw\": %.4f, \"bus_bw\": %.4f}", perf_algbw(test, result),
		perf_busbw(perf, test, result));
}

void perf_json_row(struct perf *perf, const struct perf_case *test,
		   const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	fprintf(perf->json,
		"%s\n  {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\", "
		"\"root\": %d",
		perf->json_rows++ ? "," : "", test->bytes, test->count, perf_type_word(test),
		perf_op_word(test), perf_root(test));
	json_half(perf, test, "out_of_place", out_of_place);
	json_half(perf, test, "in_place", in_place);
	fprintf(perf->json, "}");
}

void perf_json_overlap_row(struct perf *perf, const struct perf_overlap_row *row)
{
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

void perf_json_close(struct perf *perf)
{
	double average = perf->bandwidths ? perf->bus_bandwidth / perf->bandwidths : 0;
	bool okay = perf->total_wrong == 0;

	fprintf(perf->json,
		"],\n \"out_of_bounds\": {\"count\": %lld, \"okay\": %s},\n "
		"\"average_bus_bandwidth\": {\"bandwidth\": %.4f},\n \"end_time\": %lld}\n",
		(long long)perf->total_wrong, okay ? "true" : "false", average,
		(long long)time(NULL));
	if (perf->json == stdout)
		return; /* tool_end() looks at it */
	if (ferror(perf->json) | fclose(perf->json))
		tool_die(PERF_USAGE, "--json %s: cannot write: %s", perf->options->json,
			 strerror(errno));
}
