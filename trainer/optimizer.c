/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/loop.h"
#include "trainer/words.h"

/* The numbers of an option text, before they are checked. */
struct numbers {
	double rate, momentum, nesterov, beta1, beta2, epsilon, decay, clip;
};

static const char *check_common(const struct numbers *n)
{
	if (!(n->rate > 0 && n->rate <= 1000))
		return "lr must be more than 0 and at most 1000";
	if (!(n->decay >= 0 && n->decay <= 1000))
		return "decay must be at least 0 and at most 1000";
	if (!(n->clip >= 0 && n->clip <= 1e30))
		return "clip must be at least 0";
	return NULL;
}

static const char *check_sgd(const struct numbers *n)
{
	if (!(n->momentum >= 0 && n->momentum < 1))
		return "momentum must be at least 0 and less than 1";
	if (n->nesterov != 0 && n->nesterov != 1)
		return "nesterov must be 0 or 1";
	if (n->nesterov == 1 && n->momentum == 0)
		return "nesterov needs a momentum";
	return NULL;
}

static const char *check_adam(const struct numbers *n)
{
	if (!(n->beta1 >= 0 && n->beta1 < 1 && n->beta2 >= 0 && n->beta2 < 1))
		return "beta1 and beta2 must be at least 0 and less than 1";
	/* 1e-30 is still a normal float. */
	if (!(n->epsilon >= 1e-30 && n->epsilon <= 1))
		return "eps must be more than 0 and at most 1";
	return NULL;
}

static bool parse_sgd(const char *text, struct numbers *n)
{
	const struct stretto_word words[] = {{"lr", &n->rate},
					     {"momentum", &n->momentum},
					     {"nesterov", &n->nesterov},
					     {"decay", &n->decay},
					     {"clip", &n->clip}};

	n->rate = 0.05;
	n->momentum = 0.9;
	return stretto_words_parse(text, "sgd", words, 5);
}

/* Both Adams; only adamw has a decay. */
static bool parse_adam(const char *text, struct numbers *n)
{
	const struct stretto_word words[] = {{"lr", &n->rate},     {"beta1", &n->beta1},
					     {"beta2", &n->beta2}, {"eps", &n->epsilon},
					     {"clip", &n->clip},   {"decay", &n->decay}};

	*n = (struct numbers){.rate = 0.001, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
	if (stretto_words_parse(text, "adam", words, 5))
		return true;
	n->decay = 0.01;
	return stretto_words_parse(text, "adamw", words, 6);
}

const char *stretto_optimizer_parse(const char *text, struct stretto_optimizer_options *options)
{
	struct numbers n = {0};
	bool sgd = parse_sgd(text, &n);
	const char *problem;

	if (!sgd && !parse_adam(text, &n))
		return "expected sgd:lr=RATE,momentum=MU,nesterov=0|1,decay=L,clip=C, or "
		       "adam[w]:lr=RATE,beta1=B,beta2=B,eps=E,clip=C, with decay=L for adamw";
	problem = check_common(&n);
	if (!problem)
		problem = sgd ? check_sgd(&n) : check_adam(&n);
	if (problem)
		return problem;
	*options = (struct stretto_optimizer_options){
		.kind = sgd ? STRETTO_OPTIMIZER_SGD : STRETTO_OPTIMIZER_ADAM,
		.rate = (float)n.rate,
		.momentum = (float)n.momentum,
		.nesterov = n.nesterov == 1,
		.beta1 = (float)n.beta1,
		.beta2 = (float)n.beta2,
		.epsilon = (float)n.epsilon,
		.decay = (float)n.decay,
		.clip = (float)n.clip,
	};
	return NULL;
}

size_t stretto_optimizer_moments(const struct stretto_optimizer_options *options)
{
	return options->kind == STRETTO_OPTIMIZER_ADAM ? 2 : 1;
}

stretto_status stretto_optimizer_init(struct stretto_optimizer *optimizer,
				      const struct stretto_optimizer_options *options, size_t count)
{
	float *state = calloc(count * stretto_optimizer_moments(options), sizeof(*state));

	if (!state)
		return STRETTO_NO_MEMORY;
	*optimizer = (struct stretto_optimizer){
		.options = *options,
		.rate = options->rate,
		.state = state,
		.count = count,
	};
	return STRETTO_OK;
}

void stretto_optimizer_fini(struct stretto_optimizer *optimizer)
{
	free(optimizer->state);
	optimizer->state = NULL;
}

/* SGD; v is what becomes of the velocity, in_v may be the same. next may be weights. */
static void step_sgd(const struct stretto_optimizer *optimizer, const struct stretto_pass *pass,
		     const float *in_v, float *v)
{
	const float *w = pass->weights, *g = pass->gradients;
	float mu = optimizer->options.momentum, rate = optimizer->rate;
	float keep = 1.0f - rate * optimizer->options.decay;
	float *next = pass->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		v[i] = mu * in_v[i] + g[i];
		next[i] = keep * w[i] - rate * v[i];
	}
}

static void step_nesterov(const struct stretto_optimizer *optimizer,
			  const struct stretto_pass *pass, const float *in_v, float *v)
{
	const float *w = pass->weights, *g = pass->gradients;
	float mu = optimizer->options.momentum, rate = optimizer->rate;
	float keep = 1.0f - rate * optimizer->options.decay;
	float *next = pass->next;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		float gradient = g[i], velocity = mu * in_v[i] + gradient;

		v[i] = velocity;
		next[i] = keep * w[i] - rate * (gradient + mu * velocity);
	}
}

/* The moments before and after the step; each pair may be the same. */
struct moments {
	const float *in_m, *in_s;
	float *m, *s;
};

static void step_adam(const struct stretto_optimizer *optimizer, const struct stretto_pass *pass,
		      const struct moments *moments)
{
	const float *w = pass->weights, *g = pass->gradients;
	const float *in_m = moments->in_m, *in_s = moments->in_s;
	float beta1 = optimizer->options.beta1, beta2 = optimizer->options.beta2;
	float other1 = 1.0f - beta1, other2 = 1.0f - beta2, epsilon = optimizer->options.epsilon;
	float keep = 1.0f - optimizer->rate * optimizer->options.decay;
	float step = optimizer->rate * optimizer->first_unbiased;
	float unbiased = optimizer->second_unbiased;
	float *next = pass->next, *out_m = moments->m, *out_s = moments->s;

	LOOP_INDEPENDENT
	for (size_t i = 0; i < pass->count; i++) {
		float gradient = g[i];
		float m = beta1 * in_m[i] + other1 * gradient;
		float s = beta2 * in_s[i] + other2 * (gradient * gradient);

		out_m[i] = m;
		out_s[i] = s;
		next[i] = keep * w[i] - step * m / (sqrtf(s) * unbiased + epsilon);
	}
}

/* The bias corrections of Adam, once an update. */
static void correct(struct stretto_optimizer *optimizer, uint64_t update)
{
	double t = (double)update;

	if (optimizer->update == update)
		return;
	optimizer->update = update;
	optimizer->first_unbiased = (float)(1 / (1 - pow((double)optimizer->options.beta1, t)));
	optimizer->second_unbiased =
		(float)(1 / sqrt(1 - pow((double)optimizer->options.beta2, t)));
}

/* A piece of a pass, whose new state goes to out[2], or to where it was. */
static void piece(struct stretto_optimizer *optimizer, const struct stretto_pass *pass,
		  float *const out[2])
{
	float *first = optimizer->state + pass->state, *second = first + optimizer->count;

	if (optimizer->options.kind == STRETTO_OPTIMIZER_ADAM) {
		struct moments moments = {first, second, out ? out[0] : first,
					  out ? out[1] : second};

		correct(optimizer, pass->update);
		step_adam(optimizer, pass, &moments);
	} else if (optimizer->options.nesterov) {
		step_nesterov(optimizer, pass, first, out ? out[0] : first);
	} else {
		step_sgd(optimizer, pass, first, out ? out[0] : first);
	}
}

/* A pass that leaves the state as it is: the new one goes to the stack, which stays in the cache. */
static void try(struct stretto_optimizer *optimizer, const struct stretto_pass *pass)
{
	enum { PIECE = 1024 };
	float first[PIECE], second[PIECE];
	float *const out[2] = {first, second};

	for (size_t at = 0; at < pass->count; at += PIECE) {
		struct stretto_pass part = *pass;

		part.weights += at;
		part.gradients += at;
		part.next += at;
		part.first += at;
		part.state += at;
		part.count = pass->count - at < PIECE ? pass->count - at : PIECE;
		piece(optimizer, &part, out);
	}
}

void stretto_optimizer_update(void *context, const struct stretto_pass *pass)
{
	struct stretto_optimizer *optimizer = context;

	if (pass->trial)
		try(optimizer, pass);
	else
		piece(optimizer, pass, NULL);
}
