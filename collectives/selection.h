/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selection.h: which algorithm an operation takes, and with which window.
 *
 * In this order: the hint of the call, STRETTO_ALGORITHM, the file of STRETTO_TUNING, the least
 * estimated cost. The choice
 * depends only on values that are the same on all ranks. With STRETTO_REPRODUCIBLE reductions take
 * only algorithms that are canonical, see algorithm.h.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_SELECTION_H
#define STRETTO_COLLECTIVES_SELECTION_H

#include "collectives/algorithm.h"
#include "runtime/config.h"
#include "runtime/tuning.h"

struct stretto_comm;

struct stretto_choice {
	const struct stretto_algorithm *algorithm;
	size_t window;    /* elements of `count` per window, >= 1; the last window may be shorter */
	double seconds;   /* estimated */
	char reason[160]; /* begins with hint, environment, file or model */
};

/* The links that the model takes: between ranks of one node, and of several. */
extern const struct stretto_link stretto_link_shm;
extern const struct stretto_link stretto_link_network;

/*
 * A link with what the file (NULL: none) says of a transport at a level; `link` for the rest.
 */
struct stretto_link stretto_link_tuned(const struct stretto_tuning *tuning,
				       enum stretto_tuning_level level, const char *transport,
				       const struct stretto_link *link);

/* Ranks that share a node and its memory. */
struct stretto_group stretto_group_on_node(int size);

/*
 * The communicator as the cost model sees it, with what the tuning file says of its links: the same
 * on all its ranks. `links` are written, and must stay as long as the group.
 */
struct stretto_group stretto_group_of(const struct stretto_comm *comm,
				      struct stretto_link links[2]);

/* The same with another tuning file (NULL: none) than that of the communicator's configuration. */
struct stretto_group stretto_group_tuned(const struct stretto_comm *comm,
					 const struct stretto_tuning *tuning,
					 struct stretto_link links[2]);

/*
 * Chooses for args on the ranks of a group. STRETTO_INVALID if args, the configuration or a rule
 * of the tuning file name
 * an algorithm that does not exist for this collective, or is barred by STRETTO_REPRODUCIBLE; the
 * log lists those that may be named.
 */
stretto_status stretto_select(const struct stretto_config *config,
			      const struct stretto_group *group,
			      const struct stretto_coll_args *args, struct stretto_choice *choice);

/* Whether a call can take an algorithm on a communicator. The same on all its ranks. */
bool stretto_algorithm_can(const struct stretto_comm *comm,
			   const struct stretto_algorithm *algorithm,
			   const struct stretto_coll_args *args);

#endif
