/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto_coll.h: the public interface of the collectives.
 *
 * Every collective exists in three forms that share one code path: blocking (stretto_allreduce),
 * nonblocking (stretto_iallreduce: started at once, ended by stretto_wait) and persistent
 * (stretto_allreduce_init once, then stretto_start and stretto_wait as often as wanted). A started
 * operation finishes in the background with no further call from the application.
 *
 * Rules for all: every rank of the communicator calls the collectives in the same order with the
 * same count, type, op and root; a rank that differs makes all of them fail with STRETTO_MISMATCH
 * and a message that shows both sides. Counts are in elements. Buffers stay the caller's; they may
 * not be changed (inputs) or touched (outputs) from the start of an operation until it is complete.
 * `in` and `out` are the same pointer for in-place operation, or do not overlap at all. Any
 * alignment that suits the element type, any memory; memory from stretto_alloc() is fastest. All
 * ranks get the same bits. An operation ends within STRETTO_TIMEOUT_SECONDS.
 *
 * Errors of all: STRETTO_INVALID (local, before anything was sent), and the statuses that break the
 * communicator: STRETTO_TIMEOUT, STRETTO_MISMATCH, STRETTO_PEER_FAILED, STRETTO_ABORTED. Only with
 * STRETTO_VERBS_RECONNECT_SECONDS: STRETTO_RETRY, from the start or the end of an operation, on all
 * ranks. The communicator is whole; call it again with the same arguments, and several of them in
 * the order in which they were called. The contents of `out` are undefined, in place also of `in`.
 */
#ifndef STRETTO_COLL_H
#define STRETTO_COLL_H

#include "runtime/stretto.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Element types: name, size in bytes, class, the word the tools use for it. A complex element is its
 * real part and then its imaginary part, as C and Fortran have it.
 */
#define STRETTO_TYPE_MAP(X)                                                                        \
	X(STRETTO_I8, 1, WHOLE, "int8")                                                            \
	X(STRETTO_U8, 1, WHOLE, "uint8")                                                           \
	X(STRETTO_I16, 2, WHOLE, "int16")                                                          \
	X(STRETTO_U16, 2, WHOLE, "uint16")                                                         \
	X(STRETTO_I32, 4, WHOLE, "int32")                                                          \
	X(STRETTO_U32, 4, WHOLE, "uint32")                                                         \
	X(STRETTO_I64, 8, WHOLE, "int64")                                                          \
	X(STRETTO_U64, 8, WHOLE, "uint64")                                                         \
	X(STRETTO_F16, 2, FLOAT, "half")                                                           \
	X(STRETTO_BF16, 2, FLOAT, "bfloat16")                                                      \
	X(STRETTO_F32, 4, FLOAT, "float")                                                          \
	X(STRETTO_F64, 8, FLOAT, "double")                                                         \
	X(STRETTO_C64, 8, COMPLEX, "complex64")                                                    \
	X(STRETTO_C128, 16, COMPLEX, "complex128")

enum stretto_type {
#define X(name, bytes, class, word) name,
	STRETTO_TYPE_MAP(X)
#undef X
		STRETTO_TYPE_COUNT
};

/* Classes of types, a bit each: integers, real and complex floating point numbers. */
enum { STRETTO_WHOLE = 1, STRETTO_FLOAT = 2, STRETTO_COMPLEX = 4 };

/*
 * Reductions: name, the classes of types that have it, the word the tools use for it.
 *
 * Integers wrap around; STRETTO_AVG of integers is the wrapped sum divided by the number of ranks,
 * truncated towards zero. min and max return NaN if any rank gave one. 16-bit floats are added in 32
 * bits and rounded once per addition. A product of complex numbers is (ac - bd) + (ad + bc)i as
 * written, without the C standard's care for infinities. Logical results are 1 or 0, where any value
 * but 0 is true. On a communicator of one rank the result is that rank's value as it is, divided or
 * multiplied where the operation says so.
 *
 * docs/collectives.md has the table, and what becomes of NaN, infinity and subnormal numbers.
 */
#define STRETTO_OP_MAP(X)                                                                          \
	X(STRETTO_SUM, STRETTO_WHOLE | STRETTO_FLOAT | STRETTO_COMPLEX, "sum")                     \
	X(STRETTO_PROD, STRETTO_WHOLE | STRETTO_FLOAT | STRETTO_COMPLEX, "prod")                   \
	X(STRETTO_MIN, STRETTO_WHOLE | STRETTO_FLOAT, "min")                                       \
	X(STRETTO_MAX, STRETTO_WHOLE | STRETTO_FLOAT, "max")                                       \
	X(STRETTO_BAND, STRETTO_WHOLE, "band")                                                     \
	X(STRETTO_BOR, STRETTO_WHOLE, "bor")                                                       \
	X(STRETTO_BXOR, STRETTO_WHOLE, "bxor")                                                     \
	X(STRETTO_LAND, STRETTO_WHOLE, "land")                                                     \
	X(STRETTO_LOR, STRETTO_WHOLE, "lor")                                                       \
	X(STRETTO_LXOR, STRETTO_WHOLE, "lxor")                                                     \
	X(STRETTO_AVG, STRETTO_WHOLE | STRETTO_FLOAT | STRETTO_COMPLEX, "avg")

enum stretto_op {
#define X(name, classes, word) name,
	STRETTO_OP_MAP(X)
#undef X
		STRETTO_OP_COUNT
};

/* The words of all types, and of all operations, as one text each, for messages. */
#define STRETTO_TYPE_WORD(name, bytes, class, word) word " "
#define STRETTO_TYPE_WORDS                          STRETTO_TYPE_MAP(STRETTO_TYPE_WORD)
#define STRETTO_OP_WORD(name, classes, word)        word " "
#define STRETTO_OP_WORDS                            STRETTO_OP_MAP(STRETTO_OP_WORD)

/* Collectives: name, the word the tools use for it. */
#define STRETTO_COLLECTIVE_MAP(X)                                                                  \
	X(STRETTO_ALLREDUCE, "allreduce")                                                          \
	X(STRETTO_BROADCAST, "broadcast")                                                          \
	X(STRETTO_ALLGATHER, "allgather")                                                          \
	X(STRETTO_REDUCE_SCATTER, "reduce_scatter")                                                \
	X(STRETTO_BARRIER, "barrier")                                                              \
	X(STRETTO_REDUCE, "reduce")                                                                \
	X(STRETTO_ALLTOALL, "alltoall")                                                            \
	X(STRETTO_GATHER, "gather")                                                                \
	X(STRETTO_SCATTER, "scatter")                                                              \
	X(STRETTO_ALLGATHERV, "allgatherv")                                                        \
	X(STRETTO_ALLTOALLV, "alltoallv")                                                          \
	X(STRETTO_REDUCE_SCATTERV, "reduce_scatterv")

enum stretto_collective {
#define X(name, word) name,
	STRETTO_COLLECTIVE_MAP(X)
#undef X
		STRETTO_COLLECTIVE_COUNT
};

/* Their words as one text, for messages: "allreduce broadcast ... ". */
#define STRETTO_COLLECTIVE_WORD(name, word) word " "
#define STRETTO_COLLECTIVE_WORDS            STRETTO_COLLECTIVE_MAP(STRETTO_COLLECTIVE_WORD)

/* Bytes of one element; 0 for a value that is no type. */
STRETTO_API size_t stretto_type_size(enum stretto_type type);
/* Whether the type has that operation; false for values out of range. */
STRETTO_API bool stretto_type_has_op(enum stretto_type type, enum stretto_op op);
/* The words of the maps above; "?" for a value out of range. */
STRETTO_API const char *stretto_type_name(enum stretto_type type);
STRETTO_API const char *stretto_op_name(enum stretto_op op);
STRETTO_API const char *stretto_collective_name(enum stretto_collective collective);

/* An operation: made by an i... or ..._init call, private to the library. */
struct stretto_request;

/*
 * One description for every collective; the named calls below fill it in. `count` is the number of
 * elements of the vector, or of one block where a buffer has a block for each rank: `out` of
 * allgather, of gather at the root and of alltoall, `in` of reduce_scatter, of scatter at the root
 * and of alltoall hold size * count. A buffer that a rank does not have is not looked at: `in` of
 * broadcast (out holds the data at the root) and of scatter but for the root, `out` of reduce and
 * gather but for the root.
 *
 * In place means in == out for allreduce, alltoall and reduce (there at the root alone), in == out
 * + rank * count for allgather and gather (out all of it), out == in + rank * count for
 * reduce_scatter and scatter; these leave the rest of `in` as it was.
 */
struct stretto_coll_args {
	enum stretto_collective collective;
	enum stretto_type type;
	enum stretto_op op; /* allreduce, reduce_scatter and reduce */
	int root;           /* broadcast, reduce, gather and scatter: a rank of the communicator */
	size_t count;       /* elements, see above */
	const void *in;
	void *out;
	const char
		*algorithm; /* wanted algorithm by name, same on all ranks; NULL: the library's */
	/*
	 * An operation of higher priority overtakes those of lower that are in flight, on any
	 * communicator: they begin no further window (portion of a long vector) while it goes on;
	 * what of them has begun is not interrupted. Any number; 0 is usual. It is local, and ranks
	 * that give different ones get the same results, but should not: each would hold up what
	 * the other hurries.
	 */
	int priority;
	/*
	 * Of reductions by STRETTO_SUM and STRETTO_AVG: one element of `type` that multiplies this
	 * rank's input before it is added, as STRETTO_PROD multiplies. Read when the operation
	 * starts. NULL: none. All ranks give one, each its own, or none does.
	 */
	const void *scale;
	/*
	 * Of allgatherv (out_...), reduce_scatterv (in_...) and alltoallv (both): one number for
	 * each rank, in elements; see stretto_allgatherv(). `count` is not looked at then. Read by
	 * the call that is given them, which copies what it needs. Without displs, blocks lie one
	 * behind the other in the order of the ranks. Without counts, on all ranks alike, all blocks
	 * are of `count` elements, as in the collective without v.
	 */
	const size_t *in_counts;
	const size_t *in_displs;
	const size_t *out_counts;
	const size_t *out_displs;
};

/*
 * Makes a persistent operation (*request; nothing is sent yet). Local. The caller ends it with
 * stretto_request_free(). STRETTO_INVALID names the argument in the log.
 */
STRETTO_API stretto_status stretto_coll_init(struct stretto_comm *comm,
					     const struct stretto_coll_args *args,
					     struct stretto_request **request);

/* The same, run to its end: what the blocking calls do. */
STRETTO_API stretto_status stretto_coll_run(struct stretto_comm *comm,
					    const struct stretto_coll_args *args);

/* The same, started at once: what the nonblocking calls do. The caller ends it with stretto_wait().
 */
STRETTO_API stretto_status stretto_coll_start(struct stretto_comm *comm,
					      const struct stretto_coll_args *args,
					      struct stretto_request **request);

/*
 * Starts a persistent operation that is not active. Does not block. The position of the start among
 * the starts on its communicator is what must be the same on all ranks.
 */
STRETTO_API stretto_status stretto_start(struct stretto_request *request);

/*
 * *done tells whether the operation is complete; its status is returned then, STRETTO_OK before.
 * Does not block. A nonblocking request stays the caller's until stretto_wait().
 */
STRETTO_API stretto_status stretto_test(struct stretto_request *request, bool *done);

/*
 * Blocks until the operation is complete and returns its status. The calling thread drives the
 * communication itself while it waits. A nonblocking request is freed by this call, a persistent
 * one can be started again. NULL returns STRETTO_OK.
 */
STRETTO_API stretto_status stretto_wait(struct stretto_request *request);

/* Frees a request that is not active. NULL does nothing. */
STRETTO_API void stretto_request_free(struct stretto_request *request);

/* out[i] = op over all ranks of in[i], 0 <= i < count, on every rank. */
STRETTO_API stretto_status stretto_allreduce(struct stretto_comm *comm, const void *in, void *out,
					     size_t count, enum stretto_type type,
					     enum stretto_op op);
STRETTO_API stretto_status stretto_iallreduce(struct stretto_comm *comm, const void *in, void *out,
					      size_t count, enum stretto_type type,
					      enum stretto_op op, struct stretto_request **request);
STRETTO_API stretto_status stretto_allreduce_init(struct stretto_comm *comm, const void *in,
						  void *out, size_t count, enum stretto_type type,
						  enum stretto_op op,
						  struct stretto_request **request);

/*
 * out[i] = sum over all ranks of scale * in[i], where *scale is one element of the type and each
 * rank's own. Each product is rounded to the type, so the bits are those of stretto_allreduce() of
 * scaled input; but the products are made where the input is read, not in a pass before. The other
 * forms, and other reductions, by `scale` of struct stretto_coll_args.
 */
STRETTO_API stretto_status stretto_sum_premul(struct stretto_comm *comm, const void *in, void *out,
					      size_t count, enum stretto_type type,
					      const void *scale);

/* buffer[0 .. count) of the root is copied to all ranks. The root returns when all have entered. */
STRETTO_API stretto_status stretto_broadcast(struct stretto_comm *comm, void *buffer, size_t count,
					     enum stretto_type type, int root);
STRETTO_API stretto_status stretto_ibroadcast(struct stretto_comm *comm, void *buffer, size_t count,
					      enum stretto_type type, int root,
					      struct stretto_request **request);

/* out[r * count + i] = in[i] of rank r, on every rank. */
STRETTO_API stretto_status stretto_allgather(struct stretto_comm *comm, const void *in, void *out,
					     size_t count, enum stretto_type type);
STRETTO_API stretto_status stretto_iallgather(struct stretto_comm *comm, const void *in, void *out,
					      size_t count, enum stretto_type type,
					      struct stretto_request **request);

/* out[i] = op over all ranks of in[rank * count + i]: each rank gets its block of the result. */
STRETTO_API stretto_status stretto_reduce_scatter(struct stretto_comm *comm, const void *in,
						  void *out, size_t count, enum stretto_type type,
						  enum stretto_op op);
STRETTO_API stretto_status stretto_ireduce_scatter(struct stretto_comm *comm, const void *in,
						   void *out, size_t count, enum stretto_type type,
						   enum stretto_op op,
						   struct stretto_request **request);

/*
 * *result = the sum of all doubles x[0 .. n) of all ranks, rounded once, to nearest even, on every
 * rank. Blocks. The bits depend on the values alone, not on their order, on how many each rank has
 * (n may differ, and be 0), or on the number of ranks. x must not change during the call.
 *
 * The result is +-infinity if the sum would round to it (not if only a part of it would), or if
 * there are infinities of one sign; NaN (the positive quiet one) if there are NaNs, or infinities of
 * both signs; -0 if all values are -0 and there is one; +0 if the sum is 0 otherwise. The rounding
 * mode of the caller does not matter, and no floating-point exception is raised.
 *
 * STRETTO_INVALID, logged, without result, or without x where n > 0.
 */
STRETTO_API stretto_status stretto_sum_exact(struct stretto_comm *comm, const double *x, size_t n,
					     double *result);

/* Returns when all ranks have called it. */
STRETTO_API stretto_status stretto_barrier(struct stretto_comm *comm);
STRETTO_API stretto_status stretto_ibarrier(struct stretto_comm *comm,
					    struct stretto_request **request);

/*
 * out[i] = op over all ranks of in[i], at the root; `out` of the others is not used. No rank
 * returns before the root has entered.
 */
STRETTO_API stretto_status stretto_reduce(struct stretto_comm *comm, const void *in, void *out,
					  size_t count, enum stretto_type type, enum stretto_op op,
					  int root);
STRETTO_API stretto_status stretto_ireduce(struct stretto_comm *comm, const void *in, void *out,
					   size_t count, enum stretto_type type, enum stretto_op op,
					   int root, struct stretto_request **request);

/* out[r * count + i] = in[rank * count + i] of rank r: each rank has a block for each. */
STRETTO_API stretto_status stretto_alltoall(struct stretto_comm *comm, const void *in, void *out,
					    size_t count, enum stretto_type type);
STRETTO_API stretto_status stretto_ialltoall(struct stretto_comm *comm, const void *in, void *out,
					     size_t count, enum stretto_type type,
					     struct stretto_request **request);

/*
 * out[r * count + i] = in[i] of rank r, at the root; `out` of the others is not used. No rank
 * returns before the root has entered.
 */
STRETTO_API stretto_status stretto_gather(struct stretto_comm *comm, const void *in, void *out,
					  size_t count, enum stretto_type type, int root);
STRETTO_API stretto_status stretto_igather(struct stretto_comm *comm, const void *in, void *out,
					   size_t count, enum stretto_type type, int root,
					   struct stretto_request **request);

/*
 * out[i] = in[rank * count + i] of the root; `in` of the others is not used. The root returns when
 * all have entered.
 */
STRETTO_API stretto_status stretto_scatter(struct stretto_comm *comm, const void *in, void *out,
					   size_t count, enum stretto_type type, int root);
STRETTO_API stretto_status stretto_iscatter(struct stretto_comm *comm, const void *in, void *out,
					    size_t count, enum stretto_type type, int root,
					    struct stretto_request **request);

/*
 * Blocks of unequal length. counts[r] and displs[r] are the length of the block of rank r and where
 * it begins, in elements; size of the communicator of each. A count may be 0. displs NULL: one
 * behind the other. The arrays are copied and are the caller's again when the call returns, also
 * from the i... and ..._init calls. Blocks that are written must not overlap, and what lies between
 * them stays as it is.
 *
 * STRETTO_INVALID, logged, without counts; for blocks of an output that overlap or reach beyond any
 * memory; for a buffer that is NULL and has elements.
 */

/*
 * out[displs[r] + i] = in[i] of rank r, 0 <= i < counts[r], on every rank. All ranks give the same
 * counts, or all end with STRETTO_MISMATCH; displs are each rank's own. In place:
 * in == out + displs[rank].
 */
STRETTO_API stretto_status stretto_allgatherv(struct stretto_comm *comm, const void *in, void *out,
					      const size_t *counts, const size_t *displs,
					      enum stretto_type type);
STRETTO_API stretto_status stretto_iallgatherv(struct stretto_comm *comm, const void *in, void *out,
					       const size_t *counts, const size_t *displs,
					       enum stretto_type type,
					       struct stretto_request **request);
STRETTO_API stretto_status stretto_allgatherv_init(struct stretto_comm *comm, const void *in,
						   void *out, const size_t *counts,
						   const size_t *displs, enum stretto_type type,
						   struct stretto_request **request);

/*
 * out[out_displs[r] + i] = in[in_displs[rank] + i] of rank r. in_counts[r] is how much this rank has
 * for rank r, out_counts[r] how much it gets from it; the two ranks must agree on it. A rank knows
 * only its own arrays, so a message tells: the rank that is sent another length than it expects ends
 * with STRETTO_MISMATCH, never with data of another length, and nothing is written outside of its
 * blocks. All others hear of it, with both ranks' names, and end so too; but those that have all of
 * their blocks by then end with STRETTO_OK and right data, and their next call tells.
 * In place: in == out, with the same counts and displs for both.
 */
STRETTO_API stretto_status stretto_alltoallv(struct stretto_comm *comm, const void *in,
					     const size_t *in_counts, const size_t *in_displs,
					     void *out, const size_t *out_counts,
					     const size_t *out_displs, enum stretto_type type);
STRETTO_API stretto_status stretto_ialltoallv(struct stretto_comm *comm, const void *in,
					      const size_t *in_counts, const size_t *in_displs,
					      void *out, const size_t *out_counts,
					      const size_t *out_displs, enum stretto_type type,
					      struct stretto_request **request);
STRETTO_API stretto_status stretto_alltoallv_init(struct stretto_comm *comm, const void *in,
						  const size_t *in_counts, const size_t *in_displs,
						  void *out, const size_t *out_counts,
						  const size_t *out_displs, enum stretto_type type,
						  struct stretto_request **request);

/*
 * out[i] = op over all ranks of in[counts[0] + ... + counts[rank - 1] + i], 0 <= i < counts[rank]:
 * each rank gets its block of the result. All ranks give the same counts, or all end with
 * STRETTO_MISMATCH. In place: out is the rank's block of in.
 */
STRETTO_API stretto_status stretto_reduce_scatterv(struct stretto_comm *comm, const void *in,
						   void *out, const size_t *counts,
						   enum stretto_type type, enum stretto_op op);
STRETTO_API stretto_status stretto_ireduce_scatterv(struct stretto_comm *comm, const void *in,
						    void *out, const size_t *counts,
						    enum stretto_type type, enum stretto_op op,
						    struct stretto_request **request);
STRETTO_API stretto_status stretto_reduce_scatterv_init(struct stretto_comm *comm, const void *in,
							void *out, const size_t *counts,
							enum stretto_type type, enum stretto_op op,
							struct stretto_request **request);

#ifdef __cplusplus
}
#endif

#endif
