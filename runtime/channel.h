/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h: one lane through the machine, and who drives it.
 *
 * A channel has its own devices and endpoints and a list of the work (parts of operations) that is
 * under way on it. All of that is touched only by the holder of the channel's *baton*, a mutex: the
 * progress thread (progress.h), or a thread that waits for an operation and drives the channel
 * itself.
 *
 *   stretto_channel_submit()   any thread: hands work over, wakes who must be woken
 *   stretto_channel_wait()     any thread: takes the baton, or sleeps while another drives
 *   stretto_channel_turn()     baton: one bounded pass over all there is to do
 *
 * Who sleeps where: who drives sleeps in epoll (doze() in channel.c) after arming every device,
 * and leaves the baton meanwhile; an unused progress thread, and a waiter who finds the baton
 * taken, sleep on a futex.
 */
#ifndef STRETTO_RUNTIME_CHANNEL_H
#define STRETTO_RUNTIME_CHANNEL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/list.h"
#include "runtime/transport.h"

struct stretto_comm;
struct stretto_world;
struct stretto_work;

enum { STRETTO_DEVICES_MAX = 8, STRETTO_EARLY = 32 };

/* A first message of an operation that this rank has not entered yet. */
struct stretto_early {
	uint64_t comm; /* id; sequence 0: no entry */
	uint32_t sequence;
	int peer; /* world rank */
	struct stretto_signature signature;
};

/* What the owner of work implements; called with the baton. */
struct stretto_work_ops {
	/* Goes on as far as possible; returns how much it did. Ends by stretto_work_finish(). */
	size_t (*advance)(struct stretto_work *work);
	/*
	 * Gives it up, and finishes it with a status once nothing can touch its memory any more.
	 * false: that is not so yet, call again. STRETTO_OK: another rank has finished it, so its
	 * results are complete here.
	 */
	bool (*fail)(struct stretto_work *work, stretto_status status);
	/* One line on what the operation is, from its signature, for messages. */
	const char *(*describe)(const struct stretto_signature *signature, char *buf, size_t size);
	/* Called last; the work may be reused or freed by its owner once this was called. */
	void (*finished)(struct stretto_work *work, stretto_status status);
};

/* An operation, as the world keeps account of it; see recovery.h. Embedded in the owner's struct. */
struct stretto_operation {
	struct stretto_list link; /* in the communicator's operations */
	uint32_t sequence;
	int parts; /* not over; under world.lock */
};

/* Part of an operation on one channel. Embedded in the owner's struct. */
struct stretto_work {
	struct stretto_list link;  /* in the channel's active list */
	struct stretto_list queue; /* in the channel's submitted list */
	const struct stretto_work_ops *ops;
	struct stretto_comm *comm;
	struct stretto_channel *channel;
	struct stretto_operation *operation; /* that account is kept of until it is over; or NULL */
	uint32_t sequence;                   /* of the operation */
	struct stretto_signature signature;
	uint64_t deadline; /* stretto_now() time, STRETTO_NEVER for none */
	int priority;      /* higher goes first; set before it is submitted */
	bool attended;     /* who submits it has entered the channel, and drives it next */
	bool ready;        /* something happened: advance() is due */
	/* Of windows, the portions that long work is cut into; work of one portion may ignore them: */
	bool held;        /* one could begin if it was allowed; written by advance() */
	size_t allowed;   /* so many may be under way during this turn; for advance() */
	size_t under_way; /* begun and not complete; kept by advance() */
	uint64_t moved;   /* when it last went on; 0: not known. Beside other priorities only */
};

struct stretto_channel {
	struct stretto_world *world;
	int index;
	struct stretto_device_env env;
	uint32_t speed; /* Mbit/s at the slowest rank, 0: not known; the same on all, since init */
	pthread_mutex_t baton;
	/* Under the baton: */
	struct stretto_device *devices[STRETTO_DEVICES_MAX]; /* owned */
	int device_count;
	struct stretto_endpoint **endpoints;       /* by world rank, NULL until used; owned */
	struct stretto_list active;                /* struct stretto_work */
	struct stretto_early early[STRETTO_EARLY]; /* the last ones, a ring */
	unsigned early_next;                       /* */
	struct stretto_work *advancing;            /* in advance() now; NULL once it has finished */
	unsigned comms;                            /* communicators that have work in `active` */
	uint64_t pass;                             /* number of passes over `active` */
	uint64_t held_until;                       /* when work that is held is looked at again */
	bool armed;                                /* devices are; see disarm() */
	uint32_t epoch;                            /* of this turn; see recovery.h */
	uint32_t told;                             /* epoch that peers were told of */
	uint32_t resolved;                         /* epoch whose verdict was carried out */
	bool unresolved;                           /* work came that the verdict may be about */
	uint64_t advanced;                         /* counts what work did */
	uint64_t next_timers;                      /* when deadlines are looked at again */
	uint64_t next_events;                      /* when descriptors are looked at again */
	int epoll;                                 /* everything that is watched, and env.wake_fd */
	/* Any thread: */
	alignas(64) pthread_mutex_t submit_lock;
	struct stretto_list submitted; /* struct stretto_work, under submit_lock */
	atomic_uint submissions;       /* not yet taken over */
	atomic_uint waiters;           /* threads in stretto_channel_wait() */
	atomic_uint in_flight;         /* works submitted and not finished, and holds of devices */
	atomic_uint turnover;          /* futex: changes when work finishes or the baton is left */
	atomic_uint sleepers;          /* threads that sleep on it */
	atomic_uint wanted;            /* threads in stretto_channel_take_baton() */
	atomic_uint dozing;            /* threads in, or on the way into, epoll */
	atomic_uint dozing_waiters;    /* those in epoll that are waiters */
	atomic_bool stop;              /* the progress thread shall end */
	atomic_bool broken;            /* a communicator broke: look at all work */
	atomic_uint parked;            /* futex: 1 while the progress thread is parked */
	atomic_ullong wakes;           /* times that the parked progress thread was woken */
	atomic_ullong signals;         /* times that we woke our own threads in epoll */
	uint64_t patience;             /* ns that work may stall before lower ones go on */
	uint64_t spin_wait;            /* ns that a waiter polls before it dozes */
	uint64_t spin_progress;        /* ns that the progress thread polls before it dozes */
	bool crowded;                  /* more threads than cores: polling yields every time */
	pthread_t thread;
	bool started; /* thread exists */
};

/* Opens the devices of a channel. Its thread is started by stretto_progress_start(). */
stretto_status stretto_channel_open(struct stretto_world *world, int index,
				    struct stretto_channel **channel);
/* Closes it; the thread has ended, no work is left. NULL does nothing. */
void stretto_channel_close(struct stretto_channel *channel);

/* The endpoint to a world rank, made when first asked for. Baton. */
stretto_status stretto_channel_endpoint(struct stretto_channel *channel, int peer,
					struct stretto_endpoint **endpoint);

/*
 * Hands work over; the progress thread goes on with it. It is woken by the first of the submissions
 * that have not been taken over, and not by work that is attended. Any thread.
 */
void stretto_channel_submit(struct stretto_channel *channel, struct stretto_work *work);

/*
 * A thread that is about to wait enters first: from then on the progress thread keeps away, and
 * work that is submitted wakes nobody. stretto_channel_wait() drives the channel, or sleeps while
 * another thread does, until *done is not 0 (set by work that finished), and leaves. Any thread.
 */
void stretto_channel_enter(struct stretto_channel *channel);
void stretto_channel_wait(struct stretto_channel *channel, const atomic_uint *done);

/* One bounded pass; returns how much was done. Baton. */
size_t stretto_channel_turn(struct stretto_channel *channel);

/* Takes the baton for a moment, to change something from outside; any thread. */
void stretto_channel_take_baton(struct stretto_channel *channel);

/* Leaves the baton; wakes a waiter that wants it, and sleepers, who must arm anew. */
void stretto_channel_leave_baton(struct stretto_channel *channel);

/* Who drives a channel, and for how long. */
struct stretto_driver {
	bool (*go_on)(struct stretto_channel *channel, const void *context);
	const void *context;
	uint64_t budget; /* ns that it polls before it dozes */
	bool waits;      /* it is a waiter */
};

/* Drives the channel while go_on() says so. Returns whether the baton is still held. Baton. */
bool stretto_channel_drive(struct stretto_channel *channel, const struct stretto_driver *driver);

/* Wakes whoever must look at the channel's state. Any thread. */
void stretto_channel_kick(struct stretto_channel *channel);

/* Whether there is something to drive for: work, or a fault to be told. Any thread. */
bool stretto_channel_busy(struct stretto_channel *channel);

/* Marks that work can go on, from a completion. Baton. */
static inline void stretto_work_ready(struct stretto_work *work)
{
	work->ready = true;
}

/*
 * Whether work that is complete may be finished: not while it is agreed on what counts. Once before
 * stretto_work_finish() with STRETTO_OK. Baton.
 */
bool stretto_work_may_finish(struct stretto_work *work);
/* A part of an operation that account is kept of is over, in another way. */
void stretto_work_leave(struct stretto_work *work);

/* Ends work: takes it off the channel and calls finished(). Baton. */
void stretto_work_finish(struct stretto_work *work, stretto_status status);

/*
 * channel_share.c: how works share a channel. Into and out of the list of active work, which is in
 * the order of priority and then of submission; and one pass over it, which returns how much was
 * done. Baton.
 */
void stretto_channel_add(struct stretto_channel *channel, struct stretto_work *work);
void stretto_channel_remove(struct stretto_channel *channel, struct stretto_work *work);
size_t stretto_channel_advance(struct stretto_channel *channel);

/* channel_faults.c: the transports' upcalls, and what a turn does about faults. */
bool stretto_channel_check(void *channel, int peer, const struct stretto_key *key,
			   const struct stretto_signature *signature);
void stretto_channel_notice(void *channel, int peer, const struct stretto_notice *notice);
void stretto_channel_failed(void *channel, int peer, const char *why);
/*
 * Cancels what a work has posted at an endpoint. false: its memory may still be read or written, call
 * again. For stretto_work_ops.fail().
 */
bool stretto_work_cancel(const struct stretto_work *work, struct stretto_endpoint *endpoint);
void stretto_channel_wanted(void *channel, int peer);
void stretto_channel_hold(void *channel, int change);
/* Tells a new endpoint's peer of the communicators that are broken already. Baton. */
void stretto_channel_tell_new(struct stretto_channel *channel, struct stretto_endpoint *endpoint);
/*
 * Compares the work under way with what connected peers say they entered. Finds ranks that wait for
 * each other in different operations, where no message would ever tell. Baton.
 */
void stretto_channel_compare(struct stretto_channel *channel);
/* Compares work that starts with what came early. Baton. */
void stretto_channel_check_early(struct stretto_channel *channel, const struct stretto_work *work);
/* Ends the work of broken communicators and tells their ranks. Returns how much. Baton. */
size_t stretto_channel_faults(struct stretto_channel *channel);
/* Breaks the communicators of work whose deadline has passed. Baton. */
void stretto_channel_deadlines(struct stretto_channel *channel, uint64_t now);

/* Tells all devices of all channels of a region. */
stretto_status stretto_channels_add_region(struct stretto_world *world,
					   struct stretto_region *region);
void stretto_channels_drop_region(struct stretto_world *world, struct stretto_region *region);

#endif
