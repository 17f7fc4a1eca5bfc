/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h: several ranks in one test.
 *
 * As threads of the test's process (quick, and what ThreadSanitizer sees), each with its own world
 * that it makes by stretto_init() with an in-process bootstrap; or as forked processes.
 */
#ifndef STRETTO_TESTS_LIB_RANKS_H
#define STRETTO_TESTS_LIB_RANKS_H

#include "runtime/stretto.h"

/*
 * Under ThreadSanitizer everything takes 20 times as long and several times the memory. Tests that
 * repeat the same code for many sizes then take a few; which is what the other builds are for.
 */
#if defined(__SANITIZE_THREAD__)
enum { TEST_SLOW = 1 };
#else
enum { TEST_SLOW = 0 };
#endif
/* AddressSanitizer doubles or triples the time: the longest of such tests take fewer sizes as well. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TEST_SANITIZED = 1 };
#else
enum { TEST_SANITIZED = 0 };
#endif

typedef void (*rank_function)(struct stretto_comm *world, void *argument);

/*
 * Runs `function` on n ranks (threads), each within stretto_init() with `settings` ("NAME=value",
 * NULL at the end; may be NULL) and stretto_finalize(). Aborts the test program if an init fails.
 */
void run_ranks(int n, const char *const *settings, rank_function function, void *argument);

/*
 * The same with ranks on several nodes, as far as they know: nodes[rank] is any number. shm does not
 * reach from one to the other, so the settings must name a transport that does.
 */
void run_ranks_on(const int *nodes, int n, const char *const *settings, rank_function function,
		  void *argument);

/*
 * For main() of a test that uses UCX, first: starts the program again with UCX limited to TCP, since
 * UCX reads part of its environment when it is loaded. Returns the second time.
 */
void use_ucx_over_tcp(char **arguments);

/*
 * Runs `function` on n ranks as processes. Returns how many of them did not exit with status 0, or
 * were killed after `seconds`. The function may end its process by any means; after it returns the
 * rank finalizes and exits 0.
 */
int run_processes(int n, const char *const *settings, rank_function function, void *argument,
		  double seconds);

/*
 * An in-process bootstrap for one of n ranks that are threads: fills in the callbacks of rank r.
 * `meeting` is made by meeting_new(n) and shared by the n ranks.
 */
struct meeting;
struct meeting *meeting_new(int n);
void meeting_free(struct meeting *meeting);
struct stretto_bootstrap_callbacks meeting_callbacks(struct meeting *meeting, int rank);

/* Fails the test program with file, line and text: works in any thread and process. */
#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			require_failed(__FILE__, __LINE__, #condition);                            \
	} while (0)
/* Fails it with a text. */
#define test_failed(text) require_failed(__FILE__, __LINE__, text)
void require_failed(const char *file, int line, const char *text) __attribute__((noreturn));

/* A small random generator: splitmix64. */
uint64_t next_random(uint64_t *state);
/* The seed of this run: STRETTO_TEST_SEED, or one from the clock; printed once. */
uint64_t test_seed(void);

#endif
