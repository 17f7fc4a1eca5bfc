/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.c: the provider made of our own rendezvous.
 *
 * All ranks hold a connection to rank 0 (tcp_meet.c, tcp_join.c). An allgather is a star: each rank
 * sends its blob to rank 0, which sends all blobs to each. For three ranks:
 *
 *	rank 1 -> rank 0   DATA round n, blob 1
 *	rank 2 -> rank 0   DATA round n, blob 2
 *	rank 0 -> rank 1   DATA round n, blobs 0 1 2
 *	rank 0 -> rank 2   DATA round n, blobs 0 1 2
 *
 * Rank 0 moves size * bytes to each of size ranks, which is fine for the few small blobs of a
 * start. Whatever goes wrong is found by rank 0, which names the ranks and tells all others (FAIL).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/tcp_join.h"
#include "runtime/bootstrap/tcp_meet.h"
#include "runtime/bootstrap/tcp_socket.h"
#include "runtime/bootstrap/tcp_wire.h"
#include "runtime/log.h"

/* How far one message of the current allgather has come over a connection. */
struct transfer {
	size_t done;                           /* bytes moved, of head and payload */
	unsigned char head[STRETTO_TCP_FRAME]; /* as received */
};

struct tcp {
	struct stretto_bootstrap base;
	double seconds; /* deadline of each call */
	uint32_t round; /* number of the current allgather */
	bool broken;    /* a call failed: the connections are of no more use */
	int links;      /* number of the three arrays: size on rank 0, else 1 */
	int *fds;       /* on rank 0 by rank, itself -1; else of rank 0 */
	struct pollfd *polls;
	struct transfer *transfers;
};

/* One allgather. */
struct gather {
	struct tcp *tcp;
	const void *mine; /* one blob */
	size_t bytes;     /* of one blob */
	char *all;        /* blobs of all ranks */
	double deadline;
	char why[STRETTO_TCP_REASON]; /* it failed, for the log and for the other ranks */
};

static struct tcp *tcp_of(struct stretto_bootstrap *bootstrap)
{
	return (struct tcp *)((char *)bootstrap - offsetof(struct tcp, base));
}

static bool tcp_offered(const struct stretto_config *config, char *why, size_t size)
{
	bool any = config->rank >= 0 || config->size >= 0 || config->root[0];

	snprintf(why, size, "%s",
		 any ? "the environment describes a job (STRETTO_RANK, _SIZE or _ROOT is set)"
		     : "no STRETTO_RANK, _SIZE or _ROOT is set");
	return any;
}

/* Half of a job description is a mistake, never a job of one. */
static stretto_status check_complete(const struct stretto_config *config)
{
	char missing[80] = "";
	const struct {
		const char *name;
		bool is_set;
	} needed[] = {
		{"STRETTO_RANK", config->rank >= 0},
		{"STRETTO_SIZE", config->size >= 0},
		{"STRETTO_ROOT", config->root[0] != '\0'},
		{"STRETTO_TOKEN", config->token[0] != '\0'},
	};

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		size_t used = strlen(missing);

		if (!needed[i].is_set)
			snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "",
				 needed[i].name);
	}
	if (!missing[0])
		return STRETTO_OK;
	stretto_error("the job is described in part only: not set: %s; start the ranks with "
		      "stretto-run, or set STRETTO_RANK, STRETTO_SIZE, STRETTO_ROOT and "
		      "STRETTO_TOKEN on each",
		      missing);
	return STRETTO_BOOTSTRAP;
}

static stretto_status describe_job(const struct stretto_config *config, struct stretto_tcp_job *job)
{
	char host[STRETTO_CONFIG_TEXT];
	char port[STRETTO_CONFIG_TEXT];
	stretto_status status = check_complete(config);

	if (status != STRETTO_OK)
		return status;
	if (config->rank >= config->size) {
		stretto_error("STRETTO_RANK=%d must be less than STRETTO_SIZE=%d", config->rank,
			      config->size);
		return STRETTO_BOOTSTRAP;
	}
	if (!stretto_tcp_parse_token(config->token, job->token)) {
		stretto_error("STRETTO_TOKEN must be 32 hex digits, the same on all ranks");
		return STRETTO_BOOTSTRAP;
	}
	if (!stretto_tcp_split_root(config->root, host, port, sizeof host)) {
		stretto_error("STRETTO_ROOT='%s' must be HOST:PORT, such as node1:4321 or "
			      "[::1]:4321",
			      config->root);
		return STRETTO_BOOTSTRAP;
	}
	job->rank = config->rank;
	job->size = config->size;
	job->root = config->root;
	job->listen_fd = config->rank == 0 ? config->listen_fd : -1;
	job->seconds = config->bootstrap_timeout_seconds;
	return STRETTO_OK;
}

static void tcp_close(struct stretto_bootstrap *bootstrap)
{
	struct tcp *tcp;

	if (!bootstrap)
		return;
	tcp = tcp_of(bootstrap);
	for (int i = 0; tcp->fds && i < tcp->links; i++)
		if (tcp->fds[i] >= 0)
			close(tcp->fds[i]);
	free(tcp->fds);
	free(tcp->polls);
	free(tcp->transfers);
	free(tcp);
}

/* A struct without connections; NULL (logged) if there is no memory. */
static struct tcp *new_tcp(const struct stretto_tcp_job *job)
{
	struct tcp *tcp = calloc(1, sizeof *tcp);
	size_t links = job->rank == 0 ? (size_t)job->size : 1;

	if (!tcp)
		goto no_memory;
	tcp->base = (struct stretto_bootstrap){&stretto_bootstrap_tcp, job->rank, job->size};
	tcp->seconds = job->seconds;
	tcp->links = (int)links;
	tcp->fds = malloc(links * sizeof *tcp->fds);
	for (size_t i = 0; tcp->fds && i < links; i++)
		tcp->fds[i] = -1;
	tcp->polls = calloc(links, sizeof *tcp->polls);
	tcp->transfers = calloc(links, sizeof *tcp->transfers);
	if (tcp->fds && tcp->polls && tcp->transfers)
		return tcp;
	tcp_close(&tcp->base);
no_memory:
	stretto_error("rendezvous: no memory for the connections of %zu ranks", links);
	return NULL;
}

static stretto_status tcp_open(const struct stretto_config *config,
			       const struct stretto_bootstrap_callbacks *callbacks,
			       struct stretto_bootstrap **bootstrap)
{
	struct stretto_tcp_job job;
	struct tcp *tcp;
	stretto_status status = describe_job(config, &job);

	(void)callbacks;
	if (status != STRETTO_OK)
		return status;
	tcp = new_tcp(&job);
	if (!tcp)
		return STRETTO_NO_MEMORY;
	if (job.rank > 0)
		status = stretto_tcp_join(&job, tcp->fds);
	else if (job.size > 1)
		status = stretto_tcp_meet(&job, tcp->fds);
	if (status != STRETTO_OK) {
		tcp_close(&tcp->base);
		return status;
	}
	*bootstrap = &tcp->base;
	return STRETTO_OK;
}

/* Whether a frame is what rank `from` sends in this allgather; gather->why if not. */
static bool expected(struct gather *gather, const unsigned char *head, int from, size_t length)
{
	struct stretto_tcp_frame frame;

	if (!stretto_tcp_parse_frame(head, &frame) || frame.kind != STRETTO_TCP_DATA) {
		snprintf(gather->why, sizeof gather->why,
			 "rank %d sent something senseless in allgather %u", from,
			 gather->tcp->round);
		return false;
	}
	if (frame.round != gather->tcp->round || frame.length != length) {
		snprintf(gather->why, sizeof gather->why,
			 "rank %d sent %llu bytes for allgather %u, where %zu bytes for allgather "
			 "%u were expected: the ranks do not run the same program",
			 from, (unsigned long long)frame.length, frame.round, length,
			 gather->tcp->round);
		return false;
	}
	return true;
}

/* The end of a connection, for gather->why. errno is that of the failed call. */
static void note_gone(struct gather *gather, int rank)
{
	snprintf(gather->why, sizeof gather->why,
		 "rank %d closed its connection during allgather %u%s%s", rank, gather->tcp->round,
		 errno ? ": " : "", errno ? strerror(errno) : "");
}

/*
 * Fills polls for the links that have moved less than `total`; the number of them. The others are
 * watched for `idle` events, 0 for not at all.
 */
static int prepare(struct tcp *tcp, size_t total, short busy, short idle)
{
	int left = 0;

	for (int i = 0; i < tcp->links; i++) {
		struct pollfd *one = &tcp->polls[i];
		bool done = tcp->fds[i] < 0 || tcp->transfers[i].done >= total;

		left += !done;
		one->events = done ? idle : busy;
		one->fd = one->events ? tcp->fds[i] : -1;
		one->revents = 0;
	}
	return left;
}

/* Names the ranks that have moved less than `total`. */
static void note_late(struct gather *gather, size_t total, const char *did)
{
	struct tcp *tcp = gather->tcp;
	bool *late = calloc((size_t)tcp->links, sizeof *late);
	char list[STRETTO_TCP_REASON / 2] = "?";
	int count = 0;

	for (int i = 0; late && i < tcp->links; i++) {
		late[i] = tcp->fds[i] >= 0 && tcp->transfers[i].done < total;
		count += late[i];
	}
	if (late)
		stretto_tcp_list_ranks(late, tcp->links, list, sizeof list);
	free(late);
	snprintf(gather->why, sizeof gather->why, "%s %s did not %s allgather %u within %g s",
		 count == 1 ? "rank" : "ranks", list, did, tcp->round, tcp->seconds);
}

/* Rank 0: receives what has come from one rank; false if the allgather has failed (why). */
static bool collect_from(struct gather *gather, int rank)
{
	struct transfer *transfer = &gather->tcp->transfers[rank];
	int fd = gather->tcp->fds[rank];
	ssize_t got;

	if (transfer->done < STRETTO_TCP_FRAME) {
		got = stretto_tcp_receive(fd, transfer->head + transfer->done,
					  STRETTO_TCP_FRAME - transfer->done);
	} else {
		size_t have = transfer->done - STRETTO_TCP_FRAME;

		got = stretto_tcp_receive(fd, gather->all + (size_t)rank * gather->bytes + have,
					  gather->bytes - have);
	}
	if (got < 0) {
		note_gone(gather, rank);
		return false;
	}
	transfer->done += (size_t)got;
	/* asked again while the payload comes, which is cheap; asked before its first byte */
	return transfer->done < STRETTO_TCP_FRAME ||
	       expected(gather, transfer->head, rank, gather->bytes);
}

/* Rank 0: receives the blobs of all others. */
static bool collect(struct gather *gather)
{
	struct tcp *tcp = gather->tcp;
	size_t total = STRETTO_TCP_FRAME + gather->bytes;

	memset(tcp->transfers, 0, (size_t)tcp->links * sizeof *tcp->transfers);
	/* a rank that has given its blob and goes away must not be found at the deadline only */
	while (prepare(tcp, total, POLLIN, POLLRDHUP) > 0) {
		int ready = stretto_tcp_poll(tcp->polls, (size_t)tcp->links, gather->deadline);

		for (int rank = 1; ready > 0 && rank < tcp->links; rank++) {
			if (tcp->polls[rank].revents == 0)
				continue;
			errno = 0;
			if (tcp->transfers[rank].done == total) {
				note_gone(gather, rank);
				return false;
			}
			if (!collect_from(gather, rank))
				return false;
		}
		if (ready <= 0 && stretto_tcp_now() >= gather->deadline) {
			note_late(gather, total, "take part in");
			return false;
		}
	}
	return true;
}

/* Sends on of head and payload what can be sent now: false if the connection is gone (errno). */
static bool send_on(int fd, struct transfer *transfer, const void *payload, size_t bytes)
{
	ssize_t sent = 1;

	while (sent > 0 && transfer->done < STRETTO_TCP_FRAME + bytes) {
		if (transfer->done < STRETTO_TCP_FRAME)
			sent = stretto_tcp_send(fd, transfer->head + transfer->done,
						STRETTO_TCP_FRAME - transfer->done);
		else
			sent = stretto_tcp_send(
				fd, (const char *)payload + (transfer->done - STRETTO_TCP_FRAME),
				STRETTO_TCP_FRAME + bytes - transfer->done);
		if (sent > 0)
			transfer->done += (size_t)sent;
	}
	return sent >= 0;
}

static void make_head(struct gather *gather, size_t length, unsigned char *head)
{
	const struct stretto_tcp_frame frame = {STRETTO_TCP_DATA, gather->tcp->round, length};

	stretto_tcp_make_frame(head, &frame);
}

/*
 * Rank 0: sends all blobs to all others. A rank that is gone fails this rank's call, but the others
 * still get their blobs: a frame that has begun cannot turn into a FAIL.
 */
static bool distribute(struct gather *gather)
{
	struct tcp *tcp = gather->tcp;
	size_t bytes = (size_t)tcp->base.size * gather->bytes;
	size_t total = STRETTO_TCP_FRAME + bytes;

	for (int rank = 1; rank < tcp->links; rank++) {
		tcp->transfers[rank].done = 0;
		make_head(gather, bytes, tcp->transfers[rank].head);
	}
	while (prepare(tcp, total, POLLOUT, 0) > 0) {
		for (int rank = 1; rank < tcp->links; rank++) {
			if (tcp->fds[rank] < 0 ||
			    send_on(tcp->fds[rank], &tcp->transfers[rank], gather->all, bytes))
				continue;
			note_gone(gather, rank);
			close(tcp->fds[rank]);
			tcp->fds[rank] = -1;
		}
		if (prepare(tcp, total, POLLOUT, 0) == 0)
			break;
		if (stretto_tcp_now() >= gather->deadline) {
			note_late(gather, total, "take the blobs of");
			break;
		}
		stretto_tcp_poll(tcp->polls, (size_t)tcp->links, gather->deadline);
	}
	return gather->why[0] == '\0';
}

static stretto_status gather_as_root(struct gather *gather)
{
	struct tcp *tcp = gather->tcp;

	if (gather->bytes > 0)
		memmove(gather->all, gather->mine, gather->bytes);
	if (collect(gather)) {
		if (distribute(gather))
			return STRETTO_OK;
	} else {
		stretto_tcp_tell_failure(tcp->fds, tcp->links, gather->why);
	}
	stretto_error("rendezvous: %s", gather->why);
	return STRETTO_BOOTSTRAP;
}

/*
 * Sends this rank's blob. Stops early when rank 0 has something to say before it has all of it:
 * that can only be a FAIL or the end of the connection, which the caller will read.
 */
static void send_mine(struct gather *gather)
{
	struct tcp *tcp = gather->tcp;
	size_t total = STRETTO_TCP_FRAME + gather->bytes;

	tcp->transfers[0].done = 0;
	make_head(gather, gather->bytes, tcp->transfers[0].head);
	while (send_on(tcp->fds[0], &tcp->transfers[0], gather->mine, gather->bytes)) {
		if (tcp->transfers[0].done == total || stretto_tcp_now() >= gather->deadline)
			return;
		tcp->polls[0] = (struct pollfd){.fd = tcp->fds[0], .events = POLLIN | POLLOUT};
		stretto_tcp_poll(tcp->polls, 1, gather->deadline);
		if (tcp->polls[0].revents & ~POLLOUT)
			return;
	}
}

static void log_lost_root(const struct gather *gather, int received)
{
	const struct tcp *tcp = gather->tcp;

	if (received == 0)
		stretto_error("rendezvous: rank 0 did not answer allgather %u within %g s",
			      tcp->round, tcp->seconds + STRETTO_TCP_GRACE);
	else
		stretto_error("rendezvous: rank 0 closed the connection in allgather %u; its log "
			      "may say why",
			      tcp->round);
}

static stretto_status gather_as_other(struct gather *gather)
{
	struct tcp *tcp = gather->tcp;
	size_t bytes = (size_t)tcp->base.size * gather->bytes;
	struct stretto_tcp_frame frame;
	unsigned char head[STRETTO_TCP_FRAME];
	int received;

	gather->deadline += STRETTO_TCP_GRACE;
	send_mine(gather);
	received = stretto_tcp_receive_all(tcp->fds[0], head, sizeof head, gather->deadline);
	if (received == 1 && stretto_tcp_parse_frame(head, &frame) &&
	    frame.kind == STRETTO_TCP_FAIL) {
		stretto_tcp_log_failure(tcp->fds[0], &frame, gather->deadline);
		return STRETTO_BOOTSTRAP;
	}
	if (received == 1 && !expected(gather, head, 0, bytes)) {
		stretto_error("rendezvous: %s", gather->why);
		return STRETTO_BOOTSTRAP;
	}
	if (received == 1)
		received =
			stretto_tcp_receive_all(tcp->fds[0], gather->all, bytes, gather->deadline);
	if (received == 1)
		return STRETTO_OK;
	log_lost_root(gather, received);
	return STRETTO_BOOTSTRAP;
}

static stretto_status tcp_allgather(struct stretto_bootstrap *bootstrap, const void *mine,
				    size_t bytes, void *all)
{
	struct tcp *tcp = tcp_of(bootstrap);
	struct gather gather = {.tcp = tcp, .mine = mine, .bytes = bytes, .all = all};
	stretto_status status;

	if (bytes > STRETTO_BOOTSTRAP_BLOB_MAX) {
		stretto_error("rendezvous: a blob of %zu bytes is over the limit of %d", bytes,
			      STRETTO_BOOTSTRAP_BLOB_MAX);
		return STRETTO_INVALID;
	}
	if (tcp->broken)
		return STRETTO_BOOTSTRAP;
	tcp->round++;
	gather.deadline = stretto_tcp_now() + tcp->seconds;
	status = tcp->base.rank == 0 ? gather_as_root(&gather) : gather_as_other(&gather);
	tcp->broken = status != STRETTO_OK;
	return status;
}

const struct stretto_bootstrap_ops stretto_bootstrap_tcp = {
	.name = "tcp",
	.offered = tcp_offered,
	.open = tcp_open,
	.allgather = tcp_allgather,
	.close = tcp_close,
};
