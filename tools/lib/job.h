/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: who is where in a job: what stretto-info --job prints.
 *
 * Threads: the one that calls stretto_init().
 */
#ifndef STRETTO_TOOLS_JOB_H
#define STRETTO_TOOLS_JOB_H

#include <stdbool.h>
#include <stddef.h>

struct stretto_world;

/*
 * Joins the job, gathers what each rank knows of itself, prints it on rank 0, and leaves. The ranks
 * need not reach each other by any transport. Returns the exit code: 0, or 3 if the job did not
 * come together.
 */
int job_show(bool json);

/* Lists the RDMA ports of the channels, each once, as "mlx5_0:1 (10)"; "-" without verbs. */
void job_name_devices(const struct stretto_world *world, char *text, size_t size);

#endif
