/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel_share.c: how works share a channel.
 *
 * Long work goes in windows, and only the beginning of a window is governed: what has begun runs to
 * its end. Two rules, applied anew in every pass over the active works:
 *
 *   priority  Work begins no window while work of higher priority is there, unless all of that has
 *             stalled: it did nothing for the channel's patience. Ranks may disagree on priorities,
 *             or enter operations in another order; a rank that would wait for ever is let go on by
 *             this.
 *   share     Where several communicators have work of a channel, each has STRETTO_WINDOWS windows
 *             under way at a time (of a priority), those of its earliest works first. The earliest
 *             work of a communicator is the same on all its ranks and is never held by this rule,
 *             so that it ends without help of the others, and then the next.
 */
#include "runtime/channel.h"
#include "runtime/clock.h"
#include "runtime/comm.h"

/* One pass over the active works. */
struct pass {
	bool mixed;     /* there are several priorities */
	bool shared;    /* there are several communicators */
	uint64_t now;   /* 0 if not mixed */
	int priority;   /* of the works that are looked at now */
	uint64_t until; /* when the last of those looked at so far counts as stalled */
	uint64_t hold;  /* the same of those of higher priority */
};

static struct stretto_work *work_at(struct stretto_list *link)
{
	return stretto_container_of(link, struct stretto_work, link);
}

static struct stretto_comm_share *share_of(const struct stretto_channel *channel,
					   const struct stretto_work *work)
{
	return &work->comm->shares[channel->index];
}

void stretto_channel_add(struct stretto_channel *channel, struct stretto_work *work)
{
	struct stretto_list *after = channel->active.prev;

	while (after != &channel->active && work_at(after)->priority < work->priority)
		after = after->prev;
	stretto_list_append(after->next, &work->link);
	if (share_of(channel, work)->works++ == 0)
		channel->comms++;
	work->ready = true;
	work->held = false;
	work->under_way = 0;
	work->moved = 0;
}

void stretto_channel_remove(struct stretto_channel *channel, struct stretto_work *work)
{
	stretto_list_remove(&work->link);
	if (--share_of(channel, work)->works == 0)
		channel->comms--;
	if (channel->advancing == work)
		channel->advancing = NULL;
}

static struct pass begin_pass(struct stretto_channel *channel)
{
	struct pass pass = {.shared = channel->comms > 1};

	channel->pass++;
	channel->held_until = STRETTO_NEVER;
	if (stretto_list_empty(&channel->active))
		return pass;
	pass.priority = work_at(channel->active.next)->priority;
	pass.mixed = pass.priority != work_at(channel->active.prev)->priority;
	if (pass.mixed)
		pass.now = stretto_now();
	return pass;
}

/* How many windows the communicator's works before this one leave to it. */
static size_t share(struct stretto_channel *channel, const struct stretto_work *work)
{
	struct stretto_comm_share *share = share_of(channel, work);
	size_t all = channel->world->config.windows;

	if (share->pass != channel->pass || share->priority != work->priority) {
		share->pass = channel->pass;
		share->priority = work->priority;
		share->under_way = 0;
	}
	return share->under_way < all ? all - share->under_way : 0;
}

/* Before its advance(). */
static void allow(struct stretto_channel *channel, struct pass *pass, struct stretto_work *work)
{
	if (work->priority != pass->priority) {
		pass->priority = work->priority;
		pass->hold = pass->until;
	}
	work->allowed = SIZE_MAX;
	if (pass->shared)
		work->allowed = share(channel, work);
	if (pass->hold > pass->now)
		work->allowed = 0;
}

/* After its advance(), if it has not finished. */
static void account(struct stretto_channel *channel, struct pass *pass, struct stretto_work *work,
		    size_t done)
{
	if (pass->shared)
		share_of(channel, work)->under_way += work->under_way;
	if (work->held && pass->hold > pass->now && pass->hold < channel->held_until)
		channel->held_until = pass->hold;
	if (!pass->mixed || work->moved == 0 || done > 0)
		work->moved = pass->now;
	if (pass->mixed && work->moved + channel->patience > pass->until)
		pass->until = work->moved + channel->patience;
}

size_t stretto_channel_advance(struct stretto_channel *channel)
{
	struct pass pass = begin_pass(channel);
	size_t count = 0;

	STRETTO_LIST_FOR_SAFE (it, &channel->active) {
		struct stretto_work *work = work_at(it);
		size_t done = 0;

		allow(channel, &pass, work);
		channel->advancing = work;
		if (work->ready)
			done = work->ops->advance(work);
		if (channel->advancing == work)
			account(channel, &pass, work, done);
		count += done;
	}
	channel->advancing = NULL;
	return count;
}
