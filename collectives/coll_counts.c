/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_counts.c: the named calls of blocks of unequal length; each fills in the arguments. */
#include "collectives/stretto_coll.h"

#include "runtime/log.h"

#define ALLGATHERV(in_, out_, counts_, displs_, type_)                                             \
	(&(struct stretto_coll_args){.collective = STRETTO_ALLGATHERV,                             \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .out_counts = (counts_),                                      \
				     .out_displs = (displs_),                                      \
				     .type = (type_)})
#define ALLTOALLV(in_, in_counts_, in_displs_, out_, out_counts_, out_displs_, type_)              \
	(&(struct stretto_coll_args){.collective = STRETTO_ALLTOALLV,                              \
				     .in = (in_),                                                  \
				     .in_counts = (in_counts_),                                    \
				     .in_displs = (in_displs_),                                    \
				     .out = (out_),                                                \
				     .out_counts = (out_counts_),                                  \
				     .out_displs = (out_displs_),                                  \
				     .type = (type_)})
#define REDUCE_SCATTERV(in_, out_, counts_, type_, op_)                                            \
	(&(struct stretto_coll_args){.collective = STRETTO_REDUCE_SCATTERV,                        \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .in_counts = (counts_),                                       \
				     .type = (type_),                                              \
				     .op = (op_)})

/* Without any counts struct stretto_coll_args means equal blocks; these calls do not. */
static stretto_status check(const struct stretto_coll_args *args)
{
	if (args->in_counts || args->out_counts)
		return STRETTO_OK;
	stretto_error("%s: counts is NULL", stretto_collective_name(args->collective));
	return STRETTO_INVALID;
}

static stretto_status run(struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	stretto_status status = check(args);

	return status == STRETTO_OK ? stretto_coll_run(comm, args) : status;
}

static stretto_status start(struct stretto_comm *comm, const struct stretto_coll_args *args,
			    struct stretto_request **request)
{
	stretto_status status = check(args);

	return status == STRETTO_OK ? stretto_coll_start(comm, args, request) : status;
}

static stretto_status init(struct stretto_comm *comm, const struct stretto_coll_args *args,
			   struct stretto_request **request)
{
	stretto_status status = check(args);

	return status == STRETTO_OK ? stretto_coll_init(comm, args, request) : status;
}

stretto_status stretto_allgatherv(struct stretto_comm *comm, const void *in, void *out,
				  const size_t *counts, const size_t *displs,
				  enum stretto_type type)
{
	return run(comm, ALLGATHERV(in, out, counts, displs, type));
}

stretto_status stretto_iallgatherv(struct stretto_comm *comm, const void *in, void *out,
				   const size_t *counts, const size_t *displs,
				   enum stretto_type type, struct stretto_request **request)
{
	return start(comm, ALLGATHERV(in, out, counts, displs, type), request);
}

stretto_status stretto_allgatherv_init(struct stretto_comm *comm, const void *in, void *out,
				       const size_t *counts, const size_t *displs,
				       enum stretto_type type, struct stretto_request **request)
{
	return init(comm, ALLGATHERV(in, out, counts, displs, type), request);
}

stretto_status stretto_alltoallv(struct stretto_comm *comm, const void *in, const size_t *in_counts,
				 const size_t *in_displs, void *out, const size_t *out_counts,
				 const size_t *out_displs, enum stretto_type type)
{
	return run(comm, ALLTOALLV(in, in_counts, in_displs, out, out_counts, out_displs, type));
}

stretto_status stretto_ialltoallv(struct stretto_comm *comm, const void *in,
				  const size_t *in_counts, const size_t *in_displs, void *out,
				  const size_t *out_counts, const size_t *out_displs,
				  enum stretto_type type, struct stretto_request **request)
{
	return start(comm, ALLTOALLV(in, in_counts, in_displs, out, out_counts, out_displs, type),
		     request);
}

stretto_status stretto_alltoallv_init(struct stretto_comm *comm, const void *in,
				      const size_t *in_counts, const size_t *in_displs, void *out,
				      const size_t *out_counts, const size_t *out_displs,
				      enum stretto_type type, struct stretto_request **request)
{
	return init(comm, ALLTOALLV(in, in_counts, in_displs, out, out_counts, out_displs, type),
		    request);
}

stretto_status stretto_reduce_scatterv(struct stretto_comm *comm, const void *in, void *out,
				       const size_t *counts, enum stretto_type type,
				       enum stretto_op op)
{
	return run(comm, REDUCE_SCATTERV(in, out, counts, type, op));
}

stretto_status stretto_ireduce_scatterv(struct stretto_comm *comm, const void *in, void *out,
					const size_t *counts, enum stretto_type type,
					enum stretto_op op, struct stretto_request **request)
{
	return start(comm, REDUCE_SCATTERV(in, out, counts, type, op), request);
}

stretto_status stretto_reduce_scatterv_init(struct stretto_comm *comm, const void *in, void *out,
					    const size_t *counts, enum stretto_type type,
					    enum stretto_op op, struct stretto_request **request)
{
	return init(comm, REDUCE_SCATTERV(in, out, counts, type, op), request);
}
