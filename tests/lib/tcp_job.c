/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/tcp_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int open_listener(char *root, size_t bytes)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	snprintf(root, bytes, "127.0.0.1:%d", ntohs(address.sin_port));
	return fd;
}

void job_init(struct job *job, int size, job_body *body)
{
	memset(job, 0, sizeof *job);
	job->size = size;
	job->seconds = 20;
	job->meetings = 1;
	job->token = JOB_TOKEN;
	job->body = body;
	job->listener = open_listener(job->root, sizeof job->root);
}

static struct stretto_config config_of(const struct job *job, int rank)
{
	struct stretto_config config = {.rank = rank, .size = job->size};

	config.listen_fd = rank == 0 ? job->listener : -1;
	config.bootstrap_timeout_seconds = job->seconds;
	snprintf(config.root, sizeof config.root, "%s", job->root);
	snprintf(config.token, sizeof config.token, "%s", job->token);
	return config;
}

static int meet_once(const struct job *job, int rank)
{
	struct stretto_config config = config_of(job, rank);
	struct stretto_bootstrap *bootstrap = NULL;
	int result;
	stretto_status status = stretto_bootstrap_open(&config, NULL, &bootstrap);

	if (status != STRETTO_OK)
		return bootstrap ? 99 : (int)status;
	result = job->body(bootstrap);
	bootstrap->ops->close(bootstrap);
	return result;
}

static int run_rank(const struct job *job, int rank)
{
	int result = 0;

	for (int i = 0; i < job->meetings && result == 0; i++)
		result = meet_once(job, rank);
	return result;
}

void job_start_as(struct job *job, int slot, int rank)
{
	job->logs[slot] = tmpfile();
	assert_non_null(job->logs[slot]);
	job->pids[slot] = fork();
	assert_true(job->pids[slot] >= 0);
	if (job->pids[slot] == 0) {
		dup2(fileno(job->logs[slot]), STDERR_FILENO);
		if (rank != 0)
			close(job->listener);
		alarm(60);
		_exit(run_rank(job, rank));
	}
}

void job_start(struct job *job, int rank)
{
	job_start_as(job, rank, rank);
}

int job_finish(struct job *job, int slot)
{
	int status;
	size_t length;

	assert_int_equal(waitpid(job->pids[slot], &status, 0), job->pids[slot]);
	job->pids[slot] = 0;
	rewind(job->logs[slot]);
	length = fread(job->text, 1, sizeof job->text - 1, job->logs[slot]);
	job->text[length] = '\0';
	fclose(job->logs[slot]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void job_assert_says(const struct job *job, const char *words)
{
	if (!strstr(job->text, words))
		fail_msg("the log does not say '%s' but:\n%s", words, job->text);
}

void job_finish_well(struct job *job)
{
	for (int rank = 0; rank < job->size; rank++) {
		int result = job_finish(job, rank);

		if (result != 0)
			fail_msg("rank %d of %d ended with %d:\n%s", rank, job->size, result,
				 job->text);
	}
	close(job->listener);
}

void job_run(int size, job_body *body)
{
	struct job job;

	job_init(&job, size, body);
	for (int rank = 0; rank < size; rank++)
		job_start(&job, rank);
	job_finish_well(&job);
}

void job_nap(double seconds)
{
	struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&time, NULL);
}

double job_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int job_connect(const struct job *job)
{
	struct sockaddr_in address;
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(getsockname(job->listener, (struct sockaddr *)&address, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
	return fd;
}
