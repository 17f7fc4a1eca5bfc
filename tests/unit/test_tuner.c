/* SPDX-License-Identifier: BSD-3-Clause */
/* From times to a tuning file: the line through points, and a file that is old or new, never half. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/tuner.h"

static bool near(double value, double wanted)
{
	return fabs(value - wanted) <= 1e-9 * fabs(wanted);
}

static void points_on_a_line_give_that_line(void **state)
{
	struct tuner_point points[20];
	struct tuner_line line;
	(void)state;
	for (int i = 0; i < 20; i++) {
		points[i].bytes = (double)(8u << i);
		points[i].seconds = 2.5e-6 + 1.25e-10 * points[i].bytes;
	}
	assert_true(tuner_fit(points, 20, &line));
	assert_true(near(line.latency, 2.5e-6) && near(line.per_byte, 1.25e-10));
	assert_true(tuner_fit(points, 2, &line));
	assert_true(near(line.latency, 2.5e-6));
}

/* By absolute errors the largest size alone would say what an empty message takes. */
static void small_sizes_count_as_much_as_large_ones(void **state)
{
	struct tuner_point points[20];
	struct tuner_line line;
	(void)state;
	for (int i = 0; i < 20; i++) {
		points[i].bytes = (double)(8u << i);
		points[i].seconds = (1e-6 + 1e-10 * points[i].bytes) * (i == 19 ? 1.2 : 1);
	}
	assert_true(tuner_fit(points, 20, &line));
	assert_true(line.latency > 0.9e-6 && line.latency < 1.1e-6);
	assert_true(line.per_byte > 1e-10 && line.per_byte < 1.2e-10);
}

static void what_has_no_line_is_refused(void **state)
{
	const struct tuner_point same[] = {{8, 1e-6}, {8, 2e-6}, {8, 3e-6}};
	const struct tuner_point zero[] = {{8, 1e-6}, {16, 0}};
	const struct tuner_point nan[] = {{8, 1e-6}, {16, (double)NAN}};
	struct tuner_line line = {7, 7};
	(void)state;
	assert_false(tuner_fit(same, 3, &line));
	assert_false(tuner_fit(same, 1, &line));
	assert_false(tuner_fit(zero, 2, &line));
	assert_false(tuner_fit(nan, 2, &line));
	assert_true(line.latency == 7 && line.per_byte == 7);
}

static void messages_are_long_when_their_latency_is_a_fifth(void **state)
{
	struct tuner_line line = {1e-6, 1e-9};
	(void)state;
	assert_true(tuner_message(&line) == 4096); /* 4000 bytes take 4 us */
	line.per_byte = 1e-30;
	assert_true(tuner_message(&line) == 1 << 30);
	line = (struct tuner_line){1e-9, 1e-3};
	assert_true(tuner_message(&line) == 1);
	assert_true(tuner_rounded(1.23456e-7) == 1.235e-7);
}

static char folder[] = "/tmp/stretto-tuner-XXXXXX";
static char path[sizeof(folder) + 8];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/tuning", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

/* The file holds that text, and nothing is beside it. */
static void assert_holds(const char *text)
{
	char have[64] = "";
	FILE *file = fopen(path, "r");
	int names = 0;
	DIR *listed = opendir(folder);

	assert_non_null(file);
	assert_int_equal(fread(have, 1, sizeof(have) - 1, file), strlen(text));
	fclose(file);
	assert_string_equal(have, text);
	assert_non_null(listed);
	for (struct dirent *entry = readdir(listed); entry; entry = readdir(listed))
		names += entry->d_name[0] != '.';
	closedir(listed);
	assert_int_equal(names, 1);
}

static void a_file_is_replaced_whole(void **state)
{
	(void)state;
	assert_int_equal(tuner_write(path, "first", 5), 0);
	assert_holds("first");
	assert_int_equal(tuner_write(path, "2nd", 3), 0);
	assert_holds("2nd");
}

/* A limit on the size of files stops a write as a full disk does: after a part of it. */
static void a_full_disk_leaves_the_old_file(void **state)
{
	struct rlimit before, little;
	int error;
	(void)state;
	assert_int_equal(tuner_write(path, "the old one", 11), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little = before;
	little.rlim_cur = 4;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	error = tuner_write(path, "the new one", 11);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(error, EFBIG);
	assert_holds("the old one");
}

static void what_is_no_file_stays(void **state)
{
	struct stat now;
	char deep[sizeof(path) + 8];
	(void)state;
	assert_int_equal(tuner_write("/dev/null", "x", 1), ENOTSUP);
	assert_int_equal(stat("/dev/null", &now), 0);
	assert_true(S_ISCHR(now.st_mode));
	assert_int_equal(tuner_write(folder, "x", 1), EISDIR);
	assert_int_equal(tuner_write(path, "a file", 6), 0);
	snprintf(deep, sizeof(deep), "%s/x", path);
	assert_int_equal(tuner_write(deep, "x", 1), ENOTDIR);
	assert_holds("a file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_on_a_line_give_that_line),
		cmocka_unit_test(small_sizes_count_as_much_as_large_ones),
		cmocka_unit_test(what_has_no_line_is_refused),
		cmocka_unit_test(messages_are_long_when_their_latency_is_a_fifth),
		cmocka_unit_test(a_file_is_replaced_whole),
		cmocka_unit_test(a_full_disk_leaves_the_old_file),
		cmocka_unit_test(what_is_no_file_stays),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
