/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agreement.c: merges the ledgers of all ranks of the world along a tree. See recovery.h.
 *
 * The parent of a rank is the rank without its lowest bit that is set; of eight ranks:
 *
 *   0 <- 1      0 <- 2 <- 3      0 <- 4 <- 5      4 <- 6 <- 7
 *
 * A rank waits for its children's ledgers, merges them with its own and sends that up; rank 0 so has
 * the verdict, which goes down the same way. Each epoch begins anew: the messages have its number,
 * and those of earlier ones are given up.
 */
#include <stdlib.h>

#include "runtime/recovery.h"

enum { CHILDREN_MOST = 31, UP = 0, DOWN = 1 };

/* To the parent or to a child. */
struct line {
	struct stretto_send send;
	struct stretto_recv recv;
	struct stretto_ledger ledger; /* that comes from there */
	struct stretto_endpoint *endpoint;
	bool sent;    /* or being so */
	bool arrived; /* the ledger */
};

struct stretto_agreement {
	uint32_t epoch;                     /* 0: none so far */
	bool merged;                        /* `own` has all children's ledgers */
	bool told;                          /* the verdict was returned */
	stretto_status status;              /* of what went wrong, or STRETTO_OK */
	struct stretto_ledger own;          /* ours, then merged */
	const struct stretto_ledger *final; /* the verdict, once it is known */
	bool has_parent;
	int child_count;
	struct line lines[1 + CHILDREN_MOST]; /* the parent's, then the children's */
};

struct stretto_agreement *stretto_agreement_new(void)
{
	return calloc(1, sizeof(struct stretto_agreement));
}

int stretto_agreement_parent(int rank)
{
	return rank == 0 ? -1 : rank & (rank - 1);
}

int stretto_agreement_children(int rank, int size, int children[CHILDREN_MOST])
{
	int count = 0;

	for (int bit = 0; bit < CHILDREN_MOST - 1 && !(rank & 1 << bit); bit++)
		if ((rank | 1 << bit) < size && (1 << bit) < size)
			children[count++] = rank | 1 << bit;
	return count;
}

static void sent(struct stretto_send *send, stretto_status status)
{
	(void)send;
	(void)status; /* a connection that is lost begins the next epoch */
}

static void arrived(struct stretto_recv *recv, stretto_status status)
{
	struct line *line = stretto_container_of(recv, struct line, recv);

	line->arrived = status == STRETTO_OK;
}

static struct stretto_key key_of(const struct stretto_agreement *agreement, uint32_t way)
{
	return (struct stretto_key){
		.comm = STRETTO_AGREEMENT, .sequence = agreement->epoch, .ordinal = way};
}

/* Gives the messages of an epoch up. false: not over yet. */
static bool clear(struct stretto_agreement *agreement)
{
	bool all = true;

	for (int i = 0; i < 1 + CHILDREN_MOST; i++) {
		struct stretto_endpoint *endpoint = agreement->lines[i].endpoint;
		const struct stretto_transport *transport = endpoint ? endpoint->transport : NULL;

		if (!endpoint)
			continue;
		transport->cancel(endpoint, STRETTO_AGREEMENT, agreement->epoch);
		all &= !transport->settled ||
		       transport->settled(endpoint, STRETTO_AGREEMENT, agreement->epoch);
	}
	return all;
}

/* Makes the endpoint of a line and posts its receive. */
static stretto_status open_line(const struct stretto_agreement *agreement, struct line *line,
				struct stretto_channel *channel, int peer, uint32_t way)
{
	stretto_status status;

	line->sent = line->arrived = false;
	line->recv = (struct stretto_recv){
		.key = key_of(agreement, way),
		.signature = {.count = sizeof line->ledger},
		.data = &line->ledger,
		.bytes = sizeof line->ledger,
		.done = arrived,
	};
	stretto_list_init(&line->recv.link);
	status = stretto_channel_endpoint(channel, peer, &line->endpoint);
	if (status != STRETTO_OK)
		return status;
	return line->endpoint->transport->post_recv(line->endpoint, &line->recv);
}

static stretto_status begin(struct stretto_agreement *agreement, struct stretto_channel *channel)
{
	struct stretto_world *world = channel->world;
	int parent = stretto_agreement_parent(world->rank);
	int children[CHILDREN_MOST];
	stretto_status status = STRETTO_OK;

	agreement->epoch = channel->epoch;
	agreement->merged = agreement->told = false;
	agreement->final = NULL;
	agreement->has_parent = parent >= 0;
	agreement->child_count = stretto_agreement_children(world->rank, world->size, children);
	pthread_mutex_lock(&world->lock);
	agreement->own = world->recovery->ours;
	pthread_mutex_unlock(&world->lock);
	if (agreement->has_parent)
		status = open_line(agreement, &agreement->lines[0], channel, parent, DOWN);
	for (int i = 0; i < agreement->child_count && status == STRETTO_OK; i++)
		status = open_line(agreement, &agreement->lines[1 + i], channel, children[i], UP);
	return status;
}

/* Merges the children's ledgers once all are here. false: they are not. */
static bool merge(struct stretto_agreement *agreement)
{
	for (int i = 1; i <= agreement->child_count; i++)
		if (!agreement->lines[i].arrived)
			return false;
	for (int i = 1; i <= agreement->child_count; i++) {
		if (!stretto_ledger_good(&agreement->lines[i].ledger))
			agreement->status = STRETTO_INTERNAL;
		else
			stretto_ledger_merge(&agreement->own, &agreement->lines[i].ledger);
	}
	return true;
}

/* Sends a ledger, if that was not done; it is tried again in the next turn. */
static void tell(const struct stretto_agreement *agreement, struct line *line,
		 const struct stretto_ledger *ledger, uint32_t way)
{
	if (line->sent)
		return;
	line->send = (struct stretto_send){
		.key = key_of(agreement, way),
		.signature = {.count = sizeof *ledger},
		.data = ledger,
		.bytes = sizeof *ledger,
		.done = sent,
	};
	stretto_list_init(&line->send.link);
	line->sent =
		line->endpoint->transport->post_send(line->endpoint, &line->send) == STRETTO_OK;
}

/* The verdict: what rank 0 has merged, or what came from the parent. */
static const struct stretto_ledger *find_verdict(struct stretto_agreement *agreement)
{
	struct line *up = &agreement->lines[0];

	if (!agreement->has_parent)
		return &agreement->own;
	tell(agreement, up, &agreement->own, UP);
	if (!up->arrived)
		return NULL;
	if (!stretto_ledger_good(&up->ledger))
		agreement->status = STRETTO_INTERNAL;
	return &up->ledger;
}

stretto_status stretto_agreement_turn(struct stretto_agreement *agreement,
				      struct stretto_channel *channel,
				      const struct stretto_ledger **verdict)
{
	if (agreement->epoch != channel->epoch) {
		if (!clear(agreement))
			return STRETTO_AGAIN;
		agreement->status = begin(agreement, channel);
	}
	if (agreement->status != STRETTO_OK)
		return agreement->status;
	if (!agreement->merged)
		agreement->merged = merge(agreement);
	if (agreement->merged && !agreement->final)
		agreement->final = find_verdict(agreement);
	if (agreement->status != STRETTO_OK)
		return agreement->status;
	if (!agreement->final)
		return STRETTO_AGAIN;
	for (int i = 1; i <= agreement->child_count; i++)
		tell(agreement, &agreement->lines[i], agreement->final, DOWN);
	if (agreement->told)
		return STRETTO_AGAIN;
	agreement->told = true;
	*verdict = agreement->final;
	return STRETTO_OK;
}
