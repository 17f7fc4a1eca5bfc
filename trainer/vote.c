/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/vote.h"

/* A reason is step, rank, stop from the high bits to the low: the least is the earliest. */
enum { STOP_BITS = 2, RANK_BITS = 22 };

/* Later than any step. */
static const int64_t last_step = (INT64_MAX >> (RANK_BITS + STOP_BITS)) - 1;

stretto_status stretto_vote_init(struct stretto_vote *vote, struct stretto_comm *comm)
{
	*vote = (struct stretto_vote){.mine = INT64_MAX, .rank = stretto_comm_rank(comm)};
	return stretto_allreduce_init(comm, &vote->in, &vote->out, 1, STRETTO_I64, STRETTO_MIN,
				      &vote->request);
}

/* Ends the vote in flight, if any. */
static stretto_status finish(struct stretto_vote *vote)
{
	stretto_status status = vote->active ? stretto_wait(vote->request) : STRETTO_OK;

	vote->active = false;
	return status;
}

void stretto_vote_fini(struct stretto_vote *vote)
{
	finish(vote);
	stretto_request_free(vote->request);
	vote->request = NULL;
}

/* The code of a reason replaces a later one. A signal's is the latest of all: a loss that is not a number must not
 * be hidden behind it. */
void stretto_vote_put(struct stretto_vote *vote, enum stretto_stop stop, size_t step)
{
	int64_t at = stop == STRETTO_STOP_SIGNAL ? last_step : (int64_t)step;
	int64_t code =
		at << (RANK_BITS + STOP_BITS) | (int64_t)vote->rank << STOP_BITS | (int64_t)stop;

	if (code < vote->mine)
		vote->mine = code;
}

static struct stretto_verdict decode(int64_t code)
{
	if (code == INT64_MAX)
		return (struct stretto_verdict){.stop = STRETTO_STOP_NONE};
	return (struct stretto_verdict){
		.stop = (enum stretto_stop)(code & ((1 << STOP_BITS) - 1)),
		.rank = (int)(code >> STOP_BITS & ((1 << RANK_BITS) - 1)),
		.step = (size_t)(code >> (RANK_BITS + STOP_BITS)),
	};
}

static stretto_status begin(struct stretto_vote *vote)
{
	stretto_status status;

	vote->in = vote->mine;
	status = stretto_start(vote->request);
	vote->active = status == STRETTO_OK;
	return status;
}

stretto_status stretto_vote_turn(struct stretto_vote *vote, struct stretto_verdict *verdict)
{
	bool voted = vote->active;
	stretto_status status = finish(vote);

	if (status != STRETTO_OK)
		return status;
	*verdict = decode(voted ? vote->out : INT64_MAX);
	return verdict->stop == STRETTO_STOP_NONE ? begin(vote) : STRETTO_OK;
}

stretto_status stretto_vote_last(struct stretto_vote *vote, struct stretto_verdict *verdict)
{
	stretto_status status = finish(vote);

	if (status == STRETTO_OK)
		status = begin(vote);
	if (status == STRETTO_OK)
		status = finish(vote);
	if (status == STRETTO_OK)
		*verdict = decode(vote->out);
	return status;
}
