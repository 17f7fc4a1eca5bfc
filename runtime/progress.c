/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/progress.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/comm.h"
#include "runtime/futex.h"
#include "runtime/hardware.h"
#include "runtime/log.h"

/* How long to poll before sleeping, where every thread has a core of its own, and where not. */
#define SPIN_WAIT_NS     200000u
#define SPIN_PROGRESS_NS 50000u
#define SPIN_CROWDED_NS  20000u
/* The same where peers are reached over a network: an interrupt takes its time too. */
#define SPIN_NETWORK_NS 2000000u
/* How long work may stall before lower ones go on: a few windows' time, in memory and on a network. */
#define PATIENCE_NS         500000u
#define PATIENCE_NETWORK_NS 2000000u
/* The time slice asked of the scheduler: a short one lets the thread run at once when it wakes. */
#define SLICE_NS 100000u

int stretto_cores(void)
{
	cpu_set_t mask;

	if (sched_getaffinity(0, sizeof mask, &mask) != 0)
		return 1;
	return CPU_COUNT(&mask) > 0 ? CPU_COUNT(&mask) : 1;
}

/*
 * Asks for short time slices and exact timers, so that a wake-up on a core that computes is served
 * at once and not at the end of the other thread's slice. Linux 6.12 and later honour the slice;
 * where it is refused the thread works all the same, only later.
 */
static void prefer_latency(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .runtime = SLICE_NS};

	attributes.nice = getpriority(PRIO_PROCESS, 0);

	if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0)
		stretto_debug("progress thread: sched_setattr: %s", strerror(errno));
	prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
}

static bool nothing_to_do(struct stretto_channel *channel)
{
	/* seq_cst: partners are stretto_channel_enter(), leave(), and who pauses or resumes */
	return !atomic_load(&channel->stop) &&
	       (atomic_load(&channel->waiters) > 0 || atomic_load(&channel->world->paused) > 0 ||
		!stretto_channel_busy(channel));
}

static void park(struct stretto_channel *channel)
{
	/* seq_cst, before the last look; partner is stretto_channel_kick() */
	atomic_store(&channel->parked, 1);
	while (atomic_load(&channel->parked) == 1) {
		if (!nothing_to_do(channel))
			break;
		stretto_futex_wait(&channel->parked, 1);
	}
	atomic_store(&channel->parked, 0);
}

static bool needed(struct stretto_channel *channel, const void *context)
{
	(void)context;
	return !nothing_to_do(channel) && !atomic_load(&channel->stop);
}

static void *progress(void *argument)
{
	struct stretto_channel *channel = argument;
	struct stretto_driver driver = {needed, NULL, channel->spin_progress, false};

	stretto_log_set_rank(channel->world->rank);
	prefer_latency();
	while (!atomic_load(&channel->stop)) {
		if (nothing_to_do(channel)) {
			park(channel);
			continue;
		}
		pthread_mutex_lock(&channel->baton);
		if (stretto_channel_drive(channel, &driver))
			stretto_channel_leave_baton(channel);
	}
	return NULL;
}

/* The cores of STRETTO_AFFINITY's list; false if it is none. */
static bool parse_cores(const char *text, cpu_set_t *cores)
{
	CPU_ZERO(cores);
	while (*text) {
		char *end;
		unsigned long core = strtoul(text, &end, 10);

		if (end == text || core >= CPU_SETSIZE || *text == '-' || *text == '+')
			return false;
		CPU_SET(core, cores);
		if (*end == '\0')
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
	return false;
}

/* The SMT sibling within the mask of its first core, or -1. */
static int sibling_core(const cpu_set_t *mask)
{
	int found = -1;
#ifdef STRETTO_HAVE_HWLOC
	hwloc_topology_t topology = stretto_hardware();
	hwloc_obj_t unit, core;
	unsigned first = 0;

	if (!topology)
		return -1;
	while (first < CPU_SETSIZE && !CPU_ISSET(first, mask))
		first++;
	unit = hwloc_get_pu_obj_by_os_index(topology, first);
	core = unit ? hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit) : NULL;
	for (unsigned i = 0; core && i < core->arity; i++) {
		unsigned index = core->children[i]->os_index;

		if (index != first && index < CPU_SETSIZE && CPU_ISSET(index, mask))
			found = (int)index;
	}
#else
	(void)mask;
#endif
	return found;
}

/* Ranks of this machine, whatever transport reaches them. */
static int ranks_here(const struct stretto_world *world)
{
	return world->config.local_size > world->local_size ? world->config.local_size
							    : world->local_size;
}

/* The core that `auto` gives to progress threads; -1 and the reason where none is set apart. */
static int choose_core(const struct stretto_world *world, const cpu_set_t *mask, const char **why)
{
	int cores = CPU_COUNT(mask);
	int core;
	unsigned last = CPU_SETSIZE - 1;

	if (cores < 2) {
		*why = "the affinity mask has one core, which it shares with compute";
		return -1;
	}
	if (ranks_here(world) > 1 && cores >= sysconf(_SC_NPROCESSORS_ONLN)) {
		*why = "several ranks of the node share the whole machine; bind them to get cores "
		       "set apart";
		return -1;
	}
	core = sibling_core(mask);
	if (core >= 0) {
		*why = "SMT sibling of a compute core";
		return core;
	}
	while (!CPU_ISSET(last, mask))
		last--;
	*why = "last core of the affinity mask";
	return (int)last;
}

/* Fills in the cores that progress threads are bound to, and how many of the mask that takes. */
static stretto_status choose_affinity(struct stretto_world *world, cpu_set_t *cores,
				      const char **why)
{
	const char *wish = world->config.affinity;
	cpu_set_t mask, reserved;
	int core;

	CPU_ZERO(&mask);
	if (sched_getaffinity(0, sizeof mask, &mask) != 0)
		CPU_ZERO(&mask);
	*cores = mask;
	if (strcmp(wish, "none") == 0) {
		*why = "STRETTO_AFFINITY=none";
		return STRETTO_OK;
	}
	if (strcmp(wish, "auto") == 0) {
		core = choose_core(world, &mask, why);
		if (core >= 0) {
			CPU_ZERO(cores);
			CPU_SET((unsigned)core, cores);
			world->reserved_cores = 1;
		}
		return STRETTO_OK;
	}
	if (!parse_cores(wish, cores)) {
		stretto_error("STRETTO_AFFINITY='%s' must be auto, none or a list of cores such as "
			      "3,7",
			      wish);
		return STRETTO_INVALID;
	}
	CPU_AND(&reserved, &mask, cores);
	world->reserved_cores = CPU_COUNT(&reserved);
	*why = "STRETTO_AFFINITY";
	return STRETTO_OK;
}

static void choose_polling(const struct stretto_world *world, struct stretto_channel *channel)
{
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int cores = stretto_cores();
	/* Bound ranks have their mask for themselves, others share the machine. */
	bool bound = cores < online;
	int threads = bound ? 1 : ranks_here(world);
	double wish = world->config.spin_seconds;

	channel->crowded = threads > cores;
	channel->spin_wait = channel->crowded ? SPIN_CROWDED_NS : SPIN_WAIT_NS;
	channel->patience = PATIENCE_NS;
	if (world->local_size < world->size || !world->mapped) {
		channel->spin_wait = SPIN_NETWORK_NS;
		channel->patience = PATIENCE_NETWORK_NS;
	}
	channel->spin_progress = 2 * threads <= cores ? SPIN_PROGRESS_NS : 0;
	if (wish >= 0) {
		channel->spin_wait = (uint64_t)(wish * 1e9);
		channel->spin_progress = (uint64_t)(wish * 1e9);
	}
}

static stretto_status start_thread(struct stretto_channel *channel, const cpu_set_t *cores)
{
	sigset_t all, before;
	int error;

	/* Signals are the application's threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&channel->thread, NULL, progress, channel);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0) {
		stretto_error("starting a progress thread: %s; see RLIMIT_NPROC (ulimit -u)",
			      strerror(error));
		return STRETTO_SYSTEM;
	}
	channel->started = true;
	if (CPU_COUNT(cores) > 0)
		error = pthread_setaffinity_np(channel->thread, sizeof *cores, cores);
	if (error != 0)
		stretto_warn("progress thread: binding to the chosen cores: %s", strerror(error));
	pthread_setname_np(channel->thread, "stretto");
	return STRETTO_OK;
}

stretto_status stretto_progress_start(struct stretto_world *world)
{
	const char *why = "";
	cpu_set_t cores;
	const char *where;
	stretto_status status = choose_affinity(world, &cores, &why);

	for (size_t c = 0; c < world->config.channels && status == STRETTO_OK; c++) {
		choose_polling(world, world->channels[c]);
		/* a rank that computes has to take part too when connections are made anew */
		if (world->recovery)
			stretto_channel_hold(world->channels[c], 1);
		status = start_thread(world->channels[c], &cores);
	}
	if (status != STRETTO_OK)
		return status;
	where = world->reserved_cores > 0 ? "cores set apart for them" : "the cores of compute";
	stretto_info("%zu progress thread(s) on %s: %s; they poll %.0f us before they sleep, "
		     "waiters %.0f us",
		     world->config.channels, where, why,
		     (double)world->channels[0]->spin_progress / 1e3,
		     (double)world->channels[0]->spin_wait / 1e3);
	return STRETTO_OK;
}

int stretto_helper_core(const struct stretto_comm *comm)
{
	const struct stretto_channel *channel = comm->world->channels[0];
	cpu_set_t mask, cores;
	int last = CPU_SETSIZE - 1;

	/* The mask is that of the process: its first thread's. */
	if (!channel->started || sched_getaffinity(getpid(), sizeof mask, &mask) != 0 ||
	    pthread_getaffinity_np(channel->thread, sizeof cores, &cores) != 0 ||
	    CPU_EQUAL(&mask, &cores))
		return -1;
	while (last >= 0 && !CPU_ISSET((unsigned)last, &cores))
		last--;
	return last;
}

void stretto_progress_stop(struct stretto_world *world)
{
	for (size_t c = 0; world->channels && c < world->config.channels; c++) {
		struct stretto_channel *channel = world->channels[c];

		if (!channel || !channel->started)
			continue;
		/* seq_cst: partners are the looks before the thread parks or dozes */
		atomic_store(&channel->stop, true);
		stretto_channel_kick(channel);
		pthread_join(channel->thread, NULL);
		channel->started = false;
	}
}

stretto_status stretto_progress_pause(struct stretto_comm *comm)
{
	struct stretto_world *world = comm->world;

	/* seq_cst: partner is nothing_to_do() */
	atomic_fetch_add(&world->paused, 1);
	for (size_t c = 0; c < world->config.channels; c++) {
		/* Who sleeps in epoll is to park, and who has the baton ends its turn first. */
		stretto_channel_kick(world->channels[c]);
		stretto_channel_take_baton(world->channels[c]);
		stretto_channel_leave_baton(world->channels[c]);
	}
	return STRETTO_OK;
}

static void wake_threads(struct stretto_world *world)
{
	for (size_t c = 0; c < world->config.channels; c++)
		if (stretto_channel_busy(world->channels[c]))
			stretto_channel_kick(world->channels[c]);
}

stretto_status stretto_progress_resume(struct stretto_comm *comm)
{
	struct stretto_world *world = comm->world;
	unsigned paused = atomic_load(&world->paused);

	/* seq_cst: partner is left_to_thread() in channel.c */
	while (paused > 0 && !atomic_compare_exchange_weak(&world->paused, &paused, paused - 1))
		;
	if (paused == 0) {
		stretto_error("stretto_progress_resume without a stretto_progress_pause before it");
		return STRETTO_INVALID;
	}
	if (paused == 1)
		wake_threads(world);
	return STRETTO_OK;
}

void stretto_progress_unpause(struct stretto_world *world)
{
	/* seq_cst, as in stretto_progress_resume() */
	if (atomic_exchange(&world->paused, 0) > 0)
		wake_threads(world);
}
