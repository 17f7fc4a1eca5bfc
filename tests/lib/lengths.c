/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/lengths.h"

#include <stdlib.h>

#include "tests/lib/ranks.h"

/* Elements that rank `from` has for rank `to`; the same for all `from` where all ranks agree. */
static size_t length_of(enum lengths lengths, int from, int to)
{
	size_t mixed = (size_t)(from * 7 + to * 5 + from * to) % 11;

	switch (lengths) {
	case UNEVEN:
	case TURNED:
		return mixed < 4 ? 0 : mixed;
	case ONE_HAS_ALL:
		return to == 1 ? 997 : 0;
	case LONG:
		return 3000 + 1001 * mixed;
	default:
		return 0;
	}
}

/* Fills in displacements. */
static void place(struct arrays *arrays, int rank, int size)
{
	size_t next = rank % 3 == 2 ? 5 : 0;

	for (int k = 0; k < size; k++) {
		int r = rank % 2 ? size - 1 - k : k;

		arrays->displs[r] = next;
		next += arrays->counts[r] + (rank % 3 == 2 ? 3 : 0);
	}
	arrays->end = next;
}

static struct arrays arrays_new(int size)
{
	struct arrays arrays = {calloc((size_t)size, sizeof(size_t)),
				calloc((size_t)size, sizeof(size_t)), 0};

	require(arrays.counts && arrays.displs);
	return arrays;
}

void arrays_free(struct arrays *arrays)
{
	free(arrays->counts);
	free(arrays->displs);
}

struct arrays arrays_of(enum stretto_collective collective, enum lengths lengths, int rank,
			int size, bool gets)
{
	struct arrays arrays = arrays_new(size);
	bool agreed = collective != STRETTO_ALLTOALLV;

	for (int r = 0; r < size; r++) {
		int from = agreed ? 2 : gets ? r : rank;
		int to = agreed || !gets ? r : rank;

		if (lengths == TURNED && agreed)
			to = size - 1 - to;
		else if (lengths == TURNED)
			from = size - 1 - from;
		arrays.counts[r] = length_of(lengths, from, to);
	}
	place(&arrays, rank, size);
	return arrays;
}

struct arrays arrays_symmetric(enum lengths lengths, int rank, int size)
{
	struct arrays arrays = arrays_new(size);

	for (int r = 0; r < size; r++)
		arrays.counts[r] = length_of(lengths, r < rank ? r : rank, r < rank ? rank : r);
	place(&arrays, rank, size);
	return arrays;
}

void arrays_pack(struct arrays *arrays, int size)
{
	arrays->end = 0;
	for (int r = 0; r < size; r++) {
		arrays->displs[r] = arrays->end;
		arrays->end += arrays->counts[r];
	}
}
