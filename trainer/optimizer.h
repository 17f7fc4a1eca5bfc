/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * optimizer.h: the local optimiser, one pass over the arenas with the merge of an average fused in.
 *
 * sgd: stochastic gradient descent with momentum in PyTorch's convention,
 *	v <- mu v + g,  w <- w - lr v
 * (Polyak 1964; Sutskever et al. 2013 scale v by lr instead). The state v stays local to the rank.
 * A pass reads g, v, w (and the average, and the snapshot), and writes v and w: it runs at the
 *speed of memory.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_OPTIMIZER_H
#define STRETTO_TRAINER_OPTIMIZER_H

#include "trainer/stretto_train.h"

/* "sgd:lr=0.05,momentum=0.9" */
struct stretto_optimizer_options {
	float rate;     /* learning rate at its highest, > 0 */
	float momentum; /* mu, 0 <= mu < 1 */
};

struct stretto_optimizer {
	struct stretto_optimizer_options options;
	float rate;      /* learning rate of the next step, set by the caller */
	float *velocity; /* v, one a parameter, owned */
};

/* Reads a text such as the above; NULL, or what is wrong with it, static. Missing parts: as above.
 */
const char *stretto_optimizer_parse(const char *text, struct stretto_optimizer_options *options);

/* Makes the state of `parameters` floats, zeroed. STRETTO_NO_MEMORY. */
stretto_status stretto_optimizer_init(struct stretto_optimizer *optimizer,
				      const struct stretto_optimizer_options *options,
				      size_t parameters);
void stretto_optimizer_fini(struct stretto_optimizer *optimizer);

/* The stretto_update of an optimiser; context is the struct stretto_optimizer. */
void stretto_optimizer_update(void *context, const struct stretto_pass *pass);

#endif
