/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_socket.h: the sockets of the tcp rendezvous.
 *
 * All sockets are non-blocking and close-on-exec; waiting is poll(2) with a deadline, a point in
 * time of stretto_tcp_now(). No call raises SIGPIPE, and EINTR never shows.
 *
 * Threads: no shared state, any thread; one thread a socket.
 */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_TCP_SOCKET_H
#define STRETTO_RUNTIME_BOOTSTRAP_TCP_SOCKET_H

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/stretto.h"

/* Bytes that hold the text of any peer's address. */
enum { STRETTO_TCP_NAME = 80 };

/* Seconds of a clock that only goes forward. */
double stretto_tcp_now(void);

/*
 * poll(2) until an event or the deadline: the number of sockets with events, 0 when the deadline
 * has passed. Returns at least every minute (0 then means only "look at the clock").
 */
int stretto_tcp_poll(struct pollfd *polls, size_t count, double deadline);

/*
 * Sends or receives what can be moved now: the bytes moved, 0 if none could be, -1 if the
 * connection is closed or broken (errno; 0 for an orderly end).
 */
ssize_t stretto_tcp_send(int fd, const void *bytes, size_t count);
ssize_t stretto_tcp_receive(int fd, void *bytes, size_t count);

/* Receives exactly `count` bytes: 1 done, 0 deadline passed, -1 closed or broken (errno). */
int stretto_tcp_receive_all(int fd, void *bytes, size_t count, double deadline);

/* Binds and listens at "HOST:PORT". Errors are logged. The caller owns *fd. */
stretto_status stretto_tcp_listen(const char *root, int *fd);

/*
 * Makes *fd (the caller's) from a listening socket inherited by this process. The inherited
 * descriptor stays open, so that a process may meet its job again. Errors are logged.
 */
stretto_status stretto_tcp_adopt(int inherited, int *fd);

/* Takes one connection that waits at a listener: the caller's descriptor, or -1 (errno). */
int stretto_tcp_accept(int listener);

/*
 * Tries every address of "HOST:PORT" once: the caller's descriptor, or -1 with errno and the reason
 * as text. A name that does not resolve is EHOSTUNREACH, a malformed root EINVAL. Resolving a name
 * may block for as long as the system's resolver does.
 */
int stretto_tcp_connect(const char *root, double deadline, char why[STRETTO_TCP_NAME]);

/* The peer's numeric address and port, for the log. */
void stretto_tcp_name_peer(int fd, char name[STRETTO_TCP_NAME]);

#endif
