/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types.h: what types and operations are called in messages, and the check of a call's; the rest of
 * them is public.
 *
 * Threads: pure functions.
 */
#ifndef STRETTO_COLLECTIVES_TYPES_H
#define STRETTO_COLLECTIVES_TYPES_H

#include "collectives/stretto_coll.h"

/* Room for the words of all operations. */
enum { STRETTO_OPS_TEXT = sizeof STRETTO_OP_WORDS };

/* Writes the words of the operations that a type has, as "sum prod avg", and returns text. */
const char *stretto_ops_text(enum stretto_type type, char text[STRETTO_OPS_TEXT]);

/* STRETTO_INVALID, logged, for an op (or a scale) that the type of a reduction does not have. */
stretto_status stretto_check_op(const struct stretto_coll_args *args);

#endif
