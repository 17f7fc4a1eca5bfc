/* SPDX-License-Identifier: BSD-3-Clause */
/* The total mass of a field of cells, the same bits on any number of ranks and for any cutting. */
#include <stdio.h>
#include <stretto_coll.h>

int main(void)
{
	enum { CELLS = 1000000 };
	static double mass[CELLS];
	struct stretto_comm *world;
	size_t n = 0;
	double total;

	if (stretto_init(NULL, &world))
		return 1; /* the log says why */
	int rank = stretto_comm_rank(world), size = stretto_comm_size(world);
	for (int cell = rank; cell < CELLS; cell += size) /* our share: any share */
		mass[n++] = (cell % 2 ? -1e9 : 1e9) / (cell + 1);
	if (stretto_sum_exact(world, mass, n, &total))
		return 1;
	if (rank == 0)
		printf("%d ranks: %.17g = %a\n", size, total, total);
	return stretto_finalize(world) != STRETTO_OK;
}
