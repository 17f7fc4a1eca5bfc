/* SPDX-License-Identifier: BSD-3-Clause */
#include "trainer/rng.h"

static uint64_t rotate_left(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void stretto_rng_init(struct stretto_rng *rng, uint64_t seed, uint64_t stream)
{
	uint64_t state = seed;

	/* Mixed once, so that neighbouring seeds and streams do not meet. */
	state = splitmix(&state) ^ stream;
	for (int i = 0; i < 4; i++)
		rng->state[i] = splitmix(&state);
}

uint64_t stretto_rng_next(struct stretto_rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint32_t stretto_rng_below(struct stretto_rng *rng, uint32_t bound)
{
	uint32_t rejected = (uint32_t)(0 - bound) % bound;
	uint64_t product;

	do {
		product = (stretto_rng_next(rng) >> 32) * bound;
	} while ((uint32_t)product < rejected);
	return (uint32_t)(product >> 32);
}

float stretto_rng_uniform(struct stretto_rng *rng, float low, float high)
{
	/* 24 bits: every value is a float, and 1 is never reached. */
	float unit = (float)(stretto_rng_next(rng) >> 40) * 0x1p-24f;

	return low + (high - low) * unit;
}
