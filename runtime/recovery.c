/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/recovery.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/log.h"

stretto_status stretto_recovery_open(struct stretto_world *world)
{
	struct stretto_recovery *recovery;

	if (world->config.verbs_reconnect_seconds <= 0)
		return STRETTO_OK;
	recovery = calloc(1, sizeof *recovery);
	if (!recovery)
		return STRETTO_NO_MEMORY;
	world->recovery = recovery;
	recovery->agreement = stretto_agreement_new();
	return recovery->agreement ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_recovery_close(struct stretto_world *world)
{
	if (world->recovery)
		free(world->recovery->agreement);
	free(world->recovery);
}

/* Whether operations of this world are at a halt. */
static bool is_suspended(const struct stretto_recovery *recovery)
{
	/* acquire: the verdict; partner is settle() */
	return atomic_load_explicit(&recovery->settled, memory_order_acquire) !=
		       atomic_load_explicit(&recovery->epoch, memory_order_acquire) &&
	       !atomic_load_explicit(&recovery->final, memory_order_acquire);
}

uint64_t stretto_recovery_deadline(const struct stretto_world *world)
{
	/* The deadline was written before the epoch, and stays until that is settled. */
	return world->recovery && is_suspended(world->recovery) ? world->recovery->deadline
								: STRETTO_NEVER;
}

static int first_of(const struct stretto_comm *comm)
{
	return comm->ranks[0];
}

/*
 * Adds a communicator to our ledger. What failed before counts as open until all ranks are known to
 * have heard of that: a later operation was finished, which all have entered.
 */
static void account_for(struct stretto_recovery *recovery, const struct stretto_comm *comm)
{
	const struct stretto_ledger *agreed = &recovery->agreed;
	const struct stretto_ledger_group *before =
		stretto_ledger_find(agreed, comm->id, first_of(comm));
	uint32_t entered = comm->next_sequence - 1;
	uint32_t group;

	if (before && stretto_sequence_after(before->entered, entered))
		entered = before->entered;
	group = stretto_ledger_add(&recovery->ours, comm->id, first_of(comm), entered);
	STRETTO_LIST_FOR (it, &comm->operations)
		stretto_ledger_add_open(
			&recovery->ours, group,
			stretto_container_of(it, struct stretto_operation, link)->sequence);
	if (!before || stretto_sequence_after(comm->finished, before->entered))
		return;
	for (uint32_t i = 0; i < agreed->open_count; i++)
		if (&agreed->groups[agreed->open[i].group] == before)
			stretto_ledger_add_open(&recovery->ours, group, agreed->open[i].sequence);
}

static void kick_all(const struct stretto_world *world)
{
	for (size_t c = 0; c < world->config.channels; c++)
		stretto_channel_kick(world->channels[c]);
}

/* Begins an epoch, unless it or a later one has begun. true: there is a second try. */
static bool suspend(struct stretto_world *world, uint32_t epoch, const char *why)
{
	struct stretto_recovery *recovery = world->recovery;
	double seconds = world->config.verbs_reconnect_seconds;
	bool begins;

	/* seq_cst: partner is stretto_finalize(); after it peers may leave */
	if (!recovery || atomic_load(&world->closing))
		return false;
	pthread_mutex_lock(&world->lock);
	begins = !recovery->final && stretto_sequence_after(epoch, recovery->epoch);
	if (begins) {
		/* a second loss meanwhile does not prolong the first */
		if (!is_suspended(recovery))
			recovery->deadline = stretto_after(stretto_now(), seconds);
		snprintf(recovery->why, sizeof recovery->why, "%s", why);
		recovery->ours = (struct stretto_ledger){.group_count = 0};
		STRETTO_LIST_FOR (it, &world->comms)
			account_for(recovery, stretto_container_of(it, struct stretto_comm, link));
		/* seq_cst, after all that is of it; partners are the looks of channels and devices */
		atomic_store(&recovery->epoch, epoch);
		kick_all(world);
	}
	pthread_mutex_unlock(&world->lock);
	if (begins)
		stretto_warn("%s; connecting again for at most %g s", why, seconds);
	return !recovery->final;
}

bool stretto_channel_lost(void *context, int peer, uint32_t epoch, const char *why)
{
	const struct stretto_channel *channel = context;
	char text[640];

	snprintf(text, sizeof text, "the connection to rank %d (of the world) is lost: %s", peer,
		 why);
	return suspend(channel->world, epoch + 1, text);
}

void stretto_channel_renewed(void *context, int peer, uint32_t epoch)
{
	const struct stretto_channel *channel = context;
	char text[96];

	snprintf(text, sizeof text, "rank %d (of the world) says that a connection is lost", peer);
	suspend(channel->world, epoch, text);
}

static void give_up(struct stretto_world *world, const char *reason)
{
	struct stretto_recovery *recovery = world->recovery;
	char error[768];
	bool first;

	pthread_mutex_lock(&world->lock);
	first = !atomic_exchange(&recovery->final, true);
	snprintf(error, sizeof error, "%.460s; %.280s", recovery->why, reason);
	pthread_mutex_unlock(&world->lock);
	if (!first)
		return;
	stretto_error("%s", error);
	stretto_world_break(world, -1, STRETTO_PEER_FAILED, error);
}

void stretto_recovery_failed(struct stretto_world *world, const char *why)
{
	if (world->recovery && is_suspended(world->recovery))
		give_up(world, why);
}

void stretto_recovery_tell(struct stretto_channel *channel, struct stretto_endpoint *endpoint)
{
	struct stretto_notice notice = {
		.comm = STRETTO_AGREEMENT,
		.sequence = channel->epoch,
		.origin = channel->world->rank,
		.other = -1,
		.status = STRETTO_RETRY,
	};

	if (channel->epoch > 0)
		endpoint->transport->notify(endpoint, &notice);
}

/* Ranks that other transports reach learn of the epoch by notices. */
static void tell_all(struct stretto_channel *channel)
{
	for (int peer = 0; peer < channel->world->size; peer++) {
		struct stretto_endpoint *endpoint = channel->endpoints[peer];

		if (!endpoint)
			continue;
		stretto_recovery_tell(channel, endpoint);
		stretto_channel_tell_new(channel, endpoint); /* what was on the way is lost */
	}
	channel->told = channel->epoch;
}

static enum stretto_entry entry_of(struct stretto_world *world, const struct stretto_comm *comm,
				   uint32_t sequence)
{
	enum stretto_entry entry;

	pthread_mutex_lock(&world->lock);
	entry = stretto_ledger_entry(&world->recovery->agreed, comm->id, first_of(comm), sequence);
	pthread_mutex_unlock(&world->lock);
	return entry;
}

bool stretto_recovery_wants(struct stretto_world *world, const struct stretto_key *key)
{
	const struct stretto_comm *comm;

	if (!world->recovery || atomic_load(&world->recovery->epoch) == 0)
		return true;
	if (key->comm == STRETTO_AGREEMENT)
		return !stretto_sequence_after(atomic_load(&world->recovery->epoch), key->sequence);
	comm = stretto_world_find(world, key->comm);
	return !comm || entry_of(world, comm, key->sequence) != STRETTO_ENTRY_OPEN;
}

/* Drops what came in for operations that are open, and that this rank may not have entered. */
static void forget_open(struct stretto_channel *channel, const struct stretto_ledger *agreed)
{
	for (uint32_t i = 0; i < agreed->open_count; i++) {
		uint64_t id = agreed->groups[agreed->open[i].group].comm;
		const struct stretto_comm *comm = stretto_world_find(channel->world, id);

		if (!comm || first_of(comm) != agreed->groups[agreed->open[i].group].first)
			continue;
		for (int rank = 0; rank < comm->size; rank++) {
			struct stretto_endpoint *endpoint = channel->endpoints[comm->ranks[rank]];

			if (endpoint)
				endpoint->transport->cancel(endpoint, id, agreed->open[i].sequence);
		}
	}
}

/* Ends the work that was agreed on. false: some of it is not over yet. */
static bool resolve(struct stretto_channel *channel)
{
	bool all = true;

	STRETTO_LIST_FOR_SAFE (it, &channel->active) {
		struct stretto_work *work = stretto_container_of(it, struct stretto_work, link);
		enum stretto_entry entry;

		if (stretto_comm_state(work->comm) != STRETTO_OK)
			continue; /* it ends as a fault */
		entry = entry_of(channel->world, work->comm, work->sequence);
		if (entry != STRETTO_ENTRY_NONE)
			all &= work->ops->fail(work, entry == STRETTO_ENTRY_OPEN ? STRETTO_RETRY
										 : STRETTO_OK);
	}
	return all;
}

static size_t resolve_epoch(struct stretto_channel *channel)
{
	struct stretto_world *world = channel->world;

	if (channel->resolved != channel->epoch) {
		struct stretto_ledger agreed;

		pthread_mutex_lock(&world->lock);
		agreed = world->recovery->agreed;
		pthread_mutex_unlock(&world->lock);
		forget_open(channel, &agreed);
	}
	if (!resolve(channel))
		return 0;
	channel->resolved = channel->epoch;
	channel->unresolved = false;
	return 1;
}

static void settle(struct stretto_world *world, uint32_t epoch,
		   const struct stretto_ledger *verdict)
{
	struct stretto_recovery *recovery = world->recovery;
	bool current;

	pthread_mutex_lock(&world->lock);
	current = recovery->epoch == epoch && !recovery->final;
	if (current) {
		recovery->agreed = *verdict;
		/* release: the verdict; partner is is_suspended() */
		atomic_store_explicit(&recovery->settled, epoch, memory_order_release);
		kick_all(world);
	}
	pthread_mutex_unlock(&world->lock);
	if (current)
		stretto_info("connected again; operations to be called again: %u",
			     verdict->open_count);
}

/* Channel 0's part: comes to the verdict, and tells it. */
static size_t agree(struct stretto_channel *channel)
{
	struct stretto_world *world = channel->world;
	const struct stretto_ledger *verdict;
	char reason[128];
	stretto_status status =
		stretto_agreement_turn(world->recovery->agreement, channel, &verdict);

	if (status == STRETTO_OK && !verdict->full) {
		settle(world, channel->epoch, verdict);
		return 1;
	}
	if (!is_suspended(world->recovery))
		return 0;
	if (status == STRETTO_OK)
		snprintf(reason, sizeof reason,
			 "more than %d operations were in flight, or more than %d communicators",
			 STRETTO_LEDGER_OPEN, STRETTO_LEDGER_GROUPS);
	else if (status != STRETTO_AGAIN)
		snprintf(reason, sizeof reason, "the ranks cannot agree on what counts: %s",
			 stretto_status_text(status));
	else if (stretto_now() > stretto_recovery_deadline(world))
		snprintf(reason, sizeof reason,
			 "not all ranks were connected again within "
			 "STRETTO_VERBS_RECONNECT_SECONDS=%g",
			 world->config.verbs_reconnect_seconds);
	else
		return 0;
	give_up(world, reason);
	return 1;
}

size_t stretto_recovery_turn(struct stretto_channel *channel, bool *may_advance)
{
	const struct stretto_recovery *recovery = channel->world->recovery;
	size_t count = 0;

	*may_advance = true;
	if (!recovery || channel->epoch == 0 || atomic_load(&recovery->final))
		return 0;
	if (channel->told != channel->epoch)
		tell_all(channel);
	if (channel->index == 0)
		count += agree(channel);
	/* acquire: the verdict; partner is settle() */
	if (atomic_load_explicit(&recovery->settled, memory_order_acquire) == channel->epoch &&
	    (channel->resolved != channel->epoch || channel->unresolved))
		count += resolve_epoch(channel);
	*may_advance = channel->resolved == channel->epoch && !channel->unresolved;
	return count;
}

stretto_status stretto_comm_enter(struct stretto_comm *comm, struct stretto_operation *operation,
				  int parts)
{
	struct stretto_world *world = comm->world;
	stretto_status status = STRETTO_OK;

	if (world->recovery)
		pthread_mutex_lock(&world->lock);
	operation->sequence = comm->next_sequence;
	/* 0 is "none" in published states. */
	if (++comm->next_sequence == 0)
		comm->next_sequence = 1;
	if (!world->recovery)
		return STRETTO_OK;
	if (stretto_ledger_entry(&world->recovery->agreed, comm->id, first_of(comm),
				 operation->sequence) == STRETTO_ENTRY_OPEN) {
		status = STRETTO_RETRY;
	} else {
		operation->parts = parts;
		stretto_list_append(&comm->operations, &operation->link);
	}
	pthread_mutex_unlock(&world->lock);
	return status;
}

/* One part less is under way. world.lock is held. */
static void leave(struct stretto_work *work, bool finished)
{
	struct stretto_operation *operation = work->operation;

	work->operation = NULL;
	if (--operation->parts > 0)
		return;
	stretto_list_remove(&operation->link);
	if (finished && stretto_sequence_after(operation->sequence, work->comm->finished))
		work->comm->finished = operation->sequence;
}

bool stretto_work_may_finish(struct stretto_work *work)
{
	struct stretto_world *world = work->comm->world;
	bool may = true;

	if (!work->operation)
		return true;
	/* the lock orders this with the ledger: it is in there, or it is finished */
	pthread_mutex_lock(&world->lock);
	may = work->channel->resolved == world->recovery->epoch;
	if (may)
		leave(work, true);
	pthread_mutex_unlock(&world->lock);
	return may;
}

void stretto_work_leave(struct stretto_work *work)
{
	pthread_mutex_lock(&work->comm->world->lock);
	leave(work, false);
	pthread_mutex_unlock(&work->comm->world->lock);
}
