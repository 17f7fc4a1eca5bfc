/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * futex.h: sleeping on a 32-bit word of this process.
 *
 * A sleeper re-reads the word after each return; wake-ups may be spurious. Any thread.
 */
#ifndef STRETTO_RUNTIME_FUTEX_H
#define STRETTO_RUNTIME_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps unless *word differs from `seen`. */
static inline void stretto_futex_wait(atomic_uint *word, unsigned seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* Wakes all sleepers. */
static inline void stretto_futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
