/* SPDX-License-Identifier: BSD-3-Clause */
/* test_verbs_pair.c: which addresses two ranks use between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/transports/verbs_pair.h"

/* "10.0.0.1/24 fe80::1/64": without a prefix it is not known. */
static struct verbs_ips parse(const char *text)
{
	struct verbs_ips ips = {.count = 0};
	char words[200], *rest = words;

	snprintf(words, sizeof words, "%s", text);
	for (char *word; (word = strsep(&rest, " ")) && *word;) {
		struct verbs_ip *ip = &ips.ip[ips.count++];
		char *prefix = strchr(word, '/');

		if (prefix) {
			*prefix = '\0';
			ip->prefix = (uint8_t)strtoul(prefix + 1, NULL, 10);
		}
		ip->family = strchr(word, ':') ? AF_INET6 : AF_INET;
		assert_int_equal(inet_pton(ip->family, word, ip->bytes), 1);
	}
	return ips;
}

static const struct row {
	const char *lower, *higher;
	int want_lower, want_higher; /* -1: none go together */
	const char *why;             /* a word of it */
} rows[] = {
	/* one each */
	{"10.0.0.1/24", "10.0.0.2/24", 0, 0, "same"},
	{"10.0.0.1/24", "10.0.1.2/24", 0, 0, "router"},
	{"10.0.0.1/24", "fd00::2/64", -1, -1, NULL},
	{"", "10.0.0.1/24", -1, -1, NULL},
	/* the common subnet, wherever it stands in the lists */
	{"10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24 10.3.0.2/24", 1, 0, "same"},
	{"10.1.0.1/24 10.2.0.1/24", "10.3.0.2/24 10.2.0.2/24", 1, 1, "same"},
	/* also IPv6, before IPv4 through a router */
	{"10.1.0.1/24 fd00::1/64", "10.3.0.2/24 fd00::2/64", 1, 1, "IPv6"},
	/* of two common ones IPv4, of two alike the first */
	{"10.1.0.1/24 fd00::1/64", "10.1.0.2/24 fd00::2/64", 0, 0, "IPv4"},
	{"10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24 10.1.0.2/24", 0, 1, "same"},
	{"10.1.0.1/24 10.1.0.7/24", "10.1.0.2/24 10.1.0.8/24", 0, 0, "same"},
	/* no common one: IPv4 first */
	{"10.1.0.1/24 fd01::1/64", "10.3.0.2/24 fd03::2/64", 0, 0, "IPv4, in other"},
	{"fd01::1/64", "10.3.0.2/24 fd03::2/64", 0, 1, "IPv6, in other"},
	/* prefixes inside a byte */
	{"10.0.0.65/26", "10.0.0.126/26", 0, 0, "same"},
	{"10.0.0.65/26", "10.0.0.63/26", 0, 0, "router"},
	{"10.0.0.1/20 10.9.0.1/24", "10.0.16.1/20 10.9.0.2/24", 1, 1, "same"},
	/* prefixes that differ: the longer one counts */
	{"10.0.1.1/16", "10.0.2.2/24", 0, 0, "router"},
	{"10.0.2.1/16", "10.0.2.2/24", 0, 0, "same"},
	/* a prefix that is not known is no subnet */
	{"10.0.0.1", "10.0.0.2/24", 0, 0, "router"},
	{"10.0.0.1 fd00::1/64", "10.0.0.2 fd00::2/64", 1, 1, "same"},
	/* link-local ones are the last, and go only with each other */
	{"10.1.0.1/24 fe80::1/64", "10.3.0.2/24 fe80::2/64", 0, 0, "router"},
	{"10.1.0.1/24 fe80::1/64", "fd00::2/64 fe80::2/64", 1, 1, "link-local"},
	{"fe80::1/64", "fd00::2/64", -1, -1, NULL},
	{"169.254.1.1/16 fd01::1/64", "169.254.1.2/16 fd03::2/64", 1, 1, "router"},
	/* two ranks of one port */
	{"10.0.0.1/24 fd00::1/64", "10.0.0.1/24 fd00::1/64", 0, 0, "same"},
};

static void pairs_by_subnet_and_family(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct verbs_ips lower = parse(rows[i].lower), higher = parse(rows[i].higher);
		struct verbs_pair pair = {0};
		bool found = verbs_choose_pair(&lower, &higher, &pair);

		if (found != (rows[i].want_lower >= 0))
			fail_msg("row %zu: %s", i, found ? pair.why : "none");
		if (!found)
			continue;
		assert_true(strstr(pair.why, rows[i].why));
		assert_int_equal(pair.lower, rows[i].want_lower);
		assert_int_equal(pair.higher, rows[i].want_higher);
	}
}

static void lists_of_peers_are_checked(void **state)
{
	struct verbs_ips ips = parse("10.0.0.1/24 fd00::1/64");

	(void)state;
	assert_true(verbs_good_ips(&ips));
	ips.count = VERBS_IPS + 1;
	assert_false(verbs_good_ips(&ips));
	ips.count = 3; /* one of no family */
	assert_false(verbs_good_ips(&ips));
	ips.count = 2;
	ips.ip[0].prefix = 33;
	assert_false(verbs_good_ips(&ips));
	ips.ip[0].prefix = 32;
	ips.ip[1].prefix = 129;
	assert_false(verbs_good_ips(&ips));
	ips.ip[1].prefix = 128;
	assert_true(verbs_good_ips(&ips));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_by_subnet_and_family),
		cmocka_unit_test(lists_of_peers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
