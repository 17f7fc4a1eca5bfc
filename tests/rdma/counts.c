/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.c: what a ring allreduce costs over verbs, counted. Each rank of a job runs it, with
 * STRETTO_ALGORITHM=allreduce=ring, one channel and one window:
 *
 *   counts ROUNDS
 *
 * In registered memory, n ranks, per rank and operation: 2(n - 1) messages, each announced once and
 * written once; no byte of payload is copied by a processor, on either side; nothing is registered,
 * and nothing allocated. Prints "rank R: ok ..." and exits 0.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/stretto_coll.h"
#include "runtime/channel.h"
#include "runtime/comm.h"
#include "runtime/transports/verbs.h"
#include "tests/lib/ranks.h"

enum { WARMUP = 3, ELEMENTS = 100000 };

static _Atomic unsigned long allocations;

/* Allocations of our own code and the test's; linked in place of the real ones. */
#define COUNTED(name, parameters, arguments)                                                       \
	void *__real_##name parameters;                                                            \
	void *__wrap_##name parameters;                                                            \
	void *__wrap_##name parameters                                                             \
	{                                                                                          \
		allocations++;                                                                     \
		return __real_##name arguments;                                                    \
	}
COUNTED(malloc, (size_t size), (size))
COUNTED(calloc, (size_t count, size_t size), (count, size))
COUNTED(realloc, (void *old, size_t size), (old, size))
COUNTED(aligned_alloc, (size_t alignment, size_t size), (alignment, size))

static struct verbs_counters counters_of(const struct stretto_comm *world)
{
	const struct stretto_channel *channel = world->world->channels[0];

	for (int i = 0; i < channel->device_count; i++)
		if (channel->devices[i]->transport == &stretto_transport_verbs)
			return verbs_device_of(channel->devices[i])->counters;
	test_failed("there is no verbs device");
}

static void sum(struct stretto_comm *world, float *data, int rounds)
{
	for (int round = 0; round < rounds; round++)
		require(stretto_allreduce(world, data, data, ELEMENTS, STRETTO_F32, STRETTO_MAX) ==
			STRETTO_OK);
}

static void expect(const char *what, uint64_t found, uint64_t low, uint64_t high)
{
	if (found >= low && found <= high)
		return;
	fprintf(stderr, "%s: %llu, expected %llu to %llu\n", what, (unsigned long long)found,
		(unsigned long long)low, (unsigned long long)high);
	test_failed(what);
}

int main(int argc, char **argv)
{
	struct verbs_counters before, after;
	struct stretto_comm *world;
	uint64_t rounds, messages;
	unsigned long allocated;
	float *data;

	require(argc == 2 && (rounds = strtoull(argv[1], NULL, 10)) > 0);
	require(stretto_init(NULL, &world) == STRETTO_OK);
	require(stretto_alloc(world, ELEMENTS * sizeof *data, (void **)&data) == STRETTO_OK);
	for (int i = 0; i < ELEMENTS; i++)
		data[i] = (float)(i + stretto_comm_rank(world));
	sum(world, data, WARMUP);
	before = counters_of(world);
	allocated = allocations;
	sum(world, data, (int)rounds);
	allocated = allocations - allocated;
	after = counters_of(world);
	messages = rounds * 2 * ((uint64_t)stretto_comm_size(world) - 1);

	expect("bytes copied into messages", after.copied_out - before.copied_out, 0, 0);
	expect("bytes copied out of messages", after.copied_in - before.copied_in, 0, 0);
	expect("registrations", after.registrations - before.registrations, 0, 0);
	expect("allocations", allocated, 0, 0);
	/*
	 * Announcements may run ahead of the operation's end, and into the next; what returns credits
	 * comes on top, once for every VERBS_OWED announcements taken, and a probe or word on what
	 * this rank entered now and then where all is slow.
	 */
	expect("writes", after.writes - before.writes, messages, messages);
	expect("announcements", after.announcements - before.announcements, messages, messages);
	expect("messages", after.messages - before.messages, messages,
	       messages + messages / VERBS_OWED + 2 + rounds);
	expect("doorbells", after.doorbells - before.doorbells,
	       after.messages - before.messages + messages,
	       after.messages - before.messages + messages + rounds);
	/* a write says that it is over; of messages one in VERBS_SIGNAL */
	expect("completions", after.completions - before.completions, messages - 1,
	       messages + (after.messages - before.messages) / VERBS_SIGNAL + 2 + rounds);
	printf("rank %d: ok, %llu messages in %llu operations\n", stretto_comm_rank(world),
	       (unsigned long long)messages, (unsigned long long)rounds);
	return stretto_finalize(world) != STRETTO_OK;
}
