/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.c: the provider made of the functions that the application gave to stretto_init(). */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/log.h"

struct callback {
	struct stretto_bootstrap base;
	struct stretto_bootstrap_callbacks functions; /* copied; context is the application's */
};

static bool callback_offered(const struct stretto_config *config, char *why, size_t size)
{
	(void)config;
	snprintf(why, size, "callbacks come from the call, never from the environment");
	return false;
}

static stretto_status callback_open(const struct stretto_config *config,
				    const struct stretto_bootstrap_callbacks *callbacks,
				    struct stretto_bootstrap **bootstrap)
{
	struct callback *made;

	(void)config;
	if (!callbacks->allgather || !callbacks->barrier) {
		stretto_error("bootstrap callbacks: allgather and barrier must both be given");
		return STRETTO_INVALID;
	}
	if (callbacks->size < 1 || callbacks->rank < 0 || callbacks->rank >= callbacks->size) {
		stretto_error("bootstrap callbacks: rank %d of size %d must be from 0 to size - 1",
			      callbacks->rank, callbacks->size);
		return STRETTO_INVALID;
	}
	made = malloc(sizeof *made);
	if (!made) {
		stretto_error("bootstrap: no memory for %zu bytes", sizeof *made);
		return STRETTO_NO_MEMORY;
	}
	made->base.ops = &stretto_bootstrap_callback;
	made->base.rank = callbacks->rank;
	made->base.size = callbacks->size;
	made->functions = *callbacks;
	*bootstrap = &made->base;
	return STRETTO_OK;
}

static stretto_status callback_allgather(struct stretto_bootstrap *bootstrap, const void *mine,
					 size_t bytes, void *all)
{
	struct callback *self =
		(struct callback *)((char *)bootstrap - offsetof(struct callback, base));
	const struct stretto_bootstrap_callbacks *functions = &self->functions;
	int result;

	if (bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("bootstrap: a blob of %zu bytes is over the limit of %d", bytes,
			      STRETTO_BOOTSTRAP_BLOB_MAX);
		return STRETTO_INVALID;
	}
	if (bytes == 0)
		result = functions->barrier(functions->context);
	else
		result = functions->allgather(functions->context, mine, bytes, all);
	if (result == 0)
		return STRETTO_OK;
	stretto_error("the application's bootstrap %s returned %d",
		      bytes == 0 ? "barrier" : "allgather", result);
	return STRETTO_BOOTSTRAP;
}

static void callback_close(struct stretto_bootstrap *bootstrap)
{
	if (bootstrap)
		free((char *)bootstrap - offsetof(struct callback, base));
}

const struct stretto_bootstrap_ops stretto_bootstrap_callback = {
	.name = "callback",
	.offered = callback_offered,
	.open = callback_open,
	.allgather = callback_allgather,
	.close = callback_close,
};
