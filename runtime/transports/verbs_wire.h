/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_wire.h: what ranks tell each other over RDMA. All ranks of a job have the same byte order.
 *
 * The bootstrap carries a struct verbs_address per device. A connection begins with a struct
 * verbs_hello each way, as private data of the connection manager. Then come messages, each a
 * header and perhaps a body:
 *
 *     0        8        16                       32                       48       56    60    64
 *     +--------+--------+------------------------+------------------------+--------+-----+-----+----
 *     |kind,   |number, | key: communicator,     | signature              | bytes, | address  | body
 *     |credits |rkey    | sequence, ordinal      |                        |        |          |
 *     +--------+--------+------------------------+------------------------+--------+-----+-----+----
 *
 * and RDMA writes of payload, the last of a message with an immediate.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_VERBS_WIRE_H
#define STRETTO_RUNTIME_TRANSPORTS_VERBS_WIRE_H

#include "runtime/transport.h"
#include "runtime/transports/verbs_pair.h"

enum {
	VERBS_MAGIC = 0x53745662,
	VERBS_VERSION = 3,
	VERBS_CREDITS = 32, /* messages of a peer that have a slot here */
};

/* What a rank tells the others of its device. */
struct verbs_address {
	uint32_t magic;
	uint16_t version;
	uint16_t lid; /* InfiniBand; else 0 */
	uint8_t link_layer;
	uint8_t port;
	uint8_t mtu;      /* enum ibv_mtu, active */
	uint8_t oob;      /* 1: connections are made out of band */
	uint32_t eager;   /* bytes; the less of two is used between them */
	uint32_t mailbox; /* number of the queue pair for letters, 0 for none */
	struct verbs_ips ips;
	uint8_t secret[16]; /* must be in the hello of whoever connects */
	char device[32];    /* name, for messages */
	char host[32];      /* name, for messages */
};
_Static_assert(sizeof(struct verbs_address) <= STRETTO_ADDRESS_MAX, "the bootstrap carries it");
_Static_assert(sizeof(struct verbs_address) == 104 + 20 * VERBS_IPS, "no padding");

enum verbs_purpose {
	VERBS_CALL = 1, /* connects */
	VERBS_KNOCK,    /* asks the lower rank to connect; is rejected */
	VERBS_ANSWER,   /* out of band: the sender's queue pair is up */
	VERBS_PART,     /* out of band: it is no more */
};

/* Private data of a connection: at most 56 bytes reach the other side. */
struct verbs_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t purpose; /* enum verbs_purpose */
	int32_t rank;     /* world rank of the sender */
	int32_t channel;
	uint8_t secret[16]; /* the receiver's */
	uint32_t credits;   /* VERBS_CREDITS of the sender */
	uint32_t epoch;     /* how often connections were lost; must be the receiver's */
};
_Static_assert(sizeof(struct verbs_hello) <= 56, "what librdmacm carries");

/* A datagram that makes a connection out of band. */
struct verbs_letter {
	struct verbs_hello hello;
	uint32_t number; /* of the sender's queue pair */
	uint32_t psn;    /* first packet number that it sends */
};

/* Reason of a rejection, as private data. */
struct verbs_refusal {
	uint32_t magic;
	uint32_t reason; /* enum verbs_reason */
	uint32_t epoch;  /* of who refuses */
};

enum verbs_reason {
	VERBS_KNOCK_HEARD = 1, /* answer to a knock */
	VERBS_STRANGER,        /* the secret or the magic number is another job's */
	VERBS_OTHER_VERSION,
	VERBS_NO_SUCH_RANK, /* rank or channel */
	VERBS_CALLED_TWICE,
	VERBS_GIVEN_UP,
	VERBS_NO_RESOURCES, /* the receiver's log says which */
	VERBS_OTHER_EPOCH,  /* one of the two has yet to hear that connections were lost */
};

enum verbs_kind {
	VERBS_EAGER = 1, /* a payload */
	VERBS_CLEAR,     /* a receive is posted: number, address, rkey, bytes */
	VERBS_REFUSE,    /* the sender's message for that number differs: signature, bytes */
	VERBS_REVOKE,    /* the receive of that number is cancelled */
	VERBS_GONE,      /* nothing more comes for that number */
	VERBS_ASK,       /* a send waits for its announcement: key, signature, bytes */
	VERBS_STATE,     /* what the rank entered last: key, signature */
	VERBS_NOTICE,    /* a communicator is broken: key, signature, body */
	VERBS_CREDIT,    /* nothing but credits */
};

struct verbs_header {
	uint8_t kind; /* enum verbs_kind */
	uint8_t unused[3];
	uint32_t credits; /* slots posted again for the receiver of this message */
	uint32_t number;  /* of a receive */
	uint32_t rkey;
	struct stretto_key key;
	struct stretto_signature signature;
	uint64_t bytes;
	uint64_t address;
};
_Static_assert(sizeof(struct verbs_header) == 64, "a cache line");

/* What follows the header of a NOTICE. */
struct verbs_notice_body {
	int32_t origin;
	int32_t other;
	uint64_t status;
	struct stretto_signature other_signature;
};
_Static_assert(sizeof(struct verbs_notice_body) == 32, "no padding");

#endif
