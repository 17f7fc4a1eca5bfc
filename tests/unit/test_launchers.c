/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers say as text, and blobs as the text that PMI2 carries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/bootstrap/limited.h"
#include "runtime/bootstrap/pmi2_text.h"
#include "runtime/bootstrap/slurm_text.h"
#include "runtime/bootstrap/tcp_wire.h"

#include <unistd.h>

static void blobs_come_back_from_pmi2(void **state)
{
	char value[STRETTO_PMI2_VALUE];
	unsigned char blob[STRETTO_PMI2_PART + 1];
	unsigned char back[STRETTO_PMI2_PART + 1];

	(void)state;
	for (size_t i = 0; i < sizeof blob; i++)
		blob[i] = (unsigned char)(i * 91 + i / 256);
	for (size_t bytes = 0; bytes <= STRETTO_PMI2_PART; bytes++) {
		stretto_pmi2_encode(blob, bytes, value);
		assert_true(strlen(value) < sizeof value);
		assert_int_equal(strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxy"
					       "z0123456789+/"),
				 strlen(value));
		memset(back, 0xee, sizeof back);
		assert_true(stretto_pmi2_decode(value, back, bytes));
		assert_memory_equal(back, blob, bytes);
		assert_int_equal(back[bytes], 0xee);
	}
}

static void base64_is_that_of_the_standard(void **state)
{
	/* RFC 4648, section 10, without the padding */
	static const char *const vectors[] = {"",       "Zg",      "Zm8",     "Zm9v",
					      "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
	char value[STRETTO_PMI2_VALUE];

	(void)state;
	for (size_t bytes = 0; bytes <= 6; bytes++) {
		stretto_pmi2_encode("foobar", bytes, value);
		assert_string_equal(value, vectors[bytes]);
	}
}

static void other_texts_are_no_blobs(void **state)
{
	static const struct {
		const char *value;
		size_t bytes;
	} wrong[] = {
		{"", 1},      {"Zm9v", 2},   {"Zm9v", 4},     {"Zm8=", 2},  {"Zm;v", 3},
		{"Zm 9v", 3}, {"Zm9", 2},    {"Zh", 1},       {"Zm9vA", 3}, {"Zm9vA", 4},
		{"A", 0},     {"Zm9v", 721}, {"\xc3\xa4", 1},
	};
	unsigned char part[STRETTO_PMI2_PART];

	(void)state;
	memset(part, 0xee, sizeof part);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(stretto_pmi2_decode(wrong[i].value, part, wrong[i].bytes));
		assert_int_equal(part[0], 0xee);
	}
}

static void keys_differ_and_fit(void **state)
{
	char key[STRETTO_PMI2_KEY];

	(void)state;
	stretto_pmi2_make_key(key, 3, 12, 4);
	assert_string_equal(key, "stretto-3-12-4");
	stretto_pmi2_make_key(key, UINT32_MAX, INT_MAX, 64 * 1024);
	assert_string_equal(key, "stretto-4294967295-2147483647-65536");
}

static void first_host_of_a_list(void **state)
{
	static const char *const lists[][2] = {
		{"node1", "node1"},         {"node1,node2", "node1"},
		{"node[1-4]", "node1"},     {"node[03-12,20]", "node03"},
		{"node[7,9]", "node7"},     {"rack[1-2]n[7-8]-ib,login", "rack1n7-ib"},
		{"a.b-c_d[5]", "a.b-c_d5"},
	};
	static const char *const wrong[] = {
		"",    ",node1", "node[", "node[]",    "node[-4]", "node[1-4",
		"a b", "node]",  "[",     "node[1;2]", "a/b",      "node[a-b]",
	};
	char host[16] = "as it was";

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(stretto_slurm_first_host(wrong[i], host, sizeof host));
		assert_string_equal(host, "as it was");
	}
	assert_false(stretto_slurm_first_host("sixteen-bytes-xx", host, sizeof host));
	assert_true(stretto_slurm_first_host("fifteen-bytes-x", host, sizeof host));
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		assert_true(stretto_slurm_first_host(lists[i][0], host, sizeof host));
		assert_string_equal(host, lists[i][1]);
	}
}

static void first_port_of_a_list(void **state)
{
	static const char *const wrong[] = {"",      "x",  "-1",     "0",
					    "65536", " 1", "21000x", "99999999999999999999"};
	int port = -1;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(stretto_slurm_first_port(wrong[i], &port));
		assert_int_equal(port, -1);
	}
	assert_true(stretto_slurm_first_port("21000", &port));
	assert_int_equal(port, 21000);
	assert_true(stretto_slurm_first_port("21005-21007", &port));
	assert_int_equal(port, 21005);
	assert_true(stretto_slurm_first_port("1,21005-21007", &port));
	assert_int_equal(port, 1);
}

static void numbers_are_digits_within_their_limit(void **state)
{
	int number = -1;

	(void)state;
	assert_false(stretto_slurm_number(NULL, 9, &number));
	assert_false(stretto_slurm_number("", 9, &number));
	assert_false(stretto_slurm_number("10", 9, &number));
	assert_false(stretto_slurm_number("1x", 9, &number));
	assert_false(stretto_slurm_number("+1", 9, &number));
	assert_false(stretto_slurm_number("0", -1, &number));
	assert_int_equal(number, -1);
	assert_true(stretto_slurm_number("9", 9, &number));
	assert_int_equal(number, 9);
	assert_true(stretto_slurm_number("2147483647", INT_MAX, &number));
	assert_int_equal(number, INT_MAX);
	assert_false(stretto_slurm_number("2147483648", INT_MAX, &number));
}

static void tokens_differ_from_step_to_step(void **state)
{
	static const char *const steps[][3] = {
		{"7", "0", "1000"}, {"7", "1", "1000"}, {"70", "", "1000"}, {"8", "0", "1000"}};
	unsigned char parsed[STRETTO_TCP_TOKEN];
	char tokens[4][33];
	char again[33];

	(void)state;
	for (int i = 0; i < 4; i++) {
		stretto_slurm_make_token(steps[i], 3, tokens[i]);
		assert_true(stretto_tcp_parse_token(tokens[i], parsed));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(tokens[i], tokens[k]);
	}
	stretto_slurm_make_token(steps[0], 3, again);
	assert_string_equal(again, tokens[0]);
}

static int answer(void)
{
	return -42;
}

static int dawdle(void)
{
	sleep(2);
	return 0;
}

static void calls_end_or_are_left_behind(void **state)
{
	int result = 1;

	(void)state;
	assert_int_equal(stretto_limited_call(answer, 10, &result), STRETTO_LIMITED_DONE);
	assert_int_equal(result, -42);
	assert_int_equal(stretto_limited_call(dawdle, 0.05, &result), STRETTO_LIMITED_LATE);
	assert_int_equal(result, -42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blobs_come_back_from_pmi2),
		cmocka_unit_test(base64_is_that_of_the_standard),
		cmocka_unit_test(other_texts_are_no_blobs),
		cmocka_unit_test(keys_differ_and_fit),
		cmocka_unit_test(first_host_of_a_list),
		cmocka_unit_test(first_port_of_a_list),
		cmocka_unit_test(numbers_are_digits_within_their_limit),
		cmocka_unit_test(tokens_differ_from_step_to_step),
		cmocka_unit_test(calls_end_or_are_left_behind),
	};

	return cmocka_run_group_tests_name("launchers", tests, NULL, NULL);
}
