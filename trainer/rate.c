/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/rate.h"

#include <math.h>

#include "trainer/words.h"

/* Shares of the highest rate at the two ends of a cycle, and where the peak is. */
static const double cycle_start = 1.0 / 25, cycle_end = 1.0 / 10000, cycle_peak = 0.25;

const char *stretto_rate_parse(const char *text, struct stretto_rate *rate)
{
	double every = 0, factor = 0.1;
	const struct stretto_word words[] = {{"every", &every}, {"factor", &factor}};

	if (stretto_words_parse(text, "constant", NULL, 0)) {
		*rate = (struct stretto_rate){.kind = STRETTO_RATE_CONSTANT};
		return NULL;
	}
	if (stretto_words_parse(text, "onecycle", NULL, 0)) {
		*rate = (struct stretto_rate){.kind = STRETTO_RATE_ONECYCLE};
		return NULL;
	}
	if (!stretto_words_parse(text, "step", words, 2))
		return "expected constant, step:every=STEPS,factor=F or onecycle";
	if (!(every >= 1 && every <= 1e9) || every != floor(every))
		return "every must be a whole number of steps, at least 1";
	if (!(factor > 0 && factor <= 1))
		return "factor must be more than 0 and at most 1";
	*rate = (struct stretto_rate){STRETTO_RATE_STEP, (size_t)every, factor};
	return NULL;
}

static double cycle_at(double progress)
{
	double share;

	if (progress < cycle_peak)
		return cycle_start + (1 - cycle_start) * progress / cycle_peak;
	share = (progress - cycle_peak) / (1 - cycle_peak);
	return 1 + (cycle_end - 1) * share;
}

double stretto_rate_at(const struct stretto_rate *rate, size_t step, size_t steps)
{
	if (rate->kind == STRETTO_RATE_STEP)
		return pow(rate->factor, (double)(step / rate->every));
	if (rate->kind == STRETTO_RATE_ONECYCLE && steps > 0)
		return cycle_at((double)step / (double)steps);
	return 1;
}
