/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.h: tells the compiler that the iterations of the next loop do not depend on each other, so
 * that arrays which are equal (never shifted) may be vectorised without a run-time check.
 */
#ifndef STRETTO_TRAINER_LOOP_H
#define STRETTO_TRAINER_LOOP_H

#if defined(__clang__)
#define LOOP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOOP_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
