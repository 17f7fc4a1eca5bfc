/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/mapped.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/describe.h"
#include "collectives/executor.h"
#include "runtime/clock.h"
#include "runtime/comm.h"
#include "runtime/log.h"

/* What one step moves at a time, at each rank: between pieces others may have the channel. */
#define PIECE_BYTES ((size_t)256 << 10)
/* Longer vectors would only push other data out of the last-level cache. */
#define STREAMING_BYTES ((size_t)16 << 20)
/* Looks before the ranks that may sleep are woken, and between looks at the clock. */
#define SPINS 64

/* What a turn of run() came to. */
enum outcome {
	WAITS,    /* for another rank */
	MOVED,    /* there is more to do */
	COMPLETE, /* all windows are done */
	FAILED,   /* the communicator is broken, or is about to be */
};

static const struct stretto_schedule *schedule_of(const struct stretto_exec *exec)
{
	bool last = exec->mapped.window == exec->plan.windows - 1;

	return last && exec->plan.rest ? exec->plan.rest : exec->plan.full;
}

static struct board_line *own_line(const struct stretto_exec *exec)
{
	return stretto_board_line(exec->mapped.board, exec->plan.comm->rank, exec->mapped.number);
}

/* What a rank has on the board in this window: in its line if it fits. */
static char *board_payload(const struct stretto_exec *exec, int rank)
{
	const struct stretto_board *board = exec->mapped.board;
	uint64_t number = exec->mapped.number;

	if (schedule_of(exec)->tmp_count * exec->plan.element_size <= BOARD_BODY)
		return stretto_board_line(board, rank, number)->body;
	return board->blocks[rank]->payload[number % BOARD_SLOTS];
}

/* The memory of a span of our own: IN and OUT slide with the window, TMP does not. */
static char *address_of(const struct stretto_exec *exec, const struct stretto_span *span)
{
	size_t first = span->first;
	char *base = exec->base[span->buffer];

	if (span->buffer != STRETTO_BUF_TMP)
		first += exec->mapped.window * exec->plan.window;
	else
		base = schedule_of(exec)->on_board ? board_payload(exec, exec->plan.comm->rank)
						   : exec->tmp;
	return base + first * exec->plan.element_size;
}

/* Says what the others may touch: of the first window, and whether it slides. */
static void publish(struct stretto_exec *exec, struct board_line *line)
{
	for (int i = 0; i < 2; i++) {
		const struct stretto_span *span = &exec->plan.full->published[i];
		const struct stretto_region *region = exec->region[span->buffer];

		line->places[i] = (struct board_place){0, 0, 0};
		if (region)
			line->places[i] = (struct board_place){
				.region = region->id,
				.slides = span->buffer != STRETTO_BUF_TMP,
				.offset = (uint64_t)(address_of(exec, span) - region->base),
			};
	}
}

/* Fills our line in, but for its tag. */
static void list(struct stretto_exec *exec)
{
	struct board_line *line = own_line(exec);

	line->signature = exec->work.signature;
	line->sequence = exec->work.sequence;
	line->done = (uint32_t)exec->mapped.board->complete;
	if (!exec->plan.full->on_board)
		publish(exec, line);
	exec->mapped.listed = true;
}

static void begin_window(struct stretto_exec *exec)
{
	exec->mapped.step = 0;
	exec->mapped.piece = 0;
	exec->mapped.begun = true;
	exec->next_window++;
}

/* Has the others map what the part publishes. STRETTO_AGAIN: not yet. */
static stretto_status share_regions(struct stretto_exec *exec)
{
	const struct stretto_board *board = exec->mapped.board;

	for (int i = 0; i < 2; i++) {
		const struct stretto_region *region =
			exec->region[exec->plan.full->published[i].buffer];

		for (int r = 0; region && r < exec->plan.comm->size; r++) {
			struct stretto_endpoint *endpoint = board->endpoints[r];
			stretto_status status = STRETTO_OK;

			if (endpoint)
				status = endpoint->transport->share(endpoint, region);
			if (status != STRETTO_OK)
				return status;
		}
	}
	return STRETTO_OK;
}

/* A rank does what its line does not allow, or we cannot. */
static void give_up(const struct stretto_exec *exec, int rank, stretto_status status,
		    const char *what)
{
	struct stretto_comm *comm = exec->plan.comm;
	struct stretto_notice notice = {
		.sequence = exec->work.sequence,
		.origin = comm->world->rank,
		.other = rank < 0 ? -1 : comm->ranks[rank],
	};

	stretto_comm_break(comm, status, &notice, "operation %u: %s%s%.0d", exec->work.sequence,
			   what, rank < 0 ? "" : " of rank ", rank);
}

/* Maps what a rank published. false: it cannot be. */
static bool resolve(struct stretto_exec *exec, int rank, const struct board_line *line)
{
	struct stretto_endpoint *endpoint = exec->mapped.board->endpoints[rank];
	struct stretto_mapped_peer *peer = &exec->mapped.peers[rank];
	size_t shift = exec->mapped.window * exec->plan.window * exec->plan.element_size;

	for (int i = 0; i < 2; i++) {
		const struct board_place *place = &line->places[i];
		size_t bytes = 0;
		char *base = NULL;

		*peer = i ? *peer : (struct stretto_mapped_peer){{NULL, NULL}, {0, 0}};
		if (place->region == 0)
			continue;
		base = endpoint->transport->map(endpoint, place->region, 0, &bytes);
		if (!base || place->offset > bytes || bytes - place->offset < shift * place->slides)
			return false;
		peer->base[i] = base + place->offset + shift * place->slides;
		peer->bytes[i] = bytes - place->offset - shift * place->slides;
	}
	return true;
}

/* The first word of a rank in this window has come. */
static enum outcome meet(struct stretto_exec *exec, int rank)
{
	struct stretto_board *board = exec->mapped.board;
	const struct board_line *line = stretto_board_line(board, rank, exec->mapped.number);
	const struct stretto_key key = {.comm = exec->plan.comm->id, .sequence = line->sequence};

	stretto_board_note_done(board, rank, line->done);
	if (stretto_board_gave_up(board, rank, exec->mapped.number))
		return WAITS; /* for its news of why */
	if (line->sequence != exec->work.sequence ||
	    memcmp(&line->signature, &exec->work.signature, sizeof line->signature) != 0) {
		/* In the caller's thread nobody finds the work: it is submitted, and meets again. */
		stretto_channel_check(exec->plan.channel, exec->plan.comm->ranks[rank], &key,
				      &line->signature);
		return FAILED;
	}
	if (schedule_of(exec)->on_board || resolve(exec, rank, line))
		return MOVED;
	give_up(exec, rank, STRETTO_NO_MEMORY, "cannot map the memory");
	return FAILED;
}

static enum outcome await(struct stretto_exec *exec, const struct stretto_step *step)
{
	uint32_t phase = stretto_board_phase(exec->mapped.window, step->phase);

	if (!stretto_board_arrived(exec->mapped.board, step->peer, exec->mapped.number, phase))
		return WAITS;
	return step->phase == 1 ? meet(exec, step->peer) : MOVED;
}

/*
 * The memory of another rank's span from element `done` on, for `count` elements; NULL if that is
 * not all in what it published.
 */
static char *peer_address(const struct stretto_exec *exec, int rank,
			  const struct stretto_span *span, size_t done, size_t count)
{
	const struct stretto_mapped_peer *peer = &exec->mapped.peers[rank];
	int side = span->buffer == STRETTO_BUF_OUT;
	size_t element = exec->plan.element_size;

	if (schedule_of(exec)->on_board)
		return board_payload(exec, rank) + (span->first + done) * element;
	if (!peer->base[side] || peer->bytes[side] / element < span->first + done + count)
		return NULL;
	return peer->base[side] + (span->first + done) * element;
}

/* Finds the operands and results of a piece of a REDUCE_ALL. false: a rank has no such memory. */
static bool find_operands(struct stretto_exec *exec, const struct stretto_step *step, size_t count)
{
	struct stretto_mapped *mapped = &exec->mapped;
	size_t skip = mapped->piece * exec->plan.element_size;

	for (int r = 0, self = exec->plan.comm->rank; r < exec->plan.comm->size; r++) {
		bool own = r == self;

		mapped->sources[r] = own ? address_of(exec, &step->b) + skip
					 : peer_address(exec, r, &step->a, mapped->piece, count);
		mapped->targets[r] = own ? address_of(exec, &step->dst) + skip : NULL;
		if (!own && step->flags & STRETTO_STEP_TO_ALL)
			mapped->targets[r] =
				peer_address(exec, r, &step->dst, mapped->piece, count);
		if (!mapped->sources[r] ||
		    (step->flags & STRETTO_STEP_TO_ALL && !mapped->targets[r])) {
			give_up(exec, r, STRETTO_INTERNAL, "no such buffer");
			return false;
		}
	}
	return true;
}

static enum outcome reduce_all(struct stretto_exec *exec, const struct stretto_step *step,
			       size_t count)
{
	struct stretto_mapped *mapped = &exec->mapped;
	int size = exec->plan.comm->size, self = exec->plan.comm->rank;
	bool to_all = step->flags & STRETTO_STEP_TO_ALL;
	size_t bytes = count * exec->plan.element_size;
	bool allowed = true;

	if (!find_operands(exec, step, count))
		return FAILED;
	if (to_all)
		allowed = stretto_board_write_begin(mapped->board, exec->mapped.number);
	if (allowed)
		stretto_kernel_many(exec->call.type, exec->call.op,
				    to_all ? mapped->targets : &mapped->targets[self],
				    to_all ? size : 1, mapped->sources, size, count, size,
				    mapped->streaming);
	if (to_all)
		stretto_board_write_end(mapped->board);
	exec->counts.read_bytes += (uint64_t)size * bytes;
	exec->counts.written_bytes += (uint64_t)(to_all ? size : 1) * bytes;
	return allowed ? MOVED : WAITS; /* for the news of why a rank gave up */
}

static enum outcome copy(struct stretto_exec *exec, const struct stretto_step *step, size_t count)
{
	size_t skip = exec->mapped.piece * exec->plan.element_size;
	size_t bytes = count * exec->plan.element_size;
	const char *source =
		step->kind == STRETTO_STEP_COPY
			? address_of(exec, &step->a) + skip
			: peer_address(exec, step->peer, &step->a, exec->mapped.piece, count);

	if (!source) {
		give_up(exec, step->peer, STRETTO_INTERNAL, "no such buffer");
		return FAILED;
	}
	memcpy(address_of(exec, &step->dst) + skip, source, bytes);
	exec->counts.copied_bytes += bytes;
	exec->counts.read_bytes += bytes;
	exec->counts.written_bytes += bytes;
	return MOVED;
}

/* One piece of a step that moves data. */
static enum outcome move_piece(struct stretto_exec *exec, const struct stretto_step *step)
{
	struct stretto_mapped *mapped = &exec->mapped;
	size_t left = step->dst.count - mapped->piece, element = exec->plan.element_size;
	size_t count = left * element <= PIECE_BYTES ? left : PIECE_BYTES / element;
	enum outcome outcome = MOVED;

	if (count > 0)
		outcome = step->kind == STRETTO_STEP_REDUCE_ALL ? reduce_all(exec, step, count)
								: copy(exec, step, count);
	if (outcome == MOVED) {
		mapped->piece = count < left ? mapped->piece + count : 0;
		mapped->step += count == left;
	}
	return outcome;
}

static enum outcome run_step(struct stretto_exec *exec, const struct stretto_step *step)
{
	enum outcome outcome = MOVED;

	switch (step->kind) {
	case STRETTO_STEP_SIGNAL:
		stretto_board_signal(exec->mapped.board, exec->mapped.number,
				     stretto_board_phase(exec->mapped.window, step->phase));
		break;
	case STRETTO_STEP_AWAIT:
		outcome = await(exec, step);
		break;
	default:
		return move_piece(exec, step);
	}
	if (outcome == MOVED)
		exec->mapped.step++;
	return outcome;
}

/* Goes on as far as the others let it, by at most one long piece of data. */
static enum outcome run(struct stretto_exec *exec)
{
	struct stretto_mapped *mapped = &exec->mapped;

	if (mapped->window == exec->plan.windows)
		return COMPLETE;
	if (!mapped->listed) {
		if (!stretto_board_free_line(mapped->board, mapped->number))
			return WAITS;
		list(exec);
	}
	if (!mapped->begun)
		begin_window(exec);
	const struct stretto_schedule *schedule = schedule_of(exec);

	while (mapped->step < schedule->step_count) {
		enum outcome outcome = run_step(exec, &schedule->steps[mapped->step]);

		if (outcome != MOVED || mapped->piece > 0)
			return outcome;
	}
	mapped->begun = false;
	exec->windows_left--;
	if (++mapped->window < exec->plan.windows)
		return MOVED;
	stretto_board_done(mapped->board, mapped->number);
	return COMPLETE;
}

bool stretto_mapped_run(struct stretto_exec *exec)
{
	const struct stretto_channel *channel = exec->plan.channel;
	struct stretto_board *board = exec->mapped.board;
	uint64_t until = 0;

	for (unsigned spins = 1;; spins++) {
		enum outcome outcome = run(exec);

		if (outcome == COMPLETE) {
			stretto_board_wake(board);
			return true;
		}
		if (outcome == FAILED)
			return false;
		if (outcome == MOVED) {
			spins = 0;
			until = 0;
			continue;
		}
		if (spins % SPINS == 0) {
			stretto_board_wake(board);
			if (until == 0)
				until = stretto_after(stretto_now(), 0) + channel->spin_wait;
			else if (stretto_now() > until)
				return false;
		}
		if (channel->crowded)
			sched_yield();
		else
			stretto_pause();
	}
}

/* Connects the ranks, and has them map the buffers. */
static stretto_status begin(struct stretto_exec *exec)
{
	stretto_status status = stretto_board_connect(exec->mapped.board);

	if (status == STRETTO_OK)
		status = share_regions(exec);
	if (status == STRETTO_OK)
		exec->started = true;
	else if (status != STRETTO_AGAIN && status != STRETTO_PEER_FAILED)
		give_up(exec, -1, status, "cannot have its memory mapped");
	return status;
}

/*
 * Goes on with as many windows as may be under way at a time (channel_share.c), though here they are
 * one after the other. What has begun runs to its end.
 */
static enum outcome run_share(struct stretto_exec *exec)
{
	struct stretto_work *work = &exec->work;
	size_t in_flight = exec->plan.in_flight, used = 0;
	size_t most = work->allowed < in_flight ? work->allowed : in_flight;
	enum outcome outcome = MOVED;

	while (outcome == MOVED) {
		size_t window = exec->mapped.window;

		work->held = !exec->mapped.begun && used >= most;
		if (work->held)
			break;
		outcome = run(exec);
		used += window != exec->mapped.window;
		if (window == exec->mapped.window)
			break; /* in the middle of it */
	}
	work->under_way = used + exec->mapped.begun;
	return outcome;
}

static size_t advance(struct stretto_work *work)
{
	struct stretto_exec *exec = stretto_container_of(work, struct stretto_exec, work);
	int step = exec->mapped.step;
	size_t window = exec->mapped.window, piece = exec->mapped.piece;
	enum outcome outcome;

	if (stretto_comm_state(work->comm) != STRETTO_OK)
		return 0;
	if (!exec->started && begin(exec) != STRETTO_OK)
		return 0;
	outcome = run_share(exec);
	stretto_board_wake(exec->mapped.board);
	if (outcome == COMPLETE)
		stretto_work_finish(work, STRETTO_OK);
	return outcome == COMPLETE || outcome == FAILED || step != exec->mapped.step ||
	       window != exec->mapped.window || piece != exec->mapped.piece;
}

static bool fail(struct stretto_work *work, stretto_status status)
{
	struct stretto_exec *exec = stretto_container_of(work, struct stretto_exec, work);
	const struct stretto_mapped *mapped = &exec->mapped;

	if (!stretto_board_revoke(mapped->board, mapped->number))
		return false;
	stretto_work_finish(work, status);
	return true;
}

static void finished(struct stretto_work *work, stretto_status status)
{
	struct stretto_exec *exec = stretto_container_of(work, struct stretto_exec, work);

	/* release: the state of the board; partner is the look of who runs an operation itself */
	atomic_fetch_sub_explicit(&exec->mapped.board->works, 1, memory_order_release);
	stretto_exec_finished(exec, status);
}

const struct stretto_work_ops stretto_mapped_ops = {
	.advance = advance,
	.fail = fail,
	.describe = stretto_describe,
	.finished = finished,
};

stretto_status stretto_mapped_new(struct stretto_exec *exec)
{
	struct stretto_mapped *mapped = &exec->mapped;
	size_t size = (size_t)exec->plan.comm->size;

	mapped->board = exec->plan.board;
	mapped->peers = calloc(size, sizeof *mapped->peers);
	mapped->sources = calloc(size, sizeof(const void *));
	mapped->targets = calloc(size, sizeof(void *));
	return mapped->peers && mapped->sources && mapped->targets ? STRETTO_OK : STRETTO_NO_MEMORY;
}

void stretto_mapped_free(struct stretto_exec *exec)
{
	free(exec->mapped.peers);
	free(exec->mapped.sources);
	free(exec->mapped.targets);
}

void stretto_mapped_start(struct stretto_exec *exec)
{
	struct stretto_mapped *mapped = &exec->mapped;

	mapped->number = stretto_board_take(mapped->board);
	mapped->listed = false;
	mapped->window = 0;
	mapped->begun = false;
	mapped->step = 0;
	mapped->piece = 0;
	mapped->streaming =
		exec->work.signature.count * exec->plan.element_size >= STREAMING_BYTES &&
		exec->call.out_region;
}
