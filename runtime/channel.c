/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/channel.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/comm.h"
#include "runtime/futex.h"
#include "runtime/recovery.h"

/* How often deadlines and descriptors are looked at while polling. */
#define TIMERS_NS 1000000u
#define EVENTS_NS 10000000u
/* For so long polling is all that a core does; then it yields between polls. */
#define HOT_NS 10000u
/* Polling after an event of no operation: a peer's word on its state, a probe. */
#define SHORT_NS 20000u

/* Wakes the threads in epoll. */
static void wake_dozing(struct stretto_channel *channel)
{
	static const uint64_t one = 1;

	/* relaxed: a counter for tests */
	atomic_fetch_add_explicit(&channel->signals, 1, memory_order_relaxed);
	if (write(channel->env.wake_fd, &one, sizeof one) < 0)
		return; /* the counter is full: it is readable */
}

/* Whether the progress thread is the one to go on. */
static bool left_to_thread(struct stretto_channel *channel)
{
	/* seq_cst all; partners are nothing_to_do() in progress.c, leave(), and who lifts a pause */
	return atomic_load(&channel->stop) ||
	       (atomic_load(&channel->waiters) == 0 && atomic_load(&channel->world->paused) == 0);
}

void stretto_channel_kick(struct stretto_channel *channel)
{
	/* seq_cst after what the caller published; partner is doze() */
	if (atomic_load(&channel->dozing) > 0)
		wake_dozing(channel);
	/* seq_cst, likewise; partner is park() in progress.c */
	if (left_to_thread(channel) && atomic_exchange(&channel->parked, 0) == 1) {
		/* relaxed: a counter for tests */
		atomic_fetch_add_explicit(&channel->wakes, 1, memory_order_relaxed);
		stretto_futex_wake(&channel->parked);
	}
}

bool stretto_channel_busy(struct stretto_channel *channel)
{
	/* seq_cst: partners are stretto_channel_submit(), _hold() and stretto_comm_break() */
	return atomic_load(&channel->in_flight) > 0 || atomic_load(&channel->broken) ||
	       atomic_load(&channel->world->broken) > 0;
}

void stretto_channel_submit(struct stretto_channel *channel, struct stretto_work *work)
{
	bool attended = work->attended; /* it may have ended when the lock is left */
	bool first;

	work->channel = channel;
	stretto_list_init(&work->link);
	stretto_list_init(&work->queue);
	pthread_mutex_lock(&channel->submit_lock);
	stretto_list_append(&channel->submitted, &work->queue);
	/* seq_cst both: partner of the looks before a thread parks or dozes */
	atomic_fetch_add(&channel->in_flight, 1);
	first = atomic_fetch_add(&channel->submissions, 1) == 0;
	pthread_mutex_unlock(&channel->submit_lock);
	/* Who takes the first over takes all, and was woken for it, or drives next. */
	if (first && !attended)
		stretto_channel_kick(channel);
}

static void publish(struct stretto_channel *channel, const struct stretto_work *work)
{
	struct stretto_peer_state state = {
		.comm = work->comm->id,
		.sequence = work->sequence,
		.signature = work->signature,
	};

	for (int i = 0; i < channel->device_count; i++) {
		struct stretto_device *device = channel->devices[i];

		if (device->transport->publish)
			device->transport->publish(device, &state);
	}
}

static size_t take_submissions(struct stretto_channel *channel)
{
	size_t count = 0;

	/* seq_cst: partner is stretto_channel_submit() */
	if (atomic_load(&channel->submissions) == 0)
		return 0;
	pthread_mutex_lock(&channel->submit_lock);
	STRETTO_LIST_FOR_SAFE (it, &channel->submitted) {
		struct stretto_work *work = stretto_container_of(it, struct stretto_work, queue);

		stretto_list_remove(it);
		stretto_channel_add(channel, work);
		publish(channel, work);
		/* It may have been broken since the caller looked: have it failed in this turn. */
		if (stretto_comm_state(work->comm) != STRETTO_OK)
			atomic_store(&channel->broken, true);
		count++;
	}
	atomic_fetch_sub(&channel->submissions, (unsigned)count);
	channel->unresolved |= channel->epoch > 0;
	pthread_mutex_unlock(&channel->submit_lock);
	STRETTO_LIST_FOR (it, &channel->active)
		stretto_channel_check_early(channel,
					    stretto_container_of(it, struct stretto_work, link));
	return count;
}

static void look_at_descriptors(struct stretto_channel *channel)
{
	for (int i = 0; i < channel->device_count; i++)
		if (channel->devices[i]->transport->events)
			channel->devices[i]->transport->events(channel->devices[i]);
}

static void look_at_timers(struct stretto_channel *channel)
{
	uint64_t now = stretto_now();

	if (now >= channel->next_timers) {
		channel->next_timers = now + TIMERS_NS;
		stretto_channel_deadlines(channel, now);
		stretto_channel_compare(channel);
	}
	if (now >= channel->next_events) {
		channel->next_events = now + EVENTS_NS;
		look_at_descriptors(channel);
	}
}

/* A turn that leaves the devices armed. */
static size_t look(struct stretto_channel *channel)
{
	size_t count, advanced;
	bool may_advance;

	/* seq_cst, before the devices are polled: they are in this epoch then, or in a later one */
	if (channel->env.epoch)
		channel->epoch = atomic_load(channel->env.epoch);
	count = take_submissions(channel);
	look_at_timers(channel); /* first: advance() must see endpoints that it made ready */
	for (int i = 0; i < channel->device_count; i++)
		count += channel->devices[i]->transport->poll(channel->devices[i]);
	count += stretto_recovery_turn(channel, &may_advance);
	advanced = may_advance ? stretto_channel_advance(channel) : 0;
	channel->advanced += advanced;
	count += advanced;
	/* relaxed: set before the kick that made us look; partner is stretto_comm_break() */
	if (atomic_load_explicit(&channel->broken, memory_order_relaxed))
		count += stretto_channel_faults(channel);
	return count;
}

/* Who drives is not to be woken, and nobody else: peers would pay for it message by message. */
static void disarm(struct stretto_channel *channel)
{
	if (!channel->armed)
		return;
	channel->armed = false;
	for (int i = 0; i < channel->device_count; i++)
		if (channel->devices[i]->transport->disarm)
			channel->devices[i]->transport->disarm(channel->devices[i]);
}

size_t stretto_channel_turn(struct stretto_channel *channel)
{
	disarm(channel);
	return look(channel);
}

/* After a change of turnover. Most waiters drive, and none sleeps. */
static void wake_sleepers(struct stretto_channel *channel)
{
	/* seq_cst: who sees no sleeper has changed turnover before the sleeper compares it */
	if (atomic_load(&channel->sleepers) > 0)
		stretto_futex_wake(&channel->turnover);
}

void stretto_work_finish(struct stretto_work *work, stretto_status status)
{
	struct stretto_channel *channel = work->channel;

	if (work->operation)
		stretto_work_leave(work);
	stretto_channel_remove(channel, work);
	atomic_fetch_sub(&channel->in_flight, 1);
	work->ops->finished(work, status);
	/* A waiter that found the baton taken sleeps on turnover. */
	atomic_fetch_add(&channel->turnover, 1);
	if (atomic_load(&channel->waiters) == 0)
		return;
	wake_sleepers(channel);
	/* Its waiter may sleep in epoll while we drive; it counted itself before it left the baton. */
	if (atomic_load(&channel->dozing_waiters) > 0)
		wake_dozing(channel);
}

void stretto_channel_hold(void *context, int change)
{
	struct stretto_channel *channel = context;

	/* seq_cst, as for a work: partners are leave() and the look before parking */
	atomic_fetch_add(&channel->in_flight, (unsigned)change);
}

/* Earliest time at which something is to be done without an event. */
static uint64_t next_deadline(const struct stretto_channel *channel)
{
	uint64_t next = stretto_recovery_deadline(channel->world);

	STRETTO_LIST_FOR (it, &channel->active) {
		uint64_t deadline = stretto_container_of(it, struct stretto_work, link)->deadline;

		if (deadline < next)
			next = deadline;
	}
	return next;
}

static uint64_t arm(struct stretto_channel *channel)
{
	uint64_t next = next_deadline(channel);

	if (channel->held_until < next)
		next = channel->held_until;
	channel->armed = true;
	for (int i = 0; i < channel->device_count; i++) {
		uint64_t wish = channel->devices[i]->transport->arm(channel->devices[i]);

		if (wish < next)
			next = wish;
	}
	return next;
}

/* Sleeps until a descriptor is readable or `until`; returns the number of events. */
static int sleep_until(struct stretto_channel *channel, uint64_t until, struct epoll_event *events,
		       int capacity)
{
	struct timespec timeout = {0, 0};
	uint64_t now = stretto_now();
	int count;

	if (until == STRETTO_NEVER)
		return epoll_wait(channel->epoll, events, capacity, -1);
	if (until > now) {
		timeout.tv_sec = (time_t)((until - now) / 1000000000u);
		timeout.tv_nsec = (long)((until - now) % 1000000000u);
	}
	count = epoll_pwait2(channel->epoll, events, capacity, &timeout, NULL);
	if (count < 0 && errno == ENOSYS) /* Linux before 5.11: whole milliseconds */
		count = epoll_wait(channel->epoll, events, capacity,
				   until > now ? (int)((until - now) / 1000000u % 1000000u) + 1
					       : 0);
	return count;
}

static void handle_events(struct stretto_channel *channel, const struct epoll_event *events,
			  int count)
{
	bool others = false;
	uint64_t value;

	for (int i = 0; i < count; i++) {
		if (events[i].data.fd != channel->env.wake_fd)
			others = true;
		else if (atomic_load(&channel->dozing) == 0 &&
			 read(channel->env.wake_fd, &value, sizeof value) < 0)
			continue; /* another thread was quicker */
	}
	if (others)
		look_at_descriptors(channel);
}

/* Leaves the baton to go to sleep. */
static void put_baton(struct stretto_channel *channel)
{
	pthread_mutex_unlock(&channel->baton);
	/* seq_cst: partner is the loop in stretto_channel_wait() */
	atomic_fetch_add(&channel->turnover, 1);
	wake_sleepers(channel);
}

void stretto_channel_leave_baton(struct stretto_channel *channel)
{
	bool turned = !channel->armed;

	put_baton(channel);
	/*
	 * What would have woken a sleeper may have been taken by us: have it look and arm again.
	 * seq_cst: partner is doze()
	 */
	if (turned && atomic_load(&channel->in_flight) > 0 && atomic_load(&channel->dozing) > 0)
		wake_dozing(channel);
}

/*
 * Sleeps, without the baton, until something may have happened (*woken), or a timer is due. true:
 * the baton is held again; false: another thread took it meanwhile. Baton.
 */
static bool doze(struct stretto_channel *channel, const struct stretto_driver *driver, bool *woken)
{
	struct epoll_event events[8];
	uint64_t until;
	bool held;
	int count;

	*woken = true;
	/* seq_cst, before the last look; partner is stretto_channel_kick() */
	atomic_fetch_add(&channel->dozing, 1);
	arm(channel);
	stretto_channel_compare(channel);
	if (look(channel) > 0 || atomic_load(&channel->stop)) {
		atomic_fetch_sub(&channel->dozing, 1);
		disarm(channel); /* there may be more to do, whoever drives next */
		return true;
	}
	until = arm(channel); /* again: that turn may have found a ring full */
	/* seq_cst, while the baton is held; partner is stretto_work_finish() */
	atomic_fetch_add(&channel->dozing_waiters, driver->waits);
	put_baton(channel);
	count = sleep_until(channel, until, events, 8);
	atomic_fetch_sub(&channel->dozing_waiters, driver->waits);
	*woken = count != 0;
	held = pthread_mutex_trylock(&channel->baton) == 0;
	atomic_fetch_sub(&channel->dozing, 1);
	if (!held)
		return false; /* who drives now looks at the descriptors too */
	if (!driver->go_on(channel, driver->context))
		return true; /* the event is left to who sleeps on, and would be woken by it too */
	disarm(channel);
	handle_events(channel, events, count);
	return true;
}

/* How long a polling loop has found nothing. */
struct stretto_idle {
	unsigned rounds;
	uint64_t since; /* stretto_now() of the first round */
};

/* Rests for a moment; false: it has polled for the budget (ns), doze. */
static bool rest(const struct stretto_channel *channel, struct stretto_idle *idle, uint64_t budget)
{
	uint64_t time = 0;

	if (budget == 0)
		return false;
	if (idle->rounds++ == 0)
		idle->since = stretto_now();
	else
		time = stretto_now() - idle->since;
	if (time > budget)
		return false;
	/*
	 * Two threads that poll on one core must not cost each other whole scheduler ticks; and a
	 * kernel that is itself the device needs the core to deliver what we wait for.
	 */
	if (channel->crowded || time > HOT_NS)
		sched_yield();
	else
		stretto_pause();
	return true;
}

void stretto_channel_enter(struct stretto_channel *channel)
{
	/* seq_cst: partners are the looks at waiters before a thread sleeps */
	atomic_fetch_add(&channel->waiters, 1);
}

/* `turned`: this thread has driven, and may have taken what would have woken a sleeper. */
static void leave(struct stretto_channel *channel, bool turned)
{
	/* seq_cst: either we see the work in flight, or who submits it sees no waiter */
	bool last = atomic_fetch_sub(&channel->waiters, 1) == 1;

	if ((last || turned) && stretto_channel_busy(channel))
		stretto_channel_kick(channel);
}

/* Lets a thread in that waits in stretto_channel_take_baton(). Baton. */
static void make_way(struct stretto_channel *channel)
{
	/* relaxed: a hint; partner is stretto_channel_take_baton() */
	if (atomic_load_explicit(&channel->wanted, memory_order_relaxed) == 0)
		return;
	pthread_mutex_unlock(&channel->baton);
	sched_yield();
	pthread_mutex_lock(&channel->baton);
}

void stretto_channel_take_baton(struct stretto_channel *channel)
{
	atomic_fetch_add_explicit(&channel->wanted, 1, memory_order_relaxed);
	pthread_mutex_lock(&channel->baton);
	atomic_fetch_sub_explicit(&channel->wanted, 1, memory_order_relaxed);
}

bool stretto_channel_drive(struct stretto_channel *channel, const struct stretto_driver *driver)
{
	struct stretto_idle idle = {0, 0};
	uint64_t budget = driver->budget;
	uint64_t dozed = channel->advanced - 1; /* what had been advanced at the last doze */
	uint64_t after_event = budget < SHORT_NS ? budget : SHORT_NS;
	bool woken = false;

	for (;;) {
		make_way(channel); /* before the look: others may finish our work meanwhile */
		if (!driver->go_on(channel, driver->context))
			return true;
		if (stretto_channel_turn(channel) > 0) {
			idle.rounds = 0;
		} else if (!rest(channel, &idle,
				 channel->advanced != dozed ? budget
				 : woken                    ? after_event
							    : 0)) {
			dozed = channel->advanced;
			if (!doze(channel, driver, &woken))
				return false;
			idle.rounds = 0;
		}
	}
}

static bool not_done(struct stretto_channel *channel, const void *context)
{
	const atomic_uint *done = context;

	(void)channel;
	/* acquire: the results; partner is the release store of who finishes the operation */
	return atomic_load_explicit(done, memory_order_acquire) == 0;
}

/* Tries for the baton for a moment: its holder leaves it after its turn. */
static bool try_baton(struct stretto_channel *channel, const atomic_uint *done)
{
	for (int tries = 0; tries < 100; tries++) {
		if (pthread_mutex_trylock(&channel->baton) == 0)
			return true;
		if (atomic_load_explicit(done, memory_order_acquire))
			return false;
		if (channel->crowded)
			sched_yield();
		else
			stretto_pause();
	}
	return false;
}

void stretto_channel_wait(struct stretto_channel *channel, const atomic_uint *done)
{
	struct stretto_driver driver = {not_done, done, channel->spin_wait, true};
	bool turned = false;

	while (atomic_load_explicit(done, memory_order_acquire) == 0) {
		/* seq_cst: read before the try, changed after the baton is left */
		unsigned seen = atomic_load(&channel->turnover);

		if (try_baton(channel, done)) {
			if (!stretto_channel_drive(channel, &driver))
				continue;
			turned = !channel->armed;
			put_baton(channel);
		} else if (atomic_load_explicit(done, memory_order_acquire) == 0) {
			/* seq_cst, before the kernel compares; partner is wake_sleepers() */
			atomic_fetch_add(&channel->sleepers, 1);
			stretto_futex_wait(&channel->turnover, seen);
			atomic_fetch_sub(&channel->sleepers, 1);
		}
	}
	leave(channel, turned);
}
