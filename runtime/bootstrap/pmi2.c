/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmi2.c: the provider for tasks that are started with PMI2 (srun --mpi=pmi2).
 *
 * An allgather puts this rank's blob, in parts, into the key-value store of the job, fences, and
 * gets the blobs of the others. Keys hold the number of the exchange, so that none is written twice.
 *
 * libpmi2 is loaded when a task has been started with PMI2, and is not needed to build: one program
 * starts everywhere. It can be initialized once in a process only, so it stays so from the first
 * stretto_init() to the process's end, and a code that uses it too (an MPI library) is let be.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/limited.h"
#include "runtime/bootstrap/pmi2_text.h"
#include "runtime/bootstrap/slurm_text.h"
#include "runtime/log.h"

#define LIBRARY "libpmi2.so.0"

/* Of the interface of PMI2, which is stable. */
enum { PMI2_SUCCESS = 0, PMI2_ID_NULL = -1 };

/* The functions of libpmi2 that are used; see slurm/pmi2.h. */
struct library {
	int (*init)(int *spawned, int *size, int *rank, int *number);
	int (*initialized)(void);
	int (*finalize)(void);
	int (*get_job)(char *job, int bytes);
	int (*put)(const char *key, const char *value);
	int (*fence)(void);
	int (*get)(const char *job, int source, const char *key, char *value, int most, int *got);
};

/* The one connection of this process to PMI2. */
static struct {
	struct library library;
	bool loaded;    /* the library is there */
	bool joined;    /* rank, size and job are known */
	pid_t owner;    /* the process that initialized, and finalizes; 0 if another code did */
	bool broken;    /* an exchange failed, and may still go on */
	int rank;       /* of this process */
	int size;       /* of the job */
	char job[256];  /* its name */
	uint32_t round; /* number of the last exchange */
} pmi2;

static bool load(void)
{
	struct library *library = &pmi2.library;
	const struct {
		const char *name;
		void *to; /* a pointer to a function */
	} wanted[] = {
		{"PMI2_Init", &library->init},         {"PMI2_Initialized", &library->initialized},
		{"PMI2_Finalize", &library->finalize}, {"PMI2_Job_GetId", &library->get_job},
		{"PMI2_KVS_Put", &library->put},       {"PMI2_KVS_Fence", &library->fence},
		{"PMI2_KVS_Get", &library->get},
	};
	void *handle = pmi2.loaded ? NULL : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (pmi2.loaded || !handle)
		return pmi2.loaded;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		void *symbol = dlsym(handle, wanted[i].name);

		if (!symbol) {
			dlclose(handle);
			return false;
		}
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	pmi2.loaded = true;
	return true;
}

static bool pmi2_offered(const struct stretto_config *config, char *why, size_t size)
{
	(void)config;
	if (!getenv("PMI_FD") || !getenv("PMI_RANK")) {
		snprintf(why, size, "no PMI_FD and PMI_RANK are set");
		return false;
	}
	if (!load()) {
		snprintf(why, size, "PMI_FD is set, but there is no " LIBRARY);
		stretto_warn("this task was started with PMI2, but " LIBRARY " cannot be loaded: "
			     "install it (Debian: libpmi2-0) on every node, or use srun "
			     "--mpi=pmix");
		return false;
	}
	snprintf(why, size, "PMI_FD and PMI_RANK are set");
	return true;
}

/* A forked child that exits must not speak for the rank; nor may we while a fence is under way. */
static void finalize(void)
{
	if (pmi2.owner == getpid() && !pmi2.broken)
		pmi2.library.finalize();
}

/* Fills in the connection; in the log if it cannot be had. */
static stretto_status join(void)
{
	int spawned, number, code;

	if (pmi2.library.initialized()) {
		/* by other code of the application; only the environment says rank and size now */
		if (!stretto_slurm_number(getenv("PMI_SIZE"), INT_MAX, &pmi2.size) ||
		    !stretto_slurm_number(getenv("PMI_RANK"), pmi2.size - 1, &pmi2.rank)) {
			stretto_error("PMI2 is in use already, and PMI_RANK and PMI_SIZE do not "
				      "say which rank this is");
			return STRETTO_BOOTSTRAP;
		}
	} else {
		code = pmi2.library.init(&spawned, &pmi2.size, &pmi2.rank, &number);
		if (code != PMI2_SUCCESS) {
			stretto_error("PMI2_Init failed with code %d: PMI_FD is set, but no "
				      "launcher answers there; start the ranks with srun "
				      "--mpi=pmi2",
				      code);
			return STRETTO_BOOTSTRAP;
		}
		pmi2.owner = getpid();
		atexit(finalize);
	}
	if (pmi2.size > 1) {
		code = pmi2.library.get_job(pmi2.job, sizeof pmi2.job);
		if (code != PMI2_SUCCESS) {
			stretto_error("PMI2_Job_GetId failed with code %d", code);
			return STRETTO_BOOTSTRAP;
		}
	}
	if (pmi2.size < 1 || pmi2.rank < 0 || pmi2.rank >= pmi2.size) {
		stretto_error("PMI2 says that this is rank %d of %d", pmi2.rank, pmi2.size);
		return STRETTO_BOOTSTRAP;
	}
	pmi2.joined = true;
	return STRETTO_OK;
}

struct handle {
	struct stretto_bootstrap base;
	double seconds; /* deadline of each exchange */
};

static stretto_status pmi2_open(const struct stretto_config *config,
				const struct stretto_bootstrap_callbacks *callbacks,
				struct stretto_bootstrap **bootstrap)
{
	struct handle *made;
	stretto_status status = pmi2.joined ? STRETTO_OK : join();

	(void)callbacks;
	if (status != STRETTO_OK)
		return status;
	made = malloc(sizeof *made);
	if (!made) {
		stretto_error("bootstrap: no memory for %zu bytes", sizeof *made);
		return STRETTO_NO_MEMORY;
	}
	made->base = (struct stretto_bootstrap){&stretto_bootstrap_pmi2, pmi2.rank, pmi2.size};
	made->seconds = config->bootstrap_timeout_seconds;
	*bootstrap = &made->base;
	return STRETTO_OK;
}

static size_t part_bytes(size_t bytes, size_t part)
{
	size_t left = bytes - part * STRETTO_PMI2_PART;

	return left < STRETTO_PMI2_PART ? left : STRETTO_PMI2_PART;
}

static bool put_blob(const char *mine, size_t bytes)
{
	char key[STRETTO_PMI2_KEY];
	char value[STRETTO_PMI2_VALUE];

	for (size_t part = 0; part * STRETTO_PMI2_PART < bytes; part++) {
		int code;

		stretto_pmi2_make_key(key, pmi2.round, pmi2.rank, part);
		stretto_pmi2_encode(mine + part * STRETTO_PMI2_PART, part_bytes(bytes, part),
				    value);
		code = pmi2.library.put(key, value);
		if (code == PMI2_SUCCESS)
			continue;
		stretto_error("PMI2_KVS_Put of %zu bytes failed with code %d", strlen(value), code);
		return false;
	}
	return true;
}

static int call_fence(void)
{
	return pmi2.library.fence();
}

static bool fence(double seconds)
{
	int code = PMI2_SUCCESS;

	switch (stretto_limited_call(call_fence, seconds, &code)) {
	case STRETTO_LIMITED_DONE:
		if (code == PMI2_SUCCESS)
			return true;
		stretto_error("PMI2_KVS_Fence failed with code %d", code);
		return false;
	case STRETTO_LIMITED_LATE:
		stretto_error("PMI2: not all %d ranks came to exchange %u within %g s; PMI2 cannot "
			      "say which, their logs may; srun --kill-on-bad-exit ends a job when "
			      "one of its ranks fails",
			      pmi2.size, pmi2.round, seconds);
		return false;
	case STRETTO_LIMITED_NO_THREAD:
		stretto_error("PMI2: no thread for an exchange: %m");
		return false;
	}
	return false;
}

static bool get_blob(int rank, size_t bytes, char *blob)
{
	char key[STRETTO_PMI2_KEY];
	char value[STRETTO_PMI2_VALUE + 64]; /* a longer value is seen to be one */

	for (size_t part = 0; part * STRETTO_PMI2_PART < bytes; part++) {
		int code, got = 0;

		stretto_pmi2_make_key(key, pmi2.round, rank, part);
		memset(value, 0, sizeof value);
		code = pmi2.library.get(pmi2.job, PMI2_ID_NULL, key, value, sizeof value - 1, &got);
		if (code != PMI2_SUCCESS) {
			stretto_error("PMI2: rank %d gave nothing to exchange %u (code %d): it has "
				      "ended, or runs another program",
				      rank, pmi2.round, code);
			return false;
		}
		if (!stretto_pmi2_decode(value, blob + part * STRETTO_PMI2_PART,
					 part_bytes(bytes, part))) {
			stretto_error("PMI2: rank %d gave a text of %zu bytes to exchange %u, "
				      "which is not %zu bytes encoded: the ranks do not run the "
				      "same program",
				      rank, strlen(value), pmi2.round, part_bytes(bytes, part));
			return false;
		}
	}
	return true;
}

static bool exchange(double seconds, const void *mine, size_t bytes, char *all)
{
	if (!put_blob(mine, bytes) || !fence(seconds))
		return false;
	for (int rank = 0; bytes > 0 && rank < pmi2.size; rank++)
		if (!get_blob(rank, bytes, all + (size_t)rank * bytes))
			return false;
	return true;
}

static stretto_status pmi2_allgather(struct stretto_bootstrap *bootstrap, const void *mine,
				     size_t bytes, void *all)
{
	const struct handle *self =
		(struct handle *)((char *)bootstrap - offsetof(struct handle, base));

	if (bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("bootstrap: a blob of %zu bytes is over the limit of %d", bytes,
			      STRETTO_BOOTSTRAP_BLOB_MAX);
		return STRETTO_INVALID;
	}
	if (pmi2.broken)
		return STRETTO_BOOTSTRAP;
	if (pmi2.size == 1) {
		if (bytes > 0)
			memmove(all, mine, bytes);
		return STRETTO_OK;
	}
	pmi2.round++;
	pmi2.broken = !exchange(self->seconds, mine, bytes, all);
	return pmi2.broken ? STRETTO_BOOTSTRAP : STRETTO_OK;
}

static void pmi2_close(struct stretto_bootstrap *bootstrap)
{
	if (bootstrap)
		free((char *)bootstrap - offsetof(struct handle, base));
}

const struct stretto_bootstrap_ops stretto_bootstrap_pmi2 = {
	.name = "pmi2",
	.offered = pmi2_offered,
	.open = pmi2_open,
	.allgather = pmi2_allgather,
	.close = pmi2_close,
};
