/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/traits.h"

const struct stretto_traits stretto_traits_table[STRETTO_COLLECTIVE_COUNT] = {
	[STRETTO_ALLREDUCE] = {.in = STRETTO_VECTOR, .out = STRETTO_VECTOR, .reduces = true},
	[STRETTO_BROADCAST] = {.out = STRETTO_VECTOR, .rooted = true},
	[STRETTO_ALLGATHER] = {.in = STRETTO_VECTOR, .out = STRETTO_BLOCKS},
	[STRETTO_REDUCE_SCATTER] = {.in = STRETTO_BLOCKS, .out = STRETTO_VECTOR, .reduces = true},
	[STRETTO_BARRIER] = {.in = STRETTO_NOTHING},
	[STRETTO_REDUCE] = {.in = STRETTO_VECTOR,
			    .out = STRETTO_VECTOR,
			    .out_at_root = true,
			    .reduces = true,
			    .rooted = true},
	[STRETTO_ALLTOALL] = {.in = STRETTO_BLOCKS, .out = STRETTO_BLOCKS},
	[STRETTO_GATHER] = {.in = STRETTO_VECTOR,
			    .out = STRETTO_BLOCKS,
			    .out_at_root = true,
			    .rooted = true},
	[STRETTO_SCATTER] = {.in = STRETTO_BLOCKS,
			     .out = STRETTO_VECTOR,
			     .in_at_root = true,
			     .rooted = true},
	[STRETTO_ALLGATHERV] = {.in = STRETTO_VECTOR, .out = STRETTO_BLOCKS, .varies = true},
	[STRETTO_ALLTOALLV] = {.in = STRETTO_BLOCKS, .out = STRETTO_BLOCKS, .varies = true},
	[STRETTO_REDUCE_SCATTERV] = {.in = STRETTO_BLOCKS,
				     .out = STRETTO_VECTOR,
				     .reduces = true,
				     .varies = true},
};

bool stretto_traits_blocks(enum stretto_collective collective)
{
	return stretto_traits_of(collective)->in == STRETTO_BLOCKS ||
	       stretto_traits_of(collective)->out == STRETTO_BLOCKS;
}

bool stretto_traits_into_block(enum stretto_collective collective)
{
	return stretto_traits_of(collective)->in == STRETTO_BLOCKS &&
	       stretto_traits_of(collective)->out == STRETTO_VECTOR;
}
