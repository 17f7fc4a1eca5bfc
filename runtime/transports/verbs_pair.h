/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_pair.h: which of their addresses two ranks use between them.
 *
 * A reliable connection takes packets only from the address that it expects them from, so both ends
 * must come to the same pair, each by itself. Hence nothing here depends on who asks. Pure; any
 * thread.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_VERBS_PAIR_H
#define STRETTO_RUNTIME_TRANSPORTS_VERBS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Addresses that a device is known by, at most. */
enum { VERBS_IPS = 4 };

/* An IP address of a device; with RoCE its GID is made of it. */
struct verbs_ip {
	uint8_t family;    /* AF_INET or AF_INET6 */
	uint8_t prefix;    /* bits of its subnet's address; 0: not known */
	uint16_t cm_port;  /* where librdmacm listens, network order */
	uint8_t bytes[16]; /* AF_INET: the first four, and zeros */
};

/* Those that a device is known by: IPv4, then IPv6, then link-local ones. */
struct verbs_ips {
	uint32_t count;
	struct verbs_ip ip[VERBS_IPS];
};

/* Which addresses two ranks use between them, and why. */
struct verbs_pair {
	size_t lower;    /* index in the list of the lower rank */
	size_t higher;   /* and of the higher one */
	const char *why; /* for messages; static */
};

/*
 * Chooses a pair, of the same family. One subnet is better than two, IPv4 better than
 * IPv6, link-local is the last; of equals the first of the lower rank's list, then of the higher's.
 * Both ranks come to the same pair. false: no two go together.
 */
bool verbs_choose_pair(const struct verbs_ips *lower, const struct verbs_ips *higher,
		       struct verbs_pair *pair);
bool verbs_is_link_local(const struct verbs_ip *ip);
/* Whether a list that came from a peer is one. */
bool verbs_good_ips(const struct verbs_ips *ips);

#endif
