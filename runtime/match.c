/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/match.h"

#include <stdlib.h>

void stretto_match_init(struct stretto_match *match)
{
	stretto_list_init(&match->posted);
	stretto_list_init(&match->unexpected);
	stretto_list_init(&match->spare);
}

static void free_all(struct stretto_list *arrivals)
{
	STRETTO_LIST_FOR_SAFE (it, arrivals)
		free(stretto_container_of(it, struct stretto_arrival, link));
}

void stretto_match_fini(struct stretto_match *match)
{
	free_all(&match->unexpected);
	free_all(&match->spare);
	stretto_match_init(match);
}

struct stretto_recv *stretto_match_posted(struct stretto_match *match,
					  const struct stretto_key *key)
{
	STRETTO_LIST_FOR (it, &match->posted) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (stretto_key_equal(&recv->key, key)) {
			stretto_list_remove(it);
			return recv;
		}
	}
	return NULL;
}

struct stretto_arrival *stretto_match_keep(struct stretto_match *match,
					   const struct stretto_key *key,
					   const struct stretto_signature *signature)
{
	struct stretto_arrival *arrival;

	if (stretto_list_empty(&match->spare)) {
		arrival = malloc(sizeof *arrival);
		if (!arrival)
			return NULL;
		stretto_list_init(&arrival->link);
	} else {
		arrival = stretto_container_of(match->spare.next, struct stretto_arrival, link);
		stretto_list_remove(&arrival->link);
	}
	arrival->key = *key;
	arrival->signature = *signature;
	stretto_list_append(&match->unexpected, &arrival->link);
	return arrival;
}

struct stretto_arrival *stretto_match_post(struct stretto_match *match, struct stretto_recv *recv)
{
	STRETTO_LIST_FOR (it, &match->unexpected) {
		struct stretto_arrival *arrival =
			stretto_container_of(it, struct stretto_arrival, link);

		if (stretto_key_equal(&arrival->key, &recv->key)) {
			stretto_list_remove(it);
			return arrival;
		}
	}
	stretto_list_append(&match->posted, &recv->link);
	return NULL;
}

void stretto_match_recycle(struct stretto_match *match, struct stretto_arrival *arrival)
{
	stretto_list_append(&match->spare, &arrival->link);
}

void stretto_match_cancel(struct stretto_match *match, uint64_t comm, uint32_t sequence)
{
	STRETTO_LIST_FOR_SAFE (it, &match->posted) {
		struct stretto_recv *recv = stretto_container_of(it, struct stretto_recv, link);

		if (stretto_key_is_of(&recv->key, comm, sequence))
			stretto_list_remove(it);
	}
}
