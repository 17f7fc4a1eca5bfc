/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-run: starts the ranks of a job on this host and stays until all of them have ended.
 *
 * Each rank leads a process group of its own, so that a signal reaches what it has started too.
 * One exception: when stdin is a terminal, rank 0 stays in the group of the launcher, since only
 * the foreground group may read from a terminal; Ctrl-C then reaches it without our help.
 *
 * Nothing is left behind: the launcher is the subreaper of its descendants, so whatever a rank
 * leaves running becomes the launcher's child and is ended with the job. Should the launcher itself
 * be killed, the kernel kills the ranks (PR_SET_PDEATHSIG).
 *
 * One thread, one poll(2) over a signalfd and the ranks' output.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/options.h"
#include "tools/lib/spawn.h"
#include "tools/lib/tagger.h"

enum {
	RANKS_MAX = 4096,
	TIMED_OUT = 124,
	CANNOT_RUN = 126,
	NOT_FOUND = 127,
};

static const double kill_seconds = 2;        /* from SIGTERM to SIGKILL */
static const double leftovers_seconds = 0.5; /* for what ranks left running to end by itself */
static const double sweep_seconds = 0.05;    /* between two sweeps of what does not end */
static const double drain_seconds = 1;       /* for output that a stranger holds open to end */

enum binding { BIND_AUTO, BIND_CORE, BIND_NONE };

/* The way from a running job to its end; each phase but the first may have a time of its end. */
enum phase {
	RUNNING,
	GRACE,      /* a rank failed: the others may end by themselves */
	TERMINATED, /* SIGTERM was sent */
	KILLED,     /* SIGKILL was sent */
	LEFTOVERS,  /* all ranks have ended: their descendants */
	DRAIN,      /* their last output */
	OVER,
};

struct launch {
	struct spawn spawn; /* what all ranks are given */
	enum binding binding;
	double grace;      /* seconds */
	double timeout;    /* seconds, 0 for none */
	pid_t *pids;       /* by rank, 0 for one that is not running; owned */
	int alive;         /* ranks that run */
	bool had_children; /* exec'ed from a program with children: those are not ours to end */
	enum phase phase;
	double phase_end;      /* 0 for none */
	double job_end;        /* 0 for none */
	bool failed;           /* the job's status is decided */
	int status;            /* of the job */
	int signals;           /* signalfd */
	struct tagger *tagger; /* NULL without --tag-output */
};

enum { TAG_OUTPUT = TOOL_LONG_ONLY, BIND, GRACE_SECONDS, TIMEOUT };

static const struct tool_option options[] = {
	{"ranks", 'n', "N", "number of ranks, 1 to 4096"},
	{"set", 'x', "NAME=VALUE", "set a variable for the ranks; may be repeated"},
	{"bind", BIND, "HOW",
	 "auto: give each rank its own share of the cores if there are\n"
	 "enough (default); core: the same, or fail; none: bind nothing"},
	{"tag-output", TAG_OUTPUT, NULL, "write \"[rank] \" before each line of output"},
	{"grace", GRACE_SECONDS, "SECONDS",
	 "after a rank has failed, let the others end by\n"
	 "themselves for so long (default 5), then end them"},
	{"timeout", TIMEOUT, "SECONDS", "end the job after so long, with status 124"},
	{NULL, 0, NULL, NULL},
};

static const struct tool tool = {
	.usage = "-n N [OPTION]... PROGRAM [ARGUMENT]...",
	.summary = "Starts N ranks of PROGRAM on this host and waits for them.",
	.options = options,
	.notes = "The exit status is that of the rank that failed first (128 + signal if it was "
		 "killed), 0 if none did.\nstdin goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGUSR1 "
		 "and SIGUSR2 are forwarded to all ranks.",
	.stop_at_operand = true,
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *allocate(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		tool_die(EXIT_FAILURE, "no memory for %zu bytes", count * bytes);
	return memory;
}

static enum binding parse_binding(const char *text)
{
	static const char *const names[] = {"auto", "core", "none"};

	for (int i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0)
			return (enum binding)i;
	tool_fail("--bind '%.80s' must be auto, core or none", text);
}

static void parse_options(struct launch *launch, int argc, char **argv)
{
	int id;

	launch->grace = 5;
	launch->spawn.variables = allocate((size_t)argc, sizeof *launch->spawn.variables);
	while ((id = tool_next(&tool, argc, argv)) >= 0) {
		switch (id) {
		case 'n':
			launch->spawn.size = (int)tool_int("-n", optarg, 1, RANKS_MAX);
			break;
		case 'x':
			if (!strchr(optarg, '=') || *optarg == '=')
				tool_fail("-x '%.80s' must be NAME=VALUE", optarg);
			launch->spawn.variables[launch->spawn.variable_count++] = optarg;
			break;
		case BIND:
			launch->binding = parse_binding(optarg);
			break;
		case TAG_OUTPUT:
			launch->spawn.tag_output = true;
			break;
		case GRACE_SECONDS:
			launch->grace = tool_seconds("--grace", optarg, 0, 1e6);
			break;
		case TIMEOUT:
			launch->timeout = tool_seconds("--timeout", optarg, 1e-3, 1e9);
			break;
		}
	}
	if (launch->spawn.size == 0)
		tool_fail("-n N is missing: the number of ranks");
	if (optind == argc)
		tool_fail("the program to run is missing");
	launch->spawn.argv = argv + optind;
}

/* A port that is bound before any rank starts cannot be taken by someone else. */
static void open_listener(struct launch *launch)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	launch->spawn.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (launch->spawn.listener < 0 ||
	    bind(launch->spawn.listener, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(launch->spawn.listener, SOMAXCONN) != 0 ||
	    getsockname(launch->spawn.listener, (struct sockaddr *)&address, &length) != 0)
		tool_die(EXIT_FAILURE, "cannot listen at 127.0.0.1: %s", strerror(errno));
	snprintf(launch->spawn.root, sizeof launch->spawn.root, "127.0.0.1:%u",
		 (unsigned)ntohs(address.sin_port));
}

static void make_token(struct launch *launch)
{
	unsigned char random[16];

	if (getrandom(random, sizeof random, 0) != sizeof random)
		tool_die(EXIT_FAILURE, "no random numbers for the job's token: %s",
			 strerror(errno));
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(launch->spawn.token + 2 * i, 3, "%02x", random[i]);
}

static void read_cores(struct launch *launch)
{
	int count;

	if (launch->binding == BIND_NONE)
		return;
	if (sched_getaffinity(0, sizeof launch->spawn.cores, launch->spawn.cores) != 0)
		count = 0;
	else
		count = CPU_COUNT_S(sizeof launch->spawn.cores, launch->spawn.cores);
	launch->spawn.bind = launch->spawn.size <= count;
	if (!launch->spawn.bind && launch->binding == BIND_CORE)
		tool_fail("--bind core needs a core for each rank: %d ranks, %d cores",
			  launch->spawn.size, count);
}

static void take_signals(struct launch *launch)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, &launch->spawn.old_mask);
	launch->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (launch->signals < 0)
		tool_die(EXIT_FAILURE, "signalfd: %s", strerror(errno));
}

/* The pipes of many ranks may need more descriptors than the soft limit; the ranks keep theirs. */
static void raise_file_limit(struct launch *launch)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &launch->spawn.old_files) != 0)
		return;
	limit = launch->spawn.old_files;
	limit.rlim_cur = limit.rlim_max;
	if (launch->spawn.tag_output)
		setrlimit(RLIMIT_NOFILE, &limit);
}

/* Our sockets and pipes must not get the numbers of streams that the caller has closed. */
static void open_closed_streams(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
	if (fd > STDERR_FILENO)
		close(fd);
}

static void prepare(struct launch *launch)
{
	open_closed_streams();
	launch->spawn.launcher = getpid();
	launch->had_children = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
	launch->spawn.shares_terminal = isatty(STDIN_FILENO);
	launch->pids = allocate((size_t)launch->spawn.size, sizeof *launch->pids);
	open_listener(launch);
	make_token(launch);
	read_cores(launch);
	take_signals(launch);
	raise_file_limit(launch);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (launch->spawn.tag_output) {
		signal(SIGPIPE, SIG_IGN); /* the tagger hears of it from write(2) */
		launch->tagger = tagger_new((size_t)launch->spawn.size);
		if (!launch->tagger)
			tool_die(EXIT_FAILURE, "no memory for the output of %d ranks",
				 launch->spawn.size);
	}
	if (launch->timeout > 0)
		launch->job_end = now() + launch->timeout;
}

static void signal_rank(const struct launch *launch, int rank, int number)
{
	pid_t pid = launch->pids[rank];

	if (pid > 0)
		kill(rank > 0 || !launch->spawn.shares_terminal ? -pid : pid, number);
}

static void signal_all(const struct launch *launch, int number)
{
	for (int rank = 0; rank < launch->spawn.size; rank++)
		signal_rank(launch, rank, number);
}

static void enter(struct launch *launch, enum phase phase, double seconds)
{
	launch->phase = phase;
	launch->phase_end = now() + seconds;
}

static void terminate(struct launch *launch)
{
	signal_all(launch, SIGTERM);
	signal_all(launch, SIGCONT); /* a stopped rank could not hear it */
	enter(launch, TERMINATED, kill_seconds);
}

static void decide(struct launch *launch, int status)
{
	launch->failed = true;
	launch->status = status;
}

/* A rank could not be started: its job ends before it began. */
static void fail_start(struct launch *launch, int rank, const struct spawn_failure *failure)
{
	fprintf(stderr, "stretto-run: cannot %s '%s' (rank %d): %s\n", failure->what,
		launch->spawn.argv[0], rank, strerror(failure->error));
	decide(launch, failure->error == ENOENT ? NOT_FOUND : CANNOT_RUN);
	signal_all(launch, SIGKILL);
	enter(launch, KILLED, sweep_seconds);
}

static bool start_rank(struct launch *launch, int rank)
{
	struct spawn_failure failure;
	int outputs[2] = {-1, -1};
	pid_t pid = spawn_rank(&launch->spawn, rank, outputs, &failure);

	if (pid < 0) {
		fail_start(launch, rank, &failure);
		return false;
	}
	launch->pids[rank] = pid;
	launch->alive++;
	if (launch->tagger)
		tagger_add(launch->tagger, (size_t)rank, outputs[0], outputs[1]);
	return true;
}

static void start_ranks(struct launch *launch)
{
	for (int rank = 0; rank < launch->spawn.size && start_rank(launch, rank); rank++) {
		if (rank == 0) /* once rank 0 has gone, nobody shall wait at a deaf port */
			close(launch->spawn.listener);
	}
}

static int rank_of(const struct launch *launch, pid_t pid)
{
	for (int rank = 0; rank < launch->spawn.size; rank++)
		if (launch->pids[rank] == pid)
			return rank;
	return -1; /* something that a rank left behind */
}

/* The rank that counts as the first to fail, with its wait status. */
struct first {
	int rank; /* -1 for none */
	pid_t pid;
	int status;
};

/*
 * Collects all that have ended. Of several failures that come to light at once, a death by signal
 * is taken for the first: the others have often failed because of it.
 */
static struct first reap(struct launch *launch)
{
	struct first first = {.rank = -1};
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		int rank = rank_of(launch, pid);

		if (rank < 0)
			continue;
		launch->pids[rank] = 0;
		launch->alive--;
		if (status != 0 &&
		    (first.rank < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(first.status))))
			first = (struct first){rank, pid, status};
	}
	return first;
}

static void note_failure(struct launch *launch, const struct first *first)
{
	int number = WTERMSIG(first->status);

	if (WIFEXITED(first->status)) {
		fprintf(stderr, "stretto-run: rank %d (pid %d) exited with status %d\n",
			first->rank, (int)first->pid, WEXITSTATUS(first->status));
		decide(launch, WEXITSTATUS(first->status));
	} else {
		fprintf(stderr, "stretto-run: rank %d (pid %d) was killed by signal %d (%s)%s\n",
			first->rank, (int)first->pid, number, strsignal(number),
			WCOREDUMP(first->status) ? ", core dumped" : "");
		decide(launch, 128 + number);
	}
	if (launch->phase == RUNNING)
		enter(launch, GRACE, launch->grace);
}

static void forward(const struct launch *launch, const struct signalfd_siginfo *info)
{
	/* what comes from the terminal has reached the rank that shares our group already */
	bool skip_first = launch->spawn.shares_terminal && info->ssi_code == SI_KERNEL;

	for (int rank = skip_first ? 1 : 0; rank < launch->spawn.size; rank++)
		signal_rank(launch, rank, (int)info->ssi_signo);
}

static void hear_signals(struct launch *launch)
{
	struct signalfd_siginfo info;
	bool child = false;
	struct first first;

	while (read(launch->signals, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else if (launch->alive > 0)
			forward(launch, &info);
		else if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM)
			launch->phase = OVER; /* only output is left, and it is not wanted */
	}
	if (!child)
		return;
	first = reap(launch);
	if (first.rank >= 0 && !launch->failed)
		note_failure(launch, &first);
}

/* The parent of a process by /proc/PID/stat, "PID (NAME) STATE PARENT ..."; 0 if unknown. */
static pid_t parent_of(const char *pid)
{
	char path[64];
	char text[512];
	const char *end;
	long parent = 0;
	size_t length;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	length = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[length] = '\0';
	end = strrchr(text, ')'); /* the name may hold anything */
	if (end && strlen(end) > 4)
		parent = strtol(end + 4, NULL, 10);
	return (pid_t)parent;
}

/*
 * Kills all children. A child's own children become ours when it has gone, so that repeating this
 * until there are none ends the whole tree. Only we reap, so a pid found here is still the child's.
 */
static void kill_children(void)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;

	while (processes && (entry = readdir(processes))) {
		long pid = strtol(entry->d_name, NULL, 10);

		if (pid > 0 && parent_of(entry->d_name) == getpid())
			kill((pid_t)pid, SIGKILL);
	}
	if (processes)
		closedir(processes);
}

static bool has_children(const struct launch *launch)
{
	siginfo_t info;

	if (launch->had_children)
		return false;
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* The time of the phase is over. */
static void next_phase(struct launch *launch)
{
	switch (launch->phase) {
	case GRACE:
		terminate(launch);
		break;
	case TERMINATED:
	case KILLED:
		/* again and again, since a rank may be forking */
		signal_all(launch, SIGKILL);
		enter(launch, KILLED, sweep_seconds);
		break;
	case LEFTOVERS:
		kill_children();
		enter(launch, LEFTOVERS, sweep_seconds);
		break;
	case DRAIN:
		if (launch->tagger)
			tagger_end(launch->tagger);
		launch->phase_end = 0;
		break;
	case RUNNING:
	case OVER:
		break;
	}
}

static void check_time(struct launch *launch)
{
	if (launch->job_end > 0 && now() >= launch->job_end && launch->alive > 0) {
		launch->job_end = 0;
		if (!launch->failed) {
			fprintf(stderr, "stretto-run: the job is over its limit of %g s\n",
				launch->timeout);
			decide(launch, TIMED_OUT);
			terminate(launch);
		}
	}
	if (launch->phase_end > 0 && now() >= launch->phase_end)
		next_phase(launch);
	if (launch->alive == 0 && launch->phase < LEFTOVERS)
		enter(launch, LEFTOVERS, leftovers_seconds);
	if (launch->phase == LEFTOVERS && !has_children(launch))
		enter(launch, DRAIN, drain_seconds);
	if (launch->phase == DRAIN && (!launch->tagger || tagger_done(launch->tagger)))
		launch->phase = OVER;
}

static int poll_milliseconds(const struct launch *launch)
{
	double end = launch->phase_end;

	if (launch->job_end > 0 && (end == 0 || launch->job_end < end))
		end = launch->job_end;
	if (end == 0)
		return -1;
	end -= now();
	if (end <= 0)
		return 0;
	return end < 60 ? (int)(end * 1e3) + 1 : 60000;
}

static void run(struct launch *launch)
{
	size_t count = launch->tagger ? tagger_polls(launch->tagger) : 0;
	struct pollfd *polls = allocate(1 + count, sizeof *polls);

	while (launch->phase != OVER) {
		polls[0] = (struct pollfd){.fd = launch->signals, .events = POLLIN};
		if (launch->tagger)
			tagger_prepare(launch->tagger, polls + 1);
		if (poll(polls, (nfds_t)(1 + count), poll_milliseconds(launch)) < 0 &&
		    errno != EINTR)
			tool_die(EXIT_FAILURE, "poll: %s", strerror(errno));
		if (launch->tagger)
			tagger_turn(launch->tagger, polls + 1);
		hear_signals(launch);
		check_time(launch);
	}
	free(polls);
}

int main(int argc, char **argv)
{
	struct launch launch = {.phase = RUNNING};

	parse_options(&launch, argc, argv);
	prepare(&launch);
	start_ranks(&launch);
	run(&launch);
	tagger_free(launch.tagger);
	free(launch.spawn.variables);
	free(launch.pids);
	return launch.status;
}
