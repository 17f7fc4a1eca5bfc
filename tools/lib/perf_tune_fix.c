/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/perf_tune.h"

#include <string.h>

#include "collectives/selection.h"
#include "collectives/traits.h"
#include "runtime/comm.h"
#include "tools/lib/perf.h"

/* What is faster by less is not told from noise, and left to the model. */
static const double least_gain = 0.1;

static void body(struct perf *perf, const struct perf_case *test, void *context)
{
	(void)context;
	perf_call(perf, test);
}

/* The median time of a collective by an algorithm; all ranks get the same. */
static double measured(struct perf *perf, struct perf_case *test, const char *algorithm)
{
	struct perf_part part = {.test = test, .body = body};

	test->algorithm = algorithm;
	perf_loop(perf, &part, 1);
	return part.result.median;
}

/* The name that the tuning would choose, as far as it has come. */
static const char *name_chosen(const struct perf *perf, const struct perf_case *test,
			       const struct stretto_tuning *tuning,
			       const struct stretto_group *group)
{
	struct stretto_config config = perf->comm->world->config;
	struct stretto_coll_args args = {.collective = test->collective,
					 .type = test->type,
					 .op = test->op,
					 .count = test->count};
	struct stretto_choice choice;

	config.tuning = tuning;
	perf_must((struct perf *)perf, stretto_select(&config, group, &args, &choice),
		  "the choice of an algorithm");
	return choice.algorithm->name;
}

/* Whether STRETTO_REPRODUCIBLE refuses it. */
static bool is_barred(const struct perf *perf, const struct stretto_algorithm *algorithm)
{
	return perf->comm->world->config.reproducible &&
	       stretto_traits_of(algorithm->collective)->reduces && !algorithm->canonical;
}

/* The fastest by more than noise, or NULL where the choice is as good. */
static const char *fastest(struct perf *perf, struct perf_case *test,
			   const struct stretto_tuning *tuning)
{
	struct stretto_link links[2];
	struct stretto_group group = stretto_group_tuned(perf->comm, tuning, links);
	const char *chosen = name_chosen(perf, test, tuning, &group), *best = NULL;
	double least = (1 - least_gain) * measured(perf, test, chosen);
	const struct stretto_coll_args args = {
		.collective = test->collective, .type = test->type, .count = test->count};

	for (size_t i = 0; stretto_algorithms[i]; i++) {
		const struct stretto_algorithm *one = stretto_algorithms[i];
		double seconds;

		if (one->collective != test->collective || strcmp(one->name, chosen) == 0 ||
		    (one->suits && !one->suits(&group)) || is_barred(perf, one) ||
		    !stretto_algorithm_can(perf->comm, one, &args))
			continue;
		seconds = measured(perf, test, one->name);
		if (seconds < least) {
			least = seconds;
			best = one->name;
		}
	}
	return best;
}

/* Fixes an algorithm from `low` to `high` bytes; a longer range where the last rule goes on. */
static void fix(struct stretto_tuning *tuning, const char *collective, const char *algorithm,
		size_t low, size_t high)
{
	struct stretto_tuning_rule rule = {.low = low, .high = high};
	struct stretto_tuning_rule *last =
		tuning->rule_count ? &tuning->rules[tuning->rule_count - 1] : NULL;

	if (last && strcmp(last->collective, collective) == 0 &&
	    strcmp(last->algorithm, algorithm) == 0 && last->high + 1 == low) {
		last->high = high;
		return;
	}
	if (tuning->rule_count == STRETTO_TUNING_RULES)
		return;
	strncpy(rule.collective, collective, sizeof rule.collective - 1);
	strncpy(rule.algorithm, algorithm, sizeof rule.algorithm - 1);
	tuning->rules[tuning->rule_count++] = rule;
}

/*
 * A size stands for the bytes from it up to the next. What is below the first and from the last on
 * was not measured, and is left to the model.
 */
static void fix_collective(struct perf *perf, enum stretto_collective collective,
			   struct stretto_tuning *tuning)
{
	const struct perf_options *options = perf->options;
	size_t element =
		sizeof(float) * (stretto_traits_blocks(collective) ? (size_t)perf->size : 1);

	for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
	     bytes = perf_next_size(options, bytes)) {
		struct perf_case test = {.collective = collective,
					 .type = STRETTO_F32,
					 .op = STRETTO_SUM,
					 .count = bytes / element,
					 .bytes = bytes / element * element};
		size_t next = perf_next_size(options, bytes);
		const char *best = test.count ? fastest(perf, &test, tuning) : NULL;

		if (best)
			fix(tuning, stretto_collective_name(collective), best, bytes,
			    next <= options->max_bytes ? next - 1 : bytes);
	}
}

static void print_rules(const struct perf *perf, const struct stretto_tuning *tuning)
{
	if (perf->rank != 0)
		return;
	printf("#\n# faster than the choice by more than %g %%: %zu range%s\n", 100 * least_gain,
	       tuning->rule_count, tuning->rule_count == 1 ? "" : "s");
	for (size_t i = 0; i < tuning->rule_count; i++)
		printf("# %s of %zu to %zu bytes: %s\n", tuning->rules[i].collective,
		       tuning->rules[i].low, tuning->rules[i].high, tuning->rules[i].algorithm);
}

void perf_tune_fix(struct perf *perf, struct stretto_tuning *tuning)
{
	for (int c = 0; c < STRETTO_COLLECTIVE_COUNT; c++)
		if (!perf_collectives[c].no_data)
			fix_collective(perf, (enum stretto_collective)c, tuning);
	print_rules(perf, tuning);
}
