/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_tuning.c: whatever a tuning file holds, its parser stays within its buffers, takes only
 * values within their limits, and explains what it refuses.
 *
 *	clang -std=c11 -D_GNU_SOURCE -I. -g -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz_tuning.c runtime/{tuning,config,log}.c -lm -o fuzz_tuning
 *	./fuzz_tuning -max_total_time=60
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert() it stays whatever NDEBUG says. */
static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

static void check_rules(const struct stretto_tuning *tuning)
{
	must(tuning->rule_count <= STRETTO_TUNING_RULES, "a bounded number of rules");
	for (size_t i = 0; i < tuning->rule_count; i++) {
		const struct stretto_tuning_rule *rule = &tuning->rules[i];

		must(rule->low <= rule->high, "a range");
		must(strlen(rule->collective) > 0 &&
			     memchr(rule->collective, 0, STRETTO_TUNING_WORD) != NULL,
		     "a collective is a word");
		must(strlen(rule->algorithm) > 0 &&
			     memchr(rule->algorithm, 0, STRETTO_TUNING_WORD) != NULL,
		     "an algorithm is a word");
	}
}

/* What was read is printed and read again without a change. */
static void check_print(const struct stretto_tuning *tuning)
{
	static char text[STRETTO_TUNING_BYTES];
	static struct stretto_tuning again;
	struct stretto_tuning_problem problem;
	size_t bytes = stretto_tuning_print(tuning, text, sizeof text);

	must(bytes > 0, "a text that fits into a file");
	must(stretto_tuning_parse(text, bytes, &again, &problem) == STRETTO_OK, "a text to read");
	must(memcmp(again.values, tuning->values, sizeof again.values) == 0, "the same values");
	must(again.rule_count == tuning->rule_count, "as many rules");
	for (size_t i = 0; i < again.rule_count; i++) {
		must(strcmp(again.rules[i].collective, tuning->rules[i].collective) == 0 &&
			     strcmp(again.rules[i].algorithm, tuning->rules[i].algorithm) == 0,
		     "the same names");
		must(again.rules[i].low == tuning->rules[i].low &&
			     again.rules[i].high == tuning->rules[i].high,
		     "the same ranges");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct stretto_tuning tuning;
	struct stretto_tuning_problem problem;

	if (stretto_tuning_parse((const char *)data, size, &tuning, &problem) != STRETTO_OK) {
		must(problem.line > 0 && problem.line <= size + 1, "a line of the file");
		must(problem.text[0] != '\0', "an explanation");
		must(memchr(problem.text, '\n', strlen(problem.text)) == NULL, "one line");
		return 0;
	}
	must(tuning.hash != 0, "a hash");
	check_rules(&tuning);
	check_print(&tuning);
	for (int level = 0; level < STRETTO_TUNING_LEVELS; level++)
		for (int transport = 0; transport < STRETTO_TUNING_TRANSPORTS; transport++)
			for (int key = 0; key < STRETTO_TUNING_KEYS; key++) {
				double value = tuning.values[level][transport][key];

				must(value >= 0 && value <= 1 << 30, "a value within its limits");
			}
	return 0;
}
