/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board.h: where the ranks of a communicator on one node write what the others read.
 *
 * Every rank has a *block* of memory that all others have mapped. Operations on mapped memory are
 * numbered alike on all ranks; operation i uses line i % BOARD_SLOTS of each block:
 *
 *   struct board_block
 *   +---------+---------+---------+
 *   | done    | writing | revoked |                       a cache line each
 *   +---------+---------+---------+------+
 *   | line 0  | line 1  | ...     | line 7 |              a cache line each
 *   +---------+---------+---------+--------+
 *   | payload 0 | payload 1 | ... | payload 7 |           BOARD_PAYLOAD bytes each
 *   +-------------------------------------------+
 *
 * A rank fills its line, and its payload if it does not fit into the line, and then stores the tag,
 * which grows: the operation, then the window of it, then the phase of that. That is one cache line
 * flight to each reader. Later phases and windows of the same operation only store the tag. A line
 * may be used again for operation i + BOARD_SLOTS when all ranks are done with i; `done`, which
 * travels in every line, says so without a message of its own.
 *
 * A rank that writes into the memory of others says so in `writing` before it looks at their
 * `revoked`; a rank that gives an operation up sets `revoked` before it looks at their `writing`.
 * So after both nobody writes into memory that was given back.
 *
 * Threads: the holder of the channel's baton; while no work of the communicator is under way
 * (`works` is 0), the thread that starts operations. stretto_board_take() is always that thread's.
 */
#ifndef STRETTO_RUNTIME_BOARD_H
#define STRETTO_RUNTIME_BOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/comm.h"

enum {
	BOARD_SLOTS = 8,
	BOARD_PHASES = 4,
	BOARD_BODY = 32,      /* bytes of payload in a line */
	BOARD_PAYLOAD = 8192, /* bytes of payload beside it */
};

/* A buffer of the rank that the others may touch in this operation. */
struct board_place {
	uint32_t region; /* its id at the owner; 0: none */
	uint32_t slides; /* 1: it begins further on in each window; 0: at the same place */
	uint64_t offset; /* bytes from the start of the region to that of the first window */
};

struct board_line {
	alignas(64) _Atomic uint64_t tag;
	struct stretto_signature signature;
	uint32_t sequence; /* of the operation on the communicator */
	uint32_t done;     /* the owner is done with all operations below, modulo 2^32 */
	union {
		struct board_place places[2];
		char body[BOARD_BODY];
	};
};
_Static_assert(sizeof(struct board_line) == 64, "a line is a cache line");

struct board_block {
	alignas(64) _Atomic uint64_t done; /* operations below are complete here */
	alignas(64) _Atomic uint64_t writing;
	alignas(64) _Atomic uint64_t revoked;
	struct board_line lines[BOARD_SLOTS];
	alignas(4096) char payload[BOARD_SLOTS][BOARD_PAYLOAD];
};

struct stretto_board {
	struct stretto_comm *comm;
	struct stretto_channel *channel;
	struct stretto_region *region; /* of our block */
	struct board_block *mine;
	struct board_block **blocks;         /* by rank, ours included; owned */
	struct stretto_endpoint **endpoints; /* by rank, NULL for ours; owned */
	uint64_t *done;    /* by rank: what it was done with when last seen; owned */
	uint64_t next;     /* number of the next operation */
	uint64_t below;    /* operations below have a free line */
	uint64_t complete; /* we are done with all operations below */
	unsigned ahead;    /* and with those after it, a bit per line */
	atomic_uint works; /* submitted to the channel and not finished */
	int connected;     /* ranks below are mapped */
	bool wake;         /* what was stored may be waited for by a sleeper */
};

/* Whether a communicator's ranks can have boards. The same on all of them. */
bool stretto_board_possible(const struct stretto_comm *comm);

/* Makes a board; nothing is shared yet. STRETTO_NO_MEMORY. */
stretto_status stretto_board_new(struct stretto_comm *comm, struct stretto_channel *channel,
				 struct stretto_board **board);
/* No operation uses it. NULL does nothing. */
void stretto_board_free(struct stretto_board *board);

/* Goes on to map all blocks; STRETTO_AGAIN until that is so. */
stretto_status stretto_board_connect(struct stretto_board *board);

static inline bool stretto_board_ready(const struct stretto_board *board)
{
	return board->connected == board->comm->size;
}

/* Takes the number of an operation that starts now. */
static inline uint64_t stretto_board_take(struct stretto_board *board)
{
	return board->next++;
}

/* Whether the line of operation `index` is free; asks the others' blocks if need be. */
bool stretto_board_free_line(struct stretto_board *board, uint64_t index);

static inline struct board_line *stretto_board_line(const struct stretto_board *board, int rank,
						    uint64_t index)
{
	return &board->blocks[rank]->lines[index % BOARD_SLOTS];
}

/* The place of a phase among those of an operation. */
static inline uint32_t stretto_board_phase(size_t window, int phase)
{
	return (uint32_t)(window * BOARD_PHASES + (size_t)phase);
}

static inline uint64_t stretto_board_tag(uint64_t index, uint32_t phase)
{
	return (index + 1) << 32 | phase;
}

/* Publishes our line of an operation, filled in before, in a phase (stretto_board_phase()). */
static inline void stretto_board_signal(struct stretto_board *board, uint64_t index, uint32_t phase)
{
	/* release: line, payload and what was done before; partner is stretto_board_arrived() */
	atomic_store_explicit(&stretto_board_line(board, board->comm->rank, index)->tag,
			      stretto_board_tag(index, phase), memory_order_release);
	board->wake = true;
}

/* Whether a rank has reached a phase of an operation. */
static inline bool stretto_board_arrived(const struct stretto_board *board, int rank,
					 uint64_t index, uint32_t phase)
{
	/* acquire: partner is stretto_board_signal() */
	return atomic_load_explicit(&stretto_board_line(board, rank, index)->tag,
				    memory_order_acquire) >= stretto_board_tag(index, phase);
}

/* Wakes the ranks that sleep, if anything was signalled since the last time. */
void stretto_board_wake(struct stretto_board *board);

/* We are done with operation `index`; the others learn it when it is so for all before it too. */
static inline void stretto_board_done(struct stretto_board *board, uint64_t index)
{
	board->ahead |= 1u << index % BOARD_SLOTS;
	while (board->ahead & 1u << board->complete % BOARD_SLOTS)
		board->ahead &= ~(1u << board->complete++ % BOARD_SLOTS);
	/* release: our reads of others' lines; partner is stretto_board_free_line() */
	atomic_store_explicit(&board->mine->done, board->complete, memory_order_release);
}

/* Takes in what a rank was done with when it filled a line in. */
static inline void stretto_board_note_done(struct stretto_board *board, int rank, uint32_t done)
{
	uint32_t more = done - (uint32_t)board->done[rank];

	if (more <= INT32_MAX) /* else it is older than what we know */
		board->done[rank] += more;
}

/* Whether a rank has given an operation up that it had come to. */
static inline bool stretto_board_gave_up(const struct stretto_board *board, int rank,
					 uint64_t index)
{
	/* acquire, after the tag was seen; partner is stretto_board_revoke() */
	return atomic_load_explicit(&board->blocks[rank]->revoked, memory_order_acquire) > index;
}

/* From now on we may write into the others' memory; false: one of them gave the operation up. */
bool stretto_board_write_begin(struct stretto_board *board, uint64_t index);
void stretto_board_write_end(struct stretto_board *board);

/* Gives operations up to `index` up; false: a rank still writes into our memory, ask again. */
bool stretto_board_revoke(struct stretto_board *board, uint64_t index);

#endif
