/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-train: trains a network on images in MNIST's format, on all ranks of the job, with one of
 * the averaging strategies. docs/training.md is the guide.
 *
 * Exit status: 0 trained, or stopped by a signal with a checkpoint; 1 bad data, a loss that is not a number, or a log that
 * cannot be created; 2 bad options; 3 communication failed. Rank 0 alone writes, but for errors of others.
 */
#include <cblas.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/config.h"
#include "tools/lib/averaging.h"
#include "tools/lib/options.h"
#include "trainer/delay.h"
#include "trainer/model_text.h"
#include "trainer/trace_file.h"
#include "trainer/train.h"
#include "trainer/watch.h"

enum { FAILED = 1, NO_COMMUNICATION = 3 };

_Static_assert((int)TOOL_STRATEGIES <= (int)STRETTO_TRAIN_SIDE_BY_SIDE,
	       "all of them can be trained");

/* Longest "STRETTO_PACE=RATE:LATENCY". */
enum { SETTING = 128 };

/* Spans that a rank keeps for --trace: 3 MiB. */
enum { TRACE_EVENTS = 131072 };

/* The command line. */
struct options {
	struct stretto_train_options train; /* but for the averaging */
	struct tool_averaging averaging;    /* strategies to train side by side */
	const char *data;
	const char *model; /* as given, for the summary */
	const char *optimizer;
	const char *schedule;
	const char *log;   /* path; NULL: none */
	const char *trace; /* likewise */
	size_t trace_steps;
	size_t log_every; /* steps */
	int threads;      /* of BLAS, 0: as many as the runtime says */
	bool json;
	bool quiet;
	char pace[SETTING]; /* a setting; "": none */
};

enum {
	OPT_DATA = TOOL_LONG_ONLY,
	OPT_MODEL,
	OPT_EPOCHS,
	OPT_STEPS,
	OPT_BATCH,
	OPT_AUGMENT,
	OPT_PREFETCH,
	OPT_OPTIMIZER,
	OPT_SCHEDULE,
	OPT_SEED,
	OPT_PACE,
	OPT_THREADS,
	OPT_LOG,
	OPT_LOG_EVERY,
	OPT_TEST_EVERY,
	OPT_PROBE_EVERY,
	OPT_TRACE,
	OPT_TRACE_STEPS,
	OPT_CHECKPOINT,
	OPT_CHECKPOINT_EVERY,
	OPT_RESUME,
	OPT_JSON,
	OPT_QUIET,
};

static const struct tool_option table[] = {
	{"data", OPT_DATA, "NAME",
	 "fashion-mnist, a folder of files in MNIST's format, cifar10:FOLDER or text:FILE "
	 "(fashion-mnist)"},
	{"model", OPT_MODEL, "MODEL",
	 "mlp:, cnn:, resnet:, transformer: and numbers, or a file (mlp:784-512-256-10)"},
	TOOL_AVERAGING_ROWS{"epochs", OPT_EPOCHS, "N", "passes over the data (1)"},
	{"steps", OPT_STEPS, "N", "stop after N local steps"},
	{"batch", OPT_BATCH, "N", "images a step on each rank (64)"},
	{"augment", OPT_AUGMENT, "TEXT",
	 "crop[:PIXELS],flip or one of them: move (by up to 4 pixels) and mirror training images"},
	{"prefetch", OPT_PREFETCH, "N",
	 "batches that a thread makes ahead, 0 to 16 (1 if the runtime has a core for it, else 0)"},
	{"optimizer", OPT_OPTIMIZER, "TEXT",
	 "sgd:lr=,momentum=,nesterov=,decay=,clip=; adam:lr=,beta1=,beta2=,eps=,clip=; adamw: also "
	 "decay= (sgd:lr=0.05,momentum=0.9)"},
	{"schedule", OPT_SCHEDULE, "TEXT",
	 "constant, step:every=STEPS,factor=F, onecycle or cosine:warmup=STEPS,floor=F (constant)"},
	{"seed", OPT_SEED, "N", "of the initial weights and the shuffles (1)"},
	{"pace", OPT_PACE, "RATE:LATENCY", "communicate as over such a link, e.g. 10gbit:20us"},
	{"threads", OPT_THREADS, "N", "BLAS threads of a rank (the cores the runtime leaves free)"},
	{"log", OPT_LOG, "FILE", "write the run as JSON objects, a line each, for stretto-report"},
	{"log-every", OPT_LOG_EVERY, "N", "steps between two of these lines (10)"},
	{"test-every", OPT_TEST_EVERY, "N",
	 "local steps between two tests for the log (only at the end)"},
	{"probe-every", OPT_PROBE_EVERY, "N", "the same of the norm of the gradient (none)"},
	{"trace", OPT_TRACE, "FILE", "write what all ranks did in the last steps, for Perfetto"},
	{"trace-steps", OPT_TRACE_STEPS, "N", "how many steps that shows (64)"},
	{"checkpoint", OPT_CHECKPOINT, "DIR",
	 "keep checkpoints there; SIGTERM and SIGUSR1 write one and end the training"},
	{"checkpoint-every", OPT_CHECKPOINT_EVERY, "N",
	 "local steps between two (only on signals)"},
	{"resume", OPT_RESUME, "DIR", "go on from the latest complete checkpoint there"},
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

static void set_model(struct stretto_train_options *train, const char *text)
{
	char problem[STRETTO_MODEL_PROBLEM];

	if (stretto_model_load(text, &train->model, problem) != STRETTO_OK)
		tool_fail("--model %s", problem);
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
		set_model(train, text);
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
	case OPT_AUGMENT:
		expect("--augment", text, stretto_augment_parse(text, &train->augment));
		return true;
	case OPT_PREFETCH:
		train->prefetch = (int)tool_int("--prefetch", text, 0, STRETTO_PREFETCH_MOST);
		return true;
	case OPT_OPTIMIZER:
		options->optimizer = text;
		expect("--optimizer", text, stretto_optimizer_parse(text, &train->optimizer));
		return true;
	case OPT_SCHEDULE:
		options->schedule = text;
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
	case OPT_LOG:
		options->log = text;
		break;
	case OPT_LOG_EVERY:
		options->log_every = (size_t)tool_int("--log-every", text, 1, 1000000);
		break;
	case OPT_TEST_EVERY:
		options->train.test_every = (size_t)tool_int("--test-every", text, 1, 1000000000);
		break;
	case OPT_PROBE_EVERY:
		options->train.probe_every = (size_t)tool_int("--probe-every", text, 1, 1000000000);
		break;
	case OPT_TRACE:
		options->trace = text;
		break;
	case OPT_TRACE_STEPS:
		options->trace_steps = (size_t)tool_int("--trace-steps", text, 1, 1000000);
		break;
	case OPT_CHECKPOINT:
		options->train.keep.folder = text;
		break;
	case OPT_CHECKPOINT_EVERY:
		options->train.keep.every =
			(size_t)tool_int("--checkpoint-every", text, 1, 1000000000);
		break;
	case OPT_RESUME:
		options->train.keep.resume = text;
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

	*options = (struct options){.data = "fashion-mnist", .log_every = 10, .trace_steps = 64};
	options->model = "mlp:784-512-256-10";
	options->optimizer = "sgd";
	options->schedule = "constant";
	tool_averaging_defaults(&options->averaging);
	train->model.batch = 64;
	train->epochs = 1;
	train->seed = 1;
	train->prefetch = STRETTO_TRAIN_PREFETCH_AUTO;
	stretto_model_parse(options->model, &train->model);
	stretto_optimizer_parse(options->optimizer, &train->optimizer);
	stretto_rate_parse(options->schedule, &train->rate);
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
	if (options->log && options->averaging.count > 1)
		tool_fail("--log goes with one strategy, not with %zu", options->averaging.count);
	if (options->trace && options->averaging.count > 1)
		tool_fail("--trace goes with one strategy, not with %zu", options->averaging.count);
	if ((options->train.keep.folder || options->train.keep.resume) &&
	    options->averaging.count > 1)
		tool_fail("checkpoints go with one strategy, not with %zu",
			  options->averaging.count);
	if ((options->train.test_every > 0 || options->train.probe_every > 0) && !options->log)
		tool_fail("--test-every and --probe-every go with --log FILE");
	if (options->train.keep.every > 0 && !options->train.keep.folder)
		tool_fail("--checkpoint-every goes with --checkpoint DIR");
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

/* Loads the data, a text in samples as long as the model's. */
static stretto_status load_cut(const struct options *options, struct stretto_dataset *dataset,
			       char *problem)
{
	stretto_status status = stretto_dataset_load(options->data, dataset, problem);

	if (status != STRETTO_OK)
		return status;
	status = stretto_dataset_cut(dataset, options->train.model.input.height, problem);
	if (status != STRETTO_OK)
		stretto_dataset_fini(dataset);
	return status;
}

/*
 * Loads the data on every rank and agrees on the outcome, so that nobody waits for a rank that has
 * left: the first rank that failed says why, and all get FAILED.
 */
static int load(struct stretto_comm *world, const struct options *options,
		struct stretto_dataset *dataset)
{
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	char problem[STRETTO_PROBLEM];
	stretto_status loaded = load_cut(options, dataset, problem);
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

/* The signal that asked for a checkpoint; 0: none. */
static volatile sig_atomic_t signaled;

static void hear(int number)
{
	signaled = number;
}

/* SIGUSR1 is what Slurm sends before a job's time is over, if it is asked to. */
static void hear_signals(void)
{
	struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

/* Says what became of a training that a signal has ended; the exit status. */
static int interrupted(const struct options *options, bool writes,
		       const struct stretto_train_result *result)
{
	if (!writes)
		return result->saved ? 0 : FAILED;
	if (result->saved)
		fprintf(stderr,
			"stretto-train: stopped by a signal after step %zu, with a checkpoint; go "
			"on "
			"with --resume %s\n",
			result->steps, options->train.keep.folder);
	else
		fprintf(stderr,
			"stretto-train: stopped by a signal after step %zu, without a checkpoint\n",
			result->steps);
	return result->saved ? 0 : FAILED;
}

/* Says why all ranks stopped early; the exit status of all. */
static int stopped(const struct options *options, const struct stretto_watch *watch, bool writes,
		   const struct stretto_train_result *result)
{
	const struct stretto_verdict *verdict = &result->verdict;

	if (verdict->stop == STRETTO_STOP_SIGNAL)
		return interrupted(options, writes, result);
	/* A log that could not be created has been logged where it happened. */
	if (writes && verdict->stop == STRETTO_STOP_LOSS)
		fprintf(stderr,
			"%sstretto-train: the loss is not a number at step %zu on rank %d; try a "
			"smaller learning rate\n",
			watch->terminal && watch->shows ? "\n" : "", verdict->step, verdict->rank);
	return FAILED;
}

/* The exit status after stretto_train_run() has failed. */
static int not_trained(bool writes, stretto_status status)
{
	if (status == STRETTO_INVALID)
		return TOOL_USAGE;
	if (writes)
		fprintf(stderr, "stretto-train: %s\n", stretto_status_text(status));
	return NO_COMMUNICATION;
}

static void set_watch(struct stretto_watch *watch, const struct options *options,
		      const struct stretto_comm *world, size_t i)
{
	size_t samples = options->train.model.batch * (size_t)stretto_comm_size(world);

	*watch = (struct stretto_watch){
		.name = options->averaging.count > 1
				? stretto_strategy_name(options->averaging.strategies[i])
				: "",
		.shows = stretto_comm_rank(world) == 0 && !options->quiet,
		.terminal = isatty(STDERR_FILENO) == 1,
		.samples = samples,
		.log = {.every = options->log_every, .samples = samples},
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

/* All trainings and who watches them, from the command line. */
static void set_trainings(struct stretto_comm *world, const struct options *options,
			  struct stretto_watch *watches, struct stretto_train_options *trainings)
{
	for (size_t i = 0; i < options->averaging.count; i++) {
		set_watch(&watches[i], options, world, i);
		trainings[i] = options->train;
		trainings[i].average = tool_averaging_settle(&options->averaging, i,
							     options->train.optimizer.clip);
		trainings[i].observer = stretto_watch_step;
		trainings[i].context = &watches[i];
		if (!options->averaging.warmup_given)
			trainings[i].average.warmup =
				stretto_train_steps(&trainings[i], stretto_comm_size(world)) / 2;
	}
}

/* Opens the log of the one training, on rank 0. Without one, the training stops at the first vote. */
static void open_log(const struct options *options, const struct stretto_report *report,
		     struct stretto_watch *watch)
{
	watch->stops = stretto_run_log_open(&watch->log, options->log) != STRETTO_OK;
	stretto_run_log_start(&watch->log, report);
}

/* Trains, and writes the trace if one is wanted, after a failure as far as that is possible. */
static stretto_status run_traced(struct stretto_comm *world, const struct options *options,
				 struct stretto_train_options *trainings,
				 struct stretto_train_result *results)
{
	struct stretto_trace trace;
	bool traces = false;
	stretto_status status = STRETTO_OK;

	if (options->trace)
		status = stretto_trace_open(world, &trace, TRACE_EVENTS, &traces);
	if (traces)
		trainings[0].trace = &trace;
	if (status == STRETTO_OK)
		status = stretto_train_run(world, trainings, options->averaging.count, results);
	if (!traces)
		return status;
	if (status == STRETTO_OK)
		status = stretto_trace_write(world, &trace, options->trace_steps, options->trace);
	if (status != STRETTO_OK)
		stretto_trace_write_own(world, &trace, options->trace_steps, options->trace);
	stretto_trace_fini(&trace);
	return status;
}

/* Trains with loaded data; the exit status. */
static int train(struct stretto_comm *world, struct options *options)
{
	struct stretto_watch watches[STRETTO_TRAIN_SIDE_BY_SIDE];
	struct stretto_train_options trainings[STRETTO_TRAIN_SIDE_BY_SIDE];
	struct stretto_train_result results[STRETTO_TRAIN_SIDE_BY_SIDE] = {{0}};
	struct stretto_report report = {
		.trainings = trainings,
		.results = results,
		.count = options->averaging.count,
		.model = options->model,
		.data = options->data,
		.optimizer = options->optimizer,
		.schedule = options->schedule,
		.ranks = stretto_comm_size(world),
	};
	bool writes = stretto_comm_rank(world) == 0;
	stretto_status status = STRETTO_OK;

	set_trainings(world, options, watches, trainings);
	if (options->averaging.delay_auto)
		status = fit_delays(world, options, trainings);
	if (status != STRETTO_OK)
		return not_trained(writes, status);
	if (writes && options->log)
		open_log(options, &report, watches);
	if (options->train.keep.folder) {
		trainings[0].keep.signaled = &signaled;
		hear_signals();
	}
	status = run_traced(world, options, trainings, results);
	if (status != STRETTO_OK) {
		const char *error = stretto_comm_error(world);

		stretto_run_log_fail(&watches->log, error[0] ? error : stretto_status_text(status));
		return not_trained(writes, status);
	}
	stretto_run_log_end(&watches->log, results);
	for (size_t i = 0; i < options->averaging.count; i++)
		if (results[i].verdict.stop != STRETTO_STOP_NONE)
			return stopped(options, watches, writes, &results[i]);
	if (!writes)
		return 0;
	if (options->json)
		stretto_report_json(&report);
	else
		stretto_report_text(&report);
	return tool_end(0);
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
	code = load(world, &options, &dataset);
	if (code == 0) {
		options.train.dataset = &dataset;
		code = train(world, &options);
		stretto_dataset_fini(&dataset);
	}
	status = stretto_finalize(world);
	return code == 0 && status != STRETTO_OK ? NO_COMMUNICATION : code;
}
