/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_layout.h: what two ranks of a node share.
 *
 * One memfd per connected pair, made by the lower rank, with one direction each way:
 *
 *   struct shm_direction        producer -> consumer
 *   +------+------------------------------------------+
 *   | head | consumed cells, told by the consumer     |  own cache line
 *   +------+------------------------------------------+
 *   | cell 0 | cell 1 | ...               | cell 127  |  one cache line each
 *   +-----------------------------------------------+
 *   | states of the eager slots, of the stream slots  |  one cache line each
 *   +-------------------------------------------------+
 *   | eager slots: 16 x 8 KiB | stream slots: 4 x 64 KiB (touched only when used)
 *   +-------------------------------------------------+
 *
 * Cell p of the stream lies at index p % 128 and is full when its `turn` is p + 1: the producer
 * writes the line and then turn; the consumer reads turn and then the line. The producer may write
 * cell p when p - head < 128. A slot is free when its state is 0; the producer takes it, the
 * consumer frees it, in any order. One page per rank (another memfd) says whether its progress
 * sleeps, and what it entered.
 */
#ifndef STRETTO_RUNTIME_TRANSPORTS_SHM_LAYOUT_H
#define STRETTO_RUNTIME_TRANSPORTS_SHM_LAYOUT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "runtime/transport.h"

enum {
	SHM_LINE = 64,
	SHM_CELLS = 128,
	SHM_INLINE = 24,
	SHM_EAGER_SLOTS = 16,
	SHM_EAGER_BYTES = 8192,
	SHM_STREAM_SLOTS = 4,
	SHM_STREAM_BYTES = 65536,
};

enum shm_kind {
	SHM_CELL_INLINE = 1, /* payload in the cell */
	SHM_CELL_EAGER,      /* payload in a slot */
	SHM_CELL_OFFER,      /* payload in the sender's memory */
	SHM_CELL_FINISH,     /* the receiver has read an offer */
	SHM_CELL_PULL,       /* the receiver cannot read an offer: stream it */
	SHM_CELL_FRAGMENT,   /* a piece of a stream, in a slot */
	SHM_CELL_GONE,       /* a region was freed */
	SHM_CELL_NOTICE,     /* struct stretto_notice */
};

union shm_body {
	uint8_t bytes[SHM_INLINE];
	struct {
		uint64_t address; /* in the sender */
		uint64_t bytes;
		uint32_t region; /* the sender's id, 0 for none */
		uint32_t send;   /* number of the send */
	} offer;
	struct {
		uint32_t slot;
		uint32_t bytes;
	} eager;
	struct {
		uint32_t send;
		uint32_t recv; /* number of the receive, for PULL */
		uint32_t status;
	} answer; /* FINISH and PULL */
	struct {
		uint64_t offset;
		uint32_t recv;
		uint32_t slot;
		uint32_t bytes;
	} fragment;
	struct {
		uint32_t region;
	} gone;
	struct {
		int32_t origin;
		uint32_t other_status; /* (other + 1) << 8 | status */
		struct stretto_signature other_signature;
	} notice; /* the origin's signature is in the cell's head */
	uint64_t words[3];
};

struct shm_cell {
	_Atomic uint32_t turn;
	uint8_t kind;   /* enum shm_kind */
	uint8_t length; /* INLINE: payload bytes */
	uint16_t unused;
	struct stretto_key key;
	struct stretto_signature signature;
	union shm_body body;
};
_Static_assert(sizeof(struct shm_cell) == SHM_LINE, "a cell is a cache line");

struct shm_slot_state {
	alignas(SHM_LINE) _Atomic uint32_t taken; /* 1 by the producer, 0 by the consumer */
};

struct shm_direction {
	alignas(SHM_LINE) _Atomic uint32_t head; /* written by the consumer only */
	alignas(SHM_LINE) struct shm_cell cells[SHM_CELLS];
	struct shm_slot_state eager_state[SHM_EAGER_SLOTS];
	struct shm_slot_state stream_state[SHM_STREAM_SLOTS];
	alignas(4096) uint8_t eager[SHM_EAGER_SLOTS][SHM_EAGER_BYTES];
	uint8_t stream[SHM_STREAM_SLOTS][SHM_STREAM_BYTES];
};
_Static_assert(offsetof(struct shm_direction, cells) == SHM_LINE, "head has its own line");

struct shm_pair {
	struct shm_direction up;   /* from the lower rank to the higher */
	struct shm_direction down; /* from the higher rank to the lower */
};

struct shm_page {
	/* 1: the rank sleeps; who resets it to 0 must wake it. */
	alignas(SHM_LINE) _Atomic uint32_t armed;
	/* struct stretto_peer_state of the operation that the rank entered last; */
	alignas(SHM_LINE) _Atomic uint64_t entered[4];
	_Atomic uint32_t version; /* odd while `entered` is being written */
};

/* First message of a connection, both ways. With it: page, eventfd, and the pair from the lower
 * rank. */
struct shm_hello {
	uint32_t magic;
	uint32_t version;
	uint8_t secret[16];
	int32_t rank; /* of who writes it */
	int32_t channel;
	uint64_t nonce_address; /* in the memory of who writes it */
	uint64_t nonce;         /* what is there */
};

enum { SHM_MAGIC = 0x53545254, SHM_VERSION = 2 };

_Static_assert(sizeof(struct stretto_peer_state) == 32, "fits shm_page.entered");

/* Later messages on the socket: a region, with its memfd. */
struct shm_region_message {
	uint32_t magic;
	uint32_t id;
	uint64_t address;
	uint64_t bytes;
	uint64_t tag;
};

#endif
