/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/describe.h"

#include <stdio.h>

#include "collectives/algorithm.h"
#include "collectives/counts.h"
#include "collectives/executor.h"
#include "collectives/traits.h"

const char *stretto_describe(const struct stretto_signature *signature, char *buf, size_t size)
{
	const struct stretto_algorithm *algorithm = stretto_algorithm_at(signature->algorithm);
	enum stretto_collective collective = (enum stretto_collective)signature->collective;
	const char *name = stretto_collective_name(collective);
	const char *type = stretto_type_name((enum stretto_type)signature->type);
	const char *by = algorithm ? algorithm->name : "?";
	bool any = signature->algorithm == STRETTO_SIGNED_ANY;
	enum stretto_op op = (enum stretto_op)(
		signature->op & ~(STRETTO_SIGNED_REPRODUCIBLE | STRETTO_SIGNED_SCALED));
	const struct stretto_traits *traits;
	char root[24] = "", count[64];

	if (collective >= STRETTO_COLLECTIVE_COUNT || collective == STRETTO_BARRIER) {
		snprintf(buf, size, "%s", name);
		return buf;
	}
	traits = stretto_traits_of(collective);
	if (traits->rooted)
		snprintf(root, sizeof root, ", root %d", signature->root);
	snprintf(buf, size, "%s(%s, %s%s%s%s%s%s)%s%s", name,
		 stretto_counts_text(signature->count, count, sizeof count), type,
		 traits->reduces ? ", " : "", traits->reduces ? stretto_op_name(op) : "",
		 signature->op & STRETTO_SIGNED_SCALED ? ", scaled" : "",
		 signature->op & STRETTO_SIGNED_REPRODUCIBLE ? ", reproducible" : "", root,
		 any ? "" : " by ", any ? "" : by);
	return buf;
}
