/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/types.h"

#include <stdio.h>

#include "runtime/log.h"

size_t stretto_type_size(enum stretto_type type)
{
	static const size_t sizes[] = {
#define X(name, bytes, class, word) [name] = (bytes),
		STRETTO_TYPE_MAP(X)
#undef X
	};

	return (unsigned)type < STRETTO_TYPE_COUNT ? sizes[type] : 0;
}

bool stretto_type_has_op(enum stretto_type type, enum stretto_op op)
{
	static const unsigned types[] = {
#define X(name, bytes, class, word) [name] = STRETTO_##class,
		STRETTO_TYPE_MAP(X)
#undef X
	};
	static const unsigned ops[] = {
#define X(name, classes, word) [name] = (classes),
		STRETTO_OP_MAP(X)
#undef X
	};

	return (unsigned)type < STRETTO_TYPE_COUNT && (unsigned)op < STRETTO_OP_COUNT &&
	       types[type] & ops[op];
}

const char *stretto_type_name(enum stretto_type type)
{
	static const char *const words[] = {
#define X(name, bytes, class, word) [name] = (word),
		STRETTO_TYPE_MAP(X)
#undef X
	};

	return (unsigned)type < STRETTO_TYPE_COUNT ? words[type] : "?";
}

const char *stretto_op_name(enum stretto_op op)
{
	static const char *const words[] = {
#define X(name, classes, word) [name] = (word),
		STRETTO_OP_MAP(X)
#undef X
	};

	return (unsigned)op < STRETTO_OP_COUNT ? words[op] : "?";
}

const char *stretto_ops_text(enum stretto_type type, char text[STRETTO_OPS_TEXT])
{
	size_t length = 0;

	text[0] = '\0';
	for (int op = 0; op < STRETTO_OP_COUNT; op++)
		if (stretto_type_has_op(type, (enum stretto_op)op))
			length += (size_t)snprintf(text + length, STRETTO_OPS_TEXT - length, "%s%s",
						   length ? " " : "",
						   stretto_op_name((enum stretto_op)op));
	return text;
}

const char *stretto_collective_name(enum stretto_collective collective)
{
	static const char *const words[] = {
#define X(name, word) [name] = (word),
		STRETTO_COLLECTIVE_MAP(X)
#undef X
	};

	return (unsigned)collective < STRETTO_COLLECTIVE_COUNT ? words[collective] : "?";
}

stretto_status stretto_check_op(const struct stretto_coll_args *args)
{
	const char *name = stretto_collective_name(args->collective);
	char ops[STRETTO_OPS_TEXT];

	if ((unsigned)args->op >= STRETTO_OP_COUNT) {
		stretto_error("%s: op is not one of enum stretto_op", name);
		return STRETTO_INVALID;
	}
	if (!stretto_type_has_op(args->type, args->op)) {
		stretto_error("%s: %s has no operation %s; it has %s", name,
			      stretto_type_name(args->type), stretto_op_name(args->op),
			      stretto_ops_text(args->type, ops));
		return STRETTO_INVALID;
	}
	if (args->scale && args->op != STRETTO_SUM && args->op != STRETTO_AVG) {
		stretto_error("%s: scale is for sum and avg, not %s", name,
			      stretto_op_name(args->op));
		return STRETTO_INVALID;
	}
	return STRETTO_OK;
}
