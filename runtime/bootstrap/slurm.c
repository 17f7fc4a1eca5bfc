/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slurm.c: the provider for tasks of Slurm without any PMI (srun --mpi=none).
 *
 * Slurm tells each task its rank, the number of tasks, the step's nodes and, where the administrator
 * set MpiParams=ports=..., ports that it keeps free for the step. This is all that the tcp rendezvous
 * needs: rank 0 listens on the first of these ports, and the others go to the step's first node.
 *
 * The token is STRETTO_TOKEN where the job has set it. Otherwise it is made from what names the
 * step, which keeps the steps apart that meet at one port, but is no secret.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/slurm_text.h"
#include "runtime/log.h"

static bool slurm_offered(const struct stretto_config *config, char *why, size_t size)
{
	const char *ports = getenv("SLURM_STEP_RESV_PORTS");

	(void)config;
	if (!getenv("SLURM_STEP_ID") || !getenv("SLURM_PROCID")) {
		snprintf(why, size, "not a task of srun");
		return false;
	}
	if (getenv("OMPI_COMM_WORLD_SIZE")) {
		/* what Slurm started is then mpirun's daemon, whose variables we inherit */
		snprintf(why, size, "mpirun, not srun, started this process");
		return false;
	}
	if (!ports) {
		snprintf(why, size, "a task of srun, but without reserved ports");
		return false;
	}
	snprintf(why, size, "a task of srun without PMI, with the reserved ports %.40s", ports);
	return true;
}

/* Ranks may be on hosts that know their own name as a loopback address: rank 0 listens at all. */
static const char *all_addresses(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return "0.0.0.0";
	close(fd);
	return "[::]";
}

static const char *text_of(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "";
}

static void choose_token(struct stretto_config *job)
{
	char user[24];
	const char *const texts[] = {
		text_of("SLURM_CLUSTER_NAME"),   text_of("SLURM_JOB_ID"),
		text_of("SLURM_STEP_ID"),        text_of("SLURM_LAUNCH_NODE_IPADDR"),
		text_of("SLURM_SRUN_COMM_PORT"), user,
	};

	if (job->token[0])
		return;
	snprintf(user, sizeof user, "%ld", (long)getuid());
	stretto_slurm_make_token(texts, sizeof texts / sizeof *texts, job->token);
	if (job->rank == 0)
		stretto_info("bootstrap: the token is made from the job's number: it keeps other "
			     "jobs out, not other people; for that export "
			     "STRETTO_TOKEN=$(openssl rand -hex 16) before srun");
}

/* Rank, size, root and token of the job, as if STRETTO_* had said them. */
static stretto_status describe(struct stretto_config *job)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	const char *nodes = getenv("SLURM_STEP_NODELIST");
	char host[STRETTO_CONFIG_TEXT - 16];
	int port;
	int node;

	if (!tasks)
		tasks = getenv("SLURM_NTASKS");
	if (!stretto_slurm_number(tasks, INT_MAX, &job->size) || job->size == 0 ||
	    !stretto_slurm_number(getenv("SLURM_PROCID"), job->size - 1, &job->rank) ||
	    !stretto_slurm_first_port(text_of("SLURM_STEP_RESV_PORTS"), &port) || !nodes ||
	    !stretto_slurm_first_host(nodes, host, sizeof host)) {
		stretto_error("cannot make sense of Slurm's variables: SLURM_PROCID='%.20s', "
			      "SLURM_STEP_NUM_TASKS='%.20s', SLURM_STEP_RESV_PORTS='%.40s', "
			      "SLURM_STEP_NODELIST='%.200s'; start the ranks with srun --mpi=pmix "
			      "or --mpi=pmi2",
			      text_of("SLURM_PROCID"), tasks ? tasks : "",
			      text_of("SLURM_STEP_RESV_PORTS"), text_of("SLURM_STEP_NODELIST"));
		return STRETTO_BOOTSTRAP;
	}
	if (job->rank == 0 && stretto_slurm_number(getenv("SLURM_NODEID"), INT_MAX, &node) &&
	    node != 0) {
		stretto_error("rank 0 is on node %d of the step, where the others do not look for "
			      "it: use another --distribution, or srun --mpi=pmix or --mpi=pmi2",
			      node);
		return STRETTO_BOOTSTRAP;
	}
	snprintf(job->root, sizeof job->root, "%s:%d", job->rank == 0 ? all_addresses() : host,
		 port);
	job->listen_fd = -1;
	choose_token(job);
	return STRETTO_OK;
}

static stretto_status slurm_open(const struct stretto_config *config,
				 const struct stretto_bootstrap_callbacks *callbacks,
				 struct stretto_bootstrap **bootstrap)
{
	struct stretto_config job = *config;
	stretto_status status = describe(&job);

	if (status != STRETTO_OK)
		return status;
	return stretto_bootstrap_tcp.open(&job, callbacks, bootstrap);
}

/* What it opens is a tcp bootstrap, whose ops are tcp's: these need no allgather and no close. */
const struct stretto_bootstrap_ops stretto_bootstrap_slurm = {
	.name = "slurm",
	.offered = slurm_offered,
	.open = slurm_open,
};
