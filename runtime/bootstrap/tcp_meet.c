/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/tcp_meet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/bootstrap/tcp_socket.h"
#include "runtime/log.h"

enum {
	GUESTS = 64,     /* connections whose hello is awaited at one time */
	WARNINGS = 8,    /* refused connections that are logged one by one */
	LIST_BYTES = 256 /* of the text of a list of ranks */
};

/* Seconds that a connection has to say hello. */
static const double hello_seconds = 3;

/* A connection that has not been let in. */
struct guest {
	int fd;
	size_t got;      /* bytes of the hello that are there */
	double deadline; /* when it must be complete */
	unsigned char hello[STRETTO_TCP_HELLO];
};

struct meeting {
	const struct stretto_tcp_job *job;
	int *fds;        /* connection of each rank, -1 while missing */
	int listener;    /* owned */
	int joined;      /* ranks that are there, rank 0 included */
	double deadline; /* of the meeting */
	size_t refused;  /* connections that were turned away */
	size_t guest_count;
	struct guest guests[GUESTS]; /* oldest first */
	struct pollfd *polls;        /* the listener, GUESTS guests, then each rank; owned */
};

void stretto_tcp_tell_failure(const int *fds, int count, const char *why)
{
	struct stretto_tcp_frame frame = {.kind = STRETTO_TCP_FAIL};
	unsigned char message[STRETTO_TCP_FRAME + STRETTO_TCP_REASON];

	frame.length = strnlen(why, STRETTO_TCP_REASON);
	stretto_tcp_make_frame(message, &frame);
	memcpy(message + STRETTO_TCP_FRAME, why, frame.length);
	for (int i = 0; i < count; i++)
		if (fds[i] >= 0)
			stretto_tcp_send(fds[i], message, STRETTO_TCP_FRAME + frame.length);
}

/* Strangers must not be able to fill the log. */
static void warn_refused(struct meeting *meeting, int fd, const char *why)
{
	char name[STRETTO_TCP_NAME];

	meeting->refused++;
	if (meeting->refused > WARNINGS)
		return;
	stretto_tcp_name_peer(fd, name);
	stretto_warn("rendezvous: refused a connection from %s: %s%s", name, why,
		     meeting->refused == WARNINGS ? " (further ones are not logged)" : "");
}

static void remove_guest(struct meeting *meeting, size_t index)
{
	meeting->guest_count--;
	memmove(&meeting->guests[index], &meeting->guests[index + 1],
		(meeting->guest_count - index) * sizeof meeting->guests[0]);
}

static void turn_away(struct meeting *meeting, size_t index, const char *why)
{
	warn_refused(meeting, meeting->guests[index].fd, why);
	close(meeting->guests[index].fd);
	remove_guest(meeting, index);
}

static uint32_t detail_of(const struct meeting *meeting, enum stretto_tcp_code code)
{
	double left = (meeting->deadline - stretto_tcp_now()) * 1e3;

	if (code == STRETTO_TCP_ACCEPTED)
		return left < 0 ? 0 : left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
	if (code == STRETTO_TCP_WRONG_VERSION)
		return STRETTO_TCP_VERSION;
	if (code == STRETTO_TCP_WRONG_SIZE || code == STRETTO_TCP_WRONG_RANK)
		return (uint32_t)meeting->job->size;
	return 0;
}

/* Lets a guest with a complete hello in, or turns it away with an answer that says why. */
static void answer_guest(struct meeting *meeting, size_t index)
{
	struct guest *guest = &meeting->guests[index];
	unsigned char answer[STRETTO_TCP_ANSWER];
	enum stretto_tcp_code code;
	int rank = 0;
	ssize_t sent = STRETTO_TCP_ANSWER;

	code = stretto_tcp_judge_hello(guest->hello, meeting->job->token, meeting->job->size,
				       &rank);
	if (code == STRETTO_TCP_ACCEPTED && meeting->fds[rank] >= 0)
		code = STRETTO_TCP_RANK_TAKEN;
	if (code != STRETTO_TCP_STRANGER) {
		/* the connection is new, its send buffer empty: this goes whole or not at all */
		stretto_tcp_make_answer(answer, code, detail_of(meeting, code));
		sent = stretto_tcp_send(guest->fd, answer, sizeof answer);
	}
	if (code != STRETTO_TCP_ACCEPTED || sent != STRETTO_TCP_ANSWER) {
		turn_away(meeting, index,
			  code == STRETTO_TCP_ACCEPTED ? "it was gone before its answer"
						       : stretto_tcp_code_text(code));
		return;
	}
	meeting->fds[rank] = guest->fd;
	meeting->joined++;
	stretto_debug("rendezvous: rank %d joined, %d of %d", rank, meeting->joined,
		      meeting->job->size);
	remove_guest(meeting, index);
}

/* Reads on at one guest; true if it is still there and still a guest. */
static bool hear_guest(struct meeting *meeting, size_t index)
{
	struct guest *guest = &meeting->guests[index];
	ssize_t got = stretto_tcp_receive(guest->fd, guest->hello + guest->got,
					  STRETTO_TCP_HELLO - guest->got);

	if (got < 0) {
		turn_away(meeting, index, "it closed before its hello was complete");
		return false;
	}
	guest->got += (size_t)got;
	if (guest->got < STRETTO_TCP_HELLO)
		return true;
	answer_guest(meeting, index);
	return false;
}

static void hear_guests(struct meeting *meeting)
{
	double now = stretto_tcp_now();

	for (size_t i = 0; i < meeting->guest_count;) {
		if (!hear_guest(meeting, i))
			continue;
		if (now >= meeting->guests[i].deadline)
			turn_away(meeting, i, "it did not say hello in time");
		else
			i++;
	}
}

/* Transient by accept(2): an error of the connection that is gone, not of the listener. */
static bool accept_goes_on(int error)
{
	switch (error) {
	case EAGAIN:
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
	case EPERM:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
		return true;
	default:
		return false;
	}
}

static stretto_status take_guests(struct meeting *meeting)
{
	if (meeting->guest_count == GUESTS)
		/* all that had something to say have been heard: the oldest makes room */
		turn_away(meeting, 0, "too many connections wait and this one said nothing");
	while (meeting->guest_count < GUESTS) {
		struct guest *guest = &meeting->guests[meeting->guest_count];
		int fd = stretto_tcp_accept(meeting->listener);

		if (fd < 0 && accept_goes_on(errno))
			return STRETTO_OK;
		if (fd < 0) {
			stretto_error("rendezvous: cannot take connections: %s; rank 0 needs one "
				      "descriptor a rank, see ulimit -n",
				      strerror(errno));
			return STRETTO_SYSTEM;
		}
		*guest = (struct guest){.fd = fd, .deadline = stretto_tcp_now() + hello_seconds};
		meeting->guest_count++;
	}
	return STRETTO_OK;
}

/* Fills meeting->polls; returns when to wake up at the latest. */
static double prepare_polls(struct meeting *meeting)
{
	struct pollfd *ranks = meeting->polls + 1 + GUESTS;
	double wake = meeting->deadline;

	meeting->polls[0] = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
	for (size_t i = 0; i < GUESTS; i++) {
		bool there = i < meeting->guest_count;

		meeting->polls[1 + i].fd = there ? meeting->guests[i].fd : -1;
		meeting->polls[1 + i].events = POLLIN;
		if (there && meeting->guests[i].deadline < wake)
			wake = meeting->guests[i].deadline;
	}
	for (int rank = 0; rank < meeting->job->size; rank++)
		ranks[rank] = (struct pollfd){.fd = meeting->fds[rank], .events = POLLIN};
	return wake;
}

static void tell_and_log(const struct meeting *meeting, const char *why)
{
	stretto_error("rendezvous at %s: %s; %zu connections were refused; each rank needs the "
		      "same STRETTO_ROOT, STRETTO_SIZE and STRETTO_TOKEN, and its own log says "
		      "more",
		      meeting->job->root, why, meeting->refused);
	stretto_tcp_tell_failure(meeting->fds, meeting->job->size, why);
}

/* Ranks that have joined are silent until all are there: anything from them is their end. */
static stretto_status check_ranks(const struct meeting *meeting)
{
	const struct pollfd *ranks = meeting->polls + 1 + GUESTS;

	for (int rank = 1; rank < meeting->job->size; rank++) {
		char why[STRETTO_TCP_REASON];

		if (ranks[rank].fd < 0 || ranks[rank].revents == 0)
			continue;
		snprintf(why, sizeof why, "rank %d went away before all %d ranks were there", rank,
			 meeting->job->size);
		tell_and_log(meeting, why);
		return STRETTO_BOOTSTRAP;
	}
	return STRETTO_OK;
}

static stretto_status fail_late(const struct meeting *meeting)
{
	int size = meeting->job->size;
	char list[LIST_BYTES] = "?";
	char why[STRETTO_TCP_REASON];
	bool *missing = calloc((size_t)size, sizeof *missing);

	for (int rank = 1; missing && rank < size; rank++)
		missing[rank] = meeting->fds[rank] < 0;
	if (missing)
		stretto_tcp_list_ranks(missing, size, list, sizeof list);
	free(missing);
	snprintf(why, sizeof why, "%s %s of %d did not join within %g s",
		 size - meeting->joined == 1 ? "rank" : "ranks", list, size, meeting->job->seconds);
	tell_and_log(meeting, why);
	return STRETTO_BOOTSTRAP;
}

static stretto_status run_meeting(struct meeting *meeting)
{
	while (meeting->joined < meeting->job->size) {
		double wake = prepare_polls(meeting);
		size_t count = 1 + GUESTS + (size_t)meeting->job->size;
		stretto_status status;

		if (stretto_tcp_poll(meeting->polls, count, wake) < 0) {
			stretto_error("rendezvous: poll of %zu connections: %s", count,
				      strerror(errno));
			return STRETTO_SYSTEM;
		}
		status = check_ranks(meeting);
		if (status != STRETTO_OK)
			return status;
		hear_guests(meeting);
		if (meeting->polls[0].revents != 0)
			status = take_guests(meeting);
		if (status != STRETTO_OK)
			return status;
		if (meeting->joined < meeting->job->size && stretto_tcp_now() >= meeting->deadline)
			return fail_late(meeting);
	}
	return STRETTO_OK;
}

/* Better to be told at once than by the last ranks. */
static stretto_status check_descriptors(int size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)size) {
		stretto_error("rank 0 needs %d descriptors for the connections of a job of %d "
			      "ranks, but its limit (ulimit -n) is %llu",
			      size - 1, size, (unsigned long long)limit.rlim_cur);
		return STRETTO_SYSTEM;
	}
	return STRETTO_OK;
}

static stretto_status open_listener(const struct stretto_tcp_job *job, int *listener)
{
	stretto_status status = check_descriptors(job->size);

	if (status != STRETTO_OK)
		return status;
	if (job->listen_fd >= 0)
		return stretto_tcp_adopt(job->listen_fd, listener);
	return stretto_tcp_listen(job->root, listener);
}

static void end_meeting(struct meeting *meeting, bool all_there)
{
	struct stretto_tcp_frame frame = {.kind = STRETTO_TCP_START};
	unsigned char head[STRETTO_TCP_FRAME];

	stretto_tcp_make_frame(head, &frame);
	for (int rank = 1; rank < meeting->job->size; rank++) {
		if (all_there) {
			/* one that has gone since is found by the first allgather */
			stretto_tcp_send(meeting->fds[rank], head, sizeof head);
		} else if (meeting->fds[rank] >= 0) {
			close(meeting->fds[rank]);
			meeting->fds[rank] = -1;
		}
	}
	for (size_t i = 0; i < meeting->guest_count; i++)
		close(meeting->guests[i].fd);
	close(meeting->listener);
}

stretto_status stretto_tcp_meet(const struct stretto_tcp_job *job, int *fds)
{
	struct meeting meeting = {.job = job, .fds = fds, .joined = 1};
	stretto_status status;

	for (int rank = 0; rank < job->size; rank++)
		fds[rank] = -1;
	meeting.polls = calloc(1 + GUESTS + (size_t)job->size, sizeof *meeting.polls);
	if (!meeting.polls) {
		stretto_error("rendezvous: no memory for the connections of %d ranks", job->size);
		return STRETTO_NO_MEMORY;
	}
	meeting.deadline = stretto_tcp_now() + job->seconds;
	status = open_listener(job, &meeting.listener);
	if (status == STRETTO_OK) {
		status = run_meeting(&meeting);
		end_meeting(&meeting, status == STRETTO_OK);
	}
	free(meeting.polls);
	return status;
}
