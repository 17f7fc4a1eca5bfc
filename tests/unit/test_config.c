/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration table: what values mean, which are refused, and where they come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/config.h"
#include "runtime/log.h"

/* Loads with one setting (NULL for none); what was logged is in log_text. */
static char log_text[4096];

static stretto_status load(struct stretto_config *config, const char *setting)
{
	const char *settings[] = {setting, NULL};
	FILE *log = tmpfile();
	int old = dup(STDERR_FILENO);
	stretto_status status;
	size_t length;

	assert_non_null(log);
	dup2(fileno(log), STDERR_FILENO);
	status = stretto_config_load(config, settings);
	dup2(old, STDERR_FILENO);
	close(old);
	rewind(log);
	length = fread(log_text, 1, sizeof log_text - 1, log);
	log_text[length] = '\0';
	fclose(log);
	return status;
}

static void assert_logged(const char *words)
{
	if (!strstr(log_text, words))
		fail_msg("the log does not say '%s' but:\n%s", words, log_text);
}

static void clear_environment(void)
{
	for (size_t i = 0; i < stretto_settings_count; i++)
		unsetenv(stretto_settings[i].name);
}

static int setup(void **state)
{
	(void)state;
	clear_environment();
	return 0;
}

static void bytes_have_binary_suffixes(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} good[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"64K", 65536},
		{"64k", 65536},
		{"64KiB", 65536},
		{"12B", 12},
		{"1M", 1 << 20},
		{"1.5M", 3 << 19},
		{"2G", (size_t)2 << 30},
		{"3TiB", (size_t)3 << 40},
		{"1e6", 1000000},
	};
	static const char *const bad[] = {
		"",     " 1",    "1 ",  "-1",   "1.5",  "K",        "1KK",  "1X",
		"0x10", "1e400", "nan", "inf",  "1e16", "infinity", "12ab", "1,5",
		"--1",  "1e",    "0X1", "-nan", "9E99", "1 K",
	};
	size_t bytes = 77;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(stretto_parse_bytes(good[i].text, &bytes), STRETTO_OK);
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 77;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (stretto_parse_bytes(bad[i], &bytes) != STRETTO_INVALID || bytes != 77)
			fail_msg("'%s' was taken for %zu bytes", bad[i], bytes);
}

static void assert_near(double value, double wanted)
{
	double difference = value > wanted ? value - wanted : wanted - value;

	if (!(difference <= 1e-12 * (wanted > 0 ? wanted : -wanted)))
		fail_msg("%.17g is not %.17g", value, wanted);
}

static void seconds_have_units(void **state)
{
	static const struct {
		const char *text;
		double seconds;
	} good[] = {
		{"600", 600}, {"0.5", 0.5},  {"20us", 20e-6}, {"5ms", 5e-3},  {"7ns", 7e-9},
		{"3s", 3},    {"2min", 120}, {"-1", -1},      {"1e-3", 1e-3},
	};
	static const char *const bad[] = {"", "s", "1 s", "5m", "1h", "nan", "0x1p3", "ms5", "1s2"};
	double seconds = 77;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(stretto_parse_seconds(good[i].text, &seconds), STRETTO_OK);
		assert_near(seconds, good[i].seconds);
	}
	seconds = 77;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (stretto_parse_seconds(bad[i], &seconds) != STRETTO_INVALID || seconds < 77)
			fail_msg("'%s' was taken for %g seconds", bad[i], seconds);
}

static void pace_is_rate_and_latency(void **state)
{
	static const struct {
		const char *text;
		double rate;
		double latency;
	} good[] = {
		{"10gbit:20us", 1.25e9, 20e-6},
		{"1.25GB:5us", 1.25e9, 5e-6},
		{"100mbit:1ms", 12.5e6, 1e-3},
		{"8bit:0", 1, 0},
		{"0:0", 0, 0},
		{"5KB:0.5s", 5e3, 0.5},
		{"64kbit:1", 8e3, 1},
	};
	static const char *const bad[] = {
		"",
		"10gbit",
		":20us",
		"10gbit:",
		"10gbit:20us:",
		"-1:0",
		"1GB:-1us",
		"1GB:61",
		"1 GB:1us",
		"10tbit:1us",
		"10gbit;20us",
		"x:y",
		"1000000000000000000000000000000000000000000000000000000000000000000:1us",
	};
	struct stretto_pace pace = {77, 77};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(stretto_parse_pace(good[i].text, &pace), STRETTO_OK);
		assert_near(pace.bytes_per_second, good[i].rate);
		assert_near(pace.latency_seconds, good[i].latency);
	}
	pace = (struct stretto_pace){77, 77};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (stretto_parse_pace(bad[i], &pace) != STRETTO_INVALID ||
		    pace.latency_seconds < 77)
			fail_msg("'%s' was taken for a pace", bad[i]);
}

static void defaults_are_those_of_the_table(void **state)
{
	struct stretto_config config;

	(void)state;
	assert_int_equal(load(&config, NULL), STRETTO_OK);
	assert_string_equal(log_text, "");
	assert_int_equal(config.rank, -1);
	assert_int_equal(config.size, -1);
	assert_int_equal(config.listen_fd, -1);
	assert_string_equal(config.root, "");
	assert_near(config.timeout_seconds, 300);
	assert_near(config.bootstrap_timeout_seconds, 60);
	assert_string_equal(config.log_level, "warn");
	assert_int_equal(config.channels, 1);
	assert_string_equal(config.affinity, "auto");
	assert_true(config.shm_cma);
}

static void call_over_environment_over_default(void **state)
{
	const char *settings[] = {"STRETTO_CHANNELS=3", "STRETTO_ROOT=here:1", NULL};
	struct stretto_config config;
	enum stretto_setting_source source;
	const struct stretto_setting *channels = NULL;

	(void)state;
	for (size_t i = 0; i < stretto_settings_count; i++)
		if (strcmp(stretto_settings[i].name, "STRETTO_CHANNELS") == 0)
			channels = &stretto_settings[i];
	assert_non_null(channels);
	assert_string_equal(stretto_config_text(channels, NULL, &source), channels->default_value);
	assert_int_equal(source, STRETTO_FROM_DEFAULT);

	setenv("STRETTO_CHANNELS", "2", 1);
	setenv("STRETTO_ROOT", "there:2", 1);
	setenv("STRETTO_TIMEOUT_SECONDS", "50ms", 1);
	assert_int_equal(load(&config, NULL), STRETTO_OK);
	assert_int_equal(config.channels, 2);
	assert_string_equal(config.root, "there:2");
	assert_near(config.timeout_seconds, 0.05);
	assert_string_equal(stretto_config_text(channels, NULL, &source), "2");
	assert_int_equal(source, STRETTO_FROM_ENVIRONMENT);

	assert_int_equal(stretto_config_load(&config, settings), STRETTO_OK);
	assert_int_equal(config.channels, 3);
	assert_string_equal(config.root, "here:1");
	assert_near(config.timeout_seconds, 0.05);
	assert_string_equal(stretto_config_text(channels, settings, &source), "3");
	assert_int_equal(source, STRETTO_FROM_CALL);
}

static void values_out_of_range_are_refused(void **state)
{
	static const char *const bad[] = {
		"STRETTO_RANK=-2",
		"STRETTO_RANK=1.5",
		"STRETTO_RANK=2147483648",
		"STRETTO_RANK=",
		"STRETTO_RANK=0x1",
		"STRETTO_RANK=1K",
		"STRETTO_CHANNELS=0",
		"STRETTO_CHANNELS=17",
		"STRETTO_CHANNELS=many",
		"STRETTO_TIMEOUT_SECONDS=-1",
		"STRETTO_TIMEOUT_SECONDS=forever",
		"STRETTO_BOOTSTRAP_TIMEOUT_SECONDS=0",
		"STRETTO_SHM_CMA=maybe",
		"STRETTO_SHM_CMA=",
		"STRETTO_PACE=fast",
		"STRETTO_LOG=loud",
	};
	struct stretto_config config = {.rank = 77};
	char name[64];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (load(&config, bad[i]) != STRETTO_INVALID)
			fail_msg("%s was accepted", bad[i]);
		snprintf(name, sizeof name, "%.*s=", (int)strcspn(bad[i], "="), bad[i]);
		assert_logged(name);
		assert_ptr_equal(strchr(log_text, '\n'), log_text + strlen(log_text) - 1);
	}
	assert_int_equal(config.rank, 77); /* outputs are written only on success */
}

static void limits_themselves_are_accepted(void **state)
{
	struct stretto_config config;

	(void)state;
	assert_int_equal(load(&config, "STRETTO_RANK=2147483647"), STRETTO_OK);
	assert_int_equal(config.rank, 2147483647);
	assert_int_equal(load(&config, "STRETTO_CHANNELS=16"), STRETTO_OK);
	assert_int_equal(config.channels, 16);
	assert_int_equal(load(&config, "STRETTO_TIMEOUT_SECONDS=0"), STRETTO_OK);
}

static void words_for_yes_and_no(void **state)
{
	static const char *const yes[] = {"1", "yes", "on", "true", "YES", "True"};
	static const char *const no[] = {"0", "no", "off", "false", "Off"};
	struct stretto_config config;
	char setting[64];

	(void)state;
	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
		snprintf(setting, sizeof setting, "STRETTO_SHM_CMA=%s", yes[i]);
		assert_int_equal(load(&config, setting), STRETTO_OK);
		assert_true(config.shm_cma);
	}
	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		snprintf(setting, sizeof setting, "STRETTO_SHM_CMA=%s", no[i]);
		assert_int_equal(load(&config, setting), STRETTO_OK);
		assert_false(config.shm_cma);
	}
}

static void long_text_is_refused_not_cut(void **state)
{
	struct stretto_config config;
	char setting[STRETTO_CONFIG_TEXT + 32] = "STRETTO_ROOT=";
	size_t name = strlen(setting);

	(void)state;
	memset(setting + name, 'h', STRETTO_CONFIG_TEXT - 1);
	assert_int_equal(load(&config, setting), STRETTO_OK);
	assert_int_equal(strlen(config.root), STRETTO_CONFIG_TEXT - 1);
	setting[name + STRETTO_CONFIG_TEXT - 1] = 'h';
	assert_int_equal(load(&config, setting), STRETTO_INVALID);
	assert_logged("STRETTO_ROOT");
}

static void unknown_names(void **state)
{
	struct stretto_config config;

	(void)state;
	assert_int_equal(load(&config, "STRETTO_CHANELS=2"), STRETTO_INVALID);
	assert_logged("STRETTO_CHANELS=2");
	assert_int_equal(load(&config, "STRETTO_CHANNELS"), STRETTO_INVALID);
	assert_int_equal(load(&config, "STRETTO_CHANNEL=2"), STRETTO_INVALID); /* a mere prefix */
	assert_int_equal(load(&config, "PATH=/bin"), STRETTO_INVALID);

	setenv("STRETTO_CHANELS", "2", 1);
	assert_int_equal(load(&config, NULL), STRETTO_OK);
	assert_logged("warning: environment variable STRETTO_CHANELS is not a setting");
	unsetenv("STRETTO_CHANELS");
	setenv("STRETTO_TEST_LIMIT", "2", 1); /* the test runner's */
	assert_int_equal(load(&config, NULL), STRETTO_OK);
	assert_string_equal(log_text, "");
	unsetenv("STRETTO_TEST_LIMIT");
}

static void log_level_takes_effect(void **state)
{
	struct stretto_config config;

	(void)state;
	assert_int_equal(load(&config, "STRETTO_LOG=debug"), STRETTO_OK);
	assert_true(stretto_log_enabled(STRETTO_LOG_DEBUG));
	assert_int_equal(load(&config, "STRETTO_LOG=error"), STRETTO_OK);
	assert_false(stretto_log_enabled(STRETTO_LOG_WARN));
	assert_int_equal(load(&config, "STRETTO_LOG=warn"), STRETTO_OK);
}

/* Every default must pass its own row's check, and every row must tell what it is for. */
static void table_is_sound(void **state)
{
	struct stretto_config config;
	char setting[STRETTO_CONFIG_TEXT + 64];

	(void)state;
	for (size_t i = 0; i < stretto_settings_count; i++) {
		const struct stretto_setting *row = &stretto_settings[i];

		assert_int_equal(strncmp(row->name, "STRETTO_", 8), 0);
		assert_true(strlen(row->help) > 10);
		assert_true(row->offset < sizeof config);
		snprintf(setting, sizeof setting, "%s=%s", row->name, row->default_value);
		assert_int_equal(load(&config, setting), STRETTO_OK);
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(row->name, stretto_settings[j].name);
			assert_int_not_equal(row->offset, stretto_settings[j].offset);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(bytes_have_binary_suffixes, setup),
		cmocka_unit_test_setup(seconds_have_units, setup),
		cmocka_unit_test_setup(pace_is_rate_and_latency, setup),
		cmocka_unit_test_setup(defaults_are_those_of_the_table, setup),
		cmocka_unit_test_setup(call_over_environment_over_default, setup),
		cmocka_unit_test_setup(values_out_of_range_are_refused, setup),
		cmocka_unit_test_setup(limits_themselves_are_accepted, setup),
		cmocka_unit_test_setup(words_for_yes_and_no, setup),
		cmocka_unit_test_setup(long_text_is_refused_not_cut, setup),
		cmocka_unit_test_setup(unknown_names, setup),
		cmocka_unit_test_setup(log_level_takes_effect, setup),
		cmocka_unit_test_setup(table_is_sound, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
