/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/lib/perf.h"

const struct perf_collective perf_collectives[STRETTO_COLLECTIVE_COUNT] = {
	[STRETTO_ALLREDUCE] = {.osu = "Allreduce", .reduces = true, .passes = 2},
	[STRETTO_BROADCAST] = {.osu = "Bcast", .one_buffer = true, .rooted = true},
	[STRETTO_ALLGATHER] = {.osu = "Allgather", .block_is_size = true, .passes = 1},
	[STRETTO_REDUCE_SCATTER] = {.osu = "Reduce_scatter", .reduces = true, .passes = 1},
	[STRETTO_REDUCE] = {.osu = "Reduce", .reduces = true, .rooted = true},
	[STRETTO_ALLTOALL] = {.osu = "Alltoall", .block_is_size = true, .passes = 1},
	[STRETTO_GATHER] = {.osu = "Gather", .block_is_size = true, .rooted = true, .passes = 1},
	[STRETTO_SCATTER] = {.osu = "Scatter", .block_is_size = true, .rooted = true, .passes = 1},
	[STRETTO_ALLGATHERV] = {.osu = "Allgatherv", .block_is_size = true, .passes = 1},
	[STRETTO_ALLTOALLV] = {.osu = "Alltoallv", .block_is_size = true, .passes = 1},
	[STRETTO_REDUCE_SCATTERV] = {.osu = "Reduce_scatterv", .reduces = true, .passes = 1},
	[STRETTO_BARRIER] = {.osu = "Barrier", .no_data = true, .one_buffer = true},
};
