/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_join.h: the side of the other ranks of the rendezvous, from a name to a connection.
 *
 * Threads: one thread a connection.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_TCP_JOIN_H
#define STRETTO_RUNTIME_BOOTSTRAP_TCP_JOIN_H

#include "runtime/bootstrap/tcp_meet.h"
#include "runtime/bootstrap/tcp_wire.h"
#include "runtime/stretto.h"

/* Seconds that a rank waits longer than rank 0, so that rank 0's list of who is missing arrives. */
enum { STRETTO_TCP_GRACE = 2 };

/*
 * Connects to rank 0, trying again while nobody listens there, and waits until rank 0 says that all
 * ranks are there. *fd is then the caller's. STRETTO_BOOTSTRAP if it was refused, or if not all
 * came in time; the log says which.
 */
stretto_status stretto_tcp_join(const struct stretto_tcp_job *job, int *fd);

/* Reads the text of a FAIL frame whose head has been read, and logs it. */
void stretto_tcp_log_failure(int fd, const struct stretto_tcp_frame *frame, double deadline);

#endif
