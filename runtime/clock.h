/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h: monotonic time, and what a polling loop does between two looks. Any thread. */
#ifndef STRETTO_RUNTIME_CLOCK_H
#define STRETTO_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A time that never comes. */
#define STRETTO_NEVER UINT64_MAX

/* Nanoseconds of CLOCK_MONOTONIC: the same clock in all processes of a node. */
static inline uint64_t stretto_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time `seconds` after `from`; STRETTO_NEVER if that is beyond the clock. */
static inline uint64_t stretto_after(uint64_t from, double seconds)
{
	return seconds >= 9e9 ? STRETTO_NEVER : from + (uint64_t)(seconds * 1e9);
}

/* Tells the core that this is a polling loop. */
static inline void stretto_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
