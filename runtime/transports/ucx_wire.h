/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_wire.h: what ranks tell each other over UCX. All ranks of a job have the same byte order.
 *
 * The bootstrap carries a struct ucx_address per device, with the worker's address behind it. What
 * ranks then exchange are active messages, each a header and perhaps a payload, and tagged
 * messages, which are payloads of announced receives and nothing else:
 *
 *     0        4        8        16                       32                       48      56    64
 *     +--------+--------+--------+------------------------+------------------------+-------+-----+---
 *     |kind    |rank    |secret  | key: communicator,     | signature              | bytes |num- |pay-
 *     |        |        |        | sequence, ordinal      |                        |       |ber  |load
 *     +--------+--------+--------+------------------------+------------------------+-------+-----+---
 *
 *     tag = lower half of the receiver's secret, number of the receive
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_UCX_WIRE_H
#define STRETTO_RUNTIME_TRANSPORTS_UCX_WIRE_H

#include "runtime/transport.h"

enum {
	UCX_MAGIC = 0x53745563,
	UCX_VERSION = 1,
	UCX_MESSAGE = 1, /* id of our active messages */
};

/* What a rank tells the others of its device; the worker's address follows. */
struct ucx_address {
	uint32_t magic;
	uint16_t version;
	uint16_t worker_bytes; /* of the worker's address */
	uint32_t eager;        /* bytes; the less of two is used between them */
	uint32_t checksum;     /* of the worker's address: UCX trusts what it is given */
	uint64_t secret;       /* must be in each message to this rank */
	char host[32];         /* name, for messages */
};
enum { UCX_WORKER_ADDRESS_MAX = STRETTO_ADDRESS_MAX - (int)sizeof(struct ucx_address) };

enum ucx_kind {
	UCX_HELLO = 1, /* the sender has an endpoint to the receiver */
	UCX_PART,      /* it is closed; number: messages and payloads that it sent */
	UCX_EAGER,     /* a payload: key, signature, bytes */
	UCX_CLEAR,     /* a receive is posted: number, key, signature, bytes */
	UCX_REFUSE,    /* the sender's message for that number differs: signature, bytes */
	UCX_REVOKE,    /* the receive of that number is cancelled */
	UCX_GONE,      /* no payload comes for that number */
	UCX_ASK,       /* a send waits for its announcement: key, signature, bytes */
	UCX_STATE,     /* what the rank entered last: key, signature; number: version */
	UCX_NOTICE,    /* a communicator is broken: key, signature, body */
};

struct ucx_header {
	uint8_t kind; /* enum ucx_kind */
	uint8_t unused[3];
	int32_t rank;    /* world rank of the sender */
	uint64_t secret; /* the receiver's */
	struct stretto_key key;
	struct stretto_signature signature;
	uint64_t bytes;
	uint64_t number;
};
_Static_assert(sizeof(struct ucx_header) == 64, "a cache line");

/* What follows the header of a NOTICE. */
struct ucx_notice_body {
	int32_t origin;
	int32_t other;
	uint64_t status;
	struct stretto_signature other_signature;
};
_Static_assert(sizeof(struct ucx_notice_body) == 32, "no padding");

#endif
