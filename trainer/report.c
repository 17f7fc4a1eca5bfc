/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/report.h"

#include <math.h>
#include <stdio.h>

#include "trainer/json.h"

/* A number for JSON, which has no NaN. */
static void print_number(const char *name, double value, const char *end)
{
	if (isfinite(value))
		printf("\"%s\": %.6g%s", name, value, end);
	else
		printf("\"%s\": null%s", name, end);
}

static void print_text_of(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	stretto_json_put_text(stdout, text);
	fputs(", ", stdout);
}

/* Milliseconds that one average is in flight; NaN if there was none. */
static double average_ms(const struct stretto_train_result *result)
{
	double averages = (double)result->stats.averages;

	/* Steps of a round, from the counts: the windows are whole rounds. */
	return averages > 0 ? result->step.in_flight * 1e3 * rint((double)result->steps / averages)
			    : NAN;
}

static void print_object(const struct stretto_report *report, size_t i)
{
	const struct stretto_train_options *train = &report->trainings[i];
	const struct stretto_train_result *result = &report->results[i];
	int ranks = report->ranks;
	const struct stretto_average_options *average = &train->average;
	const struct stretto_average_stats *stats = &result->stats;

	printf("{\"strategy\": \"%s\", ", stretto_strategy_name(average->strategy));
	print_number("samples_per_s", result->samples_per_second, ", ");
	print_number("step_ms", result->step.seconds * 1e3, ", ");
	print_number("compute_ms", (result->step.seconds - result->step.exposed) * 1e3, ", ");
	print_number("exposed_ms", result->step.exposed * 1e3, ", ");
	print_number("in_flight_ms", result->step.in_flight * 1e3, ", ");
	print_number("hidden_percent", 100 * stretto_train_hidden(result), ", ");
	print_number("test_accuracy", result->accuracy, ", ");
	print_number("effective_steps", stretto_average_effective_steps(average, ranks), ", ");
	print_number("average_ms", average_ms(result), ", ");
	print_number("loss", result->loss, ", ");
	print_number("seconds", result->seconds, ", ");
	print_number("exposed_seconds", stats->exposed_seconds, ", ");
	print_number("in_flight_seconds", stats->in_flight_seconds, ", ");
	print_number("slower_percent", result->straggler.slower_percent, ", ");
	printf("\"slowest_rank\": %d, ", result->straggler.rank);
	print_text_of("slowest_host", result->straggler.host);
	printf("\"parameter_bytes\": %zu, ", result->parameters * sizeof(float));
	print_text_of("model", report->model);
	printf("\"ranks\": %d, \"batch\": %zu, \"tau\": %zu, \"delay\": %zu, "
	       "\"own_weight\": %g, \"steps\": %zu, \"seed\": %llu, \"averages\": %llu, "
	       "\"bytes_averaged\": %llu, \"bytes_copied\": %llu, \"weight_arenas\": %zu}",
	       ranks, train->model.batch, average->tau, average->delay, (double)average->own_weight,
	       result->steps, (unsigned long long)train->seed, (unsigned long long)stats->averages,
	       (unsigned long long)stats->bytes_averaged, (unsigned long long)stats->bytes_copied,
	       stats->weight_arenas);
}

static void print_text(const struct stretto_train_options *train, int ranks,
		       const struct stretto_train_result *result)
{
	const struct stretto_average_options *average = &train->average;
	const struct stretto_average_stats *stats = &result->stats;
	const struct stretto_straggler *straggler = &result->straggler;
	double step = result->step.seconds * 1e3, exposed = result->step.exposed * 1e3;

	printf("strategy         %s on %d rank%s", stretto_strategy_name(average->strategy), ranks,
	       ranks == 1 ? "" : "s");
	printf(", %zu steps in %.2f s\n", result->steps, result->seconds);
	printf("throughput       %.0f samples/s\n", result->samples_per_second);
	printf("step             %.3f ms = %.3f compute + %.3f exposed\n", step, step - exposed,
	       exposed);
	if (stats->averages > 0)
		printf("communication    %llu averages, %.3f s in flight, %.3f s exposed: %.1f %% "
		       "hidden\n",
		       (unsigned long long)stats->averages, stats->in_flight_seconds,
		       stats->exposed_seconds, 100 * stretto_train_hidden(result));
	printf("effective steps  %g a round\n", stretto_average_effective_steps(average, ranks));
	printf("test accuracy    %.2f %%\n", 100 * result->accuracy);
	if (straggler->slower_percent > STRETTO_STRAGGLER_PERCENT)
		printf("straggler        rank %d on %s computes %.3f ms a step, %.0f %% more than "
		       "the "
		       "median\n",
		       straggler->rank, straggler->host, straggler->compute * 1e3,
		       straggler->slower_percent);
}

/* The trainings side by side as a table, a line each. */
static void print_table(const struct stretto_train_options *trainings,
			const struct stretto_train_result *results, size_t count)
{
	printf("%-12s %10s %9s %10s %10s %9s %10s\n", "strategy", "samples/s", "step ms",
	       "compute ms", "exposed ms", "hidden %", "accuracy %");
	for (size_t i = 0; i < count; i++) {
		double step = results[i].step.seconds * 1e3;
		double exposed = results[i].step.exposed * 1e3;

		printf("%-12s %10.0f %9.3f %10.3f %10.3f ",
		       stretto_strategy_name(trainings[i].average.strategy),
		       results[i].samples_per_second, step, step - exposed, exposed);
		if (results[i].stats.averages > 0)
			printf("%9.1f ", 100 * stretto_train_hidden(&results[i]));
		else
			printf("%9s ", "-");
		printf("%10.2f\n", 100 * results[i].accuracy);
	}
}

void stretto_report_text(const struct stretto_report *report)
{
	if (report->count == 1)
		print_text(report->trainings, report->ranks, report->results);
	else
		print_table(report->trainings, report->results, report->count);
}

void stretto_report_json(const struct stretto_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		printf("%s", report->count == 1 ? "" : i == 0 ? "[" : ",\n");
		print_object(report, i);
	}
	printf("%s\n", report->count == 1 ? "" : "]");
}
