/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/bootstrap.h"

#include <limits.h>
#include <stdlib.h>

#include "runtime/bootstrap/slurm_text.h"
#include "runtime/log.h"

/* In order of choice; callbacks, if given, come before all. */
static const struct stretto_bootstrap_ops *const providers[] = {
	&stretto_bootstrap_callback,
#ifdef STRETTO_HAVE_PMIX
	&stretto_bootstrap_pmix,
#endif
	&stretto_bootstrap_pmi2,     &stretto_bootstrap_tcp,
	&stretto_bootstrap_slurm,    &stretto_bootstrap_single,
};

#ifdef STRETTO_HAVE_PMIX
static const char srun_options[] = "--mpi=pmix or --mpi=pmi2";
#else
static const char srun_options[] = "--mpi=pmi2 (this build has no PMIx)";
#endif

/* The number that a variable holds; 0 if it is not set or no number. */
static int number_in(const char *name)
{
	int number;

	return stretto_slurm_number(getenv(name), INT_MAX, &number) ? number : 0;
}

/*
 * The variable by which a launcher says that it started more than this process, or NULL. Within
 * mpirun the variables of Slurm are those of mpirun's daemon, and outside of a step (in a batch
 * script) those of the job, which is no more than a hint.
 */
static const char *variable_of_many(const struct stretto_config *config)
{
	if (number_in("OMPI_COMM_WORLD_SIZE") > 1)
		return "OMPI_COMM_WORLD_SIZE";
	if (number_in("PMI_SIZE") > 1)
		return "PMI_SIZE";
	if (config->size > 1)
		return "STRETTO_SIZE";
	if (getenv("SLURM_STEP_ID") && !getenv("OMPI_COMM_WORLD_SIZE") &&
	    number_in("SLURM_STEP_NUM_TASKS") > 1)
		return "SLURM_STEP_NUM_TASKS";
	return NULL;
}

/*
 * N processes that each believe to be alone all do the whole work: where a launcher says that there
 * are N, this is an error.
 */
static stretto_status check_alone(const struct stretto_config *config, const char *provider)
{
	const char *name = variable_of_many(config);

	if (name) {
		stretto_error("%s=%s, but this process would be a job of ONE rank (%s), since "
			      "nothing says how to meet the others: start the ranks with srun %s, "
			      "with mpirun or with stretto-run (docs/slurm.md)",
			      name, getenv(name) ? getenv(name) : "many", provider, srun_options);
		return STRETTO_BOOTSTRAP;
	}
	if (!getenv("SLURM_STEP_ID") && !getenv("OMPI_COMM_WORLD_SIZE") &&
	    number_in("SLURM_NTASKS") > 1)
		stretto_warn("SLURM_NTASKS=%d, but this process is a job of ONE rank, since it was "
			     "not started by srun: start the ranks with srun %s or with "
			     "stretto-run (docs/slurm.md)",
			     number_in("SLURM_NTASKS"), srun_options);
	return STRETTO_OK;
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
			stretto_debug("bootstrap: not %s: %s", ops->name, why);
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
	stretto_log_set_rank((*bootstrap)->rank);
	if ((*bootstrap)->size == 1 && ops != &stretto_bootstrap_callback &&
	    ops != &stretto_bootstrap_tcp) {
		status = check_alone(config, ops->name);
		if (status != STRETTO_OK) {
			(*bootstrap)->ops->close(*bootstrap);
			*bootstrap = NULL;
			return status;
		}
	}
	stretto_info("bootstrap: rank %d of %d is ready", (*bootstrap)->rank, (*bootstrap)->size);
	return STRETTO_OK;
}

stretto_status stretto_bootstrap_barrier(struct stretto_bootstrap *bootstrap)
{
	return bootstrap->ops->allgather(bootstrap, NULL, 0, NULL);
}
