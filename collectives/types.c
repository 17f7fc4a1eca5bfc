/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/stretto_coll.h"

size_t stretto_type_size(enum stretto_type type)
{
	static const size_t sizes[] = {
#define X(name, bytes, word) [name] = (bytes),
		STRETTO_TYPE_MAP(X)
#undef X
	};

	return (unsigned)type < STRETTO_TYPE_COUNT ? sizes[type] : 0;
}

const char *stretto_type_name(enum stretto_type type)
{
	static const char *const words[] = {
#define X(name, bytes, word) [name] = (word),
		STRETTO_TYPE_MAP(X)
#undef X
	};

	return (unsigned)type < STRETTO_TYPE_COUNT ? words[type] : "?";
}

const char *stretto_op_name(enum stretto_op op)
{
	static const char *const words[] = {
#define X(name, word) [name] = (word),
		STRETTO_OP_MAP(X)
#undef X
	};

	return (unsigned)op < STRETTO_OP_COUNT ? words[op] : "?";
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
