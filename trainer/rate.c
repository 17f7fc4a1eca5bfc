/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/rate.h"

#include <math.h>

#include "trainer/words.h"

/* Shares of the highest rate at the two ends of a cycle, and where the peak is. */
static const double cycle_start = 1.0 / 25, cycle_end = 1.0 / 10000, cycle_peak = 0.25;

static const char *check_step(double every, double factor, struct stretto_rate *rate)
{
	if (!(every >= 1 && every <= 1e9) || every != floor(every))
		return "every must be a whole number of steps, at least 1";
	if (!(factor > 0 && factor <= 1))
		return "factor must be more than 0 and at most 1";
	*rate = (struct stretto_rate){
		.kind = STRETTO_RATE_STEP, .every = (size_t)every, .factor = factor};
	return NULL;
}

static const char *check_cosine(double warmup, double end, struct stretto_rate *rate)
{
	if (!(warmup >= 0 && warmup <= 1e9) || warmup != floor(warmup))
		return "warmup must be a whole number of steps, at least 0";
	if (!(end >= 0 && end <= 1))
		return "floor must be at least 0 and at most 1";
	*rate = (struct stretto_rate){
		.kind = STRETTO_RATE_COSINE, .warmup = (size_t)warmup, .floor = end};
	return NULL;
}

const char *stretto_rate_parse(const char *text, struct stretto_rate *rate)
{
	double every = 0, factor = 0.1, warmup = 0, end = 0;
	const struct stretto_word step[] = {{"every", &every}, {"factor", &factor}};
	const struct stretto_word cosine[] = {{"warmup", &warmup}, {"floor", &end}};

	if (stretto_words_parse(text, "constant", NULL, 0)) {
		*rate = (struct stretto_rate){.kind = STRETTO_RATE_CONSTANT};
		return NULL;
	}
	if (stretto_words_parse(text, "onecycle", NULL, 0)) {
		*rate = (struct stretto_rate){.kind = STRETTO_RATE_ONECYCLE};
		return NULL;
	}
	if (stretto_words_parse(text, "step", step, 2))
		return check_step(every, factor, rate);
	if (stretto_words_parse(text, "cosine", cosine, 2))
		return check_cosine(warmup, end, rate);
	return "expected constant, step:every=STEPS,factor=F, onecycle or "
	       "cosine:warmup=STEPS,floor=F";
}

static double cycle_at(double progress)
{
	double share;

	if (progress < cycle_peak)
		return cycle_start + (1 - cycle_start) * progress / cycle_peak;
	share = (progress - cycle_peak) / (1 - cycle_peak);
	return 1 + (cycle_end - 1) * share;
}

static double cosine_at(const struct stretto_rate *rate, size_t step, size_t steps)
{
	const double pi = 3.14159265358979323846;
	double progress;

	/* From 1/N: a step with rate 0 would be wasted. */
	if (step < rate->warmup)
		return (double)(step + 1) / (double)rate->warmup;
	if (steps <= rate->warmup)
		return 1;
	progress = (double)(step - rate->warmup) / (double)(steps - rate->warmup);
	return rate->floor + (1 - rate->floor) * (1 + cos(pi * progress)) / 2;
}

double stretto_rate_at(const struct stretto_rate *rate, size_t step, size_t steps)
{
	if (rate->kind == STRETTO_RATE_STEP)
		return pow(rate->factor, (double)(step / rate->every));
	if (rate->kind == STRETTO_RATE_COSINE)
		return cosine_at(rate, step, steps);
	if (rate->kind == STRETTO_RATE_ONECYCLE && steps > 0)
		return cycle_at((double)step / (double)steps);
	return 1;
}
