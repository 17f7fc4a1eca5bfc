/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a bootstrap, the small providers, and what the functions of the tcp wire promise.
 * Choices are made in forks, so that their log can be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/tcp_wire.h"
#include "runtime/log.h"

enum { LOG_BYTES = 4096 };

#define TOKEN "00112233445566778899aabbccddeeff"

static int open_with(const struct stretto_config *config,
		     const struct stretto_bootstrap_callbacks *callbacks, char *text, size_t bytes)
{
	FILE *log = tmpfile();
	pid_t pid = fork();
	int status;
	size_t length;

	if (pid == 0) {
		struct stretto_bootstrap *bootstrap;
		stretto_status result;

		dup2(fileno(log), STDERR_FILENO);
		stretto_log_set_level(STRETTO_LOG_INFO);
		result = stretto_bootstrap_open(config, callbacks, &bootstrap);
		if (result == STRETTO_OK)
			bootstrap->ops->close(bootstrap);
		_exit((int)result);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rewind(log);
	length = fread(text, 1, bytes - 1, log);
	text[length] = '\0';
	fclose(log);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct stretto_config empty_config(void)
{
	return (struct stretto_config){
		.rank = -1, .size = -1, .listen_fd = -1, .bootstrap_timeout_seconds = 1};
}

/* Whatever may have started the test itself. */
static void clear_launchers(void)
{
	static const char *const names[] = {
		"OMPI_COMM_WORLD_SIZE",
		"PMIX_NAMESPACE",
		"PMIX_RANK",
		"PMI_FD",
		"PMI_RANK",
		"PMI_SIZE",
		"SLURM_LAUNCH_NODE_IPADDR",
		"SLURM_NODEID",
		"SLURM_NTASKS",
		"SLURM_PROCID",
		"SLURM_STEP_ID",
		"SLURM_STEP_NODELIST",
		"SLURM_STEP_NUM_TASKS",
		"SLURM_STEP_RESV_PORTS",
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

/* A task of srun --mpi=none. */
static void set_task(const char *rank, const char *size, const char *ports, const char *nodes)
{
	clear_launchers();
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_PROCID", rank, 1);
	setenv("SLURM_STEP_NUM_TASKS", size, 1);
	setenv("SLURM_STEP_NODELIST", nodes, 1);
	if (ports)
		setenv("SLURM_STEP_RESV_PORTS", ports, 1);
}

static void alone_is_single(void **state)
{
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];

	(void)state;
	clear_launchers();
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_non_null(strstr(text, "bootstrap: single: "));
	assert_null(strstr(text, "warning"));
	setenv("SLURM_NTASKS", "1", 1);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_null(strstr(text, "warning"));
	clear_launchers();
}

static void alone_in_a_job_of_many_is_an_error(void **state)
{
	static const char *const names[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"};
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];
	char words[64];

	(void)state;
	for (int i = 0; i < 2; i++) {
		clear_launchers();
		setenv(names[i], "16", 1);
		assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
		snprintf(words, sizeof words, "error: %s=16", names[i]);
		assert_non_null(strstr(text, words));
		assert_non_null(strstr(text, "srun --mpi=pmi"));
	}
	set_task("1", "4", NULL, "node1");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "error: SLURM_STEP_NUM_TASKS=4"));
	assert_non_null(strstr(text, "srun --mpi=pmi"));
	set_task("0", "1", NULL, "node1");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	clear_launchers();
}

static void alone_in_a_batch_script_is_said(void **state)
{
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];

	(void)state;
	clear_launchers();
	setenv("SLURM_NTASKS", "16", 1);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_non_null(strstr(text, "warning: SLURM_NTASKS=16"));
	assert_non_null(strstr(text, "stretto-run"));
	clear_launchers();
}

static void launchers_are_chosen_in_order(void **state)
{
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];

	(void)state;
	set_task("0", "1", "21000-21001", "node[1-2]");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_non_null(strstr(text, "bootstrap: slurm: a task of srun without PMI, with the "
				     "reserved ports 21000-21001"));
	assert_non_null(strstr(text, "STRETTO_TOKEN=$(openssl rand -hex 16)"));
	/* a full description of ours comes before Slurm's */
	config.rank = 0;
	config.size = 1;
	snprintf(config.root, sizeof config.root, "127.0.0.1:4000");
	snprintf(config.token, sizeof config.token, "%s", TOKEN);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_non_null(strstr(text, "bootstrap: tcp: "));
	/* mpirun's daemon was started by Slurm, this process was not */
	config = empty_config();
	setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_OK);
	assert_non_null(strstr(text, "bootstrap: single: "));
	clear_launchers();
#ifdef STRETTO_HAVE_PMIX
	setenv("PMIX_NAMESPACE", "nobody.0", 1);
	setenv("PMIX_RANK", "0", 1);
	setenv("PMI_FD", "77", 1);
	setenv("PMI_RANK", "0", 1);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "bootstrap: pmix: "));
	assert_non_null(strstr(text, "PMIx_Init failed"));
	clear_launchers();
#endif
}

static void senseless_tasks_are_refused(void **state)
{
	static const char *const tasks[][4] = {
		{"x", "4", "21000", "node1"},  {"4", "4", "21000", "node1"},
		{"0", "0", "21000", "node1"},  {"0", "", "21000", "node1"},
		{"0", "4", "65536", "node1"},  {"0", "4", "0", "node1"},
		{"0", "4", "21000", "node["},  {"0", "4", "21000", ""},
		{"-1", "4", "21000", "node1"}, {"0", "99999999999", "21000", "node1"},
	};
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
		set_task(tasks[i][0], tasks[i][1], tasks[i][2], tasks[i][3]);
		assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
		assert_non_null(strstr(text, "cannot make sense of Slurm's variables"));
	}
	set_task("0", "4", "21000", "node1");
	setenv("SLURM_NODEID", "2", 1);
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "rank 0 is on node 2"));
	clear_launchers();
}

static void half_a_job_is_an_error(void **state)
{
	struct stretto_config config = empty_config();
	char text[LOG_BYTES];

	(void)state;
	config.rank = 0;
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "not set: STRETTO_SIZE, STRETTO_ROOT, STRETTO_TOKEN;"));
	config.size = 2;
	snprintf(config.root, sizeof config.root, "127.0.0.1:4000");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "not set: STRETTO_TOKEN;"));
	snprintf(config.token, sizeof config.token, "%s", "0123");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "STRETTO_TOKEN must be 32 hex digits"));
	snprintf(config.token, sizeof config.token, "%s", TOKEN);
	config.rank = 2;
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "STRETTO_RANK=2 must be less than STRETTO_SIZE=2"));
	config.rank = 1;
	snprintf(config.root, sizeof config.root, "nowhere");
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "STRETTO_ROOT='nowhere' must be HOST:PORT"));
	config.rank = 0;
	snprintf(config.root, sizeof config.root, "127.0.0.1:4000");
	config.listen_fd = 77;
	assert_int_equal(open_with(&config, NULL, text, sizeof text), STRETTO_BOOTSTRAP);
	assert_non_null(strstr(text, "STRETTO_LISTEN_FD=77 is not a listening socket"));
}

static int double_allgather(void *context, const void *mine, size_t bytes, void *all)
{
	memcpy(all, mine, bytes);
	memcpy((char *)all + bytes, mine, bytes);
	return *(int *)context;
}

static int counted_barrier(void *context)
{
	*(int *)context += 1;
	return 0;
}

static void callbacks_come_first_and_are_called(void **state)
{
	struct stretto_config config = empty_config();
	int context = 0;
	struct stretto_bootstrap_callbacks callbacks = {1, 2, &context, double_allgather,
							counted_barrier};
	struct stretto_bootstrap *bootstrap;
	char all[6];

	(void)state;
	config.rank = 0; /* half a job, which would be an error without the callbacks */
	assert_int_equal(stretto_bootstrap_open(&config, &callbacks, &bootstrap), STRETTO_OK);
	assert_int_equal(bootstrap->rank, 1);
	assert_int_equal(bootstrap->size, 2);
	assert_int_equal(bootstrap->ops->allgather(bootstrap, "abc", 3, all), STRETTO_OK);
	assert_memory_equal(all, "abcabc", 6);
	assert_int_equal(stretto_bootstrap_barrier(bootstrap), STRETTO_OK);
	assert_int_equal(context, 1); /* which the allgather now returns as its error */
	assert_int_equal(bootstrap->ops->allgather(bootstrap, "abc", 3, all), STRETTO_BOOTSTRAP);
	bootstrap->ops->close(bootstrap);
}

static void wrong_callbacks_are_refused(void **state)
{
	struct stretto_config config = empty_config();
	struct stretto_bootstrap_callbacks callbacks = {2, 2, NULL, double_allgather,
							counted_barrier};
	char text[LOG_BYTES];

	(void)state;
	assert_int_equal(open_with(&config, &callbacks, text, sizeof text), STRETTO_INVALID);
	assert_non_null(strstr(text, "rank 2 of size 2"));
	callbacks.rank = 0;
	callbacks.barrier = NULL;
	assert_int_equal(open_with(&config, &callbacks, text, sizeof text), STRETTO_INVALID);
	assert_non_null(strstr(text, "must both be given"));
}

/* The wire: what the pure functions promise. */

static void tokens_and_roots_are_parsed_strictly(void **state)
{
	unsigned char token[STRETTO_TCP_TOKEN];
	char host[64];
	char port[64];

	(void)state;
	assert_true(stretto_tcp_parse_token("00112233445566778899AABBccddeeff", token));
	assert_int_equal(token[0], 0);
	assert_int_equal(token[10], 0xaa);
	assert_int_equal(token[15], 0xff);
	assert_false(stretto_tcp_parse_token(TOKEN "0", token));
	assert_false(stretto_tcp_parse_token("00112233445566778899aabbccddeefg", token));
	assert_false(stretto_tcp_parse_token("", token));
	assert_true(stretto_tcp_split_root("node1.example:65535", host, port, sizeof host));
	assert_string_equal(host, "node1.example");
	assert_string_equal(port, "65535");
	assert_true(stretto_tcp_split_root("[fe80::1]:9", host, port, sizeof host));
	assert_string_equal(host, "fe80::1");
	static const char *const wrong[] = {
		"",        ":1",    "host",   "host:", "host:0",  "host:65536",  "host:-1",
		"host:1x", "::1:5", "[::1:5", "[]:5",  "host: 5", "host:000001", "[",
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (stretto_tcp_split_root(wrong[i], host, port, sizeof host))
			fail_msg("'%s' was taken for a root", wrong[i]);
	assert_false(stretto_tcp_split_root("a-host-name-too-long:1", host, port, 16));
}

static void rank_lists_are_compressed_and_bounded(void **state)
{
	bool listed[12] = {[3] = true, [5] = true, [6] = true, [7] = true, [11] = true};
	bool every_other[200];
	char text[64];

	(void)state;
	stretto_tcp_list_ranks(listed, 12, text, sizeof text);
	assert_string_equal(text, "3,5-7,11");
	stretto_tcp_list_ranks(listed, 3, text, sizeof text);
	assert_string_equal(text, "");
	for (int i = 0; i < 200; i++)
		every_other[i] = i % 2;
	stretto_tcp_list_ranks(every_other, 200, text, sizeof text);
	assert_true(strlen(text) < sizeof text);
	assert_string_equal(text + strlen(text) - 3, "...");
}

static void every_byte_of_the_token_counts(void **state)
{
	unsigned char token[STRETTO_TCP_TOKEN];
	unsigned char hello[STRETTO_TCP_HELLO];
	int rank = -1;

	(void)state;
	assert_true(stretto_tcp_parse_token(TOKEN, token));
	for (size_t i = 0; i < STRETTO_TCP_TOKEN; i++) {
		stretto_tcp_make_hello(hello, token, 1, 2);
		hello[8 + i] ^= 0x80;
		assert_int_equal(stretto_tcp_judge_hello(hello, token, 2, &rank),
				 STRETTO_TCP_WRONG_TOKEN);
	}
	stretto_tcp_make_hello(hello, token, 1, 2);
	assert_int_equal(rank, -1);
	assert_int_equal(stretto_tcp_judge_hello(hello, token, 2, &rank), STRETTO_TCP_ACCEPTED);
	assert_int_equal(rank, 1);
	stretto_tcp_make_hello(hello, token, 0, 2); /* rank 0 never knocks */
	assert_int_equal(stretto_tcp_judge_hello(hello, token, 2, &rank), STRETTO_TCP_WRONG_RANK);
	stretto_tcp_make_hello(hello, token, -1, 2);
	assert_int_equal(stretto_tcp_judge_hello(hello, token, 2, &rank), STRETTO_TCP_WRONG_RANK);
	hello[27]++; /* the version is looked at before rank and size */
	assert_int_equal(stretto_tcp_judge_hello(hello, token, 3, &rank),
			 STRETTO_TCP_WRONG_VERSION);
	hello[0]++;
	assert_int_equal(stretto_tcp_judge_hello(hello, token, 2, &rank), STRETTO_TCP_STRANGER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_and_roots_are_parsed_strictly),
		cmocka_unit_test(rank_lists_are_compressed_and_bounded),
		cmocka_unit_test(every_byte_of_the_token_counts),
		cmocka_unit_test(alone_is_single),
		cmocka_unit_test(alone_in_a_job_of_many_is_an_error),
		cmocka_unit_test(alone_in_a_batch_script_is_said),
		cmocka_unit_test(launchers_are_chosen_in_order),
		cmocka_unit_test(senseless_tasks_are_refused),
		cmocka_unit_test(half_a_job_is_an_error),
		cmocka_unit_test(callbacks_come_first_and_are_called),
		cmocka_unit_test(wrong_callbacks_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
