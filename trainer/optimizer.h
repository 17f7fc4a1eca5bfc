/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * optimizer.h: the local optimisers, one pass over the arenas each.
 *
 * g the gradient, w the weight, eta the learning rate of the step, lambda the weight decay, t the
 * number of this update from 1:
 *
 *	sgd     v <- mu v + g;  u = v, or g + mu v with nesterov=1
 *	        w <- (1 - eta lambda) w - eta u
 *	adam    m <- b1 m + (1 - b1) g;  s <- b2 s + (1 - b2) g^2
 *	        u = (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + eps)
 *	        w <- w - eta u
 *	adamw   as adam, but w <- (1 - eta lambda) w - eta u
 *
 * Sources: Polyak 1964 and Sutskever et al. 2013, in PyTorch's convention (v is not scaled by eta);
 * Kingma & Ba 2015; Loshchilov & Hutter 2019 (the decay does not pass through v, m and s: it is
 * decoupled, with sgd too). The betas 0.9 and 0.99 are those of DaSGD's authors.
 *
 * clip=C scales the gradients of a step such that their norm over the whole arena is at most C
 * (Pascanu et al. 2013). The averager does it (stretto_average_options.clip), because it knows when
 * the gradients that a step uses are complete.
 *
 * The state (v, or m and s) stays local to the rank. A pass reads g, the state and w, and writes
 * the state and the next w, so it runs at the speed of memory: 20 bytes a parameter for sgd, 28 for
 * adam.
 *
 * Threads: one at a time.
 */
#ifndef STRETTO_TRAINER_OPTIMIZER_H
#define STRETTO_TRAINER_OPTIMIZER_H

#include "trainer/stretto_train.h"

enum stretto_optimizer_kind { STRETTO_OPTIMIZER_SGD, STRETTO_OPTIMIZER_ADAM };

/* What an option text such as "adamw:lr=0.001,decay=0.01" says. */
struct stretto_optimizer_options {
	enum stretto_optimizer_kind kind; /* adamw is adam with a decay */
	float rate;                       /* learning rate at its highest, > 0 */
	float momentum;                   /* sgd: mu, 0 <= mu < 1 */
	bool nesterov;                    /* sgd: looks ahead; needs mu > 0 */
	float beta1;                      /* adam: of m, 0 <= b1 < 1 */
	float beta2;                      /* adam: of s, 0 <= b2 < 1 */
	float epsilon;                    /* adam: > 0 */
	float decay;                      /* lambda, >= 0 */
	float clip;                       /* greatest norm of the gradients; 0: any */
};

struct stretto_optimizer {
	struct stretto_optimizer_options options;
	float rate;            /* learning rate of the next step, set by the caller */
	float *state;          /* v, or all m and then all s; owned */
	size_t count;          /* of each of them */
	uint64_t update;       /* for which the corrections are */
	float first_unbiased;  /* adam: 1 / (1 - b1^t) */
	float second_unbiased; /* adam: 1 / sqrt(1 - b2^t) */
};

/*
 * Reads an option text; NULL, or what is wrong with it, static. Missing parts: sgd lr 0.05,
 * momentum 0.9; adam and adamw lr 0.001, beta1 0.9, beta2 0.99, eps 1e-8; adamw decay 0.01; else 0.
 */
const char *stretto_optimizer_parse(const char *text, struct stretto_optimizer_options *options);

/* Floats of state for each parameter: 1 or 2. Pure. */
size_t stretto_optimizer_moments(const struct stretto_optimizer_options *options);

/*
 * Makes the state for `count` parameters, zeroed: what stretto_average_state() says, which is less
 * than all where the strategy shards it. STRETTO_NO_MEMORY.
 */
stretto_status stretto_optimizer_init(struct stretto_optimizer *optimizer,
				      const struct stretto_optimizer_options *options,
				      size_t count);
void stretto_optimizer_fini(struct stretto_optimizer *optimizer);

/* The stretto_update of an optimiser; context is the struct stretto_optimizer. */
void stretto_optimizer_update(void *context, const struct stretto_pass *pass);

#endif
