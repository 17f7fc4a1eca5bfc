/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading images: every field wrong in turn, every truncation, whole folders, and the shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "trainer/data/dataset.h"
#include "trainer/data/shard.h"

/* Two images of 2 x 3, and their labels. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
				 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};

static void test_good(void **state)
{
	struct stretto_idx idx;
	struct stretto_idx_problem problem;

	(void)state;
	assert_int_equal(stretto_idx_parse(images, sizeof(images), 3, &idx, &problem), STRETTO_OK);
	assert_int_equal(idx.extent[0], 2);
	assert_int_equal(idx.extent[1], 2);
	assert_int_equal(idx.extent[2], 3);
	assert_int_equal(idx.elements, 12);
	assert_ptr_equal(idx.data, images + 16);
	assert_int_equal(stretto_idx_parse(labels, sizeof(labels), 1, &idx, &problem), STRETTO_OK);
	assert_int_equal(idx.extent[0], 2);
	assert_int_equal(idx.extent[1], 1);
}

/* One change to a good file: up to 4 bytes at a place, and where the problem must be found. */
struct change {
	const char *name;
	size_t at;
	uint8_t bytes[4];
	size_t length;
	size_t offset;    /* of the problem */
	const char *text; /* part of it */
};

static const struct change changes[] = {
	{"first zero byte", 0, {1}, 1, 0, "two zero bytes"},
	{"second zero byte", 1, {1}, 1, 0, "two zero bytes"},
	{"gzip inside", 0, {0x1f, 0x8b}, 2, 0, "not an IDX file"},
	{"type 9", 2, {9}, 1, 2, "type 8"},
	{"type float", 2, {13}, 1, 2, "found 13"},
	{"no dimensions", 3, {0}, 1, 3, "3 dimensions"},
	{"a labels file", 3, {1}, 1, 3, "3 dimensions (images), found 1"},
	{"255 dimensions", 3, {255}, 1, 3, "found 255"},
	{"no images", 4, {0, 0, 0, 0}, 4, 4, "at least 1"},
	{"one image too few", 4, {0, 0, 0, 1}, 4, 22, "expected the end"},
	{"one image too many", 4, {0, 0, 0, 3}, 4, 28, "expected 34 bytes"},
	{"2^32-1 images", 4, {255, 255, 255, 255}, 4, 4, "at most"},
	{"2^29 images", 4, {32, 0, 0, 0}, 4, 12, "at most"},
	{"no rows", 8, {0, 0, 0, 0}, 4, 8, "at least 1"},
	{"one row more", 8, {0, 0, 0, 3}, 4, 28, "expected 34 bytes"},
	{"5000 rows", 8, {0, 0, 19, 136}, 4, 8, "at most 4096 rows"},
	{"2^32-1 rows", 8, {255, 255, 255, 255}, 4, 8, "rows or columns"},
	{"no columns", 12, {0, 0, 0, 0}, 4, 12, "at least 1"},
	{"one column less", 12, {0, 0, 0, 2}, 4, 24, "expected the end"},
	{"little-endian columns", 12, {3, 0, 0, 0}, 4, 12, "at most 4096"},
};

static void test_changed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		const struct change *change = &changes[i];
		struct stretto_idx_problem problem = {0};
		struct stretto_idx idx;
		uint8_t bytes[sizeof(images)];

		memcpy(bytes, images, sizeof(images));
		memcpy(bytes + change->at, change->bytes, change->length);
		if (stretto_idx_parse(bytes, sizeof(bytes), 3, &idx, &problem) != STRETTO_INVALID)
			fail_msg("%s: was accepted", change->name);
		if (problem.offset != change->offset || !strstr(problem.text, change->text))
			fail_msg("%s: found at %zu: '%s'", change->name, problem.offset,
				 problem.text);
	}
}

static void test_truncated(void **state)
{
	uint8_t longer[sizeof(images) + 1] = {0};
	struct stretto_idx_problem problem;
	struct stretto_idx idx;

	(void)state;
	for (size_t size = 0; size < sizeof(images); size++) {
		/* Of its own size, so that a sanitizer sees a read beyond the end. */
		uint8_t *bytes = malloc(size + (size == 0));

		assert_non_null(bytes);
		memcpy(bytes, images, size);
		assert_int_equal(stretto_idx_parse(bytes, size, 3, &idx, &problem),
				 STRETTO_INVALID);
		assert_int_equal(problem.offset, size);
		free(bytes);
	}
	memcpy(longer, images, sizeof(images));
	assert_int_equal(stretto_idx_parse(longer, sizeof(longer), 3, &idx, &problem),
			 STRETTO_INVALID);
	assert_int_equal(problem.offset, sizeof(images));
}

/* A folder of small files, made anew for each test. */
struct folder {
	char path[64];
};

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
				     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void path_of(const struct folder *folder, size_t i, const char *suffix, char path[128])
{
	snprintf(path, 128, "%s/%s%s", folder->path, names[i], suffix);
}

static void put(const struct folder *folder, size_t i, const uint8_t *bytes, size_t size)
{
	char path[128];
	FILE *file;

	path_of(folder, i, "", path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

/* File i as gzip, without its last `cut` bytes; the plain file is removed. */
static void put_gzip(const struct folder *folder, size_t i, const uint8_t *bytes, size_t size,
		     long cut)
{
	char path[128];
	gzFile file;
	FILE *plain;

	path_of(folder, i, "", path);
	unlink(path);
	path_of(folder, i, ".gz", path);
	file = gzopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
	assert_int_equal(gzclose(file), Z_OK);
	plain = fopen(path, "rb");
	assert_non_null(plain);
	assert_int_equal(fseek(plain, 0, SEEK_END), 0);
	assert_int_equal(truncate(path, ftell(plain) - cut), 0);
	fclose(plain);
}

static void open_folder(struct folder *folder)
{
	snprintf(folder->path, sizeof(folder->path), "/tmp/stretto-test-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
	for (size_t i = 0; i < 4; i++)
		put(folder, i, i % 2 ? labels : images, i % 2 ? sizeof(labels) : sizeof(images));
}

static void close_folder(struct folder *folder)
{
	char path[128];

	for (size_t i = 0; i < 4; i++) {
		path_of(folder, i, "", path);
		unlink(path);
		path_of(folder, i, ".gz", path);
		unlink(path);
	}
	assert_int_equal(rmdir(folder->path), 0);
}

static void test_folder(void **state)
{
	struct folder folder;
	struct stretto_dataset dataset;
	char problem[STRETTO_PROBLEM];
	const uint32_t index[] = {1, 0};
	float x[12];
	uint8_t y[2];
	double sum = 0, squares = 0;

	(void)state;
	open_folder(&folder);
	put_gzip(&folder, 2, images, sizeof(images), 0);
	assert_int_equal(stretto_dataset_load(folder.path, &dataset, problem), STRETTO_OK);
	assert_int_equal(dataset.train.count, 2);
	assert_int_equal(dataset.test.count, 2);
	assert_int_equal(dataset.features, 6);
	assert_int_equal(dataset.classes, 2);
	stretto_dataset_batch(&dataset, &dataset.train, 2, index, x, y);
	assert_int_equal(y[0], 1);
	assert_int_equal(y[1], 0);
	for (size_t i = 0; i < 12; i++) {
		sum += (double)x[i];
		squares += (double)x[i] * (double)x[i];
	}
	assert_true(fabs(sum) < 1e-5 && fabs(squares / 12 - 1) < 1e-5);
	assert_true(x[0] > x[6]); /* pixel 7 of image 1, pixel 1 of image 0 */
	stretto_dataset_fini(&dataset);
	close_folder(&folder);
}

/* Loads a folder that must be refused, with a text that names the file and has `text` in it. */
static void refuse(const struct folder *folder, const char *file, const char *text)
{
	char problem[STRETTO_PROBLEM] = "";
	struct stretto_dataset dataset;

	assert_int_not_equal(stretto_dataset_load(folder->path, &dataset, problem), STRETTO_OK);
	if (!strstr(problem, file) || !strstr(problem, text) || strchr(problem, '\n'))
		fail_msg("wanted '%s' and '%s' in one line, found '%s'", file, text, problem);
}

static void test_bad_folders(void **state)
{
	static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 1};
	static const uint8_t stranger[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 9};
	static const uint8_t turned[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3,  0,  0,
					 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	struct folder folder;

	(void)state;
	open_folder(&folder);
	put(&folder, 1, three, sizeof(three));
	refuse(&folder, names[1], "at offset 4: expected 2 labels");
	put(&folder, 1, labels, sizeof(labels));
	put(&folder, 3, stranger, sizeof(stranger));
	refuse(&folder, names[3], "at offset 9: expected a label less than 2");
	put(&folder, 3, labels, sizeof(labels));
	put(&folder, 2, turned, sizeof(turned));
	refuse(&folder, names[2], "at offset 8: expected 2 rows");
	put(&folder, 2, images, sizeof(images) - 1);
	refuse(&folder, names[2], "at offset 27");
	put_gzip(&folder, 2, images, sizeof(images), 0);
	put_gzip(&folder, 0, images, sizeof(images), 12);
	refuse(&folder, names[0], "truncated");
	put_gzip(&folder, 0, images, sizeof(images), 4);
	refuse(&folder, names[0], "truncated");
	put_gzip(&folder, 0, images, 9, 0);
	refuse(&folder, names[0], "at offset 9");
	close_folder(&folder);
	refuse(&folder, names[0], "no such file");
}

static void test_shards(void **state)
{
	enum { SAMPLES = 103, BATCH = 5, RANKS = 4, STEPS = SAMPLES / (BATCH * RANKS) };
	uint8_t seen[SAMPLES] = {0};
	struct stretto_shard shards[RANKS];

	(void)state;
	for (size_t r = 0; r < RANKS; r++) {
		shards[r] = (struct stretto_shard){NULL, SAMPLES, BATCH, r, RANKS, 42};
		assert_int_equal(stretto_shard_init(&shards[r]), STRETTO_OK);
		assert_int_equal(stretto_shard_steps(&shards[r]), STEPS);
		stretto_shard_shuffle(&shards[r], 3);
		for (size_t i = 0; i < STEPS * BATCH; i++)
			seen[stretto_shard_step(&shards[r], i / BATCH)[i % BATCH]]++;
	}
	/* No sample twice, on whatever rank. */
	for (size_t i = 0; i < SAMPLES; i++)
		assert_in_range(seen[i], 0, 1);
	/* The order is that of seed and epoch alone. */
	stretto_shard_shuffle(&shards[1], 4);
	assert_memory_not_equal(shards[0].order, shards[1].order, SAMPLES * sizeof(uint32_t));
	stretto_shard_shuffle(&shards[1], 3);
	assert_memory_equal(shards[0].order, shards[1].order, SAMPLES * sizeof(uint32_t));
	for (size_t r = 0; r < RANKS; r++)
		stretto_shard_fini(&shards[r]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),        cmocka_unit_test(test_changed),
		cmocka_unit_test(test_truncated),   cmocka_unit_test(test_folder),
		cmocka_unit_test(test_bad_folders), cmocka_unit_test(test_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
