/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"

/* Lies in shared memory, so that it serves threads and processes alike. */
struct meeting {
	pthread_barrier_t barrier;
	int size;
	size_t bytes; /* of the mapping */
	char blobs[]; /* MEETING_BLOB per rank */
};

enum { MEETING_BLOB = 64 * 1024 };

struct meeting_place {
	struct meeting *meeting;
	int rank;
};

void require_failed(const char *file, int line, const char *text)
{
	fprintf(stderr, "%s:%d: requirement failed: %s\n", file, line, text);
	fflush(NULL);
	_exit(1);
}

uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t test_seed(void)
{
	static _Atomic uint64_t seed;
	const char *text = getenv("STRETTO_TEST_SEED");
	uint64_t none = 0, fresh = text ? strtoull(text, NULL, 0) : stretto_now() | 1;

	/* The first thread to ask makes it. */
	if (!atomic_compare_exchange_strong(&seed, &none, fresh))
		return none;
	printf("seed %llu (STRETTO_TEST_SEED repeats it)\n", (unsigned long long)fresh);
	return fresh;
}

struct meeting *meeting_new(int n)
{
	size_t bytes = sizeof(struct meeting) + (size_t)n * MEETING_BLOB;
	struct meeting *meeting =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	require(meeting != MAP_FAILED);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&meeting->barrier, &shared, (unsigned)n);
	pthread_barrierattr_destroy(&shared);
	meeting->size = n;
	meeting->bytes = bytes;
	return meeting;
}

void meeting_free(struct meeting *meeting)
{
	munmap(meeting, meeting->bytes);
}

static int meet_barrier(void *context)
{
	struct meeting_place *place = context;

	pthread_barrier_wait(&place->meeting->barrier);
	return 0;
}

static int meet_allgather(void *context, const void *mine, size_t bytes, void *all)
{
	struct meeting_place *place = context;
	struct meeting *meeting = place->meeting;

	if (bytes > MEETING_BLOB)
		return 1;
	memcpy(meeting->blobs + (size_t)place->rank * MEETING_BLOB, mine, bytes);
	pthread_barrier_wait(&meeting->barrier);
	for (int rank = 0; rank < meeting->size; rank++)
		memcpy((char *)all + (size_t)rank * bytes,
		       meeting->blobs + (size_t)rank * MEETING_BLOB, bytes);
	pthread_barrier_wait(&meeting->barrier);
	return 0;
}

struct stretto_bootstrap_callbacks meeting_callbacks(struct meeting *meeting, int rank)
{
	struct meeting_place *place = malloc(sizeof *place);

	require(place);
	*place = (struct meeting_place){meeting, rank};
	return (struct stretto_bootstrap_callbacks){
		.rank = rank,
		.size = meeting->size,
		.context = place,
		.allgather = meet_allgather,
		.barrier = meet_barrier,
	};
}

/* One rank, thread or process. */
struct rank_start {
	struct meeting *meeting;
	int rank;
	const int *nodes; /* by rank, or NULL */
	const char *const *settings;
	rank_function function;
	void *argument;
};

enum { SETTINGS_MAX = 16 };

static void *run_rank(void *context)
{
	const struct rank_start *start = context;
	const char *settings[SETTINGS_MAX + 2] = {NULL};
	char node[32];
	size_t count = 0;
	struct stretto_bootstrap_callbacks callbacks =
		meeting_callbacks(start->meeting, start->rank);
	struct stretto_options options = {.bootstrap = &callbacks, .settings = settings};
	struct stretto_comm *world;

	for (; start->settings && start->settings[count]; count++) {
		require(count < SETTINGS_MAX);
		settings[count] = start->settings[count];
	}
	if (start->nodes) {
		snprintf(node, sizeof node, "STRETTO_NODE=%d", start->nodes[start->rank]);
		settings[count] = node;
	}

	require(stretto_init(&options, &world) == STRETTO_OK);
	start->function(world, start->argument);
	require(stretto_finalize(world) == STRETTO_OK);
	free(callbacks.context);
	return NULL;
}

/*
 * Ranks of a test are on one node, which nothing but stretto-run tells them; UCX would be opened for
 * nothing. Settings and the caller's environment take precedence.
 */
static void prefer_this_node(void)
{
	setenv("STRETTO_TRANSPORTS", "self,shm", 0);
}

void run_ranks(int n, const char *const *settings, rank_function function, void *argument)
{
	run_ranks_on(NULL, n, settings, function, argument);
}

void run_ranks_on(const int *nodes, int n, const char *const *settings, rank_function function,
		  void *argument)
{
	struct meeting *meeting = meeting_new(n);
	struct rank_start *starts = calloc((size_t)n, sizeof *starts);
	pthread_t *threads = calloc((size_t)n, sizeof *threads);

	require(starts && threads);
	prefer_this_node();
	for (int rank = 0; rank < n; rank++) {
		starts[rank] =
			(struct rank_start){meeting, rank, nodes, settings, function, argument};
		require(pthread_create(&threads[rank], NULL, run_rank, &starts[rank]) == 0);
	}
	for (int rank = 0; rank < n; rank++)
		require(pthread_join(threads[rank], NULL) == 0);
	free(threads);
	free(starts);
	meeting_free(meeting);
}

void use_ucx_over_tcp(char **arguments)
{
	if (getenv("STRETTO_TEST_UCX"))
		return;
	setenv("STRETTO_TEST_UCX", "1", 1);
	setenv("UCX_TLS", "tcp,self", 1);
	/* UCX's hooks into mmap() do not go together with ThreadSanitizer's */
	if (TEST_SLOW)
		setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
	execv("/proc/self/exe", arguments);
	perror("execv");
	exit(1);
}

/* Waits for one of the processes until `deadline`; then kills them all. Returns its pid, or 0. */
static pid_t reap(const pid_t *pids, int n, uint64_t deadline, int *status)
{
	for (;;) {
		for (int rank = 0; rank < n; rank++)
			if (pids[rank] && waitpid(pids[rank], status, WNOHANG) == pids[rank])
				return pids[rank];
		if (stretto_now() > deadline)
			for (int rank = 0; rank < n; rank++)
				if (pids[rank])
					kill(pids[rank], SIGKILL);
		usleep(1000);
	}
}

int run_processes(int n, const char *const *settings, rank_function function, void *argument,
		  double seconds)
{
	struct meeting *meeting = meeting_new(n);
	pid_t *pids = calloc((size_t)n, sizeof *pids);
	uint64_t deadline = stretto_after(stretto_now(), seconds);
	int failed = 0;

	require(pids);
	prefer_this_node();
	fflush(NULL);
	for (int rank = 0; rank < n; rank++) {
		pids[rank] = fork();
		require(pids[rank] >= 0);
		if (pids[rank] == 0) {
			struct rank_start start = {meeting,  rank,     NULL,
						   settings, function, argument};

			run_rank(&start);
			fflush(NULL);
			_exit(0);
		}
	}
	for (int left = n; left > 0; left--) {
		int status;
		pid_t pid = reap(pids, n, deadline, &status);

		for (int rank = 0; rank < n; rank++)
			if (pids[rank] == pid)
				pids[rank] = 0;
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	free(pids);
	meeting_free(meeting);
	return failed;
}
