/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/stretto_coll.h"
#include "runtime/log.h"

/* Names of the parts that are not the averager's. */
static const char options_part[] = "options", optimizer_part[] = "optimizer",
		  running_part[] = "running";

/* A walk over the averager's parts. */
struct walk {
	struct stretto_checkpoint_writer *writer; /* to write to, or */
	const struct stretto_checkpoint *source;  /* to read from, or neither, to count */
	size_t parts;                             /* seen */
};

static stretto_status walk_part(void *context, const char *name, void *data, size_t bytes)
{
	struct walk *walk = context;
	const struct stretto_checkpoint_part *part;

	walk->parts++;
	if (walk->writer)
		stretto_checkpoint_put(walk->writer, name, data, bytes);
	if (!walk->source)
		return STRETTO_OK;
	part = stretto_checkpoint_find(walk->source, name);
	if (!part || part->bytes != bytes)
		return STRETTO_INVALID;
	memcpy(data, part->data, bytes);
	return STRETTO_OK;
}

static size_t optimizer_bytes(const struct stretto_optimizer *optimizer)
{
	return optimizer->count * stretto_optimizer_moments(&optimizer->options) * sizeof(float);
}

/* The least of what the ranks say: 0 if one of them could not. */
static stretto_status agree(struct stretto_comm *comm, bool mine, bool *all)
{
	int32_t least = mine;
	stretto_status status =
		stretto_allreduce(comm, &least, &least, 1, STRETTO_I32, STRETTO_MIN);

	if (status == STRETTO_OK)
		*all = least == 1;
	return status;
}

static stretto_status write_file(struct stretto_state *state, const char *folder,
				 const struct stretto_checkpoint_id *id)
{
	struct stretto_checkpoint_writer writer;
	struct walk walk = {.parts = 0};

	stretto_average_visit(state->average, false, walk_part, &walk);
	stretto_checkpoint_create(&writer, folder, id, walk.parts + 3);
	walk.writer = &writer;
	stretto_checkpoint_put(&writer, options_part, state->options, strlen(state->options));
	stretto_checkpoint_put(&writer, optimizer_part, state->optimizer->state,
			       optimizer_bytes(state->optimizer));
	stretto_checkpoint_put(&writer, running_part, state->running,
			       state->running_count * sizeof(float));
	stretto_average_visit(state->average, false, walk_part, &walk);
	return stretto_checkpoint_commit(&writer);
}

/* Why no file can be made in a folder, an errno; 0: it can. Whoever is first makes the folder. */
static int folder_problem(const char *folder)
{
	struct stat found;

	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return errno;
	if (stat(folder, &found) != 0)
		return errno;
	if (!S_ISDIR(found.st_mode))
		return ENOTDIR;
	return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

stretto_status stretto_state_folder(struct stretto_comm *comm, const char *folder)
{
	int problem = folder_problem(folder);
	int32_t rank = stretto_comm_rank(comm);
	int32_t first = problem ? rank : INT32_MAX;
	stretto_status status =
		stretto_allreduce(comm, &first, &first, 1, STRETTO_I32, STRETTO_MIN);

	if (status != STRETTO_OK || first == INT32_MAX)
		return status;
	if (first == rank)
		stretto_error("checkpoints cannot be written to %s: %s; give a folder that can be "
			      "made or written to",
			      folder, strerror(problem));
	return STRETTO_INVALID;
}

stretto_status stretto_state_save(struct stretto_state *state, const char *folder, bool *saved)
{
	struct stretto_checkpoint_id id = {
		.samples = state->samples,
		.rank = (uint32_t)stretto_comm_rank(state->comm),
		.ranks = (uint32_t)stretto_comm_size(state->comm),
	};
	bool all = false;
	stretto_status status;

	mkdir(folder, 0777); /* again, if it has gone; if it cannot be, opening the file says why */
	status = agree(state->comm, write_file(state, folder, &id) == STRETTO_OK, &all);
	if (status != STRETTO_OK)
		return status;
	*saved = all;
	if (!all)
		return STRETTO_OK;
	if (state->before != UINT64_MAX) {
		id.samples = state->before;
		stretto_checkpoint_prune(folder, &id);
	}
	state->before = state->samples;
	return STRETTO_OK;
}

/* What rank 0 sees in the folder, told to all. found->ranks is 0 if there is nothing left. */
static stretto_status choose(struct stretto_comm *comm, const char *folder, uint64_t before,
			     struct stretto_checkpoint_id *id)
{
	if (stretto_comm_rank(comm) != 0 || !stretto_checkpoint_latest(folder, before, id))
		*id = (struct stretto_checkpoint_id){.samples = 0};
	return stretto_broadcast(comm, id, sizeof(*id), STRETTO_U8, 0);
}

/* Reads this rank's file and makes sure that all ranks could. */
static stretto_status read_file(struct stretto_comm *comm, const char *folder,
				struct stretto_checkpoint_id *id,
				struct stretto_checkpoint *checkpoint, bool *all)
{
	char problem[STRETTO_CHECKPOINT_PROBLEM], path[STRETTO_CHECKPOINT_PATH];
	stretto_status status;

	id->rank = (uint32_t)stretto_comm_rank(comm) % id->ranks;
	status = stretto_checkpoint_read(folder, id, checkpoint, problem);
	if (status != STRETTO_OK && stretto_checkpoint_path(folder, id, path) &&
	    (uint32_t)stretto_comm_rank(comm) == id->rank)
		stretto_warn("checkpoint %s: %s; the one before is tried", path, problem);
	return agree(comm, status == STRETTO_OK, all);
}

/* Whether it is of a training with these options; one rank says why not. */
static bool fits(const struct stretto_state *state, const struct stretto_checkpoint *checkpoint)
{
	const struct stretto_checkpoint_part *part =
		stretto_checkpoint_find(checkpoint, options_part);

	if (part && part->bytes == strlen(state->options) &&
	    memcmp(part->data, state->options, part->bytes) == 0)
		return true;
	if (stretto_comm_rank(state->comm) == 0)
		stretto_error("the checkpoint is of another training: it has '%.*s', the options "
			      "say '%s'",
			      part ? (int)part->bytes : 0, part ? (const char *)part->data : "",
			      state->options);
	return false;
}

static stretto_status take_running(struct stretto_state *state,
				   const struct stretto_checkpoint *checkpoint)
{
	const struct stretto_checkpoint_part *part =
		stretto_checkpoint_find(checkpoint, running_part);

	if (!part || part->bytes != state->running_count * sizeof(float))
		return STRETTO_INVALID;
	if (part->bytes > 0)
		memcpy(state->running, part->data, part->bytes);
	return STRETTO_OK;
}

static stretto_status take(struct stretto_state *state, const struct stretto_checkpoint *checkpoint)
{
	const struct stretto_checkpoint_part *part =
		stretto_checkpoint_find(checkpoint, optimizer_part);
	bool same_ranks = checkpoint->id.ranks == (uint32_t)stretto_comm_size(state->comm);
	struct walk walk = {.source = checkpoint};
	stretto_status status = STRETTO_OK;

	if (!fits(state, checkpoint))
		return STRETTO_INVALID;
	if (part && part->bytes == optimizer_bytes(state->optimizer))
		memcpy(state->optimizer->state, part->data, part->bytes);
	else if (same_ranks)
		status = STRETTO_INVALID;
	if (status == STRETTO_OK)
		status = take_running(state, checkpoint);
	if (status == STRETTO_OK)
		status = stretto_average_visit(state->average, true, walk_part, &walk);
	if (status != STRETTO_OK && stretto_comm_rank(state->comm) == 0)
		stretto_error("the checkpoint does not hold what the strategy, the optimiser and "
			      "the model of these options need");
	return status;
}

/* The latest checkpoint that every rank can read; id->ranks is 0 if there is none. */
static stretto_status find(struct stretto_comm *comm, const char *folder,
			   struct stretto_checkpoint_id *id, struct stretto_checkpoint *checkpoint)
{
	uint64_t before = UINT64_MAX;
	bool all = false;
	stretto_status status = choose(comm, folder, before, id);

	while (status == STRETTO_OK && id->ranks > 0) {
		status = read_file(comm, folder, id, checkpoint, &all);
		if (status != STRETTO_OK || all)
			return status;
		stretto_checkpoint_fini(checkpoint);
		before = id->samples;
		status = choose(comm, folder, before, id);
	}
	return status;
}

stretto_status stretto_state_restore(struct stretto_state *state, const char *folder, size_t batch,
				     struct stretto_state_found *found)
{
	struct stretto_checkpoint checkpoint = {.count = 0};
	struct stretto_checkpoint_id id;
	size_t ranks = (size_t)stretto_comm_size(state->comm);
	bool all = false;
	stretto_status status = find(state->comm, folder, &id, &checkpoint), taken;

	if (status != STRETTO_OK)
		return status;
	if (id.ranks == 0) {
		if (stretto_comm_rank(state->comm) == 0)
			stretto_error("%s: there is no complete checkpoint", folder);
		return STRETTO_INVALID;
	}
	taken = take(state, &checkpoint);
	stretto_checkpoint_fini(&checkpoint);
	status = agree(state->comm, taken == STRETTO_OK, &all);
	if (status != STRETTO_OK)
		return status;
	if (!all)
		return STRETTO_INVALID;
	state->samples = id.samples;
	state->before = id.samples;
	*found = (struct stretto_state_found){id.samples, id.samples / (batch * ranks), id.ranks};
	return STRETTO_OK;
}
