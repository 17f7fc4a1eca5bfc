/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-train: trains a network on images in MNIST's format, on all ranks of the job, with one of
 * the averaging strategies. docs/training.md is the guide.
 *
 * Exit status: 0 trained; 1 bad data, a loss that is not a number, or a metrics file that cannot be
 * written; 2 bad options; 3 communication failed. Rank 0 alone writes, but for errors of others.
 */
#include <cblas.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/config.h"
#include "tools/lib/averaging.h"
#include "tools/lib/options.h"
#include "trainer/delay.h"
#include "trainer/metrics.h"
#include "trainer/report.h"
#include "trainer/train.h"

enum { FAILED = 1, NO_COMMUNICATION = 3 };

_Static_assert((int)TOOL_STRATEGIES <= (int)STRETTO_TRAIN_SIDE_BY_SIDE,
	       "all of them can be trained");

/* Longest "STRETTO_PACE=RATE:LATENCY". */
enum { SETTING = 128 };

/* Seconds between two progress lines: elsewhere, and on a terminal. */
static const double line_seconds[] = {5.0, 0.1};

/* The command line. */
struct options {
	struct stretto_train_options train; /* but for the averaging */
	struct tool_averaging averaging;    /* strategies to train side by side */
	const char *data;
	const char *model;    /* as given, for the summary */
	const char *metrics;  /* path; NULL: none */
	size_t metrics_every; /* steps */
	int threads;          /* of BLAS, 0: as many as the runtime says */
	bool json;
	bool quiet;
	char pace[SETTING]; /* a setting; "": none */
};

/* What the observer needs. */
struct watch {
	struct stretto_metrics metrics;
	const struct options *options;
	const char *name; /* of the strategy, where there are several; else "" */
	bool writes;      /* rank 0 */
	bool terminal;    /* stderr is one */
	size_t samples;   /* of all ranks in a step */
	size_t epoch;     /* of the last line */
	double shown;     /* when the last line was written, seconds */
};

enum {
	OPT_DATA = TOOL_LONG_ONLY,
	OPT_MODEL,
	OPT_EPOCHS,
	OPT_STEPS,
	OPT_BATCH,
	OPT_OPTIMIZER,
	OPT_SCHEDULE,
	OPT_SEED,
	OPT_PACE,
	OPT_THREADS,
	OPT_METRICS,
	OPT_METRICS_EVERY,
	OPT_JSON,
	OPT_QUIET,
};

static const struct tool_option table[] = {
	{"data", OPT_DATA, "NAME",
	 "fashion-mnist, or a folder of files in MNIST's format (fashion-mnist)"},
	{"model", OPT_MODEL, "MODEL", "widths of the layers (mlp:784-512-256-10)"},
	TOOL_AVERAGING_ROWS{"epochs", OPT_EPOCHS, "N", "passes over the data (1)"},
	{"steps", OPT_STEPS, "N", "stop after N local steps"},
	{"batch", OPT_BATCH, "N", "images a step on each rank (64)"},
	{"optimizer", OPT_OPTIMIZER, "TEXT",
	 "sgd:lr=,momentum=,nesterov=,decay=,clip=; adam:lr=,beta1=,beta2=,eps=,clip=; adamw: also "
	 "decay= (sgd:lr=0.05,momentum=0.9)"},
	{"schedule", OPT_SCHEDULE, "TEXT",
	 "constant, step:every=STEPS,factor=F, onecycle or cosine:warmup=STEPS,floor=F (constant)"},
	{"seed", OPT_SEED, "N", "of the initial weights and the shuffles (1)"},
	{"pace", OPT_PACE, "RATE:LATENCY", "communicate as over such a link, e.g. 10gbit:20us"},
	{"threads", OPT_THREADS, "N", "BLAS threads of a rank (the cores the runtime leaves free)"},
	{"metrics", OPT_METRICS, "FILE", "write one JSON object a line every few steps"},
	{"metrics-every", OPT_METRICS_EVERY, "N", "steps between two of these lines (10)"},
	{"json", OPT_JSON, NULL, "print the summary as one JSON object"},
	{"quiet", OPT_QUIET, NULL, "no progress lines"},
	{NULL, 0, NULL, NULL},
};

static const struct tool tool = {
	.usage = "[OPTION...]",
	.summary = "Trains a network on images, on all ranks, averaging in the background.",
	.options = table,
	.notes = "Run it on two ranks with: stretto-run -n 2 stretto-train --strategy dasgd",
};

/* Ends the program if a parser said what is wrong. */
static void expect(const char *option, const char *text, const char *problem)
{
	if (problem)
		tool_fail("%s %s: %s", option, text, problem);
}

static void set_pace(struct options *options, const char *text)
{
	struct stretto_pace pace;
	int length = snprintf(options->pace, SETTING, "STRETTO_PACE=%s", text);

	if (length >= SETTING || stretto_parse_pace(text, &pace) != STRETTO_OK)
		tool_fail("--pace %.80s: expected RATE:LATENCY, such as 10gbit:20us", text);
}

/* Options that describe the training. */
static bool set_training(struct options *options, int id, const char *text)
{
	struct stretto_train_options *train = &options->train;

	switch (id) {
	case OPT_DATA:
		options->data = text;
		return true;
	case OPT_MODEL:
		options->model = text;
		expect("--model", text, stretto_model_parse(text, &train->model));
		return true;
	case OPT_EPOCHS:
		train->epochs = (size_t)tool_int("--epochs", text, 1, 1000000);
		return true;
	case OPT_STEPS:
		train->steps = (size_t)tool_int("--steps", text, 1, 1000000000);
		return true;
	case OPT_BATCH:
		train->model.batch = (size_t)tool_int("--batch", text, 1, 65536);
		return true;
	case OPT_OPTIMIZER:
		expect("--optimizer", text, stretto_optimizer_parse(text, &train->optimizer));
		return true;
	case OPT_SCHEDULE:
		expect("--schedule", text, stretto_rate_parse(text, &train->rate));
		return true;
	case OPT_SEED:
		train->seed = (uint64_t)tool_int("--seed", text, 0, INT64_MAX);
		return true;
	default:
		return false;
	}
}

/* Options that describe the run. */
static void set_run(struct options *options, int id, const char *text)
{
	switch (id) {
	case OPT_PACE:
		set_pace(options, text);
		break;
	case OPT_THREADS:
		options->threads = (int)tool_int("--threads", text, 1, 1024);
		break;
	case OPT_METRICS:
		options->metrics = text;
		break;
	case OPT_METRICS_EVERY:
		options->metrics_every = (size_t)tool_int("--metrics-every", text, 1, 1000000);
		break;
	case OPT_JSON:
		options->json = true;
		break;
	case OPT_QUIET:
		options->quiet = true;
		break;
	default:
		break;
	}
}

static void set_defaults(struct options *options)
{
	struct stretto_train_options *train = &options->train;

	*options = (struct options){.data = "fashion-mnist", .metrics_every = 10};
	options->model = "mlp:784-512-256-10";
	tool_averaging_defaults(&options->averaging);
	train->model.batch = 64;
	train->epochs = 1;
	train->seed = 1;
	stretto_model_parse(options->model, &train->model);
	stretto_optimizer_parse("sgd", &train->optimizer);
	stretto_rate_parse("constant", &train->rate);
}

static void parse(int argc, char **argv, struct options *options)
{
	int id;

	set_defaults(options);
	while ((id = tool_next(&tool, argc, argv)) >= 0) {
		if (!set_training(options, id, optarg) &&
		    !tool_averaging_set(&options->averaging, id, optarg))
			set_run(options, id, optarg);
	}
	if (optind < argc)
		tool_fail("unexpected argument '%s'", argv[optind]);
	if (options->metrics && options->averaging.count > 1)
		tool_fail("--metrics goes with one strategy, not with %zu",
			  options->averaging.count);
	for (size_t i = 0; i < options->averaging.count; i++)
		tool_averaging_settle(&options->averaging, i, options->train.optimizer.clip);
}

/*
 * All ranks of a job have the same command line: while it is read, only the first may complain.
 * The launcher's rank is all that is known before stretto_init().
 */
static void parse_as_one(int argc, char **argv, struct options *options)
{
	const char *rank = getenv("STRETTO_RANK");
	bool silent = rank && strcmp(rank, "0") != 0;
	int kept = silent ? dup(STDERR_FILENO) : -1;
	int null = silent ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

	if (kept >= 0 && null >= 0)
		dup2(null, STDERR_FILENO);
	parse(argc, argv, options);
	if (kept >= 0 && null >= 0)
		dup2(kept, STDERR_FILENO);
	if (kept >= 0)
		close(kept);
	if (null >= 0)
		close(null);
}

/*
 * Loads the data on every rank and agrees on the outcome, so that nobody waits for a rank that has
 * left: the first rank that failed says why, and all get FAILED.
 */
static int load(struct stretto_comm *world, const char *name, struct stretto_dataset *dataset)
{
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	char problem[STRETTO_PROBLEM];
	stretto_status loaded = stretto_dataset_load(name, dataset, problem);
	int32_t first = loaded == STRETTO_OK ? size : rank;
	stretto_status status =
		stretto_allreduce(world, &first, &first, 1, STRETTO_I32, STRETTO_MIN);

	if (status == STRETTO_OK && first == size)
		return 0;
	if (status != STRETTO_OK)
		fprintf(stderr, "stretto-train: %s\n", stretto_status_text(status));
	else if (first == rank)
		fprintf(stderr, "stretto-train: %s\n", problem);
	if (loaded == STRETTO_OK)
		stretto_dataset_fini(dataset);
	return status == STRETTO_OK ? FAILED : NO_COMMUNICATION;
}

static double hidden_of(const struct stretto_train_step *step)
{
	if (step->in_flight <= step->exposed)
		return 0;
	return 100 * (1 - step->exposed / step->in_flight);
}

static void show(struct watch *watch, const struct stretto_train_step *step)
{
	bool last = step->step == step->steps || step->epoch != watch->epoch;
	double now = step->seconds;

	if (!last && now - watch->shown < line_seconds[watch->terminal])
		return;
	fprintf(stderr, "%s%-*sepoch %zu  step %zu/%zu  loss %.4f  %.0f samples/s  hidden %.1f%%%s",
		watch->terminal ? "\r" : "", watch->name[0] ? 13 : 0, watch->name, step->epoch,
		step->step, step->steps, step->loss, (double)(watch->samples * step->step) / now,
		hidden_of(step), watch->terminal ? "\033[K" : "\n");
	if (watch->terminal && step->step == step->steps)
		fputc('\n', stderr);
	watch->shown = now;
	watch->epoch = step->epoch;
}

static bool observe(void *context, const struct stretto_train_step *step)
{
	struct watch *watch = context;

	if (!watch->writes)
		return true;
	if (!watch->options->quiet)
		show(watch, step);
	return !watch->options->metrics || stretto_metrics_step(&watch->metrics, step);
}

/* Says why all ranks stopped early; the exit status of all. */
static int stopped(const struct watch *watch, const struct stretto_verdict *verdict)
{
	/* A metrics file that could not be written has been logged where it happened. */
	if (watch->writes && verdict->stop == STRETTO_STOP_LOSS)
		fprintf(stderr,
			"%sstretto-train: the loss is not a number at step %zu on rank %d; try a "
			"smaller learning rate\n",
			watch->terminal && !watch->options->quiet ? "\n" : "", verdict->step,
			verdict->rank);
	return FAILED;
}

/* The exit status after stretto_train_run() has failed. */
static int not_trained(const struct watch *watch, stretto_status status)
{
	if (status == STRETTO_INVALID)
		return TOOL_USAGE;
	if (watch->writes)
		fprintf(stderr, "stretto-train: %s\n", stretto_status_text(status));
	return NO_COMMUNICATION;
}

static void set_watch(struct watch *watch, const struct options *options,
		      const struct stretto_comm *world, size_t i)
{
	size_t samples = options->train.model.batch * (size_t)stretto_comm_size(world);

	*watch = (struct watch){
		.options = options,
		.name = options->averaging.count > 1
				? stretto_strategy_name(options->averaging.strategies[i])
				: "",
		.writes = stretto_comm_rank(world) == 0,
		.terminal = isatty(STDERR_FILENO) == 1,
		.samples = samples,
		.metrics = {.every = options->metrics_every, .samples = samples},
		.epoch = 1,
	};
}

/* --delay auto, for each of the trainings: measures once, chooses, and says what. */
static stretto_status fit_delays(struct stretto_comm *world, const struct options *options,
				 struct stretto_train_options *trainings)
{
	struct stretto_average_times times;
	stretto_status status = stretto_delay_measure(world, trainings, &times);

	for (size_t i = 0; i < options->averaging.count && status == STRETTO_OK; i++) {
		struct stretto_average_options *average = &trainings[i].average;
		size_t most = options->averaging.tau_given ? average->tau : STRETTO_DELAY_TAU;
		enum stretto_fit fit = stretto_average_fit(average, &times, most);
		char line[STRETTO_DELAY_LINE];

		stretto_delay_describe(average, &times, fit, line);
		if (stretto_comm_rank(world) == 0 && (!options->quiet || fit == STRETTO_FIT_SHORT))
			fprintf(stderr, "stretto-train: --delay auto: %s\n", line);
	}
	return status;
}

/* Trains with loaded data; the exit status. */
static int train(struct stretto_comm *world, struct options *options)
{
	struct watch watches[STRETTO_TRAIN_SIDE_BY_SIDE];
	struct stretto_train_options trainings[STRETTO_TRAIN_SIDE_BY_SIDE];
	struct stretto_train_result results[STRETTO_TRAIN_SIDE_BY_SIDE];
	struct watch *first = watches;
	struct stretto_report report = {
		.trainings = trainings,
		.results = results,
		.count = options->averaging.count,
		.model = options->model,
		.ranks = stretto_comm_size(world),
	};
	stretto_status status;
	int code = 0;

	set_watch(first, options, world, 0);
	for (size_t i = 0; i < options->averaging.count; i++) {
		set_watch(&watches[i], options, world, i);
		trainings[i] = options->train;
		trainings[i].average = tool_averaging_settle(&options->averaging, i,
							     options->train.optimizer.clip);
		trainings[i].observer = observe;
		trainings[i].context = &watches[i];
		if (!options->averaging.warmup_given)
			trainings[i].average.warmup =
				stretto_train_steps(&trainings[i], report.ranks) / 2;
	}
	if (options->averaging.delay_auto) {
		status = fit_delays(world, options, trainings);
		if (status != STRETTO_OK)
			return not_trained(first, status);
	}
	/* A file that cannot be created stops the training at the first vote. */
	if (first->writes && options->metrics &&
	    stretto_metrics_open(&first->metrics, options->metrics) != STRETTO_OK)
		first->metrics.failed = true;
	status = stretto_train_run(world, trainings, options->averaging.count, results);
	if (stretto_metrics_close(&first->metrics) != STRETTO_OK)
		code = FAILED;
	if (status != STRETTO_OK)
		return not_trained(first, status);
	for (size_t i = 0; i < options->averaging.count; i++)
		if (results[i].verdict.stop != STRETTO_STOP_NONE)
			return stopped(first, &results[i].verdict);
	if (!first->writes)
		return code;
	if (options->json)
		stretto_report_json(&report);
	else
		stretto_report_text(&report);
	return tool_end(code);
}

/* The BLAS team: the cores that the runtime leaves free, or fewer. */
static void set_threads(const struct stretto_comm *world, int wanted)
{
	int cores = stretto_compute_cores(world);

	openblas_set_num_threads(wanted > 0 && wanted < cores ? wanted : cores);
}

/*
 * Settings for stretto_init(), ended by NULL. The averages are sliced already, and several slices
 * fly at a time: windows within a slice would only wake the progress thread more often, on a core
 * that it shares with compute.
 */
static void set_settings(const struct options *options, const char *settings[3])
{
	size_t count = 0;

	if (options->pace[0] != '\0')
		settings[count++] = options->pace;
	if (!getenv("STRETTO_WINDOW"))
		settings[count++] = "STRETTO_WINDOW=4M";
	settings[count] = NULL;
}

int main(int argc, char **argv)
{
	struct options options;
	struct stretto_dataset dataset;
	struct stretto_comm *world = NULL;
	const char *settings[3] = {NULL};
	struct stretto_options init = {.settings = settings};
	stretto_status status;
	int code;

	parse_as_one(argc, argv, &options);
	set_settings(&options, settings);
	status = stretto_init(&init, &world);
	if (status != STRETTO_OK)
		return status == STRETTO_INVALID ? TOOL_USAGE : NO_COMMUNICATION;
	set_threads(world, options.threads);
	code = load(world, options.data, &dataset);
	if (code == 0) {
		options.train.dataset = &dataset;
		code = train(world, &options);
		stretto_dataset_fini(&dataset);
	}
	status = stretto_finalize(world);
	return code == 0 && status != STRETTO_OK ? NO_COMMUNICATION : code;
}
