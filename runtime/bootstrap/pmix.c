/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c: the provider for tasks that are started with PMIx (srun --mpi=pmix, Open MPI's mpirun).
 *
 * An allgather puts this rank's blob, fences with the data collected, and gets the others' blobs.
 * Keys hold the number of the exchange, so that none is written twice. As with PMI2, the connection
 * lives from the first stretto_init() to the process's end: a rank that came and went again would
 * count as ended. PMIx counts its users, so an MPI library may use it beside us.
 *
 * PMIx ends a fence with success for the ranks that are left when others have died, so only the
 * data of a rank say that it was there.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/limited.h"
#include "runtime/log.h"

/* The one connection of this process to PMIx. */
static struct {
	bool joined;      /* self and size are known */
	pid_t owner;      /* the process that initialized, and finalizes */
	bool broken;      /* an exchange failed, and may still go on */
	pmix_proc_t self; /* the job's name and this rank */
	uint32_t size;    /* of the job */
	uint32_t round;   /* number of the last exchange */
} job;

struct handle {
	struct stretto_bootstrap base;
	double seconds; /* deadline of each exchange */
};

static bool pmix_offered(const struct stretto_config *config, char *why, size_t size)
{
	bool any = getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");

	(void)config;
	snprintf(why, size, "%s",
		 any ? "PMIX_NAMESPACE and PMIX_RANK are set"
		     : "no PMIX_NAMESPACE and PMIX_RANK are set");
	return any;
}

/* A forked child that exits must not speak for the rank; nor may we while a fence is under way. */
static void finalize(void)
{
	if (job.owner == getpid() && !job.broken)
		PMIx_Finalize(NULL, 0);
}

static stretto_status join(void)
{
	pmix_value_t *value = NULL;
	pmix_proc_t all;
	pmix_status_t code = PMIx_Init(&job.self, NULL, 0);

	if (code != PMIX_SUCCESS) {
		stretto_error("PMIx_Init failed: %s: PMIX_RANK is set, but no launcher answers; "
			      "start the ranks with srun --mpi=pmix or mpirun",
			      PMIx_Error_string(code));
		return STRETTO_BOOTSTRAP;
	}
	job.owner = getpid();
	atexit(finalize);
	PMIX_LOAD_PROCID(&all, job.self.nspace, PMIX_RANK_WILDCARD);
	code = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
	if (code != PMIX_SUCCESS || value->type != PMIX_UINT32) {
		stretto_error("PMIx does not say the size of the job: %s", PMIx_Error_string(code));
		return STRETTO_BOOTSTRAP;
	}
	job.size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	if (job.size > INT32_MAX || job.self.rank >= job.size) {
		stretto_error("PMIx says that this is rank %u of %u", job.self.rank, job.size);
		return STRETTO_BOOTSTRAP;
	}
	job.joined = true;
	return STRETTO_OK;
}

static stretto_status pmix_open(const struct stretto_config *config,
				const struct stretto_bootstrap_callbacks *callbacks,
				struct stretto_bootstrap **bootstrap)
{
	struct handle *made;
	stretto_status status = job.joined ? STRETTO_OK : join();

	(void)callbacks;
	if (status != STRETTO_OK)
		return status;
	made = malloc(sizeof *made);
	if (!made) {
		stretto_error("bootstrap: no memory for %zu bytes", sizeof *made);
		return STRETTO_NO_MEMORY;
	}
	made->base = (struct stretto_bootstrap){&stretto_bootstrap_pmix, (int)job.self.rank,
						(int)job.size};
	made->seconds = config->bootstrap_timeout_seconds;
	*bootstrap = &made->base;
	return STRETTO_OK;
}

static void make_key(char *key, size_t bytes)
{
	snprintf(key, bytes, "stretto-%u", job.round);
}

static bool put_blob(const void *mine, size_t bytes)
{
	char key[32];
	char *copy = malloc(bytes); /* PMIx takes no const */
	pmix_value_t value;
	pmix_status_t code;

	if (!copy) {
		stretto_error("bootstrap: no memory for %zu bytes", bytes);
		return false;
	}
	memcpy(copy, mine, bytes);
	PMIX_VALUE_CONSTRUCT(&value);
	value.type = PMIX_BYTE_OBJECT;
	value.data.bo.bytes = copy;
	value.data.bo.size = bytes;
	make_key(key, sizeof key);
	code = PMIx_Put(PMIX_GLOBAL, key, &value);
	free(copy);
	if (code == PMIX_SUCCESS)
		code = PMIx_Commit();
	if (code == PMIX_SUCCESS)
		return true;
	stretto_error("PMIx_Put of %zu bytes failed: %s", bytes, PMIx_Error_string(code));
	return false;
}

static int call_fence(void)
{
	pmix_proc_t all;
	pmix_info_t info;
	bool collect = true;
	int code;

	PMIX_LOAD_PROCID(&all, job.self.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	code = PMIx_Fence(&all, 1, &info, 1);
	PMIX_INFO_DESTRUCT(&info);
	return code;
}

static bool fence(double seconds)
{
	int code = PMIX_SUCCESS;

	switch (stretto_limited_call(call_fence, seconds, &code)) {
	case STRETTO_LIMITED_DONE:
		if (code == PMIX_SUCCESS)
			return true;
		stretto_error("PMIx_Fence failed: %s", PMIx_Error_string(code));
		return false;
	case STRETTO_LIMITED_LATE:
		stretto_error("PMIx: not all %u ranks came to exchange %u within %g s; their logs "
			      "may say why",
			      job.size, job.round, seconds);
		return false;
	case STRETTO_LIMITED_NO_THREAD:
		stretto_error("PMIx: no thread for an exchange: %m");
		return false;
	}
	return false;
}

static bool get_blob(uint32_t rank, size_t bytes, char *blob)
{
	char key[32];
	pmix_proc_t proc;
	pmix_info_t info;
	pmix_value_t *value = NULL;
	pmix_status_t code;
	bool now = true, good;

	/* what the fence did not bring will not come any more: do not wait for it */
	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &now, PMIX_BOOL);
	PMIX_LOAD_PROCID(&proc, job.self.nspace, rank);
	make_key(key, sizeof key);
	code = PMIx_Get(&proc, key, &info, 1, &value);
	PMIX_INFO_DESTRUCT(&info);
	if (code != PMIX_SUCCESS) {
		stretto_error("PMIx: rank %u gave nothing to exchange %u (%s): it has ended, or "
			      "runs another program",
			      rank, job.round, PMIx_Error_string(code));
		return false;
	}
	good = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == bytes;
	if (good)
		memcpy(blob, value->data.bo.bytes, bytes);
	else
		stretto_error("PMIx: rank %u gave %zu bytes to exchange %u where %zu were "
			      "expected: the ranks do not run the same program",
			      rank, value->type == PMIX_BYTE_OBJECT ? value->data.bo.size : 0,
			      job.round, bytes);
	PMIX_VALUE_RELEASE(value);
	return good;
}

static bool exchange(double seconds, const void *mine, size_t bytes, char *all)
{
	if ((bytes > 0 && !put_blob(mine, bytes)) || !fence(seconds))
		return false;
	for (uint32_t rank = 0; bytes > 0 && rank < job.size; rank++)
		if (!get_blob(rank, bytes, all + (size_t)rank * bytes))
			return false;
	return true;
}

static stretto_status pmix_allgather(struct stretto_bootstrap *bootstrap, const void *mine,
				     size_t bytes, void *all)
{
	const struct handle *self =
		(struct handle *)((char *)bootstrap - offsetof(struct handle, base));

	if (bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("bootstrap: a blob of %zu bytes is over the limit of %d", bytes,
			      STRETTO_BOOTSTRAP_BLOB_MAX);
		return STRETTO_INVALID;
	}
	if (job.broken)
		return STRETTO_BOOTSTRAP;
	job.round++;
	job.broken = !exchange(self->seconds, mine, bytes, all);
	return job.broken ? STRETTO_BOOTSTRAP : STRETTO_OK;
}

static void pmix_close(struct stretto_bootstrap *bootstrap)
{
	if (bootstrap)
		free((char *)bootstrap - offsetof(struct handle, base));
}

const struct stretto_bootstrap_ops stretto_bootstrap_pmix = {
	.name = "pmix",
	.offered = pmix_offered,
	.open = pmix_open,
	.allgather = pmix_allgather,
	.close = pmix_close,
};
