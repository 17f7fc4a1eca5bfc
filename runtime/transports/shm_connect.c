/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_connect.c: connections of the shared memory transport.
 *
 * The lower rank of a pair connects to the abstract socket of the higher one and sends its hello
 * with three descriptors: its page, its eventfd, and the memory of the pair. The higher rank, once
 * it needs the connection too, answers with its hello, page and eventfd. Until then the hello waits
 * as a visitor. The socket stays open: regions travel on it, and its end is how a peer's death
 * shows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/log.h"
#include "runtime/transports/shm.h"

stretto_status shm_listen(struct shm_device *device)
{
	const struct stretto_device_env *env = device->base.env;
	struct sockaddr_un name;
	socklen_t length = shm_socket_name(&name, device->address.name);

	device->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (device->listener < 0 || bind(device->listener, (struct sockaddr *)&name, length) != 0 ||
	    listen(device->listener, 256) != 0) {
		stretto_error("shm: listening for the other ranks of the node: %s",
			      strerror(errno));
		return STRETTO_SYSTEM;
	}
	return env->watch(env->context, device->listener);
}

static void hang_up(struct shm_endpoint *endpoint)
{
	const struct stretto_device_env *env = endpoint->base.device->env;

	if (endpoint->socket < 0)
		return;
	env->unwatch(env->context, endpoint->socket);
	close(endpoint->socket);
	endpoint->socket = -1;
}

void shm_fail(struct shm_endpoint *endpoint, const char *why)
{
	const struct stretto_device_env *env = endpoint->base.device->env;
	struct shm_device *device = shm_device_of(endpoint->base.device);

	if (endpoint->state == SHM_FAILED)
		return;
	if (endpoint->state == SHM_CONNECTING)
		device->connecting--;
	endpoint->state = SHM_FAILED;
	shm_drop_queue(endpoint);
	hang_up(endpoint);
	env->failed(env->context, endpoint->base.peer, why);
}

static void make_hello(const struct shm_device *device, const struct shm_address *to,
		       struct shm_hello *hello)
{
	memset(hello, 0, sizeof *hello);
	hello->magic = SHM_MAGIC;
	hello->version = SHM_VERSION;
	memcpy(hello->secret, to->secret, sizeof hello->secret);
	hello->rank = device->base.env->rank;
	hello->channel = device->base.env->channel;
	hello->nonce_address = (uintptr_t)&device->nonce;
	hello->nonce = device->nonce;
}

/* Compares without an early end, so that the time tells nothing of the secret. */
static bool same_secret(const uint8_t *a, const uint8_t *b)
{
	unsigned difference = 0;

	for (int i = 0; i < 16; i++)
		difference |= (unsigned)(a[i] ^ b[i]);
	return difference == 0;
}

/* NULL if the hello is good, else what is wrong with it. */
static const char *hello_fault(const struct shm_device *device, const struct shm_hello *hello)
{
	const struct stretto_device_env *env = device->base.env;

	if (hello->magic != SHM_MAGIC || !same_secret(hello->secret, device->address.secret))
		return "not of this job";
	if (hello->version != SHM_VERSION)
		return "another version of the library";
	if (hello->rank < 0 || hello->rank >= env->size || hello->rank == env->rank ||
	    hello->channel != env->channel)
		return "a rank or channel that does not exist";
	return NULL;
}

static bool peer_is_us(int fd, pid_t *pid)
{
	struct ucred credentials;
	socklen_t length = sizeof credentials;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
		return false;
	*pid = credentials.pid;
	return credentials.uid == geteuid();
}

/* Learns whether we may read the peer's memory, by reading a number that it told us. */
static bool may_read(const struct shm_device *device, pid_t pid, const struct shm_hello *hello)
{
	uint64_t nonce = 0;
	struct iovec local = {&nonce, sizeof nonce};
	struct iovec remote = {(void *)(uintptr_t)hello->nonce_address, sizeof nonce};

	return device->base.env->config->shm_cma && pid > 0 &&
	       process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof nonce &&
	       nonce == hello->nonce;
}

/* Takes over what the peer's hello brought; fds[2], the pair, only from the lower rank. */
static bool take_hello(struct shm_endpoint *endpoint, const struct shm_hello *hello, int *fds)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);

	endpoint->peer_page = shm_map_peer(fds[0], sizeof(struct shm_page), PROT_READ | PROT_WRITE);
	if (!endpoint->peer_page || fds[1] < 0)
		return false;
	if (!endpoint->pair)
		endpoint->pair =
			shm_map_peer(fds[2], sizeof(struct shm_pair), PROT_READ | PROT_WRITE);
	if (!endpoint->pair)
		return false;
	endpoint->peer_wake = fds[1];
	fds[1] = -1;
	shm_close_fds(fds);
	if (!peer_is_us(endpoint->socket, &endpoint->peer_pid))
		return false;
	endpoint->cma = may_read(device, endpoint->peer_pid, hello);
	if (!endpoint->cma && !device->cma_refused) {
		device->cma_refused = true;
		stretto_info("shm: the memory of rank %d cannot be read by process_vm_readv (%s); "
			     "unregistered memory is copied through slots",
			     endpoint->base.peer,
			     device->base.env->config->shm_cma ? "the kernel does not permit it"
							       : "STRETTO_SHM_CMA is off");
	}
	return true;
}

static void set_directions(struct shm_endpoint *endpoint)
{
	bool lower = endpoint->base.device->env->rank < endpoint->base.peer;

	endpoint->tx = lower ? &endpoint->pair->up : &endpoint->pair->down;
	endpoint->rx = lower ? &endpoint->pair->down : &endpoint->pair->up;
}

static void ready(struct shm_endpoint *endpoint)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);

	endpoint->state = SHM_READY;
	shm_wake_peer(endpoint);
	device->connecting--;
	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct shm_visitor *visitor = stretto_container_of(it, struct shm_visitor, link);

		if (visitor->rank == endpoint->base.peer && visitor->fds[0] < 0 &&
		    visitor->socket >= 0)
			shm_drop_visitor(device, visitor); /* a knock: it has served */
	}
	stretto_debug("shm: connected to rank %d%s", endpoint->base.peer,
		      endpoint->cma ? "" : " without process_vm_readv");
}

/* Something of this process failed, not the peer. */
static stretto_status local_fault(const struct shm_endpoint *endpoint, const char *call)
{
	int error = errno;

	stretto_error("shm: connecting to rank %d: %s: %s%s", endpoint->base.peer, call,
		      strerror(error),
		      error == EMFILE || error == ENFILE
			      ? "; raise the limit of open files (ulimit -n), or use fewer ranks"
			      : "");
	return STRETTO_SYSTEM;
}

/* The lower rank's part: makes the pair, connects, says hello. STRETTO_AGAIN: later. */
static stretto_status call(struct shm_endpoint *endpoint)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
	const struct stretto_device_env *env = device->base.env;
	struct shm_hello hello;
	struct sockaddr_un name;
	socklen_t length = shm_socket_name(&name, endpoint->peer_address.name);
	stretto_status status = STRETTO_SYSTEM;
	int pair = memfd_create("stretto-pair", MFD_CLOEXEC);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (pair < 0 || fd < 0 || ftruncate(pair, sizeof(struct shm_pair)) != 0) {
		local_fault(endpoint, "making its memory and socket");
		goto out;
	}
	if (connect(fd, (struct sockaddr *)&name, length) != 0) {
		status = errno == EAGAIN ? STRETTO_AGAIN : STRETTO_PEER_FAILED;
		goto out;
	}
	endpoint->pair = shm_map_peer(pair, sizeof(struct shm_pair), PROT_READ | PROT_WRITE);
	if (!endpoint->pair) {
		local_fault(endpoint, "mmap");
		goto out;
	}
	make_hello(device, &endpoint->peer_address, &hello);
	status = shm_send_with_fds(fd, &hello, sizeof hello,
				   (int[]){device->page_fd, env->wake_fd, pair}, 3);
	if (status == STRETTO_OK)
		status = env->watch(env->context, fd);
	if (status == STRETTO_OK) {
		endpoint->socket = fd;
		fd = -1;
		set_directions(endpoint);
	} else {
		munmap(endpoint->pair, sizeof(struct shm_pair));
		endpoint->pair = NULL;
	}
out:
	if (fd >= 0)
		close(fd);
	if (pair >= 0)
		close(pair);
	return status;
}

/*
 * The higher rank's part when it comes first: the lower rank may have no need of its own.
 * STRETTO_AGAIN: later.
 */
static stretto_status knock(struct shm_endpoint *endpoint)
{
	struct shm_hello hello;
	struct sockaddr_un name;
	socklen_t length = shm_socket_name(&name, endpoint->peer_address.name);
	stretto_status status = STRETTO_OK;
	const struct stretto_device_env *env = endpoint->base.device->env;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return local_fault(endpoint, "socket");
	make_hello(shm_device_of(endpoint->base.device), &endpoint->peer_address, &hello);
	if (connect(fd, (struct sockaddr *)&name, length) != 0)
		status = errno == EAGAIN ? STRETTO_AGAIN : STRETTO_PEER_FAILED;
	else if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		status = errno == EAGAIN ? STRETTO_AGAIN : STRETTO_PEER_FAILED;
	if (status == STRETTO_OK)
		status = env->watch(env->context, fd);
	if (status != STRETTO_OK) {
		close(fd);
		return status;
	}
	endpoint->socket = fd; /* until it calls, its end tells of the peer's death */
	endpoint->knocked = true;
	return STRETTO_OK;
}

/* The higher rank's part: answers a visitor. */
static bool answer(struct shm_endpoint *endpoint, struct shm_visitor *visitor)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
	struct shm_hello hello;

	hang_up(endpoint);                  /* of the knock */
	endpoint->socket = visitor->socket; /* watched since it was accepted */
	visitor->socket = -1;
	make_hello(device, &endpoint->peer_address, &hello);
	if (!take_hello(endpoint, &visitor->hello, visitor->fds))
		return false;
	set_directions(endpoint);
	if (shm_send_with_fds(endpoint->socket, &hello, sizeof hello,
			      (int[]){device->page_fd, device->base.env->wake_fd},
			      2) == STRETTO_OK) {
		ready(endpoint);
		return true;
	}
	shm_receive(endpoint); /* what it sent before it ended counts */
	return false;
}

void shm_drop_visitor(struct shm_device *device, struct shm_visitor *visitor)
{
	const struct stretto_device_env *env = device->base.env;

	stretto_list_remove(&visitor->link);
	if (visitor->socket >= 0) {
		env->unwatch(env->context, visitor->socket);
		close(visitor->socket);
	}
	shm_close_fds(visitor->fds);
	free(visitor);
}

static void accept_visitors(struct shm_device *device)
{
	const struct stretto_device_env *env = device->base.env;
	struct shm_visitor *visitor;
	pid_t pid = 0;
	int fd;

	while ((fd = accept4(device->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (!peer_is_us(fd, &pid)) {
			stretto_warn("shm: refused a connection from another user (pid %d)", pid);
			close(fd);
			continue;
		}
		visitor = calloc(1, sizeof *visitor);
		if (!visitor || env->watch(env->context, fd) != STRETTO_OK) {
			free(visitor);
			close(fd);
			return;
		}
		visitor->socket = fd;
		visitor->rank = -1;
		for (int i = 0; i < SHM_FDS; i++)
			visitor->fds[i] = -1;
		stretto_list_append(&device->visitors, &visitor->link);
	}
	if ((errno == EMFILE || errno == ENFILE) && !device->files_short) {
		device->files_short = true;
		stretto_error("shm: accepting a rank of this node: %s; raise the limit of open "
			      "files (ulimit -n), or use fewer ranks",
			      strerror(errno));
	}
}

/* Reads the hellos that have come. */
static void hear_visitors(struct shm_device *device)
{
	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct shm_visitor *visitor = stretto_container_of(it, struct shm_visitor, link);
		const char *fault = "it hung up";
		ssize_t got;

		if (visitor->rank >= 0)
			continue;
		got = shm_receive_with_fds(visitor->socket, &visitor->hello, sizeof visitor->hello,
					   visitor->fds);
		if (got < 0)
			continue;
		if (got > 0)
			fault = hello_fault(device, &visitor->hello);
		if (fault) {
			stretto_warn("shm: refused a connection on this node: %s", fault);
			shm_drop_visitor(device, visitor);
			continue;
		}
		visitor->rank = visitor->hello.rank;
		device->base.env->wanted(device->base.env->context, visitor->rank);
		/* It says nothing more before we answer; a death shows when we do. */
		device->base.env->unwatch(device->base.env->context, visitor->socket);
	}
}

/* Gives the endpoint its visitor, if it is there. */
static void meet(struct shm_endpoint *endpoint)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
	const struct stretto_device_env *env = device->base.env;

	STRETTO_LIST_FOR_SAFE (it, &device->visitors) {
		struct shm_visitor *visitor = stretto_container_of(it, struct shm_visitor, link);

		if (visitor->rank != endpoint->base.peer)
			continue;
		if (env->watch(env->context, visitor->socket) != STRETTO_OK ||
		    !answer(endpoint, visitor))
			shm_fail(endpoint, "it ended while it connected");
		shm_drop_visitor(device, visitor);
		return;
	}
}

bool shm_read_regions(struct shm_endpoint *endpoint)
{
	struct shm_region_message message;
	int fds[SHM_FDS];
	ssize_t got;

	while ((got = shm_receive_with_fds(endpoint->socket, &message, sizeof message, fds)) > 0) {
		if (message.magic == SHM_MAGIC)
			shm_read_region(endpoint, &message, fds[0]);
		shm_close_fds(fds);
	}
	return got < 0;
}

/* Reads what came on the socket of a ready endpoint: regions, or its end. */
static void hear_peer(struct shm_endpoint *endpoint)
{
	if (shm_read_regions(endpoint))
		return;
	shm_receive(endpoint); /* what it sent before it ended counts */
	shm_fail(endpoint, "its process ended");
}

/* The lower rank's part: hears the answer to its hello. */
static void hear_answer(struct shm_endpoint *endpoint)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
	struct shm_hello hello;
	int fds[SHM_FDS];
	ssize_t got = shm_receive_with_fds(endpoint->socket, &hello, sizeof hello, fds);

	if (got < 0)
		return;
	if (got > 0 && !hello_fault(device, &hello) && take_hello(endpoint, &hello, fds))
		ready(endpoint);
	else
		shm_fail(endpoint, "it ended while it connected");
	shm_close_fds(fds);
}

static bool hung_up(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* Goes on with a connection that is not ready. */
static void go_on(struct shm_endpoint *endpoint)
{
	struct shm_device *device = shm_device_of(endpoint->base.device);
	bool higher = device->base.env->rank > endpoint->base.peer;
	stretto_status status = STRETTO_OK;

	if (higher)
		meet(endpoint);
	if (endpoint->state != SHM_CONNECTING)
		return;
	if (higher && !endpoint->knocked)
		status = knock(endpoint);
	else if (!higher && endpoint->socket < 0)
		status = call(endpoint);
	if (status == STRETTO_AGAIN)
		device->starved = true;
	else if (status == STRETTO_PEER_FAILED)
		shm_fail(endpoint, "it cannot be connected to: its process has ended");
	else if (status != STRETTO_OK)
		shm_fail(endpoint, "this process cannot connect to it");
	else if (!higher)
		hear_answer(endpoint);
	else if (hung_up(endpoint->socket))
		shm_fail(endpoint, "its process ended");
}

void shm_events(struct stretto_device *base)
{
	struct shm_device *device = shm_device_of(base);

	accept_visitors(device);
	hear_visitors(device);
	STRETTO_LIST_FOR (it, &device->endpoints) {
		struct shm_endpoint *endpoint = stretto_container_of(it, struct shm_endpoint, link);

		if (endpoint->state == SHM_CONNECTING)
			go_on(endpoint);
		else if (endpoint->state == SHM_READY)
			hear_peer(endpoint);
	}
}

stretto_status shm_connect(struct stretto_device *base, int peer, const void *blob, size_t bytes,
			   struct stretto_endpoint **out)
{
	struct shm_device *device = shm_device_of(base);
	struct shm_endpoint *endpoint = calloc(1, sizeof *endpoint);

	if (!endpoint)
		return STRETTO_NO_MEMORY;
	if (bytes != sizeof endpoint->peer_address) {
		free(endpoint);
		return STRETTO_INTERNAL;
	}
	memcpy(&endpoint->peer_address, blob, bytes);
	endpoint->base.transport = &stretto_transport_shm;
	endpoint->base.device = base;
	endpoint->base.peer = peer;
	endpoint->socket = -1;
	endpoint->peer_wake = -1;
	stretto_match_init(&endpoint->match);
	stretto_list_init(&endpoint->streaming);
	stretto_list_append(&device->endpoints, &endpoint->link);
	device->connecting++;
	*out = &endpoint->base;
	return STRETTO_OK;
}

void shm_disconnect(struct stretto_endpoint *base)
{
	struct shm_endpoint *endpoint = shm_endpoint_of(base);
	const struct stretto_device_env *env = base->device->env;

	if (endpoint->state == SHM_CONNECTING)
		shm_device_of(base->device)->connecting--;
	shm_drop_queue(endpoint);
	stretto_list_remove(&endpoint->link);
	if (endpoint->socket >= 0) {
		env->unwatch(env->context, endpoint->socket);
		close(endpoint->socket);
	}
	if (endpoint->peer_wake >= 0)
		close(endpoint->peer_wake);
	if (endpoint->peer_page)
		munmap(endpoint->peer_page, sizeof(struct shm_page));
	if (endpoint->pair)
		munmap(endpoint->pair, sizeof(struct shm_pair));
	for (size_t i = 0; i < endpoint->region_count; i++)
		munmap(endpoint->regions[i].base, endpoint->regions[i].bytes);
	stretto_match_fini(&endpoint->match);
	free(endpoint->regions);
	free(endpoint->shared);
	free(endpoint->queue);
	free(endpoint->sends.entries);
	free(endpoint->streams.entries);
	free(endpoint);
}
