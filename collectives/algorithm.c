/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/algorithm.h"

#include <string.h>

#include "collectives/premul.h"
#include "collectives/traits.h"

/* Every algorithm: one line here, one file in algorithms/. */
#define ALGORITHMS(X)                                                                              \
	X(stretto_allreduce_ring)                                                                  \
	X(stretto_allreduce_doubling)                                                              \
	X(stretto_allreduce_tree)                                                                  \
	X(stretto_broadcast_binomial)                                                              \
	X(stretto_broadcast_chain)                                                                 \
	X(stretto_allgather_ring)                                                                  \
	X(stretto_reduce_scatter_ring)                                                             \
	X(stretto_barrier_dissemination)                                                           \
	X(stretto_allreduce_hierarchical)                                                          \
	X(stretto_allreduce_rabenseifner)                                                          \
	X(stretto_reduce_scatter_halving)                                                          \
	X(stretto_reduce_binomial)                                                                 \
	X(stretto_reduce_chain)                                                                    \
	X(stretto_alltoall_bruck)                                                                  \
	X(stretto_alltoall_pairwise)                                                               \
	X(stretto_gather_binomial)                                                                 \
	X(stretto_gather_linear)                                                                   \
	X(stretto_scatter_binomial)                                                                \
	X(stretto_scatter_linear)                                                                  \
	X(stretto_allgather_bruck)                                                                 \
	X(stretto_allreduce_flat)                                                                  \
	X(stretto_allreduce_direct)                                                                \
	X(stretto_barrier_flat)                                                                    \
	X(stretto_allgatherv_ring)                                                                 \
	X(stretto_allgatherv_bruck)                                                                \
	X(stretto_alltoallv_pairwise)                                                              \
	X(stretto_alltoallv_linear)                                                                \
	X(stretto_reduce_scatterv_ring)                                                            \
	X(stretto_reduce_scatterv_direct)

#define X(name) extern const struct stretto_algorithm name;
ALGORITHMS(X)
#undef X

const struct stretto_algorithm *const stretto_algorithms[] = {
#define X(name) &name,
	ALGORITHMS(X)
#undef X
		NULL,
};

const struct stretto_algorithm *stretto_algorithm_find(enum stretto_collective collective,
						       const char *name)
{
	for (size_t i = 0; stretto_algorithms[i]; i++)
		if (stretto_algorithms[i]->collective == collective &&
		    strcmp(stretto_algorithms[i]->name, name) == 0)
			return stretto_algorithms[i];
	return NULL;
}

uint8_t stretto_algorithm_index(const struct stretto_algorithm *algorithm)
{
	uint8_t index = 0;

	while (stretto_algorithms[index] && stretto_algorithms[index] != algorithm)
		index++;
	return index;
}

const struct stretto_algorithm *stretto_algorithm_at(uint8_t index)
{
	for (uint8_t i = 0; stretto_algorithms[i]; i++)
		if (i == index)
			return stretto_algorithms[i];
	return NULL;
}

/* What a group of one rank does: at most a copy. */
static void build_alone(struct stretto_schedule *schedule)
{
	const struct stretto_shape *shape = &schedule->shape;
	const struct stretto_traits *traits = stretto_traits_of(shape->collective);

	if (shape->in_place || traits->in == STRETTO_NOTHING)
		return;
	int copy = stretto_schedule_copy(schedule, stretto_own(shape, STRETTO_BUF_OUT),
					 stretto_own(shape, STRETTO_BUF_IN), STRETTO_NO_STEP,
					 STRETTO_NO_STEP);
	if (traits->reduces)
		stretto_schedule_final(schedule, copy);
}

static stretto_status build_plain(const struct stretto_algorithm *algorithm,
				  const struct stretto_shape *shape,
				  struct stretto_schedule *schedule)
{
	stretto_schedule_init(schedule, shape, algorithm->name);
	if (shape->size == 1)
		build_alone(schedule);
	else
		algorithm->build(schedule);
	return stretto_schedule_seal(schedule);
}

stretto_status stretto_algorithm_build(const struct stretto_algorithm *algorithm,
				       const struct stretto_shape *shape,
				       struct stretto_schedule *schedule)
{
	struct stretto_schedule plain;
	stretto_status status;

	if (!shape->scaled)
		return build_plain(algorithm, shape, schedule);
	stretto_schedule_init(schedule, shape, algorithm->name);
	status = build_plain(algorithm, shape, &plain);
	if (status == STRETTO_OK)
		status = stretto_premul_rewrite(&plain, schedule);
	stretto_schedule_fini(&plain);
	return status;
}
