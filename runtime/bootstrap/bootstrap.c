/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/bootstrap.h"

#include <stdlib.h>

#include "runtime/log.h"

/* In order of choice; callbacks, if given, come before all. */
static const struct stretto_bootstrap_ops *const providers[] = {
	&stretto_bootstrap_callback,
	&stretto_bootstrap_tcp,
	&stretto_bootstrap_single,
};

/* Variables by which other launchers tell a process that its job has more than one. */
static const char *const foreign_sizes[] = {
	"SLURM_NTASKS",
	"PMI_SIZE",
	"OMPI_COMM_WORLD_SIZE",
};

/* N processes that each believe to be alone all do the whole work: this must not pass unseen. */
static void warn_if_many(void)
{
	for (size_t i = 0; i < sizeof foreign_sizes / sizeof *foreign_sizes; i++) {
		const char *text = getenv(foreign_sizes[i]);
		long size = text ? strtol(text, NULL, 10) : 1;

		if (size <= 1)
			continue;
		stretto_warn("%s=%ld, but this process is a job of ONE rank, since nothing says "
			     "how to meet the others: start the ranks with stretto-run, set "
			     "STRETTO_RANK, STRETTO_SIZE, STRETTO_ROOT and STRETTO_TOKEN on each, "
			     "or pass callbacks to stretto_init() (docs/bootstrap.md)",
			     foreign_sizes[i], size);
		return;
	}
}

static const struct stretto_bootstrap_ops *
choose(const struct stretto_config *config, const struct stretto_bootstrap_callbacks *callbacks)
{
	const struct stretto_bootstrap_ops *ops = &stretto_bootstrap_single;
	char why[128] = "the application passed its own functions";

	if (callbacks) {
		ops = &stretto_bootstrap_callback;
		stretto_log_set_rank(callbacks->rank);
	} else {
		for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
			ops = providers[i];
			if (ops->offered(config, why, sizeof why))
				break;
		}
		stretto_log_set_rank(config->rank);
	}
	stretto_info("bootstrap: %s: %s", ops->name, why);
	return ops;
}

stretto_status stretto_bootstrap_open(const struct stretto_config *config,
				      const struct stretto_bootstrap_callbacks *callbacks,
				      struct stretto_bootstrap **bootstrap)
{
	const struct stretto_bootstrap_ops *ops = choose(config, callbacks);
	stretto_status status = ops->open(config, callbacks, bootstrap);

	if (status != STRETTO_OK)
		return status;
	if (ops == &stretto_bootstrap_single)
		warn_if_many();
	stretto_info("bootstrap: rank %d of %d is ready", (*bootstrap)->rank, (*bootstrap)->size);
	return STRETTO_OK;
}

stretto_status stretto_bootstrap_barrier(struct stretto_bootstrap *bootstrap)
{
	return bootstrap->ops->allgather(bootstrap, NULL, 0, NULL);
}
