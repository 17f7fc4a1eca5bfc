/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/tcp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/bootstrap/tcp_wire.h"
#include "runtime/log.h"

/* Seconds that one address may take to answer a connect. */
static const double connect_seconds = 10;

double stretto_tcp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int stretto_tcp_poll(struct pollfd *polls, size_t count, double deadline)
{
	for (;;) {
		double left = deadline - stretto_tcp_now();
		int milliseconds = 0;
		int ready;

		if (left > 0) /* rounded up, so that the deadline has passed on return */
			milliseconds = left < 60 ? (int)(left * 1e3) + 1 : 60000;
		ready = poll(polls, (nfds_t)count, milliseconds);
		if (ready >= 0 || errno != EINTR)
			return ready;
	}
}

static bool try_later(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

ssize_t stretto_tcp_send(int fd, const void *bytes, size_t count)
{
	ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);

	if (sent < 0 && try_later(errno))
		return 0;
	return sent;
}

ssize_t stretto_tcp_receive(int fd, void *bytes, size_t count)
{
	ssize_t got = recv(fd, bytes, count, 0);

	if (got < 0 && try_later(errno))
		return 0;
	if (got == 0 && count > 0) {
		errno = 0;
		return -1;
	}
	return got;
}

int stretto_tcp_receive_all(int fd, void *bytes, size_t count, double deadline)
{
	size_t done = 0;

	while (done < count) {
		struct pollfd one = {.fd = fd, .events = POLLIN};
		ssize_t got = stretto_tcp_receive(fd, (char *)bytes + done, count - done);

		if (got < 0)
			return -1;
		done += (size_t)got;
		if (got > 0)
			continue;
		if (stretto_tcp_poll(&one, 1, deadline) == 0 && stretto_tcp_now() >= deadline)
			return 0;
	}
	return 1;
}

/* Resolves a root: a list for freeaddrinfo(), or NULL after errno is set and *why points to text.
 */
static struct addrinfo *resolve(const char *root, int flags, const char **why)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	char host[256];
	char port[256];
	int code;

	if (!stretto_tcp_split_root(root, host, port, sizeof host)) {
		*why = "it must be HOST:PORT, such as node1:4321 or [::1]:4321";
		errno = EINVAL;
		return NULL;
	}
	hints.ai_flags = flags | AI_NUMERICSERV;
	code = getaddrinfo(host, port, &hints, &list);
	if (code != 0) {
		*why = gai_strerror(code);
		errno = EHOSTUNREACH;
		return NULL;
	}
	return list;
}

static int open_socket(const struct addrinfo *address)
{
	return socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int close_keeping_errno(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
	return -1;
}

static int listen_at(const struct addrinfo *address)
{
	int fd = open_socket(address);
	int yes = 1;

	if (fd < 0)
		return -1;
	/* a job may meet again at a port where its last connections are in TIME_WAIT */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0)
		return close_keeping_errno(fd);
	return fd;
}

stretto_status stretto_tcp_listen(const char *root, int *fd)
{
	const char *why = "";
	struct addrinfo *list = resolve(root, AI_PASSIVE, &why);
	int made = -1;

	if (!list) {
		stretto_error("rank 0 cannot listen at STRETTO_ROOT='%s': %s", root, why);
		return STRETTO_BOOTSTRAP;
	}
	for (struct addrinfo *at = list; at && made < 0; at = at->ai_next)
		made = listen_at(at);
	if (made < 0)
		stretto_error("rank 0 cannot listen at STRETTO_ROOT='%s': %s; it must be a free "
			      "port at an address of the host of rank 0",
			      root, strerror(errno));
	freeaddrinfo(list);
	if (made < 0)
		return STRETTO_BOOTSTRAP;
	*fd = made;
	return STRETTO_OK;
}

stretto_status stretto_tcp_adopt(int inherited, int *fd)
{
	int listening = 0;
	socklen_t length = sizeof listening;
	int made;
	int flags;

	if (getsockopt(inherited, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 ||
	    !listening) {
		stretto_error("STRETTO_LISTEN_FD=%d is not a listening socket; the launcher must "
			      "leave it open for rank 0, or not set it",
			      inherited);
		return STRETTO_BOOTSTRAP;
	}
	made = fcntl(inherited, F_DUPFD_CLOEXEC, 0);
	flags = made < 0 ? -1 : fcntl(made, F_GETFL);
	if (flags < 0 || fcntl(made, F_SETFL, flags | O_NONBLOCK) != 0) {
		stretto_error("cannot use STRETTO_LISTEN_FD=%d: %s", inherited, strerror(errno));
		if (made >= 0)
			close(made);
		return STRETTO_SYSTEM;
	}
	*fd = made;
	return STRETTO_OK;
}

static void set_options(int fd)
{
	int yes = 1;

	/* the messages are small and answered at once: waiting to fill a packet only costs */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

int stretto_tcp_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0)
		set_options(fd);
	return fd;
}

/*
 * Whether a connection is to itself: a connect to a local port where nobody listens may be given
 * that very port as its own, and TCP then meets itself.
 */
static bool connected_to_itself(int fd)
{
	struct sockaddr_storage here = {0};
	struct sockaddr_storage there = {0};
	socklen_t here_length = sizeof here;
	socklen_t there_length = sizeof there;

	if (getsockname(fd, (struct sockaddr *)&here, &here_length) != 0 ||
	    getpeername(fd, (struct sockaddr *)&there, &there_length) != 0)
		return false;
	return here_length == there_length && memcmp(&here, &there, here_length) == 0;
}

/* Waits for a started connect to end: 0, or the errno of its failure. */
static int finish_connect(int fd, double deadline)
{
	struct pollfd one = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t length = sizeof error;

	if (stretto_tcp_poll(&one, 1, deadline) <= 0)
		return ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
		return errno;
	if (error == 0 && connected_to_itself(fd))
		return ECONNREFUSED;
	return error;
}

static int connect_to(const struct addrinfo *address, double deadline)
{
	double limit = stretto_tcp_now() + connect_seconds;
	int fd = open_socket(address);
	int error = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS &&
	    errno != EINTR)
		error = errno;
	if (error == 0)
		error = finish_connect(fd, limit < deadline ? limit : deadline);
	if (error != 0) {
		close(fd);
		errno = error;
		return -1;
	}
	set_options(fd);
	return fd;
}

int stretto_tcp_connect(const char *root, double deadline, char why[STRETTO_TCP_NAME])
{
	const char *unresolved = "";
	struct addrinfo *list = resolve(root, 0, &unresolved);
	int fd = -1;
	int saved;

	for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
		fd = connect_to(at, deadline);
	saved = errno;
	if (fd < 0)
		snprintf(why, STRETTO_TCP_NAME, "%s", list ? strerror(saved) : unresolved);
	if (list)
		freeaddrinfo(list);
	errno = saved;
	return fd;
}

void stretto_tcp_name_peer(int fd, char name[STRETTO_TCP_NAME])
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	char host[INET6_ADDRSTRLEN];
	char port[8];

	if (getpeername(fd, (struct sockaddr *)&address, &length) != 0 ||
	    getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(name, STRETTO_TCP_NAME, "an address that is gone");
	else
		snprintf(name, STRETTO_TCP_NAME, "%s port %s",
			 /* an IPv4 peer of an IPv6 socket is known by its own address */
			 strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host, port);
}
