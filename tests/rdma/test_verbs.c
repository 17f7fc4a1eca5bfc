/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_verbs.c: the transport contract over verbs, on a real device. Both ways of connecting, with more
 * and with fewer messages that need no announcement.
 *
 * STRETTO_TEST_DEVICES="A B" names the devices of the two sides; else both choose by themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/transport_cases.h"

enum { SIDES = 2, WAYS = 4 };

static char devices[SIDES][96];
static const char *const ways[WAYS][2] = {
	{"STRETTO_VERBS_CONNECT=cm", "STRETTO_VERBS_EAGER=8K"},
	{"STRETTO_VERBS_CONNECT=oob", "STRETTO_VERBS_EAGER=8K"},
	{"STRETTO_VERBS_CONNECT=cm", "STRETTO_VERBS_EAGER=1K"},
	{"STRETTO_VERBS_CONNECT=oob", "STRETTO_VERBS_EAGER=64K"},
};
static const char *const names[WAYS] = {"cm", "oob", "cm, short eager", "oob, long eager"};

int main(void)
{
	const char *given = getenv("STRETTO_TEST_DEVICES");
	char device[SIDES][32] = {"", ""};
	const char *settings[SIDES][WAYS][4];
	struct transport_over overs[WAYS];

	if (given && sscanf(given, "%31s %31s", device[0], device[1]) != SIDES) {
		fprintf(stderr, "STRETTO_TEST_DEVICES='%s' must name two devices\n", given);
		return 2;
	}
	for (int way = 0; way < WAYS; way++) {
		overs[way] = (struct transport_over){names[way], &stretto_transport_verbs, {NULL}};
		for (int side = 0; side < SIDES; side++) {
			const char **list = settings[side][way];

			snprintf(devices[side], sizeof devices[side], "STRETTO_VERBS_DEVICES=%.31s",
				 device[side]);
			list[0] = devices[side];
			list[1] = ways[way][0];
			list[2] = ways[way][1];
			list[3] = NULL;
			overs[way].settings[side] = list;
		}
	}
	return transport_cases_run(overs, WAYS);
}
