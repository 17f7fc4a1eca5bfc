/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/describe.h"

#include <stdio.h>

#include "collectives/algorithm.h"

const char *stretto_describe(const struct stretto_signature *signature, char *buf, size_t size)
{
	const struct stretto_algorithm *algorithm = stretto_algorithm_at(signature->algorithm);
	enum stretto_collective collective = (enum stretto_collective)signature->collective;
	const char *name = stretto_collective_name(collective);
	const char *type = stretto_type_name((enum stretto_type)signature->type);
	unsigned long long count = signature->count;
	const char *by = algorithm ? algorithm->name : "?";

	switch (collective) {
	case STRETTO_ALLREDUCE:
	case STRETTO_REDUCE_SCATTER:
		snprintf(buf, size, "%s(count %llu, %s, %s) by %s", name, count, type,
			 stretto_op_name((enum stretto_op)signature->op), by);
		break;
	case STRETTO_BROADCAST:
		snprintf(buf, size, "%s(count %llu, %s, root %d) by %s", name, count, type,
			 signature->root, by);
		break;
	case STRETTO_ALLGATHER:
		snprintf(buf, size, "%s(count %llu, %s) by %s", name, count, type, by);
		break;
	default:
		snprintf(buf, size, "%s", name);
	}
	return buf;
}
