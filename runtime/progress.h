/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h: the threads that drive the channels while the application computes.
 *
 * One thread per channel. It drives the channel while work is in flight and nobody waits, and is
 * parked on a futex otherwise, so that an idle runtime costs nothing. Where it runs and how long it
 * polls before it sleeps is decided once, at init, from the affinity mask and the number of ranks
 * of the node, and is said in one info line.
 *
 * The public calls stretto_progress_pause() and _resume() and stretto_helper_core() are here too; any
 * thread.
 *
 * Threads: the functions below are called by the thread that is in stretto_init() or stretto_finalize().
 */
#ifndef STRETTO_RUNTIME_PROGRESS_H
#define STRETTO_RUNTIME_PROGRESS_H

#include "runtime/channel.h"

/* Cores of this process's affinity mask, at least 1. */
int stretto_cores(void);

/* Decides on cores and polling for the world and its channels, and starts the threads. */
stretto_status stretto_progress_start(struct stretto_world *world);

/* Ends every pause, however often it was nested: the job ends, and peers may need us for it. */
void stretto_progress_unpause(struct stretto_world *world);

/* Ends the threads that were started. */
void stretto_progress_stop(struct stretto_world *world);

#endif
