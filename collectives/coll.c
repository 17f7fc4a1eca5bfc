/* SPDX-License-Identifier: BSD-3-Clause */
/* coll.c: the named calls; each fills in one struct stretto_coll_args. */
#include "collectives/stretto_coll.h"

#include "collectives/exact.h"
#include "runtime/log.h"

#define ALLREDUCE(in_, out_, count_, type_, op_)                                                   \
	(&(struct stretto_coll_args){.collective = STRETTO_ALLREDUCE,                              \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .op = (op_)})
#define BROADCAST(buffer_, count_, type_, root_)                                                   \
	(&(struct stretto_coll_args){.collective = STRETTO_BROADCAST,                              \
				     .out = (buffer_),                                             \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .root = (root_)})
#define ALLGATHER(in_, out_, count_, type_)                                                        \
	(&(struct stretto_coll_args){.collective = STRETTO_ALLGATHER,                              \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_)})
#define REDUCE_SCATTER(in_, out_, count_, type_, op_)                                              \
	(&(struct stretto_coll_args){.collective = STRETTO_REDUCE_SCATTER,                         \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .op = (op_)})
#define REDUCE(in_, out_, count_, type_, op_, root_)                                               \
	(&(struct stretto_coll_args){.collective = STRETTO_REDUCE,                                 \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .op = (op_),                                                  \
				     .root = (root_)})
#define ALLTOALL(in_, out_, count_, type_)                                                         \
	(&(struct stretto_coll_args){.collective = STRETTO_ALLTOALL,                               \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_)})
#define GATHER(in_, out_, count_, type_, root_)                                                    \
	(&(struct stretto_coll_args){.collective = STRETTO_GATHER,                                 \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .root = (root_)})
#define SCATTER(in_, out_, count_, type_, root_)                                                   \
	(&(struct stretto_coll_args){.collective = STRETTO_SCATTER,                                \
				     .in = (in_),                                                  \
				     .out = (out_),                                                \
				     .count = (count_),                                            \
				     .type = (type_),                                              \
				     .root = (root_)})
#define BARRIER (&(struct stretto_coll_args){.collective = STRETTO_BARRIER})

stretto_status stretto_allreduce(struct stretto_comm *comm, const void *in, void *out, size_t count,
				 enum stretto_type type, enum stretto_op op)
{
	return stretto_coll_run(comm, ALLREDUCE(in, out, count, type, op));
}

stretto_status stretto_iallreduce(struct stretto_comm *comm, const void *in, void *out,
				  size_t count, enum stretto_type type, enum stretto_op op,
				  struct stretto_request **request)
{
	return stretto_coll_start(comm, ALLREDUCE(in, out, count, type, op), request);
}

stretto_status stretto_allreduce_init(struct stretto_comm *comm, const void *in, void *out,
				      size_t count, enum stretto_type type, enum stretto_op op,
				      struct stretto_request **request)
{
	return stretto_coll_init(comm, ALLREDUCE(in, out, count, type, op), request);
}

stretto_status stretto_sum_premul(struct stretto_comm *comm, const void *in, void *out,
				  size_t count, enum stretto_type type, const void *scale)
{
	struct stretto_coll_args args = *ALLREDUCE(in, out, count, type, STRETTO_SUM);

	if (!scale) {
		stretto_error("stretto_sum_premul: scale is NULL");
		return STRETTO_INVALID;
	}
	args.scale = scale;
	return stretto_coll_run(comm, &args);
}

stretto_status stretto_broadcast(struct stretto_comm *comm, void *buffer, size_t count,
				 enum stretto_type type, int root)
{
	return stretto_coll_run(comm, BROADCAST(buffer, count, type, root));
}

stretto_status stretto_ibroadcast(struct stretto_comm *comm, void *buffer, size_t count,
				  enum stretto_type type, int root,
				  struct stretto_request **request)
{
	return stretto_coll_start(comm, BROADCAST(buffer, count, type, root), request);
}

stretto_status stretto_allgather(struct stretto_comm *comm, const void *in, void *out, size_t count,
				 enum stretto_type type)
{
	return stretto_coll_run(comm, ALLGATHER(in, out, count, type));
}

stretto_status stretto_iallgather(struct stretto_comm *comm, const void *in, void *out,
				  size_t count, enum stretto_type type,
				  struct stretto_request **request)
{
	return stretto_coll_start(comm, ALLGATHER(in, out, count, type), request);
}

stretto_status stretto_reduce_scatter(struct stretto_comm *comm, const void *in, void *out,
				      size_t count, enum stretto_type type, enum stretto_op op)
{
	return stretto_coll_run(comm, REDUCE_SCATTER(in, out, count, type, op));
}

stretto_status stretto_ireduce_scatter(struct stretto_comm *comm, const void *in, void *out,
				       size_t count, enum stretto_type type, enum stretto_op op,
				       struct stretto_request **request)
{
	return stretto_coll_start(comm, REDUCE_SCATTER(in, out, count, type, op), request);
}

stretto_status stretto_sum_exact(struct stretto_comm *comm, const double *x, size_t n,
				 double *result)
{
	struct stretto_exact mine = {0}, all;
	stretto_status status;

	if (!comm || !result || (n > 0 && !x)) {
		stretto_error("stretto_sum_exact: %s is NULL", !comm     ? "comm"
							       : !result ? "result"
									 : "x");
		return STRETTO_INVALID;
	}
	stretto_exact_add(&mine, x, n);
	status =
		stretto_allreduce(comm, &mine, &all, STRETTO_EXACT_WORDS, STRETTO_I64, STRETTO_SUM);
	if (status == STRETTO_OK)
		*result = stretto_exact_round(&all);
	return status;
}

stretto_status stretto_barrier(struct stretto_comm *comm)
{
	return stretto_coll_run(comm, BARRIER);
}

stretto_status stretto_ibarrier(struct stretto_comm *comm, struct stretto_request **request)
{
	return stretto_coll_start(comm, BARRIER, request);
}

stretto_status stretto_reduce(struct stretto_comm *comm, const void *in, void *out, size_t count,
			      enum stretto_type type, enum stretto_op op, int root)
{
	return stretto_coll_run(comm, REDUCE(in, out, count, type, op, root));
}

stretto_status stretto_ireduce(struct stretto_comm *comm, const void *in, void *out, size_t count,
			       enum stretto_type type, enum stretto_op op, int root,
			       struct stretto_request **request)
{
	return stretto_coll_start(comm, REDUCE(in, out, count, type, op, root), request);
}

stretto_status stretto_alltoall(struct stretto_comm *comm, const void *in, void *out, size_t count,
				enum stretto_type type)
{
	return stretto_coll_run(comm, ALLTOALL(in, out, count, type));
}

stretto_status stretto_ialltoall(struct stretto_comm *comm, const void *in, void *out, size_t count,
				 enum stretto_type type, struct stretto_request **request)
{
	return stretto_coll_start(comm, ALLTOALL(in, out, count, type), request);
}

stretto_status stretto_gather(struct stretto_comm *comm, const void *in, void *out, size_t count,
			      enum stretto_type type, int root)
{
	return stretto_coll_run(comm, GATHER(in, out, count, type, root));
}

stretto_status stretto_igather(struct stretto_comm *comm, const void *in, void *out, size_t count,
			       enum stretto_type type, int root, struct stretto_request **request)
{
	return stretto_coll_start(comm, GATHER(in, out, count, type, root), request);
}

stretto_status stretto_scatter(struct stretto_comm *comm, const void *in, void *out, size_t count,
			       enum stretto_type type, int root)
{
	return stretto_coll_run(comm, SCATTER(in, out, count, type, root));
}

stretto_status stretto_iscatter(struct stretto_comm *comm, const void *in, void *out, size_t count,
				enum stretto_type type, int root, struct stretto_request **request)
{
	return stretto_coll_start(comm, SCATTER(in, out, count, type, root), request);
}
