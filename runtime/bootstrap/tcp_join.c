/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/bootstrap/tcp_join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/bootstrap/tcp_socket.h"
#include "runtime/log.h"

/* Seconds between two attempts to connect: the first pause, doubled up to the longest. */
static const double first_pause = 0.01;
static const double longest_pause = 0.5;

/* What has come of an attempt. */
enum outcome { ANSWERED, NO_ANSWER, TRY_AGAIN, HOPELESS };

struct attempt {
	const struct stretto_tcp_job *job;
	double deadline;
	int fd;                     /* of the connection; owned when ANSWERED */
	enum stretto_tcp_code code; /* rank 0's answer */
	uint32_t detail;
	char why[STRETTO_TCP_NAME]; /* the last attempt failed */
};

void stretto_tcp_log_failure(int fd, const struct stretto_tcp_frame *frame, double deadline)
{
	char text[STRETTO_TCP_REASON + 1] = "";
	size_t length = (size_t)frame->length;

	if (stretto_tcp_receive_all(fd, text, length, deadline) != 1)
		length = 0;
	stretto_tcp_make_printable(text, length);
	text[length] = '\0';
	stretto_error("rank 0 ended the job: %s", length ? text : "(the reason was lost)");
}

/* Nobody may be there yet, or the network of a fresh node may not be up. */
static bool may_pass(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case EAGAIN:
		return true;
	default:
		return false;
	}
}

/* Says hello on a new connection and waits for the answer. */
static enum outcome greet(struct attempt *attempt)
{
	const struct stretto_tcp_job *job = attempt->job;
	unsigned char hello[STRETTO_TCP_HELLO];
	unsigned char answer[STRETTO_TCP_ANSWER];
	int received = -1;

	stretto_tcp_make_hello(hello, job->token, job->rank, job->size);
	if (stretto_tcp_send(attempt->fd, hello, sizeof hello) == sizeof hello)
		received = stretto_tcp_receive_all(attempt->fd, answer, sizeof answer,
						   attempt->deadline);
	if (received == 0)
		return NO_ANSWER;
	if (received < 0) {
		snprintf(attempt->why, sizeof attempt->why, "closed without an answer");
		return TRY_AGAIN;
	}
	if (stretto_tcp_parse_answer(answer, &attempt->code, &attempt->detail))
		return ANSWERED;
	snprintf(attempt->why, sizeof attempt->why, "what listens there is not a Stretto job");
	return HOPELESS;
}

static enum outcome try_once(struct attempt *attempt)
{
	enum outcome outcome;

	attempt->fd = stretto_tcp_connect(attempt->job->root, attempt->deadline, attempt->why);
	if (attempt->fd < 0)
		return may_pass(errno) ? TRY_AGAIN : HOPELESS;
	outcome = greet(attempt);
	if (outcome != ANSWERED)
		close(attempt->fd);
	return outcome;
}

static enum outcome try_until_deadline(struct attempt *attempt)
{
	double pause = first_pause;
	enum outcome outcome;

	for (;;) {
		struct timespec time = {.tv_nsec = (long)(pause * 1e9)};

		outcome = try_once(attempt);
		if (outcome != TRY_AGAIN || stretto_tcp_now() + pause >= attempt->deadline)
			return outcome;
		nanosleep(&time, NULL);
		pause = pause * 2 < longest_pause ? pause * 2 : longest_pause;
	}
}

static stretto_status refused(const struct attempt *attempt)
{
	const struct stretto_tcp_job *job = attempt->job;
	char numbers[64] = "";

	if (attempt->code == STRETTO_TCP_WRONG_VERSION)
		snprintf(numbers, sizeof numbers, ": rank 0 has version %u, rank %d version %d",
			 attempt->detail, job->rank, STRETTO_TCP_VERSION);
	if (attempt->code == STRETTO_TCP_WRONG_SIZE || attempt->code == STRETTO_TCP_WRONG_RANK)
		snprintf(numbers, sizeof numbers, ": rank 0 has size %u, rank %d size %d",
			 attempt->detail, job->rank, job->size);
	stretto_error("rank 0 at %s refused rank %d: %s%s", job->root, job->rank,
		      stretto_tcp_code_text(attempt->code), numbers);
	return STRETTO_BOOTSTRAP;
}

static stretto_status not_answered(const struct attempt *attempt, enum outcome outcome)
{
	const struct stretto_tcp_job *job = attempt->job;

	if (outcome == HOPELESS)
		stretto_error("cannot join rank 0 at STRETTO_ROOT='%s': %s", job->root,
			      attempt->why);
	else if (outcome == NO_ANSWER)
		stretto_error("rank 0 at %s did not answer within %g s, although its port is open: "
			      "has it called stretto_init()?",
			      job->root, job->seconds);
	else
		stretto_error("rank 0 at %s could not be joined within %g s (%s): is it running, "
			      "and can this host reach it?",
			      job->root, job->seconds, attempt->why);
	return STRETTO_BOOTSTRAP;
}

/* Rank 0 knows when the others must be there; its word comes a little later at the latest. */
static stretto_status await_start(const struct attempt *attempt)
{
	const char *root = attempt->job->root;
	double deadline = stretto_tcp_now() + attempt->detail * 1e-3;
	unsigned char head[STRETTO_TCP_FRAME];
	struct stretto_tcp_frame frame;
	int received;

	if (deadline < attempt->deadline)
		deadline = attempt->deadline;
	deadline += STRETTO_TCP_GRACE;
	received = stretto_tcp_receive_all(attempt->fd, head, sizeof head, deadline);
	if (received == 1 && stretto_tcp_parse_frame(head, &frame)) {
		if (frame.kind == STRETTO_TCP_START)
			return STRETTO_OK;
		if (frame.kind == STRETTO_TCP_FAIL) {
			stretto_tcp_log_failure(attempt->fd, &frame, deadline);
			return STRETTO_BOOTSTRAP;
		}
	}
	stretto_error("rank 0 at %s %s while the other ranks were awaited; its log may say why",
		      root,
		      received == 0  ? "stopped answering"
		      : received < 0 ? "closed the connection"
				     : "sent something senseless");
	return STRETTO_BOOTSTRAP;
}

stretto_status stretto_tcp_join(const struct stretto_tcp_job *job, int *fd)
{
	struct attempt attempt = {
		.job = job, .fd = -1, .deadline = stretto_tcp_now() + job->seconds};
	enum outcome outcome = try_until_deadline(&attempt);
	stretto_status status;

	if (outcome != ANSWERED)
		return not_answered(&attempt, outcome);
	if (attempt.code == STRETTO_TCP_ACCEPTED)
		status = await_start(&attempt);
	else
		status = refused(&attempt);
	if (status != STRETTO_OK)
		close(attempt.fd);
	else
		*fd = attempt.fd;
	return status;
}
