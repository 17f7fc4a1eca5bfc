/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * describe.h: an operation in words, from its signature.
 *
 * Threads: pure.
 */
#ifndef STRETTO_COLLECTIVES_DESCRIBE_H
#define STRETTO_COLLECTIVES_DESCRIBE_H

#include "runtime/transport.h"

/* Writes one line of at most `size` bytes to buf, such as "barrier", and returns buf. */
const char *stretto_describe(const struct stretto_signature *signature, char *buf, size_t size);

#endif
