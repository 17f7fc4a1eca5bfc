/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "tools/lib/perf.h"

/* A number in at most `width` characters, with two decimals where they fit. */
static const char *fit(char *text, size_t size, double value, int width)
{
	int decimals = 2;

	while (snprintf(text, size, "%.*f", decimals, value) > width && decimals > 0)
		decimals--;
	return text;
}

static const struct perf_result *measured(const struct perf_result *out_of_place,
					  const struct perf_result *in_place)
{
	return out_of_place ? out_of_place : in_place;
}

static int64_t overlap_wrong(const struct perf_overlap_row *row)
{
	return row->pure.wrong < 0 ? -1 : row->pure.wrong + row->total.wrong;
}

/* A count of wrong elements, or what stands for one that was not counted. */
static const char *wrong_text(char *text, size_t size, int64_t wrong, const char *none)
{
	if (wrong < 0)
		snprintf(text, size, "%s", none);
	else
		snprintf(text, size, "%lld", (long long)wrong);
	return text;
}

static void nccl_columns(const struct perf *perf)
{
	printf("# time: median over the iterations; each is the slowest rank's, after a barrier\n");
	if (perf->options->overlap) {
		printf("#\n# compute: %s; no call into the library between start and wait\n",
		       perf->options->sleep_compute ? "sleep" : "gemm");
		printf("# %12s  %12s  %12s  %12s  %12s  %10s  %10s  %6s\n", "size", "count",
		       "t_pure", "t_compute", "t_total", "OSU", "IMB", "#wrong");
		printf("# %12s  %12s  %12s  %12s  %12s  %10s  %10s\n", "(B)", "(elements)", "(us)",
		       "(us)", "(us)", "(%)", "(%)");
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

static void nccl_half(const struct perf *perf, const struct perf_case *test,
		      const struct perf_result *result)
{
	char time[32], algbw[32], busbw[32], wrong[32];

	if (!result) {
		printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	printf("  %7s  %6s  %6s  %6s", fit(time, sizeof time, 1e6 * result->median, 7),
	       fit(algbw, sizeof algbw, perf_algbw(test, result), 6),
	       fit(busbw, sizeof busbw, perf_busbw(perf, test, result), 6),
	       wrong_text(wrong, sizeof wrong, result->wrong, "N/A"));
}

static void nccl_row(const struct perf *perf, const struct perf_case *test,
		     const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	printf("%12zu  %12zu  %8s  %6s  %6d", test->bytes, test->count, perf_type_word(test),
	       perf_op_word(test), perf_root(test));
	nccl_half(perf, test, out_of_place);
	nccl_half(perf, test, in_place);
	printf("\n");
}

static void nccl_overlap_row(const struct perf *perf, const struct perf_overlap_row *row)
{
	char wrong[32];

	(void)perf;
	printf("%14zu  %12zu  %12.2f  %12.2f  %12.2f  %10.1f  %10.1f  %6s\n", row->bytes,
	       row->count, 1e6 * row->pure.median, 1e6 * row->compute.median,
	       1e6 * row->total.median, row->osu, row->imb,
	       wrong_text(wrong, sizeof wrong, overlap_wrong(row), "N/A"));
}

/* The size that OSU and IMB print: of what one rank contributes to an allgather. */
static size_t their_size(const struct perf_case *test)
{
	if (perf_collectives[test->collective].block_is_size)
		return test->count * stretto_type_size(test->type);
	return test->bytes;
}

static void osu_columns(const struct perf *perf)
{
	const struct perf_options *options = perf->options;
	const struct perf_collective *collective = &perf_collectives[options->collective];

	printf("\n# Stretto %s%s Latency Test v%s\n", options->overlap ? "I" : "",
	       options->overlap ? "allreduce" : collective->osu, stretto_version());
	if (options->overlap) {
		printf("# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n");
		printf("%-10s%20s%20s%20s", "# Size", "Overall(us)", "Compute(us)",
		       "Pure Comm.(us)");
		if (options->full)
			printf("%20s%20s", "Min Comm.(us)", "Max Comm.(us)");
		printf("%20s\n", "Overlap(%)");
		return;
	}
	if (collective->no_data)
		printf("%17s", "# Avg Latency(us)");
	else
		printf("%-10s%20s", "# Size", "Avg Latency(us)");
	if (options->full)
		printf("%20s%20s%20s%20s%20s%20s", "Min Latency(us)", "Max Latency(us)",
		       "Iterations", "Validation", "P50 Tail Lat(us)", "P99 Tail Lat(us)");
	printf("\n");
}

static const char *validation(int64_t wrong)
{
	return wrong < 0 ? "-" : wrong ? "Fail" : "Pass";
}

static void osu_row(const struct perf *perf, const struct perf_case *test,
		    const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	const struct perf_result *result = measured(out_of_place, in_place);

	if (perf_collectives[test->collective].no_data)
		printf("%17.2f", 1e6 * result->rank_mean);
	else
		printf("%-10zu%20.2f", their_size(test), 1e6 * result->rank_mean);
	if (perf->options->full)
		printf("%20.2f%20.2f%20d%20s%20.2f%20.2f", 1e6 * result->rank_min,
		       1e6 * result->rank_max, perf->options->iterations, validation(result->wrong),
		       1e6 * result->median, 1e6 * result->p99);
	printf("\n");
}

static void osu_overlap_row(const struct perf *perf, const struct perf_overlap_row *row)
{
	printf("%-10zu%20.2f%20.2f%20.2f", row->bytes, 1e6 * row->total.median,
	       1e6 * row->compute.median, 1e6 * row->pure.median);
	if (perf->options->full)
		printf("%20.2f%20.2f", 1e6 * row->pure.min, 1e6 * row->pure.max);
	printf("%20.2f\n", row->osu);
}

static void imb_columns(const struct perf *perf)
{
	static const char line[] =
		"#----------------------------------------------------------------";
	const struct perf_options *options = perf->options;
	const struct perf_collective *collective = &perf_collectives[options->collective];

	printf("\n%s\n# Benchmarking %s%s \n# #processes = %d \n%s\n", line,
	       options->overlap ? "I" : "", options->overlap ? "allreduce" : collective->osu,
	       perf->size, line);
	if (options->overlap)
		printf("%13s%13s%13s%13s%13s%13s\n", "#bytes", "#repetitions", "t_ovrl[usec]",
		       "t_pure[usec]", "t_CPU[usec]", "overlap[%]");
	else if (collective->no_data)
		printf("%13s%13s%13s%13s\n", "#repetitions", "t_min[usec]", "t_max[usec]",
		       "t_avg[usec]");
	else
		printf("%13s%13s%13s%13s%13s\n", "#bytes", "#repetitions", "t_min[usec]",
		       "t_max[usec]", "t_avg[usec]");
}

static void imb_row(const struct perf *perf, const struct perf_case *test,
		    const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	const struct perf_result *result = measured(out_of_place, in_place);

	if (!perf_collectives[test->collective].no_data)
		printf("%13zu", their_size(test));
	printf("%13d%13.2f%13.2f%13.2f\n", perf->options->iterations, 1e6 * result->rank_min,
	       1e6 * result->rank_max, 1e6 * result->rank_mean);
}

static void imb_overlap_row(const struct perf *perf, const struct perf_overlap_row *row)
{
	printf("%13zu%13d%13.2f%13.2f%13.2f%13.2f\n", row->bytes, perf->options->iterations,
	       1e6 * row->total.median, 1e6 * row->pure.median, 1e6 * row->compute.median,
	       row->imb);
}

static void csv_columns(const struct perf *perf)
{
	if (perf->options->overlap)
		printf("test,ranks,size,count,compute,iterations,pure_us,compute_us,total_us,"
		       "pure_p99_us,total_p99_us,overlap_osu,overlap_imb,nwrong\n");
	else
		printf("test,ranks,size,count,type,redop,root,place,calls,sets,iterations,p50_us,"
		       "p99_us,min_us,max_us,avg_us,rank_avg_us,rank_min_us,rank_max_us,algbw,"
		       "busbw,nwrong\n");
}

static void csv_half(const struct perf *perf, const struct perf_case *test, const char *place,
		     const struct perf_result *result)
{
	const struct perf_options *options = perf->options;
	char wrong[32];

	if (!result)
		return;
	printf("%s,%d,%zu,%zu,%s,%s,%d,%s,%s,%d,%d,", perf_test_name(options), perf->size,
	       test->bytes, test->count, perf_type_word(test), perf_op_word(test), perf_root(test),
	       place, perf_mode_name(options->mode), options->sets, options->iterations);
	printf("%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,", 1e6 * result->median, 1e6 * result->p99,
	       1e6 * result->min, 1e6 * result->max, 1e6 * result->mean, 1e6 * result->rank_mean,
	       1e6 * result->rank_min, 1e6 * result->rank_max);
	printf("%.4f,%.4f,%s\n", perf_algbw(test, result), perf_busbw(perf, test, result),
	       wrong_text(wrong, sizeof wrong, result->wrong, ""));
}

static void csv_row(const struct perf *perf, const struct perf_case *test,
		    const struct perf_result *out_of_place, const struct perf_result *in_place)
{
	csv_half(perf, test, "out", out_of_place);
	csv_half(perf, test, "in", in_place);
}

static void csv_overlap_row(const struct perf *perf, const struct perf_overlap_row *row)
{
	char wrong[32];

	printf("overlap,%d,%zu,%zu,%s,%d,%.3f,%.3f,%.3f,%.3f,%.3f,%.2f,%.2f,%s\n", perf->size,
	       row->bytes, row->count, perf->options->sleep_compute ? "sleep" : "gemm",
	       perf->options->iterations, 1e6 * row->pure.median, 1e6 * row->compute.median,
	       1e6 * row->total.median, 1e6 * row->pure.p99, 1e6 * row->total.p99, row->osu,
	       row->imb, wrong_text(wrong, sizeof wrong, overlap_wrong(row), ""));
}

const struct perf_format perf_formats[] = {
	{"nccl", false, nccl_columns, nccl_row, nccl_overlap_row},
	{"osu", true, osu_columns, osu_row, osu_overlap_row},
	{"imb", true, imb_columns, imb_row, imb_overlap_row},
	{"csv", false, csv_columns, csv_row, csv_overlap_row},
};
const size_t perf_formats_count = sizeof perf_formats / sizeof *perf_formats;
