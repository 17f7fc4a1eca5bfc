/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_cases.h: the transport contract as tests that every transport must pass.
 *
 * Each case is a function of two connected devices (transport_pair.h). One thread.
 */
#ifndef STRETTO_TESTS_TRANSPORT_CASES_H
#define STRETTO_TESTS_TRANSPORT_CASES_H

#include <stddef.h>

#include "tests/lib/transport_pair.h"

/* Runs all cases over each; returns how many failed. */
int transport_cases_run(const struct transport_over *overs, size_t count);

#endif
