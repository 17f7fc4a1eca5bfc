/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/selection.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "collectives/counts.h"
#include "collectives/traits.h"
#include "runtime/board.h"
#include "runtime/comm.h"
#include "runtime/log.h"

const struct stretto_link stretto_link_shm = {
	.latency = 1e-6,
	.per_byte = 1 / 8e9,
	.per_reduce = 1 / 10e9,
	.message = 32 << 10,
};

/* A port of 50 Gbit/s. */
const struct stretto_link stretto_link_network = {
	.latency = 3e-6,
	.per_byte = 1 / 6e9,
	.per_reduce = 1 / 10e9,
	.message = 128 << 10,
};

/* Appends to text of `size` bytes; what is too long is cut. */
__attribute__((format(printf, 3, 4))) static void add_text(char *text, size_t size,
							   const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

/* Whether STRETTO_REPRODUCIBLE leaves the algorithm out. */
static bool is_barred(const struct stretto_config *config,
		      const struct stretto_algorithm *algorithm)
{
	return config->reproducible && stretto_traits_of(algorithm->collective)->reduces &&
	       !algorithm->canonical;
}

/* "ring, doubling, tree": the algorithms that a collective may take. */
static const char *valid_names(const struct stretto_config *config,
			       enum stretto_collective collective, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; stretto_algorithms[i]; i++)
		if (stretto_algorithms[i]->collective == collective &&
		    !is_barred(config, stretto_algorithms[i]))
			add_text(text, size, "%s%s", text[0] ? ", " : "",
				 stretto_algorithms[i]->name);
	return text;
}

/* Bytes as the cost models count them: all blocks together where a buffer has blocks. */
static size_t total_bytes(const struct stretto_coll_args *args, int size)
{
	return stretto_counts_elements(args, size) * stretto_type_size(args->type);
}

/* Whether an algorithm works for a group at all; most do, if not all of them well. */
static bool can_do(const struct stretto_group *group, const struct stretto_algorithm *algorithm,
		   const struct stretto_coll_args *args)
{
	if (algorithm->mapped && (args->scale || !algorithm->suits(group)))
		return false;
	return algorithm->most == 0 || total_bytes(args, group->size) <= algorithm->most;
}

/* STRETTO_INVALID, logged, for an algorithm that a call asked for and that cannot do it. */
static stretto_status check_can_do(const struct stretto_group *group,
				   const struct stretto_algorithm *algorithm,
				   const struct stretto_coll_args *args)
{
	const char *name = stretto_collective_name(algorithm->collective);

	if (can_do(group, algorithm, args))
		return STRETTO_OK;
	if (algorithm->mapped && !algorithm->suits(group))
		stretto_error("%s by %s: it is for two and more ranks of one node that map each "
			      "other's memory, at no set pace",
			      name, algorithm->name);
	else if (algorithm->mapped && args->scale)
		stretto_error("%s by %s: it cannot scale its input", name, algorithm->name);
	else
		stretto_error("%s by %s: it is for at most %zu bytes, not %zu", name,
			      algorithm->name, algorithm->most, total_bytes(args, group->size));
	return STRETTO_INVALID;
}

/*
 * Bytes of the window, as the configuration or else the algorithm wants it. What is limited to a
 * payload of the board has one window: nobody waits before the next for those who still read.
 */
static size_t window_bytes(const struct stretto_config *config, const struct stretto_group *group,
			   const struct stretto_algorithm *algorithm, size_t bytes)
{
	if (algorithm->most > 0)
		return algorithm->most;
	return config->window_bytes > 0 ? config->window_bytes : algorithm->window(group, bytes);
}

/* Sets the window of a choice: bytes become elements of `count`, at least one, at most all. */
static void set_window(const struct stretto_coll_args *args, int size, size_t bytes,
		       struct stretto_choice *choice)
{
	size_t all = args->count > 0 ? args->count : 1;
	struct stretto_coll_args one = *args;

	if (stretto_counts_given(args)) { /* blocks that differ are not cut */
		all = stretto_counts_elements(args, size);
		choice->window = all > 0 ? all : 1;
		return;
	}
	one.count = 1;
	size_t elements = bytes / total_bytes(&one, size);
	choice->window = elements < 1 ? 1 : elements > all ? all : elements;
}

/*
 * One "COLLECTIVE=NAME" entry of the setting, `length` bytes. Writes *algorithm if it is about the
 * wanted collective. STRETTO_INVALID, logged, for an entry that means nothing.
 */
static stretto_status read_entry(const struct stretto_config *config, const char *entry,
				 size_t length, enum stretto_collective wanted,
				 const struct stretto_algorithm **algorithm)
{
	char text[STRETTO_CONFIG_TEXT];
	char names[160];
	snprintf(text, sizeof(text), "%.*s", (int)length, entry);
	char *name = strchr(text, '=');

	if (!name) {
		stretto_error("STRETTO_ALGORITHM: \"%s\" is not COLLECTIVE=ALGORITHM, such as "
			      "allreduce=ring",
			      text);
		return STRETTO_INVALID;
	}
	*name++ = '\0';
	for (int c = 0; c < STRETTO_COLLECTIVE_COUNT; c++) {
		enum stretto_collective collective = (enum stretto_collective)c;
		if (strcmp(stretto_collective_name(collective), text) != 0)
			continue;
		const struct stretto_algorithm *found = stretto_algorithm_find(collective, name);
		if (!found) {
			stretto_error("STRETTO_ALGORITHM: \"%s=%s\": %s has no algorithm of that "
				      "name; it has: %s",
				      text, name, text,
				      valid_names(config, collective, names, sizeof(names)));
			return STRETTO_INVALID;
		}
		if (collective == wanted)
			*algorithm = found;
		return STRETTO_OK;
	}
	stretto_error("STRETTO_ALGORITHM: \"%s=%s\": there is no collective \"%s\"; there are: %s",
		      text, name, text, STRETTO_COLLECTIVE_WORDS);
	return STRETTO_INVALID;
}

/* The collective of that name; STRETTO_COLLECTIVE_COUNT if there is none. */
static enum stretto_collective collective_named(const char *name)
{
	int c = 0;

	while (c < STRETTO_COLLECTIVE_COUNT &&
	       strcmp(stretto_collective_name((enum stretto_collective)c), name) != 0)
		c++;
	return (enum stretto_collective)c;
}

/*
 * The algorithm that the tuning file fixes for so many bytes; *algorithm stays as it is if it fixes
 * none, or one that STRETTO_REPRODUCIBLE bars. All lines are looked at, so that a bad name never
 * goes unseen: STRETTO_INVALID, logged.
 */
static stretto_status from_file(const struct stretto_config *config, enum stretto_collective wanted,
				size_t bytes, const struct stretto_algorithm **algorithm)
{
	const struct stretto_tuning *tuning = config->tuning;
	char names[160];

	for (size_t i = 0; tuning && i < tuning->rule_count; i++) {
		const struct stretto_tuning_rule *rule = &tuning->rules[i];
		enum stretto_collective collective = collective_named(rule->collective);
		const struct stretto_algorithm *found =
			stretto_algorithm_find(collective, rule->algorithm);

		if (collective == STRETTO_COLLECTIVE_COUNT) {
			stretto_error("STRETTO_TUNING: line %u: there is no key or collective "
				      "\"%s\"; there are: node, across, " STRETTO_COLLECTIVE_WORDS,
				      rule->line, rule->collective);
			return STRETTO_INVALID;
		}
		if (!found) {
			stretto_error("STRETTO_TUNING: line %u: %s has no algorithm \"%s\"; it "
				      "has: %s",
				      rule->line, rule->collective, rule->algorithm,
				      valid_names(config, collective, names, sizeof(names)));
			return STRETTO_INVALID;
		}
		if (collective == wanted && rule->low <= bytes && bytes <= rule->high &&
		    !is_barred(config, found))
			*algorithm = found;
	}
	return STRETTO_OK;
}

/* STRETTO_INVALID, logged, for an algorithm that was asked for and adds in an order of its own. */
static stretto_status check_order(const struct stretto_config *config,
				  const struct stretto_algorithm *algorithm)
{
	char names[160];

	if (!is_barred(config, algorithm))
		return STRETTO_OK;
	stretto_error("%s by %s: its order of additions depends on where an element stands, and "
		      "STRETTO_REPRODUCIBLE asks for one order; these have it: %s",
		      stretto_collective_name(algorithm->collective), algorithm->name,
		      valid_names(config, algorithm->collective, names, sizeof(names)));
	return STRETTO_INVALID;
}

/* Looks for the collective in the setting; *algorithm stays as it is if it is not there. */
static stretto_status from_setting(const struct stretto_config *config,
				   enum stretto_collective collective,
				   const struct stretto_algorithm **algorithm)
{
	const char *setting = config->algorithm;

	while (*setting) {
		size_t length = strcspn(setting, ",");
		stretto_status status = read_entry(config, setting, length, collective, algorithm);
		if (status != STRETTO_OK)
			return status;
		setting += length;
		setting += *setting == ',';
	}
	return STRETTO_OK;
}

/* The least estimated cost; the reason lists all that suit, the least first. */
static const struct stretto_algorithm *cheapest(const struct stretto_config *config,
						const struct stretto_group *group,
						const struct stretto_coll_args *args,
						struct stretto_choice *choice)
{
	const struct stretto_algorithm *best = NULL;
	size_t bytes = total_bytes(args, group->size);
	double least = 0;
	char others[sizeof(choice->reason)] = "";

	for (int pass = 0; pass < 2; pass++) /* find the least, then list the others */
		for (size_t i = 0; stretto_algorithms[i]; i++) {
			const struct stretto_algorithm *one = stretto_algorithms[i];
			if (one->collective != args->collective || (pass == 1 && one == best) ||
			    (one->suits && !one->suits(group)) || !can_do(group, one, args) ||
			    is_barred(config, one))
				continue;
			double cost =
				one->cost(group, bytes, window_bytes(config, group, one, bytes));
			if (pass == 0 && (!best || cost < least)) {
				best = one;
				least = cost;
			} else if (pass == 1) {
				add_text(others, sizeof(others), ", %s %.4g us", one->name,
					 cost * 1e6);
			}
		}
	choice->reason[0] = '\0';
	if (best)
		add_text(choice->reason, sizeof(choice->reason), "model: %s %s %.4g us%s",
			 others[0] ? "least of" : "only", best->name, least * 1e6, others);
	return best;
}

struct stretto_link stretto_link_tuned(const struct stretto_tuning *tuning,
				       enum stretto_tuning_level level, const char *transport,
				       const struct stretto_link *link)
{
	return (struct stretto_link){
		.latency = stretto_tuning_value(tuning, level, transport, STRETTO_TUNING_LATENCY,
						link->latency),
		.per_byte = stretto_tuning_value(tuning, level, transport, STRETTO_TUNING_PER_BYTE,
						 link->per_byte),
		.per_reduce = stretto_tuning_value(tuning, level, transport,
						   STRETTO_TUNING_PER_REDUCE, link->per_reduce),
		.message = (size_t)stretto_tuning_value(
			tuning, level, transport, STRETTO_TUNING_MESSAGE, (double)link->message),
	};
}

struct stretto_group stretto_group_on_node(int size)
{
	return (struct stretto_group){
		.size = size,
		.nodes = 1,
		.least = size,
		.most = size,
		.link = &stretto_link_shm,
		.near = &stretto_link_shm,
		.board = size > 1,
	};
}

struct stretto_group stretto_group_of(const struct stretto_comm *comm, struct stretto_link links[2])
{
	return stretto_group_tuned(comm, comm->world->config.tuning, links);
}

struct stretto_group stretto_group_tuned(const struct stretto_comm *comm,
					 const struct stretto_tuning *tuning,
					 struct stretto_link links[2])
{
	const struct stretto_world *world = comm->world;
	struct stretto_group group = {
		.size = comm->size,
		.nodes = comm->topology.nodes,
		.least = comm->topology.least,
		.most = comm->topology.most,
		.near = &links[0],
		.link = &links[0],
		.board = stretto_board_possible(comm),
	};

	links[0] = stretto_link_tuned(tuning, STRETTO_TUNING_NODE,
				      world->mapped ? "shm" : world->network,
				      world->mapped ? &stretto_link_shm : &stretto_link_network);
	links[1] = stretto_link_tuned(tuning, STRETTO_TUNING_ACROSS, world->network,
				      &stretto_link_network);
	if (group.nodes > 1 && (world->mapped || tuning))
		group.link = &links[1];
	return group;
}

stretto_status stretto_select(const struct stretto_config *config,
			      const struct stretto_group *group,
			      const struct stretto_coll_args *args, struct stretto_choice *choice)
{
	const struct stretto_algorithm *algorithm = NULL, *fixed = NULL;
	size_t bytes = total_bytes(args, group->size);
	struct stretto_choice made = {0};
	char names[160];

	/* The setting and the file are read even if the call decides, so that a bad one never goes
	 * unseen. */
	stretto_status status = from_setting(config, args->collective, &algorithm);
	if (status == STRETTO_OK)
		status = from_file(config, args->collective, bytes, &fixed);
	if (status != STRETTO_OK)
		return status;
	if (args->algorithm) {
		algorithm = stretto_algorithm_find(args->collective, args->algorithm);
		if (!algorithm) {
			stretto_error("%s has no algorithm \"%s\"; it has: %s",
				      stretto_collective_name(args->collective), args->algorithm,
				      valid_names(config, args->collective, names, sizeof(names)));
			return STRETTO_INVALID;
		}
		status = check_can_do(group, algorithm, args);
		if (status != STRETTO_OK)
			return status;
		add_text(made.reason, sizeof(made.reason), "hint: asked for by the call");
	} else if (algorithm && can_do(group, algorithm, args)) {
		add_text(made.reason, sizeof(made.reason), "environment: set by STRETTO_ALGORITHM");
	} else if (fixed && can_do(group, fixed, args)) {
		algorithm = fixed;
		add_text(made.reason, sizeof(made.reason), "file: fixed by STRETTO_TUNING");
	} else {
		algorithm = cheapest(config, group, args, &made);
	}
	status = check_order(config, algorithm);
	if (status != STRETTO_OK)
		return status;
	made.algorithm = algorithm;
	made.seconds = algorithm->cost(group, bytes, window_bytes(config, group, algorithm, bytes));
	set_window(args, group->size, window_bytes(config, group, algorithm, bytes), &made);
	*choice = made;
	return STRETTO_OK;
}

bool stretto_algorithm_can(const struct stretto_comm *comm,
			   const struct stretto_algorithm *algorithm,
			   const struct stretto_coll_args *args)
{
	struct stretto_link links[2];
	const struct stretto_group group = stretto_group_of(comm, links);

	return can_do(&group, algorithm, args);
}
