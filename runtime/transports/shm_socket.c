/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_socket.c: messages with descriptors between the ranks of a node. See shm.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/transports/shm.h"

socklen_t shm_socket_name(struct sockaddr_un *name, const uint8_t *id)
{
	static const char prefix[] = "stretto-";
	size_t at = 1; /* the leading NUL makes it abstract */

	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	memcpy(name->sun_path + at, prefix, sizeof prefix - 1);
	at += sizeof prefix - 1;
	for (int i = 0; i < 16; i++, at += 2)
		snprintf(name->sun_path + at, 3, "%02x", id[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at);
}

stretto_status shm_send_with_fds(int fd, const void *message, size_t bytes, const int *fds,
				 size_t fd_count)
{
	struct iovec part = {(void *)(uintptr_t)message, bytes};
	union {
		char buffer[CMSG_SPACE(SHM_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *head;

	memset(&control, 0, sizeof control);
	header.msg_control = control.buffer;
	header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	head = CMSG_FIRSTHDR(&header);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
	memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
	if (sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return STRETTO_OK;
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS)
		return STRETTO_AGAIN;
	return errno == EPIPE || errno == ECONNRESET ? STRETTO_PEER_FAILED : STRETTO_SYSTEM;
}

void shm_close_fds(int *fds)
{
	for (int i = 0; i < SHM_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

ssize_t shm_receive_with_fds(int fd, void *message, size_t bytes, int *fds)
{
	struct iovec part = {message, bytes};
	union {
		char buffer[CMSG_SPACE(SHM_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.buffer,
				.msg_controllen = sizeof control.buffer};
	ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	for (int i = 0; i < SHM_FDS; i++)
		fds[i] = -1;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? -1 : 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&header); head; head = CMSG_NXTHDR(&header, head))
		if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
		    head->cmsg_len <= CMSG_LEN(SHM_FDS * sizeof(int)))
			memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	if ((size_t)got == bytes && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return got;
	shm_close_fds(fds);
	return 0;
}

void *shm_map_peer(int fd, size_t bytes, int protection)
{
	struct stat info;
	void *base;

	if (fd < 0 || fstat(fd, &info) != 0 || (uint64_t)info.st_size < bytes)
		return NULL;
	base = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	return base == MAP_FAILED ? NULL : base;
}
