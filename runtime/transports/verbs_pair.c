/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/transports/verbs_pair.h"

#include <netinet/in.h>
#include <string.h>

bool verbs_is_link_local(const struct verbs_ip *ip)
{
	if (ip->family == AF_INET)
		return ip->bytes[0] == 169 && ip->bytes[1] == 254;
	return ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	return memcmp(a, b, bits / 8) == 0 &&
	       (rest == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0);
}

/* Prefixes that differ: the longer one says what both hosts reach without a router. */
static bool same_subnet(const struct verbs_ip *a, const struct verbs_ip *b)
{
	unsigned bits = a->prefix > b->prefix ? a->prefix : b->prefix;

	return a->prefix > 0 && b->prefix > 0 && same_bits(a->bytes, b->bytes, bits);
}

/* How well two addresses go together, as an index of `reasons`; 0: not at all. */
static int worth(const struct verbs_ip *a, const struct verbs_ip *b)
{
	if (a->family != b->family || verbs_is_link_local(a) != verbs_is_link_local(b))
		return 0;
	if (verbs_is_link_local(a))
		return 1;
	return 2 + (a->family == AF_INET) + (same_subnet(a, b) ? 2 : 0);
}

static const char *const reasons[] = {
	NULL,
	"link-local addresses, which are all that both have",
	"IPv6, in other subnets: through a router",
	"IPv4, in other subnets: through a router",
	"IPv6, the same subnet",
	"IPv4, the same subnet",
};

bool verbs_choose_pair(const struct verbs_ips *lower, const struct verbs_ips *higher,
		       struct verbs_pair *pair)
{
	int best = 0;

	for (size_t i = 0; i < lower->count; i++)
		for (size_t j = 0; j < higher->count; j++) {
			int value = worth(&lower->ip[i], &higher->ip[j]);

			if (value <= best)
				continue;
			best = value;
			*pair = (struct verbs_pair){i, j, reasons[value]};
		}
	return best > 0;
}

bool verbs_good_ips(const struct verbs_ips *ips)
{
	if (ips->count > VERBS_IPS)
		return false;
	for (size_t i = 0; i < ips->count; i++) {
		const struct verbs_ip *ip = &ips->ip[i];

		if ((ip->family != AF_INET || ip->prefix > 32) &&
		    (ip->family != AF_INET6 || ip->prefix > 128))
			return false;
	}
	return true;
}
