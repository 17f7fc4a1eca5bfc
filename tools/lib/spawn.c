/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions up to become_rank() run in the child. */

static _Noreturn void give_up(int report, const char *what)
{
	struct spawn_failure failure = {.error = errno};

	snprintf(failure.what, sizeof failure.what, "%s", what);
	if (write(report, &failure, sizeof failure) < 0)
		_exit(EXIT_FAILURE); /* the launcher has gone */
	_exit(EXIT_FAILURE);
}

/* Binds to the rank's share of the cores: cores rank * c / n up to (rank + 1) * c / n. */
static int bind_to_cores(const struct spawn *spawn, int rank)
{
	size_t bytes = sizeof spawn->cores;
	int count = CPU_COUNT_S(bytes, spawn->cores);
	int first = (int)((long)rank * count / spawn->size);
	int end = (int)((long)(rank + 1) * count / spawn->size);
	cpu_set_t mine[SPAWN_CPU_SETS];
	int nth = 0;

	CPU_ZERO_S(bytes, mine);
	for (size_t core = 0; core < 8 * bytes; core++) {
		if (!CPU_ISSET_S(core, bytes, spawn->cores))
			continue;
		if (nth >= first && nth < end)
			CPU_SET_S(core, bytes, mine);
		nth++;
	}
	return sched_setaffinity(0, bytes, mine);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof text, "%d", value);
	setenv(name, text, 1);
}

/* The launcher may itself be a task of srun or mpirun: its ranks are not. */
static void forget_launchers(void)
{
	static const char *const names[] = {
		"PMIX_NAMESPACE", "PMIX_RANK", "PMI_FD", "PMI_RANK", "PMI_SIZE",
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

static void set_environment(const struct spawn *spawn, int rank)
{
	forget_launchers();
	for (size_t i = 0; i < spawn->variable_count; i++)
		putenv(spawn->variables[i]);
	set_number("STRETTO_RANK", rank);
	set_number("STRETTO_SIZE", spawn->size);
	set_number("STRETTO_LOCAL_RANK", rank);
	set_number("STRETTO_LOCAL_SIZE", spawn->size);
	setenv("STRETTO_ROOT", spawn->root, 1);
	setenv("STRETTO_TOKEN", spawn->token, 1);
	if (rank == 0)
		set_number("STRETTO_LISTEN_FD", spawn->listener);
	else
		unsetenv("STRETTO_LISTEN_FD");
}

/* stdin of rank 0 is ours; the others read nothing. outputs: write ends of pipes, or -1. */
static bool set_streams(int rank, const int outputs[2])
{
	if (rank > 0) {
		int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
			return false;
	}
	return outputs[0] < 0 ||
	       (dup2(outputs[0], STDOUT_FILENO) >= 0 && dup2(outputs[1], STDERR_FILENO) >= 0);
}

static _Noreturn void become_rank(const struct spawn *spawn, int rank, int report,
				  const int outputs[2])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != spawn->launcher) /* which died before the line above */
		_exit(EXIT_FAILURE);
	if (rank > 0 || !spawn->shares_terminal)
		setpgid(0, 0);
	if (spawn->tag_output) {
		signal(SIGPIPE, SIG_DFL);
		setrlimit(RLIMIT_NOFILE, &spawn->old_files);
	}
	if (!set_streams(rank, outputs))
		give_up(report, "give its streams to");
	if (spawn->bind && bind_to_cores(spawn, rank) != 0)
		give_up(report, "bind to its cores");
	if (rank == 0 && fcntl(spawn->listener, F_SETFD, 0) != 0)
		give_up(report, "hand the port to");
	set_environment(spawn, rank);
	sigprocmask(SIG_SETMASK, &spawn->old_mask, NULL);
	execvp(spawn->argv[0], spawn->argv);
	give_up(report, "run");
}

/* The pipes of a new rank: [0] to read, [1] to write; -1 where there is none. */
struct pipes {
	int start[2]; /* says why it could not run its program; closed by exec */
	int out[2];
	int err[2];
};

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_ends(struct pipes *pipes, int end)
{
	close_one(&pipes->start[end]);
	close_one(&pipes->out[end]);
	close_one(&pipes->err[end]);
}

static bool open_pipes(struct pipes *pipes, bool outputs)
{
	*pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
	return pipe2(pipes->start, O_CLOEXEC) == 0 &&
	       (!outputs ||
		(pipe2(pipes->out, O_CLOEXEC) == 0 && pipe2(pipes->err, O_CLOEXEC) == 0));
}

/* Whether the child has got to its program; if not it is reaped here. */
static bool wait_for_exec(int report, pid_t pid, struct spawn_failure *failure)
{
	struct spawn_failure sent;
	ssize_t got;

	do {
		got = read(report, &sent, sizeof sent);
	} while (got < 0 && errno == EINTR);
	if (got != sizeof sent)
		return true;
	*failure = sent;
	waitpid(pid, NULL, 0);
	return false;
}

pid_t spawn_rank(const struct spawn *spawn, int rank, int outputs[2], struct spawn_failure *failure)
{
	struct pipes pipes;
	pid_t pid = -1;

	if (open_pipes(&pipes, spawn->tag_output))
		pid = fork();
	if (pid == 0)
		become_rank(spawn, rank, pipes.start[1],
			    (const int[2]){pipes.out[1], pipes.err[1]});
	if (pid < 0)
		*failure = (struct spawn_failure){errno, "start"};
	close_ends(&pipes, 1);
	if (pid < 0 || !wait_for_exec(pipes.start[0], pid, failure)) {
		close_ends(&pipes, 0);
		return -1;
	}
	close_one(&pipes.start[0]);
	outputs[0] = pipes.out[0];
	outputs[1] = pipes.err[0];
	return pid;
}
