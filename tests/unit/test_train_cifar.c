/* SPDX-License-Identifier: BSD-3-Clause */
/* CIFAR-10's binary format: what is read, and that each malformed file is named with its offset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/data/cifar.h"
#include "trainer/data/dataset.h"

enum { RECORD = STRETTO_CIFAR_IMAGE + 1, FILES = 6, PATH = 128 };

static const char *const names[FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
					 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/* A folder of files with one record each, label = number of the file, pixels by channel. */
static int set_up(void **state)
{
	char *folder = strdup("/tmp/stretto-cifar-XXXXXX");

	*state = folder;
	return folder && mkdtemp(folder) ? 0 : -1;
}

static void put(const char *folder, size_t i, const uint8_t *bytes, size_t size)
{
	char path[PATH];
	int file;

	snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	assert_int_equal(write(file, bytes, size), size);
	close(file);
}

static void fill(const char *folder)
{
	for (size_t i = 0; i < FILES; i++) {
		uint8_t record[RECORD];

		record[0] = (uint8_t)i;
		for (size_t p = 0; p < STRETTO_CIFAR_IMAGE; p++)
			record[1 + p] = (uint8_t)(10 * (p / 1024) + i);
		put(folder, i, record, sizeof(record));
	}
}

static int tear_down(void **state)
{
	char path[PATH];

	for (size_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, names[i]);
		unlink(path);
	}
	rmdir(*state);
	free(*state);
	return 0;
}

static void test_read(void **state)
{
	struct stretto_dataset dataset;
	char name[PATH], problem[STRETTO_PROBLEM];

	fill(*state);
	snprintf(name, sizeof(name), "cifar10:%s", (char *)*state);
	assert_int_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_OK);
	assert_int_equal(dataset.train.count, 5);
	assert_int_equal(dataset.test.count, 1);
	assert_int_equal(dataset.features, STRETTO_CIFAR_IMAGE);
	assert_int_equal(dataset.classes, 10);
	assert_int_equal(dataset.test.labels[0], 5);
	for (size_t i = 0; i < 5; i++) {
		const uint8_t *image = dataset.train.pixels + i * STRETTO_CIFAR_IMAGE;

		assert_int_equal(dataset.train.labels[i], i);
		for (size_t p = 0; p < STRETTO_CIFAR_IMAGE; p++)
			assert_int_equal(image[p], 10 * (p % 3) + i);
	}
	stretto_dataset_fini(&dataset);
}

/* Loads what must not be taken; the problem names the file and the offset. */
static void refuse(const char *folder, const char *file, const char *offset)
{
	struct stretto_dataset dataset;
	char name[PATH], problem[STRETTO_PROBLEM];

	snprintf(name, sizeof(name), "cifar10:%s", folder);
	assert_int_not_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_OK);
	assert_non_null(strstr(problem, file));
	assert_non_null(strstr(problem, offset));
	assert_null(strchr(problem, '\n'));
}

static void test_malformed(void **state)
{
	static uint8_t bytes[2 * RECORD];
	char path[PATH];

	fill(*state);
	put(*state, 1, bytes, 0);
	refuse(*state, names[1], "at offset 0: ");
	put(*state, 1, bytes, RECORD + 7);
	refuse(*state, names[1], "at offset 3080: ");
	bytes[RECORD] = 10;
	put(*state, 1, bytes, sizeof(bytes));
	refuse(*state, names[1], "at offset 3073: ");
	fill(*state);
	snprintf(path, sizeof(path), "%s/%s", (char *)*state, names[5]);
	unlink(path);
	refuse(*state, names[5], "No such file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
