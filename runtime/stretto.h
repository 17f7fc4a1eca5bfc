/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto.h: the public interface of the communication runtime.
 *
 * A process is one rank. stretto_init() meets the other ranks of the job and returns the *world*
 * communicator; stretto_comm_split() makes others from it. Collectives on communicators are in
 * stretto_coll.h. Communication runs in the background, driven by one progress thread per channel;
 * the threads are announced in one info line at init and sleep while nothing is in flight.
 *
 * Threads: calls on different communicators may come from different threads at the same time. Calls
 * on one communicator must not overlap, except stretto_comm_abort(), which any thread may call at
 * any time, and the test and wait of different requests.
 *
 * The library sets no environment variable, installs no signal handler and hooks no allocator.
 */
#ifndef STRETTO_H
#define STRETTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STRETTO_API __attribute__((visibility("default")))
#else
#define STRETTO_API
#endif

#define STRETTO_VERSION_MAJOR 0
#define STRETTO_VERSION_MINOR 1
#define STRETTO_VERSION_PATCH 0

/*
 * Every status: name, value, and what it tells the caller to do. The values are part of the ABI.
 */
#define STRETTO_STATUS_MAP(X)                                                                      \
	X(STRETTO_OK, 0, "success")                                                                \
	X(STRETTO_AGAIN, 1, "nothing was started; try again")                                      \
	X(STRETTO_INVALID, 2, "invalid argument; fix the call")                                    \
	X(STRETTO_UNSUPPORTED, 3, "not supported by this build, machine or transport")             \
	X(STRETTO_NO_MEMORY, 4, "out of memory, or over a limit of this process")                  \
	X(STRETTO_SYSTEM, 5, "a system call or device failed")                                     \
	X(STRETTO_BOOTSTRAP, 6, "the ranks of the job could not meet")                             \
	X(STRETTO_TIMEOUT, 7, "the deadline passed; the communicator is broken")                   \
	X(STRETTO_MISMATCH, 8,                                                                     \
	  "ranks called with different arguments; the communicator is broken")                     \
	X(STRETTO_PEER_FAILED, 9, "another rank died; the communicator is broken")                 \
	X(STRETTO_ABORTED, 10, "the communicator was aborted")                                     \
	X(STRETTO_INTERNAL, 11, "a bug in the library; please report it")                          \
	X(STRETTO_RETRY, 12,                                                                       \
	  "a connection was lost and made anew; call it again with the same arguments")

typedef enum stretto_status {
#define X(name, value, text) name = value,
	STRETTO_STATUS_MAP(X)
#undef X
} stretto_status;

/* A rank's place in a group of ranks. Opaque; made by stretto_init() and stretto_comm_split(). */
struct stretto_comm;

/*
 * The one thing the runtime needs to start: an exchange of small blobs between all ranks. Give
 * these to stretto_init() when the application has its own way, for instance an MPI code passes an
 * allgather over its own communicator. The functions are called only from within stretto_init() and
 * stretto_finalize(), by the calling thread, in the same order on all ranks; they may block. They
 * return 0 on success; anything else fails the init with STRETTO_BOOTSTRAP.
 */
struct stretto_bootstrap_callbacks {
	int rank;      /* of this process, 0 <= rank < size */
	int size;      /* number of ranks of the job, >= 1 */
	void *context; /* handed back to the functions; owned by the application */
	/* Gathers `bytes` from each rank into all[size * bytes], in order of ranks. */
	int (*allgather)(void *context, const void *mine, size_t bytes, void *all);
	int (*barrier)(void *context); /* returns when all ranks have called it */
};

/* Options of stretto_init(). Zero means the default for every field. */
struct stretto_options {
	/* How to meet the other ranks. NULL: chosen by the environment (see docs/bootstrap.md). */
	const struct stretto_bootstrap_callbacks *bootstrap;
	/* "NAME=value" strings that override the environment, ended by NULL; read during the call.
	 */
	const char *const *settings;
};

/* The text of a status: static, never NULL. Any thread. */
STRETTO_API const char *stretto_status_text(stretto_status status);
/* The name of a status, such as "STRETTO_TIMEOUT": static, never NULL. Any thread. */
STRETTO_API const char *stretto_status_name(stretto_status status);
/* "MAJOR.MINOR.PATCH" of the library that is loaded. Static. Any thread. */
STRETTO_API const char *stretto_version(void);

/*
 * Meets the other ranks of the job and writes the world communicator to *world. Collective; blocks
 * until all ranks have called, or STRETTO_BOOTSTRAP_TIMEOUT_SECONDS have passed (STRETTO_BOOTSTRAP;
 * the log names the ranks that are missing). options may be NULL. The caller owns *world and ends
 * it with stretto_finalize(). On failure *world is untouched and everything is released.
 * STRETTO_INVALID: a setting is malformed (the log says which and what it may be).
 */
STRETTO_API stretto_status stretto_init(const struct stretto_options *options,
					struct stretto_comm **world);

/*
 * Ends the runtime of `world`: waits for all ranks to come here (at most the bootstrap time limit),
 * stops the progress threads and releases all memory got from stretto_alloc(). Collective, unless
 * the world is broken: then it is local and does not wait. Other communicators and requests made
 * from it must have been freed. NULL does nothing.
 */
STRETTO_API stretto_status stretto_finalize(struct stretto_comm *world);

/* This process's rank in the communicator, and its number of ranks. Any thread. */
STRETTO_API int stretto_comm_rank(const struct stretto_comm *comm);
STRETTO_API int stretto_comm_size(const struct stretto_comm *comm);

/* Passed as color: this rank takes part in the call but joins no new communicator (*out = NULL). */
#define STRETTO_NO_COLOR (-1)

/*
 * Makes one communicator per color (>= 0) of the ranks that passed it, ordered by key and then by
 * rank in `comm`. Collective over comm; blocks. The caller owns *out and frees it with
 * stretto_comm_free(). Errors as for a collective on comm; STRETTO_INVALID for another negative
 * color.
 */
STRETTO_API stretto_status stretto_comm_split(struct stretto_comm *comm, int color, int key,
					      struct stretto_comm **out);

/* Frees a communicator from stretto_comm_split() with no request left. Local. NULL does nothing. */
STRETTO_API void stretto_comm_free(struct stretto_comm *comm);

/*
 * STRETTO_OK, or the status that broke the communicator: every later call on it returns that status
 * at once. A broken communicator can only be freed. Any thread.
 */
STRETTO_API stretto_status stretto_comm_status(const struct stretto_comm *comm);

/*
 * Why the communicator is broken, in one line with the ranks and values concerned; "" if it is not.
 * Owned by the communicator, constant once it is broken. Any thread.
 */
STRETTO_API const char *stretto_comm_error(const struct stretto_comm *comm);

/*
 * Breaks the communicator with STRETTO_ABORTED here and, as far as they can be told, on the other
 * ranks; pending operations end with that status. Local, bounded, never waits for a peer. Any
 * thread.
 */
STRETTO_API void stretto_comm_abort(struct stretto_comm *comm);

/*
 * How many threads the application should compute with: the cores of this process's affinity mask
 * less those the progress threads were pinned to; at least 1. Any thread.
 */
STRETTO_API int stretto_compute_cores(const struct stretto_comm *comm);

/*
 * Where a thread of the application that now and then helps the computing ones (reads files, prepares
 * data) disturbs them least: a core that was given to the progress threads, which are idle for the most
 * time. -1 if none is set apart for them, so that such a thread would take its time from compute. Any
 * thread.
 */
STRETTO_API int stretto_helper_core(const struct stretto_comm *comm);

/*
 * Between these two calls the progress threads of this process do not run, so that a phase that
 * computes has every core for itself. When stretto_progress_pause() returns, they have ended what
 * they did. Operations can be started meanwhile, but nothing goes on, here or at a rank that waits
 * for this one, until the progress is resumed or a thread of this rank blocks in the library
 * (stretto_wait(), a blocking call): that drives all that is in flight, as ever. Nor are deadlines
 * and dead peers noticed meanwhile. Of the whole world, whichever communicator of it is given.
 * Calls nest: as many resumes as pauses. stretto_finalize() ends all pauses. Local; the pause
 * blocks for a moment, the resume does not. Any thread. A resume without a pause before it returns
 * STRETTO_INVALID.
 */
STRETTO_API stretto_status stretto_progress_pause(struct stretto_comm *comm);
STRETTO_API stretto_status stretto_progress_resume(struct stretto_comm *comm);

/*
 * Memory that the ranks of a node can map and that is registered with every device: operations on
 * it move without staging copies. *ptr is page aligned and zeroed, owned by the caller, freed by
 * stretto_free() or stretto_finalize(). Local; may block in the kernel. Works for any communicator
 * of the same world. STRETTO_NO_MEMORY names the limit that was met.
 */
STRETTO_API stretto_status stretto_alloc(struct stretto_comm *comm, size_t bytes, void **ptr);

/* Frees memory got from stretto_alloc(). No operation may be using it. NULL does nothing. */
STRETTO_API stretto_status stretto_free(struct stretto_comm *comm, void *ptr);

/*
 * Registers the application's own memory [ptr, ptr + bytes) with every device, until
 * stretto_deregister(). The memory stays the application's and must stay mapped. Overlapping
 * registrations are refused (STRETTO_INVALID). Unregistered memory works too, at more cost.
 */
STRETTO_API stretto_status stretto_register(struct stretto_comm *comm, void *ptr, size_t bytes);

/* Ends a registration; ptr as given to stretto_register(). No operation may be using the memory. */
STRETTO_API stretto_status stretto_deregister(struct stretto_comm *comm, void *ptr);

#ifdef __cplusplus
}
#endif

#endif
