/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-perf with a library that damages data: after each blocking collective over floats the
 * last rank has one bit more or less where TAMPER says: in its output ("out"), its input ("in") or
 * just behind the output ("guard"). What the tool must find.
 */
#include <stdlib.h>
#include <string.h>

/* its main() and its static functions, as they are */
#include "tools/stretto-perf.c"

stretto_status __real_stretto_coll_run(struct stretto_comm *comm,
				       const struct stretto_coll_args *args);
stretto_status __wrap_stretto_coll_run(struct stretto_comm *comm,
				       const struct stretto_coll_args *args);

static unsigned char *damaged(const struct stretto_coll_args *args, const char *where)
{
	if (strcmp(where, "in") == 0)
		return (unsigned char *)args->in;
	if (strcmp(where, "guard") == 0)
		return (unsigned char *)args->out + args->count * sizeof(float);
	return args->out;
}

stretto_status __wrap_stretto_coll_run(struct stretto_comm *comm,
				       const struct stretto_coll_args *args)
{
	stretto_status status = __real_stretto_coll_run(comm, args);
	const char *where = getenv("TAMPER");

	/* the tool's own sums of times and errors are of other types */
	if (where && args->type == STRETTO_F32 &&
	    stretto_comm_rank(comm) == stretto_comm_size(comm) - 1)
		*damaged(args, where) ^= 1;
	return status;
}
