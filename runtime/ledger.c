/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/ledger.h"

#include <stddef.h>

uint32_t stretto_ledger_add(struct stretto_ledger *ledger, uint64_t comm, int first,
			    uint32_t entered)
{
	uint32_t index = ledger->group_count;

	if (index == STRETTO_LEDGER_GROUPS) {
		ledger->full = 1;
		return 0;
	}
	ledger->groups[index] = (struct stretto_ledger_group){comm, first, entered};
	ledger->group_count++;
	return index;
}

static bool is_open(const struct stretto_ledger *ledger, uint32_t group, uint32_t sequence)
{
	for (uint32_t i = 0; i < ledger->open_count; i++)
		if (ledger->open[i].group == group && ledger->open[i].sequence == sequence)
			return true;
	return false;
}

void stretto_ledger_add_open(struct stretto_ledger *ledger, uint32_t group, uint32_t sequence)
{
	if (is_open(ledger, group, sequence))
		return;
	if (ledger->open_count == STRETTO_LEDGER_OPEN) {
		ledger->full = 1;
		return;
	}
	ledger->open[ledger->open_count++] = (struct stretto_ledger_open){group, sequence};
}

const struct stretto_ledger_group *stretto_ledger_find(const struct stretto_ledger *ledger,
						       uint64_t comm, int first)
{
	for (uint32_t i = 0; i < ledger->group_count; i++)
		if (ledger->groups[i].comm == comm && ledger->groups[i].first == first)
			return &ledger->groups[i];
	return NULL;
}

static enum stretto_entry entry_in(const struct stretto_ledger *ledger,
				   const struct stretto_ledger_group *group, uint32_t sequence)
{
	if (!group || stretto_sequence_after(sequence, group->entered))
		return STRETTO_ENTRY_NONE;
	return is_open(ledger, (uint32_t)(group - ledger->groups), sequence)
		       ? STRETTO_ENTRY_OPEN
		       : STRETTO_ENTRY_FINISHED;
}

enum stretto_entry stretto_ledger_entry(const struct stretto_ledger *ledger, uint64_t comm,
					int first, uint32_t sequence)
{
	return entry_in(ledger, stretto_ledger_find(ledger, comm, first), sequence);
}

/* Takes out what the other ledger says is finished. */
static void close_finished(struct stretto_ledger *ledger, const struct stretto_ledger *other)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ledger->open_count; i++) {
		struct stretto_ledger_open open = ledger->open[i];
		const struct stretto_ledger_group *group = &ledger->groups[open.group];

		if (stretto_ledger_entry(other, group->comm, group->first, open.sequence) !=
		    STRETTO_ENTRY_FINISHED)
			ledger->open[kept++] = open;
	}
	ledger->open_count = kept;
}

void stretto_ledger_merge(struct stretto_ledger *ledger, const struct stretto_ledger *other)
{
	close_finished(ledger, other);
	for (uint32_t i = 0; i < other->open_count; i++) {
		const struct stretto_ledger_open *open = &other->open[i];
		const struct stretto_ledger_group *group = &other->groups[open->group];
		const struct stretto_ledger_group *own =
			stretto_ledger_find(ledger, group->comm, group->first);

		/* entered there is raised only below: until then it tells what is news here */
		if (entry_in(ledger, own, open->sequence) != STRETTO_ENTRY_NONE)
			continue;
		stretto_ledger_add_open(
			ledger,
			own ? (uint32_t)(own - ledger->groups)
			    : stretto_ledger_add(ledger, group->comm, group->first, 0),
			open->sequence);
	}
	for (uint32_t i = 0; i < other->group_count; i++) {
		const struct stretto_ledger_group *group = &other->groups[i];
		const struct stretto_ledger_group *own =
			stretto_ledger_find(ledger, group->comm, group->first);

		if (!own)
			stretto_ledger_add(ledger, group->comm, group->first, group->entered);
		else if (stretto_sequence_after(group->entered, own->entered))
			ledger->groups[own - ledger->groups].entered = group->entered;
	}
	ledger->full |= other->full;
}

bool stretto_ledger_good(const struct stretto_ledger *ledger)
{
	if (ledger->group_count > STRETTO_LEDGER_GROUPS || ledger->open_count > STRETTO_LEDGER_OPEN)
		return false;
	for (uint32_t i = 0; i < ledger->open_count; i++)
		if (ledger->open[i].group >= ledger->group_count)
			return false;
	return true;
}
