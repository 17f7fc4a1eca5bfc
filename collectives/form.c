/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/form.h"

#include "collectives/counts.h"
#include "collectives/traits.h"
#include "collectives/types.h"
#include "runtime/log.h"

static bool is_root(const struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	return comm->rank == args->root;
}

stretto_status stretto_form_bad(const struct stretto_coll_args *args, const char *what)
{
	stretto_error("%s: %s", stretto_collective_name(args->collective), what);
	return STRETTO_INVALID;
}

static bool has_in(const struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	return stretto_traits_in(args->collective, is_root(comm, args)) != STRETTO_NOTHING;
}

static bool has_out(const struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	return stretto_traits_out(args->collective, is_root(comm, args)) != STRETTO_NOTHING;
}

stretto_status stretto_form_check(const struct stretto_comm *comm,
				  const struct stretto_coll_args *args)
{
	size_t element = stretto_type_size(args->type);

	if ((unsigned)args->collective >= STRETTO_COLLECTIVE_COUNT)
		return stretto_form_bad(args, "there is no such collective");
	if (args->collective == STRETTO_BARRIER)
		return STRETTO_OK;
	if (element == 0)
		return stretto_form_bad(args, "type is not one of enum stretto_type");
	if (stretto_traits_of(args->collective)->reduces && stretto_check_op(args) != STRETTO_OK)
		return STRETTO_INVALID;
	if (stretto_traits_of(args->collective)->rooted &&
	    (args->root < 0 || args->root >= comm->size))
		return stretto_form_bad(args, "root is not a rank of the communicator");
	if (stretto_counts_given(args))
		return stretto_counts_check(args, comm->rank, comm->size);
	if (args->count > SIZE_MAX / 4 / element / (size_t)comm->size)
		return stretto_form_bad(args, "count is larger than any memory");
	if (args->count > 0 &&
	    ((has_in(comm, args) && !args->in) || (has_out(comm, args) && !args->out)))
		return stretto_form_bad(args, "a buffer is NULL");
	return STRETTO_OK;
}

/* The first element of a buffer of one block per rank that is this rank's. */
static char *own_block(const struct stretto_comm *comm, const struct stretto_coll_args *args,
		       enum stretto_buffer buffer)
{
	uintptr_t blocks = (uintptr_t)(buffer == STRETTO_BUF_IN ? args->in : args->out);

	return (char *)(blocks + stretto_counts_own_first(args, buffer, comm->rank) *
					 stretto_type_size(args->type));
}

bool stretto_form_in_place(const struct stretto_comm *comm, const struct stretto_coll_args *args)
{
	const struct stretto_traits *traits = stretto_traits_of(args->collective);

	if (!has_in(comm, args))
		return !traits->in_at_root; /* a broadcast has one buffer, and a barrier none */
	if (!has_out(comm, args))
		return false;
	if (traits->in == traits->out)
		return args->in == args->out;
	if (traits->in == STRETTO_BLOCKS)
		return args->out == own_block(comm, args, STRETTO_BUF_IN);
	return args->in == own_block(comm, args, STRETTO_BUF_OUT);
}

struct stretto_coll_args stretto_form_normal(const struct stretto_comm *comm,
					     const struct stretto_coll_args *args)
{
	struct stretto_coll_args form = *args;

	if (!stretto_traits_of(form.collective)->reduces) {
		form.op = STRETTO_SUM;
		form.scale = NULL;
	}
	if (!stretto_traits_of(form.collective)->rooted)
		form.root = 0;
	if (form.collective == STRETTO_BARRIER) {
		form.count = 0;
		form.type = STRETTO_U8;
	}
	stretto_counts_normal(&form);
	if (!has_in(comm, &form))
		form.in = NULL;
	if (!has_out(comm, &form))
		form.out = NULL;
	return form;
}

/* Elements of a buffer of the caller, IN or OUT, of that extent. */
static size_t elements_of(const struct stretto_comm *comm, const struct stretto_coll_args *args,
			  enum stretto_buffer buffer, enum stretto_extent extent)
{
	if (stretto_counts_given(args))
		return stretto_counts_extent(args, buffer, comm->rank, comm->size);
	return args->count * (extent == STRETTO_BLOCKS ? (size_t)comm->size : 1);
}

void stretto_form_bytes(const struct stretto_comm *comm, const struct stretto_coll_args *args,
			size_t *in, size_t *out)
{
	const struct stretto_traits *traits = stretto_traits_of(args->collective);
	size_t element = stretto_type_size(args->type);

	*in = element * elements_of(comm, args, STRETTO_BUF_IN, traits->in);
	*out = element * elements_of(comm, args, STRETTO_BUF_OUT, traits->out);
}
