/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_meet.h: rank 0's side of the rendezvous, from an open port to a connection of every rank.
 *
 * Anyone can connect to the port. Connections are strangers until their hello has been judged; all
 * of them are polled together, so that a slow, silent or senseless one delays nobody. Their number
 * and their time are bounded.
 *
 * Threads: one thread a meeting.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_TCP_MEET_H
#define STRETTO_RUNTIME_BOOTSTRAP_TCP_MEET_H

#include "runtime/bootstrap/tcp_wire.h"
#include "runtime/stretto.h"

/* Who takes part; the same on all ranks but for `rank` and `listen_fd`. */
struct stretto_tcp_job {
	int rank;
	int size;
	const char *root; /* HOST:PORT of rank 0; borrowed */
	int listen_fd;    /* rank 0: inherited listening socket, -1 for none */
	double seconds;   /* that the ranks have to meet */
	unsigned char token[STRETTO_TCP_TOKEN];
};

/*
 * Waits for ranks 1 to size - 1 and writes their connections, the caller's, to fds[rank]; fds[0] is
 * -1. STRETTO_BOOTSTRAP if they did not all come in time: the missing ones are logged and told to
 * those that came, and nothing is left open.
 */
stretto_status stretto_tcp_meet(const struct stretto_tcp_job *job, int *fds);

/* Sends a FAIL frame with this text to each of fds[0..count) that is not -1, as far as possible. */
void stretto_tcp_tell_failure(const int *fds, int count, const char *why);

#endif
