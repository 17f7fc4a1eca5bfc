/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts as data: samples, their labels, and what is no text to train on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/data/dataset.h"

enum { NAME = 64, SIZE = 40, LENGTH = 3 };

/* The name of a data set with the bytes 0, 1, ..., size - 1. */
static void make(char *name, size_t size)
{
	uint8_t bytes[SIZE];
	int file;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)i;
	snprintf(name, NAME, "text:/tmp/stretto-text-XXXXXX");
	file = mkstemp(name + strlen("text:"));
	assert_true(file >= 0);
	assert_int_equal(write(file, bytes, size), size);
	close(file);
}

static void test_samples(void **state)
{
	const uint32_t index[2] = {10, 1};
	struct stretto_dataset dataset;
	char name[NAME], problem[STRETTO_PROBLEM];
	float x[2 * LENGTH];
	uint8_t labels[2 * LENGTH];

	(void)state;
	make(name, SIZE);
	assert_int_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_OK);
	unlink(name + strlen("text:"));
	assert_int_equal(stretto_dataset_cut(&dataset, LENGTH, problem), STRETTO_OK);
	assert_true(dataset.text);
	assert_int_equal(dataset.classes, SIZE);
	assert_int_equal(dataset.train.count, 11); /* of 36 characters, the last a label only */
	assert_int_equal(dataset.test.count, 1);   /* of 4 */
	stretto_dataset_batch(&dataset, &dataset.train, 2, index, x, labels);
	for (size_t i = 0; i < LENGTH; i++) {
		assert_int_equal((int)x[i], 30 + i);
		assert_int_equal(labels[i], 31 + i);
		assert_int_equal((int)x[LENGTH + i], 3 + i);
		assert_int_equal(labels[LENGTH + i], 4 + i);
	}
	stretto_dataset_batch(&dataset, &dataset.test, 1, &(uint32_t){0}, x, labels);
	assert_int_equal((int)x[0], 36);
	assert_int_equal(labels[LENGTH - 1], 39);
	stretto_dataset_fini(&dataset);
}

static void test_refused(void **state)
{
	struct stretto_dataset dataset;
	char name[NAME], problem[STRETTO_PROBLEM];

	(void)state;
	make(name, 0);
	assert_int_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_INVALID);
	assert_non_null(strstr(problem, name + strlen("text:")));
	unlink(name + strlen("text:"));
	assert_int_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_SYSTEM);
	assert_int_equal(stretto_dataset_load("text:/tmp", &dataset, problem), STRETTO_SYSTEM);
	make(name, SIZE);
	assert_int_equal(stretto_dataset_load(name, &dataset, problem), STRETTO_OK);
	unlink(name + strlen("text:"));
	assert_int_equal(stretto_dataset_cut(&dataset, 4, problem), STRETTO_INVALID);
	assert_int_equal(stretto_dataset_cut(&dataset, 3, problem), STRETTO_OK);
	stretto_dataset_fini(&dataset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
