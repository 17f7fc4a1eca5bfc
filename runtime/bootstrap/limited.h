/* SPDX-License-Identifier: BSD-3-Clause */
/* limited.h: a deadline for calls of other libraries that know none. Any thread. */
#ifndef STRETTO_RUNTIME_BOOTSTRAP_LIMITED_H
#define STRETTO_RUNTIME_BOOTSTRAP_LIMITED_H

enum stretto_limited {
	STRETTO_LIMITED_DONE,
	STRETTO_LIMITED_LATE,      /* the call goes on in a thread that nobody will join */
	STRETTO_LIMITED_NO_THREAD, /* nothing was called (errno) */
};

/*
 * Runs call() in a thread of its own, which takes no signals, and waits at most `seconds` for its
 * end; *result is written for STRETTO_LIMITED_DONE only. Since a late call goes on, it must use
 * nothing of its caller's, and its library is of no more use.
 */
enum stretto_limited stretto_limited_call(int (*call)(void), double seconds, int *result);

#endif
