/* SPDX-License-Identifier: BSD-3-Clause */
/* channel_faults.c: how a channel learns that something is wrong, and what it does then. */
#include <stdio.h>
#include <string.h>

#include "runtime/channel.h"
#include "runtime/clock.h"
#include "runtime/comm.h"
#include "runtime/log.h"
#include "runtime/recovery.h"

static struct stretto_work *find_work(struct stretto_channel *channel, uint64_t comm,
				      uint32_t sequence)
{
	STRETTO_LIST_FOR (it, &channel->active) {
		struct stretto_work *work = stretto_container_of(it, struct stretto_work, link);

		if (work->sequence == sequence && work->comm->id == comm)
			return work;
	}
	return NULL;
}

static bool same(const struct stretto_signature *a, const struct stretto_signature *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* Two ranks do not call the same: breaks the communicator with both sides in the message. */
static void disagree(const struct stretto_work *work, int peer,
		     const struct stretto_signature *theirs)
{
	struct stretto_comm *comm = work->comm;
	char our_text[128], their_text[128];
	struct stretto_notice notice = {
		.sequence = work->sequence,
		.origin = comm->world->rank,
		.other = peer,
		.signature = work->signature,
		.other_signature = *theirs,
	};

	stretto_comm_break(comm, STRETTO_MISMATCH, &notice,
			   "operation %u: rank %d calls %s, but rank %d calls %s", work->sequence,
			   comm->rank,
			   work->ops->describe(&work->signature, our_text, sizeof our_text),
			   stretto_comm_rank_of(comm, peer),
			   work->ops->describe(theirs, their_text, sizeof their_text));
}

static void remember(struct stretto_channel *channel, int peer, const struct stretto_key *key,
		     const struct stretto_signature *signature)
{
	channel->early[channel->early_next++ % STRETTO_EARLY] = (struct stretto_early){
		.comm = key->comm,
		.sequence = key->sequence,
		.peer = peer,
		.signature = *signature,
	};
}

bool stretto_channel_check(void *context, int peer, const struct stretto_key *key,
			   const struct stretto_signature *signature)
{
	struct stretto_channel *channel = context;
	struct stretto_work *work = find_work(channel, key->comm, key->sequence);
	struct stretto_comm *comm;

	if (work) {
		if (!same(&work->signature, signature))
			disagree(work, peer, signature);
		return true;
	}
	/* relaxed: only a hint that a look may be worth it; partner is stretto_comm_break() */
	if (atomic_load_explicit(&channel->world->broken, memory_order_relaxed) > 0) {
		comm = stretto_world_find(channel->world, key->comm);
		if (comm && stretto_comm_state(comm) != STRETTO_OK)
			return false;
	}
	if (!stretto_recovery_wants(channel->world, key))
		return false;
	if (key->ordinal == 0 && key->comm != STRETTO_AGREEMENT)
		remember(channel, peer, key, signature);
	return true;
}

void stretto_channel_check_early(struct stretto_channel *channel, const struct stretto_work *work)
{
	for (int i = 0; i < STRETTO_EARLY; i++) {
		struct stretto_early *early = &channel->early[i];

		if (early->sequence != work->sequence || early->comm != work->comm->id)
			continue;
		early->sequence = 0;
		if (!same(&early->signature, &work->signature))
			disagree(work, early->peer, &early->signature);
	}
}

void stretto_channel_tell_new(struct stretto_channel *channel, struct stretto_endpoint *endpoint)
{
	struct stretto_world *world = channel->world;
	struct stretto_notice notices[8];
	int count = 0;

	/* relaxed: what breaks later is told by stretto_channel_faults() */
	if (atomic_load_explicit(&world->broken, memory_order_relaxed) == 0)
		return;
	pthread_mutex_lock(&world->lock);
	STRETTO_LIST_FOR (it, &world->comms) {
		const struct stretto_comm *comm =
			stretto_container_of(it, struct stretto_comm, link);

		if (count < 8 && stretto_comm_state(comm) != STRETTO_OK &&
		    stretto_comm_rank_of(comm, endpoint->peer) >= 0)
			notices[count++] = comm->notice;
	}
	pthread_mutex_unlock(&world->lock);
	while (count > 0)
		endpoint->transport->notify(endpoint, &notices[--count]);
}

void stretto_channel_wanted(void *context, int peer)
{
	struct stretto_channel *channel = context;
	struct stretto_endpoint *endpoint;

	if (stretto_channel_endpoint(channel, peer, &endpoint) != STRETTO_OK)
		stretto_debug("rank %d wants a connection that cannot be made", peer);
}

static void compare_work(struct stretto_channel *channel, const struct stretto_work *work)
{
	const struct stretto_comm *comm = work->comm;

	for (int rank = 0; rank < comm->size; rank++) {
		const struct stretto_endpoint *endpoint = channel->endpoints[comm->ranks[rank]];
		struct stretto_peer_state state;

		if (!endpoint || !endpoint->transport->peer_state ||
		    !endpoint->transport->peer_state(endpoint, &state))
			continue;
		if (state.comm == comm->id && state.sequence == work->sequence &&
		    !same(&state.signature, &work->signature)) {
			disagree(work, comm->ranks[rank], &state.signature);
			return;
		}
	}
}

void stretto_channel_compare(struct stretto_channel *channel)
{
	STRETTO_LIST_FOR (it, &channel->active) {
		const struct stretto_work *work =
			stretto_container_of(it, struct stretto_work, link);

		if (stretto_comm_state(work->comm) == STRETTO_OK)
			compare_work(channel, work);
	}
}

/* Any channel's describe() will do: signatures are the same everywhere. */
static const char *describe(struct stretto_channel *channel,
			    const struct stretto_signature *signature, char *buf, size_t size)
{
	STRETTO_LIST_FOR (it, &channel->active)
		return stretto_container_of(it, struct stretto_work, link)
			->ops->describe(signature, buf, size);
	snprintf(buf, size, "something else");
	return buf;
}

void stretto_channel_notice(void *context, int peer, const struct stretto_notice *notice)
{
	struct stretto_channel *channel = context;
	struct stretto_comm *comm;
	char one[128], other[128];
	stretto_status status = (stretto_status)notice->status;
	int origin, about;

	if (notice->comm == STRETTO_AGREEMENT) {
		stretto_channel_renewed(channel, peer, notice->sequence);
		return;
	}
	comm = stretto_world_find(channel->world, notice->comm);
	if (!comm)
		stretto_world_keep_notice(channel->world, notice);
	if (!comm || stretto_comm_state(comm) != STRETTO_OK)
		return;
	origin = stretto_comm_rank_of(comm, notice->origin);
	about = stretto_comm_rank_of(comm, notice->other);
	if (origin < 0 || status == STRETTO_OK || status > STRETTO_INTERNAL) {
		stretto_warn("rank %d sent a notice that makes no sense; ignored", peer);
		return;
	}
	switch (status) {
	case STRETTO_ABORTED:
		stretto_comm_break(comm, status, notice, "rank %d aborted it", origin);
		break;
	case STRETTO_MISMATCH:
		if (same(&notice->signature, &notice->other_signature)) {
			stretto_comm_break(
				comm, status, notice,
				"operation %u: %s: ranks %d and %d disagree on the length "
				"of a message; what they have for each other, "
				"STRETTO_WINDOW and STRETTO_CHANNELS must be the same",
				notice->sequence,
				describe(channel, &notice->signature, one, sizeof one), origin,
				about);
			break;
		}
		stretto_comm_break(
			comm, status, notice,
			"operation %u: rank %d calls %s, but rank %d calls %s", notice->sequence,
			origin, describe(channel, &notice->signature, one, sizeof one), about,
			describe(channel, &notice->other_signature, other, sizeof other));
		break;
	case STRETTO_PEER_FAILED:
		stretto_comm_break(comm, status, notice, "rank %d has failed, as rank %d reports",
				   about, origin);
		break;
	default:
		stretto_comm_break(comm, status, notice, "rank %d reports of operation %u: %s",
				   origin, notice->sequence, stretto_status_text(status));
	}
}

void stretto_channel_failed(void *context, int peer, const char *why)
{
	struct stretto_channel *channel = context;
	char error[640];

	/* seq_cst: partner is stretto_finalize(); after it peers may leave */
	if (atomic_load(&channel->world->closing))
		return;
	snprintf(error, sizeof error, "rank %d (of the world) has failed: %s", peer, why);
	stretto_error("%s", error);
	stretto_world_break(channel->world, peer, STRETTO_PEER_FAILED, error);
	stretto_recovery_failed(channel->world, error);
}

static void tell(struct stretto_channel *channel, const struct stretto_comm *comm)
{
	for (int rank = 0; rank < comm->size; rank++) {
		struct stretto_endpoint *endpoint = channel->endpoints[comm->ranks[rank]];

		if (endpoint)
			endpoint->transport->notify(endpoint, &comm->notice);
	}
}

/* Gives up all messages of a broken communicator, also those that no operation here waits for. */
static void forget(struct stretto_channel *channel, const struct stretto_comm *comm)
{
	for (int rank = 0; rank < comm->size; rank++) {
		struct stretto_endpoint *endpoint = channel->endpoints[comm->ranks[rank]];

		if (endpoint)
			endpoint->transport->cancel(endpoint, comm->id, 0);
	}
}

/* A broken communicator that this channel has not told of; NULL if there is none left. */
static struct stretto_comm *next_untold(struct stretto_channel *channel)
{
	struct stretto_world *world = channel->world;
	struct stretto_comm *found = NULL;

	pthread_mutex_lock(&world->lock);
	STRETTO_LIST_FOR (it, &world->comms) {
		struct stretto_comm *comm = stretto_container_of(it, struct stretto_comm, link);

		if (stretto_comm_state(comm) != STRETTO_OK &&
		    !(atomic_fetch_or(&comm->told, 1u << channel->index) & 1u << channel->index)) {
			found = comm;
			break;
		}
	}
	pthread_mutex_unlock(&world->lock);
	return found;
}

bool stretto_work_cancel(const struct stretto_work *work, struct stretto_endpoint *endpoint)
{
	const struct stretto_transport *transport = endpoint->transport;

	transport->cancel(endpoint, work->comm->id, work->sequence);
	return !transport->settled || transport->settled(endpoint, work->comm->id, work->sequence);
}

size_t stretto_channel_faults(struct stretto_channel *channel)
{
	const struct stretto_comm *comm;
	size_t count = 0;
	bool again = false;

	/* seq_cst, before the look at the list; partner is who breaks another meanwhile */
	atomic_store(&channel->broken, false);
	while ((comm = next_untold(channel))) {
		tell(channel, comm);
		forget(channel, comm);
		count++;
	}
	STRETTO_LIST_FOR_SAFE (it, &channel->active) {
		struct stretto_work *work = stretto_container_of(it, struct stretto_work, link);
		stretto_status status = stretto_comm_state(work->comm);

		if (status == STRETTO_OK)
			continue;
		if (work->ops->fail(work, status))
			count++;
		else
			again = true;
	}
	if (again)
		atomic_store(&channel->broken, true);
	return count;
}

/* Says of one rank why it is missing, after what `text` of `size` bytes says already. */
static void append(char *text, size_t size, int rank, const char *why)
{
	size_t length = strlen(text);

	if (length + 1 < size)
		snprintf(text + length, size - length, "%s rank %d %s", length ? ";" : "", rank,
			 why);
}

/* Lists the ranks that have not entered the operation, and what they entered last. */
static void list_missing(struct stretto_channel *channel, const struct stretto_work *work,
			 char *text, size_t size)
{
	const struct stretto_comm *comm = work->comm;

	text[0] = '\0';
	for (int rank = 0; rank < comm->size; rank++) {
		const struct stretto_endpoint *endpoint = channel->endpoints[comm->ranks[rank]];
		struct stretto_peer_state state;
		char why[64];

		if (rank == comm->rank || !endpoint)
			continue;
		if (!endpoint->transport->peer_state ||
		    !endpoint->transport->peer_state(endpoint, &state)) {
			append(text, size, rank, "has not connected");
		} else if (state.comm != comm->id) {
			append(text, size, rank, "is in another communicator");
		} else if (state.sequence < work->sequence) {
			snprintf(why, sizeof why, "has entered only operation %u", state.sequence);
			append(text, size, rank, why);
		}
	}
	if (text[0] == '\0')
		snprintf(text, size, " all ranks that this one talks to have entered it");
}

void stretto_channel_deadlines(struct stretto_channel *channel, uint64_t now)
{
	STRETTO_LIST_FOR (it, &channel->active) {
		struct stretto_work *work = stretto_container_of(it, struct stretto_work, link);
		struct stretto_notice notice = {
			.sequence = work->sequence,
			.origin = channel->world->rank,
			.other = -1,
		};
		char what[128], missing[256];

		if (work->deadline > now || stretto_comm_state(work->comm) != STRETTO_OK)
			continue;
		list_missing(channel, work, missing, sizeof missing);
		stretto_comm_break(work->comm, STRETTO_TIMEOUT, &notice,
				   "operation %u, %s, did not end within %g s "
				   "(STRETTO_TIMEOUT_SECONDS):%s",
				   work->sequence,
				   work->ops->describe(&work->signature, what, sizeof what),
				   channel->world->config.timeout_seconds, missing);
	}
}
