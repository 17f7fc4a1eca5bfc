/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * form.h: what a call of a collective asks for: whether it can be meant, and what of it counts.
 *
 * Threads: pure, but for the log.
 */
#ifndef STRETTO_COLLECTIVES_FORM_H
#define STRETTO_COLLECTIVES_FORM_H

#include "collectives/stretto_coll.h"
#include "runtime/comm.h"

/* Logs what is wrong with an argument and returns the status of that, STRETTO_INVALID. */
stretto_status stretto_form_bad(const struct stretto_coll_args *args, const char *what);

/* STRETTO_INVALID, logged, for arguments that no call can have. */
stretto_status stretto_form_check(const struct stretto_comm *comm,
				  const struct stretto_coll_args *args);

/* Whether this rank's output is part of its input, or the other way round. */
bool stretto_form_in_place(const struct stretto_comm *comm, const struct stretto_coll_args *args);

/* What the signature and the cache go by; fields that a collective does not use are zeroed. */
struct stretto_coll_args stretto_form_normal(const struct stretto_comm *comm,
					     const struct stretto_coll_args *args);

/* Bytes of the caller's buffers where it has them. */
void stretto_form_bytes(const struct stretto_comm *comm, const struct stretto_coll_args *args,
			size_t *in, size_t *out);

#endif
