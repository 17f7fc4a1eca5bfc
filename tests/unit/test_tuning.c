/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning files: what is read, what is refused and at which line, and what decides before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/selection.h"
#include "runtime/tuning.h"

static struct stretto_tuning tuning;
static struct stretto_tuning_problem problem;

static stretto_status parse(const char *text)
{
	/* On the heap, without an end: ASan sees a read past it. */
	size_t bytes = strlen(text);
	char *copy = malloc(bytes ? bytes : 1);
	stretto_status status;

	assert_non_null(copy);
	memcpy(copy, text, bytes);
	status = stretto_tuning_parse(copy, bytes, &tuning, &problem);
	free(copy);
	return status;
}

static void a_file_gives_links_and_algorithms(void **state)
{
	(void)state;
	assert_int_equal(parse("# made by hand\n"
			       "stretto-tuning 1\n"
			       "\n"
			       "node shm latency 0.5us # measured\n"
			       "node shm per_byte 1e-10\r\n"
			       "\tacross verbs message 64K\n"
			       "allreduce 0-4096 doubling\n"
			       "allreduce 4097- ring"),
			 STRETTO_OK);
	struct stretto_link link =
		stretto_link_tuned(&tuning, STRETTO_TUNING_NODE, "shm", &stretto_link_shm);
	assert_true(link.latency == 0.5e-6 && link.per_byte == 1e-10);
	assert_true(link.per_reduce == stretto_link_shm.per_reduce); /* not given */
	link = stretto_link_tuned(&tuning, STRETTO_TUNING_ACROSS, "verbs", &stretto_link_network);
	assert_int_equal(link.message, 64 << 10);
	link = stretto_link_tuned(&tuning, STRETTO_TUNING_ACROSS, "ucx", &stretto_link_network);
	assert_int_equal(link.message, stretto_link_network.message);
	assert_int_equal(tuning.rule_count, 2);
	assert_true(tuning.rules[1].low == 4097 && tuning.rules[1].high == SIZE_MAX);
	assert_string_equal(tuning.rules[1].algorithm, "ring");
}

static void bad_lines_are_named(void **state)
{
	static const struct {
		const char *text;
		unsigned line;
		const char *words;
	} bad[] = {
		{"", 1, "begins with"},
		{"# nothing\n", 2, "begins with"},
		{"node shm latency 1us\n", 1, "begins with"},
		{"stretto-tuning 2\n", 1, "version \"2\""},
		{"stretto-tuning 1\nnode shm speed 1\n", 2, "unknown key \"speed\""},
		{"stretto-tuning 1\nspeed 1\n", 2, "unknown key \"speed\""},
		{"stretto-tuning 1\n\nnode tcp latency 1us\n", 3, "unknown transport \"tcp\""},
		{"stretto-tuning 1\nnode shm latency 11\n", 2, "is not a value from"},
		{"stretto-tuning 1\nnode shm latency nan\n", 2, "is not a value from"},
		{"stretto-tuning 1\nnode shm latency -1us\n", 2, "is not a value from"},
		{"stretto-tuning 1\nnode shm per_byte 0\n", 2, "is not a value from"},
		{"stretto-tuning 1\nnode shm message 2G\n", 2, "is not a value from"},
		{"stretto-tuning 1\nnode shm latency 1us\nnode shm latency 1us\n", 3, "twice"},
		{"stretto-tuning 1\nnode shm latency\n", 2, "TRANSPORT KEY VALUE"},
		{"stretto-tuning 1\nallreduce 9-4 ring\n", 2, "not a range"},
		{"stretto-tuning 1\nallreduce -4 ring\n", 2, "not a range"},
		{"stretto-tuning 1\nallreduce 0-9 ring\nallreduce 9- tree\n", 3, "line 2"},
		{"stretto-tuning 1\na b c d e f\n", 2, "more than 5 words"},
		{"stretto-tuning 1\n\x01\n", 2, "not printable"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(parse(bad[i].text), STRETTO_INVALID);
		assert_int_equal(problem.line, bad[i].line);
		if (!strstr(problem.text, bad[i].words))
			fail_msg("'%s' does not say '%s'", problem.text, bad[i].words);
	}
}

static void what_is_too_long_is_refused(void **state)
{
	static char text[STRETTO_TUNING_BYTES + 2];
	(void)state;
	memset(text, '#', STRETTO_TUNING_LINE);
	assert_int_equal(parse(text), STRETTO_INVALID);
	assert_non_null(strstr(problem.text, "a line has at most"));
	memset(text, 'a', STRETTO_TUNING_WORD);
	text[STRETTO_TUNING_WORD] = '\0';
	assert_int_equal(parse(text), STRETTO_INVALID);
	assert_non_null(strstr(problem.text, "a word has at most"));
	memset(text, '\n', sizeof(text) - 1);
	assert_int_equal(parse(text), STRETTO_INVALID);
	assert_non_null(strstr(problem.text, "a tuning file has at most"));
	snprintf(text, sizeof(text), "stretto-tuning 1\n");
	for (int i = 0; i <= STRETTO_TUNING_RULES; i++)
		snprintf(text + strlen(text), 64, "allreduce %d-%d ring\n", i, i);
	assert_int_equal(parse(text), STRETTO_INVALID);
	assert_int_equal(problem.line, STRETTO_TUNING_RULES + 2);
}

static void other_texts_have_other_hashes(void **state)
{
	uint64_t first;
	(void)state;
	assert_int_equal(parse("stretto-tuning 1\nnode shm latency 1us\n"), STRETTO_OK);
	first = tuning.hash;
	assert_int_equal(parse("stretto-tuning 1\nnode shm latency 2us\n"), STRETTO_OK);
	assert_true(first != 0 && first != tuning.hash);
}

/* What is printed is read back as it was, and printed again as the same text. */
static void what_is_printed_is_read_back(void **state)
{
	static const double values[STRETTO_TUNING_KEYS] = {1.0 / 3e6, 8.3e-11, 1e-10 / 7, 196608};
	static struct stretto_tuning made;
	static const char *const transports[] = {"shm", "verbs", "ucx"};
	char text[4096], again[4096];
	size_t bytes;
	(void)state;
	for (int level = 0; level < STRETTO_TUNING_LEVELS; level++)
		for (int t = 0; t < STRETTO_TUNING_TRANSPORTS; t++)
			for (int key = 0; key < STRETTO_TUNING_KEYS; key++)
				assert_int_equal(
					stretto_tuning_set(&made, (enum stretto_tuning_level)level,
							   transports[t],
							   (enum stretto_tuning_key)key,
							   values[key] * (1 + level + t), &problem),
					STRETTO_OK);
	made.rules[0] = (struct stretto_tuning_rule){"allreduce", "ring", 8, 4095, 0};
	made.rules[1] = (struct stretto_tuning_rule){"allreduce", "tree", 4096, SIZE_MAX, 0};
	made.rule_count = 2;
	bytes = stretto_tuning_print(&made, text, sizeof(text));
	assert_int_equal(bytes, strlen(text));
	assert_int_equal(parse(text), STRETTO_OK);
	assert_memory_equal(tuning.values, made.values, sizeof(made.values));
	assert_int_equal(tuning.rule_count, 2);
	assert_true(tuning.rules[0].low == 8 && tuning.rules[0].high == 4095);
	assert_true(tuning.rules[1].low == 4096 && tuning.rules[1].high == SIZE_MAX);
	assert_string_equal(tuning.rules[1].algorithm, "tree");
	assert_int_equal(stretto_tuning_print(&tuning, again, sizeof(again)), bytes);
	assert_string_equal(again, text);
	assert_int_equal(stretto_tuning_print(&made, text, bytes), 0); /* no room for the end */
	assert_int_equal(stretto_tuning_print(&made, text, bytes + 1), bytes);
}

static void nonsense_is_not_entered(void **state)
{
	static const double bad[] = {0, -1e-6, 11, (double)NAN, (double)INFINITY};
	static struct stretto_tuning made;
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(stretto_tuning_set(&made, STRETTO_TUNING_NODE, "shm",
						    STRETTO_TUNING_LATENCY, bad[i], &problem),
				 STRETTO_INVALID);
		assert_non_null(strstr(problem.text, "latency of node shm came out as"));
		assert_true(made.values[STRETTO_TUNING_NODE][0][STRETTO_TUNING_LATENCY] == 0);
	}
	assert_int_equal(stretto_tuning_set(&made, STRETTO_TUNING_NODE, "tcp",
					    STRETTO_TUNING_LATENCY, 1e-6, &problem),
			 STRETTO_INVALID);
	assert_non_null(strstr(problem.text, "cannot name the transport \"tcp\""));
}

/* Chooses for an allreduce of floats on 8 ranks; NULL where it is refused. */
static const char *chosen(const char *setting, const char *hint, size_t count, bool reproducible,
			  struct stretto_choice *choice)
{
	struct stretto_config config = {.reproducible = reproducible, .tuning = &tuning};
	struct stretto_coll_args args = {.collective = STRETTO_ALLREDUCE,
					 .type = STRETTO_F32,
					 .count = count,
					 .algorithm = hint};
	struct stretto_group group = stretto_group_on_node(8);
	group.board = false; /* those by messages */

	snprintf(config.algorithm, sizeof(config.algorithm), "%s", setting);
	if (stretto_select(&config, &group, &args, choice) != STRETTO_OK)
		return NULL;
	assert_true(choice->seconds > 0);
	return choice->algorithm->name;
}

static void the_file_comes_after_the_environment_and_before_the_model(void **state)
{
	struct stretto_choice choice;
	(void)state;
	assert_int_equal(parse("stretto-tuning 1\nallreduce 8-16 tree\nbroadcast 0- chain\n"),
			 STRETTO_OK);
	assert_string_equal(chosen("", NULL, 2, false, &choice), "tree");
	assert_memory_equal(choice.reason, "file:", 5);
	assert_string_equal(chosen("", NULL, 4, false, &choice), "tree");
	assert_string_equal(chosen("allreduce=ring", NULL, 2, false, &choice), "ring");
	assert_memory_equal(choice.reason, "environment:", 12);
	assert_string_equal(chosen("allreduce=ring", "doubling", 2, false, &choice), "doubling");
	assert_memory_equal(choice.reason, "hint:", 5);
	assert_string_equal(chosen("", NULL, 1, false, &choice), "doubling"); /* below and above */
	assert_memory_equal(choice.reason, "model:", 6);
	assert_string_equal(chosen("", NULL, 5, false, &choice), "doubling");
	/* a tree has no order of the ranks: the model decides */
	assert_string_equal(chosen("", NULL, 2, true, &choice), "doubling");
}

static void unknown_names_in_a_file_are_refused(void **state)
{
	struct stretto_choice choice;
	(void)state;
	assert_int_equal(parse("stretto-tuning 1\nallreduce 0- chain\n"), STRETTO_OK);
	assert_null(chosen("", NULL, 1, false, &choice));
	assert_int_equal(parse("stretto-tuning 1\nallreduces 0- ring\n"), STRETTO_OK);
	assert_null(chosen("", "ring", 1, false, &choice)); /* even if the call decides */
}

static void measured_links_change_the_choice(void **state)
{
	struct stretto_group group = stretto_group_on_node(8);
	group.board = false; /* those by messages */
	struct stretto_link link;
	struct stretto_config config = {0};
	struct stretto_coll_args args = {
		.collective = STRETTO_ALLREDUCE, .type = STRETTO_F32, .count = 1 << 18};
	struct stretto_choice choice;
	(void)state;
	assert_int_equal(stretto_select(&config, &group, &args, &choice), STRETTO_OK);
	assert_string_not_equal(choice.algorithm->name, "doubling");
	assert_int_equal(parse("stretto-tuning 1\nnode shm latency 1s\n"), STRETTO_OK);
	link = stretto_link_tuned(&tuning, STRETTO_TUNING_NODE, "shm", group.link);
	group.link = group.near = &link;
	assert_int_equal(stretto_select(&config, &group, &args, &choice), STRETTO_OK);
	assert_string_equal(choice.algorithm->name, "doubling");
}

/* More bytes never have a lesser estimate, whatever algorithm and window they take. */
static void estimates_grow_with_bytes(void **state)
{
	(void)state;
	for (int c = 0; c < STRETTO_COLLECTIVE_COUNT; c++)
		for (int size = 2; size <= 64; size++) {
			struct stretto_group group = stretto_group_on_node(size);
			group.board = false; /* those by messages */
			struct stretto_config config = {0};
			struct stretto_coll_args args = {.collective = (enum stretto_collective)c,
							 .type = STRETTO_U8};
			double before = 0;

			for (size_t bytes = 1; bytes < (size_t)1 << 28; bytes += 1 + bytes / 8) {
				struct stretto_choice choice;

				args.count = bytes;
				assert_int_equal(stretto_select(&config, &group, &args, &choice),
						 STRETTO_OK);
				if (choice.seconds < before)
					fail_msg("%s, %d ranks, %zu bytes: %s takes %g s, less "
						 "than %g s of fewer bytes",
						 stretto_collective_name(args.collective), size,
						 bytes, choice.algorithm->name, choice.seconds,
						 before);
				before = choice.seconds;
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_gives_links_and_algorithms),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(what_is_too_long_is_refused),
		cmocka_unit_test(other_texts_have_other_hashes),
		cmocka_unit_test(what_is_printed_is_read_back),
		cmocka_unit_test(nonsense_is_not_entered),
		cmocka_unit_test(the_file_comes_after_the_environment_and_before_the_model),
		cmocka_unit_test(unknown_names_in_a_file_are_refused),
		cmocka_unit_test(measured_links_change_the_choice),
		cmocka_unit_test(estimates_grow_with_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
