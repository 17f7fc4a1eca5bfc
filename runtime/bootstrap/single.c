/* SPDX-License-Identifier: BSD-3-Clause */
/* single.c: the provider of a job of one process. Its struct is the common head alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/log.h"

static bool single_offered(const struct stretto_config *config, char *why, size_t size)
{
	(void)config;
	snprintf(why, size, "no callbacks were given, and no launcher that we know started this");
	return true;
}

static stretto_status single_open(const struct stretto_config *config,
				  const struct stretto_bootstrap_callbacks *callbacks,
				  struct stretto_bootstrap **bootstrap)
{
	struct stretto_bootstrap *made = malloc(sizeof *made);

	(void)config;
	(void)callbacks;
	if (!made) {
		stretto_error("bootstrap: no memory for %zu bytes", sizeof *made);
		return STRETTO_NO_MEMORY;
	}
	*made = (struct stretto_bootstrap){&stretto_bootstrap_single, 0, 1};
	*bootstrap = made;
	return STRETTO_OK;
}

static stretto_status single_allgather(struct stretto_bootstrap *bootstrap, const void *mine,
				       size_t bytes, void *all)
{
	(void)bootstrap;
	if (bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("bootstrap: a blob of %zu bytes is over the limit of %d", bytes,
			      STRETTO_BOOTSTRAP_BLOB_MAX);
		return STRETTO_INVALID;
	}
	if (bytes > 0)
		memmove(all, mine, bytes);
	return STRETTO_OK;
}

static void single_close(struct stretto_bootstrap *bootstrap)
{
	free(bootstrap);
}

const struct stretto_bootstrap_ops stretto_bootstrap_single = {
	.name = "single",
	.offered = single_offered,
	.open = single_open,
	.allgather = single_allgather,
	.close = single_close,
};
