/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoint file: what is written is read, every truncation and every changed byte is refused, lies too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "trainer/checkpoint.h"

enum { ROOM = 512 };

static char folder[] = "/tmp/stretto-checkpoint-XXXXXX";
static const struct stretto_checkpoint_id id = {.samples = 1280, .rank = 1, .ranks = 3};
static const float weights[] = {1.5f, -2.25f, 0.0f};

/* Two parts, one of them empty. */
static void write_one(const struct stretto_checkpoint_id *which)
{
	struct stretto_checkpoint_writer writer;

	stretto_checkpoint_create(&writer, folder, which, 2);
	stretto_checkpoint_put(&writer, "weights", weights, sizeof(weights));
	stretto_checkpoint_put(&writer, "nothing", NULL, 0);
	assert_int_equal(stretto_checkpoint_commit(&writer), STRETTO_OK);
}

/* The bytes of the file of `id`. */
static size_t load(uint8_t bytes[ROOM])
{
	char path[STRETTO_CHECKPOINT_PATH];
	FILE *file;
	size_t size;

	write_one(&id);
	assert_true(stretto_checkpoint_path(folder, &id, path));
	file = fopen(path, "rb");
	assert_non_null(file);
	size = fread(bytes, 1, ROOM, file);
	fclose(file);
	return size;
}

static bool accepted(const uint8_t *bytes, size_t size)
{
	char problem[STRETTO_CHECKPOINT_PROBLEM] = "";
	struct stretto_checkpoint found;
	bool good = stretto_checkpoint_parse(bytes, size, &found, problem) == STRETTO_OK;

	assert_true(good || problem[0] != '\0');
	return good;
}

static void test_round_trip(void **state)
{
	char problem[STRETTO_CHECKPOINT_PROBLEM];
	struct stretto_checkpoint found;
	const struct stretto_checkpoint_part *part;

	(void)state;
	write_one(&id);
	assert_int_equal(stretto_checkpoint_read(folder, &id, &found, problem), STRETTO_OK);
	part = stretto_checkpoint_find(&found, "weights");
	assert_non_null(part);
	assert_int_equal(part->bytes, sizeof(weights));
	assert_memory_equal(part->data, weights, sizeof(weights));
	assert_int_equal(stretto_checkpoint_find(&found, "nothing")->bytes, 0);
	assert_null(stretto_checkpoint_find(&found, "gradients"));
	stretto_checkpoint_fini(&found);
}

static void test_damage(void **state)
{
	uint8_t bytes[ROOM];
	size_t size = load(bytes);

	(void)state;
	assert_true(accepted(bytes, size));
	for (size_t short_of = 0; short_of < size; short_of++)
		assert_false(accepted(bytes, short_of));
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= 0x10;
		assert_false(accepted(bytes, size));
		bytes[i] ^= 0x10;
	}
}

/* Fields that lie under a checksum that is right: offset, the byte there, and what it would mean. */
static void test_lies(void **state)
{
	static const struct {
		size_t offset;
		uint8_t byte;
	} lies[] = {{8, 2},  {12, 3}, {12, 1},   {13, 1},  {24, 3},
		    {28, 0}, {30, 2}, {56, 200}, {63, 255}};
	uint8_t bytes[ROOM];
	size_t size = load(bytes);

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t kept = bytes[lies[i].offset];
		uint32_t crc;

		bytes[lies[i].offset] = lies[i].byte;
		crc = (uint32_t)crc32_z(0, bytes, size - sizeof(crc));
		memcpy(bytes + size - sizeof(crc), &crc, sizeof(crc));
		assert_false(accepted(bytes, size));
		bytes[lies[i].offset] = kept;
	}
}

static void test_latest(void **state)
{
	static const struct stretto_checkpoint_id ids[] = {{200, 0, 2}, {1000, 0, 2}, {30, 0, 2}};
	static const struct stretto_checkpoint_id keeps = {.samples = 200, .rank = 0, .ranks = 2};
	struct stretto_checkpoint_id found;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		write_one(&ids[i]);
	assert_true(stretto_checkpoint_latest(folder, UINT64_MAX, &found));
	assert_int_equal(found.samples, 1000);
	assert_true(stretto_checkpoint_latest(folder, 1000, &found));
	assert_int_equal(found.samples, 200);
	stretto_checkpoint_prune(folder, &keeps);
	assert_false(stretto_checkpoint_latest(folder, 200, &found));
	assert_true(stretto_checkpoint_latest(folder, 201, &found));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

/* Removes all files of both numbers of ranks, and the folder. */
static int remove_folder(void **state)
{
	struct stretto_checkpoint_id all = {.samples = UINT64_MAX, .rank = 0, .ranks = 1};

	(void)state;
	stretto_checkpoint_prune(folder, &all);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_latest),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
