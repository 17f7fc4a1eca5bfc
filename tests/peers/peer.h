/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.h: what a library must do to be measured by bench.c, latency.c and overlap.c; one file for
 * each library.
 *
 * One program for each, so that no library is loaded into the measurement of another. One thread.
 */
#ifndef STRETTO_TESTS_PEERS_PEER_H
#define STRETTO_TESTS_PEERS_PEER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return int return 0 for success. `in` and `out` are the same for in place. */
struct peer {
	const char *name;
	int (*init)(int *argc, char ***argv, int *rank, int *size);
	void *(*alloc)(size_t bytes); /* memory as the library likes it best; NULL: none */
	int (*barrier)(void);
	int (*sum)(const float *in, float *out, size_t count);
	int (*start)(const float *in, float *out, size_t count); /* a sum; one at a time */
	int (*wait)(void);                                       /* for that one */
	int (*max)(double *values, size_t count);                /* in place */
	int (*fini)(void);
};

extern const struct peer peer;

#ifdef __cplusplus
}
#endif

#endif
