/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rng.h: reproducible random numbers, the same on every machine.
 *
 * xoshiro256** seeded by splitmix64 (Blackman & Vigna, "Scrambled linear pseudorandom number
 * generators", 2021). A stream is named by a seed and a number, so that weights and each epoch's
 * shuffle do not depend on how many numbers something else drew.
 *
 * Threads: one at a time for each struct.
 */
#ifndef STRETTO_TRAINER_RNG_H
#define STRETTO_TRAINER_RNG_H

#include <stdint.h>

struct stretto_rng {
	uint64_t state[4]; /* not all zero */
};

/* Begins stream `stream` of `seed`. */
void stretto_rng_init(struct stretto_rng *rng, uint64_t seed, uint64_t stream);

/* 64 random bits. */
uint64_t stretto_rng_next(struct stretto_rng *rng);

/* Uniform in [0, bound), bound >= 1, without bias (Lemire 2019). */
uint32_t stretto_rng_below(struct stretto_rng *rng, uint32_t bound);

/* Uniform in [low, high). */
float stretto_rng_uniform(struct stretto_rng *rng, float low, float high);

#endif
