/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/stripe.h"

/* x * part / whole, for part <= whole < 2^32: without the product, which may not fit. */
static size_t fraction(size_t x, uint64_t part, uint64_t whole)
{
	return x / whole * part + x % whole * part / whole;
}

/* Makes weights below 2^28 of the speeds, so that their sum is below 2^32. */
static void weigh(const uint32_t *speeds, size_t channels, uint32_t *weights)
{
	size_t known = 0;
	uint32_t all = 0;

	for (size_t c = 0; c < channels; c++) {
		known += speeds[c] > 0;
		all |= speeds[c];
	}
	for (size_t c = 0; c < channels; c++) {
		weights[c] = known == channels ? speeds[c] >> (all >> 28 ? 4 : 0) : 1;
		if (weights[c] == 0)
			weights[c] = 1;
	}
}

/* The last of the slowest that has a share. */
static size_t slowest(const uint32_t *weights, size_t channels)
{
	size_t found = channels;

	for (size_t c = 0; c < channels; c++)
		if (weights[c] > 0 && (found == channels || weights[c] <= weights[found]))
			found = c;
	return found;
}

size_t stretto_stripes(size_t count, size_t element, const uint32_t *speeds, size_t channels,
		       struct stretto_stripe *stripes)
{
	size_t least = (STRETTO_STRIPE_BYTES + element - 1) / element;
	uint32_t weights[STRETTO_STRIPES_MAX];
	uint64_t whole = 0, before = 0;
	size_t left = channels, made = 0;

	weigh(speeds, channels, weights);
	for (size_t c = 0; c < channels; c++)
		whole += weights[c];
	for (; left > 1; left--) {
		size_t c = slowest(weights, channels);

		if (fraction(count, weights[c], whole) >= least)
			break;
		whole -= weights[c];
		weights[c] = 0;
	}
	for (size_t c = 0; c < channels; c++) {
		size_t first = fraction(count, before, whole);

		if (weights[c] == 0)
			continue;
		before += weights[c];
		stripes[made++] =
			(struct stretto_stripe){c, first, fraction(count, before, whole) - first};
	}
	return made;
}
