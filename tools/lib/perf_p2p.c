/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from rank 0 to rank 1 and back, below the collectives: the same path, through the same
 * channel, with no schedule around it. Bandwidth: a stream of messages one way, DEPTH of them in
 * flight. Latency: one message to and fro, half of the time of a round trip.
 *
 * The numbers can stand beside those of perftest's ib_write_bw and ib_write_lat, whose columns
 * --format perftest prints. What those do not do, and this does: find the receive that a message is
 * for, and tell the receiver that it has come.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/comm.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

enum { DEPTH = 128, COLLECTIVE = 255 };

/* A message under way, at one end. */
struct p2p_message {
	union {
		struct stretto_send send;
		struct stretto_recv recv;
	};
	struct p2p *p2p;
	bool busy;
};

/* One end of one run; work of channel 0. */
struct p2p {
	struct stretto_work work;
	struct stretto_endpoint *endpoint; /* to the other rank; NULL before the start */
	const unsigned char *from;
	unsigned char *to;
	const struct stretto_region *from_region, *to_region;
	size_t send_bytes, recv_bytes; /* of a message */
	bool answers;                  /* to and fro, one at a time */
	bool first;                    /* this is rank 0 */
	int sends, recvs;              /* messages of this end in all */
	int posted_sends, posted_recvs;
	int done_sends, done_recvs;
	double *times; /* when message i had been sent, or its answer had come */
	double end;    /* when the last receive was complete */
	struct p2p_message out[DEPTH], in[DEPTH];
	stretto_status status;
	atomic_uint done;
};

static void send_done(struct stretto_send *send, stretto_status status)
{
	struct p2p_message *message = stretto_container_of(send, struct p2p_message, send);
	struct p2p *p2p = message->p2p;

	message->busy = false;
	if (status == STRETTO_OK && p2p->first && !p2p->answers)
		p2p->times[p2p->done_sends] = perf_now();
	p2p->done_sends++;
	stretto_work_ready(&p2p->work);
}

static void recv_done(struct stretto_recv *recv, stretto_status status)
{
	struct p2p_message *message = stretto_container_of(recv, struct p2p_message, recv);
	struct p2p *p2p = message->p2p;

	message->busy = false;
	if (status == STRETTO_OK && p2p->first && p2p->answers)
		p2p->times[p2p->done_recvs] = perf_now();
	if (++p2p->done_recvs == p2p->recvs)
		p2p->end = perf_now();
	stretto_work_ready(&p2p->work);
}

/* How many sends may have been posted by now. */
static int sends_allowed(const struct p2p *p2p)
{
	if (!p2p->answers)
		return p2p->first || p2p->done_recvs == p2p->recvs ? p2p->sends : 0;
	return p2p->done_recvs + p2p->first < p2p->sends ? p2p->done_recvs + p2p->first
							 : p2p->sends;
}

static size_t post_sends(struct p2p *p2p)
{
	size_t count = 0;

	while (p2p->posted_sends < sends_allowed(p2p)) {
		struct p2p_message *message = &p2p->out[p2p->posted_sends % DEPTH];

		if (message->busy)
			break;
		message->send = (struct stretto_send){
			.key = {p2p->work.comm->id, p2p->work.sequence,
				(uint32_t)p2p->posted_sends},
			.signature = p2p->work.signature,
			.data = p2p->from,
			.bytes = p2p->send_bytes,
			.region = p2p->from_region,
			.done = send_done,
		};
		stretto_list_init(&message->send.link);
		message->busy = true;
		if (p2p->endpoint->transport->post_send(p2p->endpoint, &message->send) !=
		    STRETTO_OK) {
			message->busy = false;
			break; /* tried again in the next turn; a peer that failed ends the work */
		}
		p2p->posted_sends++;
		count++;
	}
	return count;
}

static size_t post_recvs(struct p2p *p2p)
{
	size_t count = 0;

	while (p2p->posted_recvs < p2p->recvs) {
		struct p2p_message *message = &p2p->in[p2p->posted_recvs % DEPTH];

		if (message->busy)
			break;
		message->recv = (struct stretto_recv){
			.key = {p2p->work.comm->id, p2p->work.sequence,
				(uint32_t)p2p->posted_recvs},
			.signature = p2p->work.signature,
			.data = p2p->to,
			.bytes = p2p->recv_bytes,
			.region = p2p->to_region,
			.done = recv_done,
		};
		stretto_list_init(&message->recv.link);
		message->busy = true;
		p2p->posted_recvs++;
		count++;
		if (p2p->endpoint->transport->post_recv(p2p->endpoint, &message->recv) !=
		    STRETTO_OK)
			break; /* the peer failed, which ends the work */
	}
	return count;
}

static size_t advance(struct stretto_work *work)
{
	struct p2p *p2p = stretto_container_of(work, struct p2p, work);
	int peer = work->comm->ranks[p2p->first ? 1 : 0];
	size_t count;

	if (stretto_comm_state(work->comm) != STRETTO_OK)
		return 0;
	if (!p2p->endpoint &&
	    stretto_channel_endpoint(work->channel, peer, &p2p->endpoint) != STRETTO_OK) {
		stretto_work_finish(work, STRETTO_PEER_FAILED);
		return 1;
	}
	work->ready = false;
	count = post_recvs(p2p);
	count += post_sends(p2p);
	if (p2p->posted_sends < sends_allowed(p2p))
		work->ready = true;
	if (p2p->done_sends == p2p->sends && p2p->done_recvs == p2p->recvs)
		stretto_work_finish(work, STRETTO_OK);
	return count;
}

static bool fail(struct stretto_work *work, stretto_status status)
{
	struct p2p *p2p = stretto_container_of(work, struct p2p, work);

	if (p2p->endpoint && !stretto_work_cancel(work, p2p->endpoint))
		return false;
	stretto_work_finish(work, status);
	return true;
}

static const char *describe(const struct stretto_signature *signature, char *buf, size_t size)
{
	snprintf(buf, size, "messages of %llu bytes", (unsigned long long)signature->count);
	return buf;
}

static void finished(struct stretto_work *work, stretto_status status)
{
	struct p2p *p2p = stretto_container_of(work, struct p2p, work);

	p2p->status = status;
	/* release: the times; the partner is the waiter's acquire load in stretto_channel_wait() */
	atomic_store_explicit(&p2p->done, 1, memory_order_release);
}

static const struct stretto_work_ops work_ops = {
	.advance = advance,
	.fail = fail,
	.describe = describe,
	.finished = finished,
};

/* One run: `count` messages one way, or to and fro. Returns when rank 0 began. Collective. */
static double run(struct perf *perf, struct p2p *p2p, size_t bytes, int count, bool answers)
{
	struct stretto_comm *comm = perf->comm;
	struct stretto_channel *channel = comm->world->channels[0];
	struct stretto_memory *memory = &comm->world->memory;
	double *times = p2p->times;
	double start, timeout = comm->world->config.timeout_seconds;

	memset(p2p, 0, sizeof *p2p);
	p2p->times = times;
	p2p->answers = answers;
	p2p->first = perf->rank == 0;
	/* one way, an empty message back says that all have come */
	p2p->sends = answers || p2p->first ? count : 1;
	p2p->recvs = answers || !p2p->first ? count : 1;
	p2p->send_bytes = answers || p2p->first ? bytes : 0;
	p2p->recv_bytes = answers || !p2p->first ? bytes : 0;
	p2p->from = perf->in;
	p2p->to = perf->out;
	p2p->from_region = stretto_memory_find(memory, perf->in, bytes);
	p2p->to_region = stretto_memory_find(memory, perf->out, bytes);
	for (int i = 0; i < DEPTH; i++)
		p2p->out[i].p2p = p2p->in[i].p2p = p2p;
	perf_must(perf, stretto_barrier(comm), "barrier");
	p2p->work = (struct stretto_work){
		.ops = &work_ops,
		.comm = comm,
		.sequence = comm->next_sequence++,
		.signature = {.count = bytes, .collective = COLLECTIVE},
		.deadline = timeout > 0 ? stretto_after(stretto_now(), timeout) : STRETTO_NEVER,
	};
	stretto_list_init(&p2p->work.link);
	stretto_list_init(&p2p->work.queue);
	stretto_channel_enter(channel);
	start = perf_now();
	stretto_channel_submit(channel, &p2p->work);
	stretto_channel_wait(channel, &p2p->done);
	perf_must(perf, p2p->status, "messages");
	return start;
}

/* What the rows say; seconds and bytes a second. */
struct p2p_row {
	size_t bytes;
	int count;
	double peak, average;                      /* bandwidth */
	double min, max, typical, mean, deviation; /* latency */
	double percentile99, percentile999;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The peak is that of the best tenth of the run. */
static void bandwidth(struct perf *perf, struct p2p *p2p, struct p2p_row *row)
{
	int count = row->count, tenth = count / 10 > 0 ? count / 10 : 1;
	double start = run(perf, p2p, row->bytes, count, false);

	if (perf->rank != 0)
		return;
	row->average = (double)row->bytes * count / (p2p->end - start);
	row->peak = row->average;
	for (int i = tenth; i < count; i++) {
		double rate = (double)row->bytes * tenth / (p2p->times[i] - p2p->times[i - tenth]);

		if (rate > row->peak)
			row->peak = rate;
	}
}

static void latency(struct perf *perf, struct p2p *p2p, struct p2p_row *row)
{
	int count = row->count;
	double *times = p2p->times, sum = 0, squares = 0;
	double before = run(perf, p2p, row->bytes, count, true);

	if (perf->rank != 0)
		return;
	for (int i = 0; i < count; i++) {
		double now = times[i];

		times[i] = (now - before) / 2;
		before = now;
		sum += times[i];
	}
	qsort(times, (size_t)count, sizeof *times, by_value);
	row->mean = sum / count;
	for (int i = 0; i < count; i++)
		squares += (times[i] - row->mean) * (times[i] - row->mean);
	row->deviation = sqrt(squares / count);
	row->min = times[0];
	row->max = times[count - 1];
	row->typical = times[count / 2];
	row->percentile99 = times[(count * 99L + 99) / 100 - 1];
	row->percentile999 = times[(count * 999L + 999) / 1000 - 1];
}

double perf_p2p_delay(struct perf *perf, size_t bytes, int count)
{
	struct p2p *p2p = calloc(1, sizeof *p2p);
	struct p2p_row row = {.bytes = bytes, .count = count};

	if (!p2p)
		tool_die(PERF_COMMUNICATION, "no memory for the messages");
	p2p->times = perf->times;
	latency(perf, p2p, &row);
	free(p2p);
	return row.typical;
}

static void fill(unsigned char *data, size_t bytes, size_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

/* The last message must have come whole. */
static void check(struct perf *perf, const struct p2p_row *row)
{
	int64_t wrong = 0;

	if (!perf->options->check)
		return;
	for (size_t i = 0; i < row->bytes && perf->rank == 1; i++)
		wrong += perf->out[i] != (unsigned char)(i * 7 + i / 251 + row->bytes);
	perf_must(perf, stretto_allreduce(perf->comm, &wrong, &wrong, 1, STRETTO_I64, STRETTO_SUM),
		  "allreduce of the errors");
	perf->total_wrong += wrong;
}

static const double mebibyte = 1 << 20;

static void print_bandwidth(const struct p2p_row *row)
{
	printf(" %-10zu %-15d  %-17.2f  %-19.2f  %.6f\n", row->bytes, row->count,
	       row->peak / mebibyte, row->average / mebibyte,
	       row->average / (double)row->bytes / 1e6);
}

static void print_latency(const struct p2p_row *row)
{
	printf(" %-7zu %-12d  %-12.2f  %-12.2f  %-16.2f  %-12.2f  %-14.2f  %-20.2f  %.2f\n",
	       row->bytes, row->count, 1e6 * row->min, 1e6 * row->max, 1e6 * row->typical,
	       1e6 * row->mean, 1e6 * row->deviation, 1e6 * row->percentile99,
	       1e6 * row->percentile999);
}

static void print_both(const struct p2p_row *row)
{
	printf("%14zu  %10d  %12.2f  %12.2f  %12.2f  %12.2f  %12.2f\n", row->bytes, row->count,
	       row->average / 1e6, row->average / (double)row->bytes / 1e3, 1e6 * row->min,
	       1e6 * row->typical, 1e6 * row->percentile99);
}

static const char bandwidth_columns[] =
	" #bytes     #iterations      BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
static const char latency_columns[] =
	" #bytes  #iterations   t_min[usec]   t_max[usec]   t_typical[usec]   t_avg[usec]   "
	"t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n";

/* All sizes, measured and printed as asked. */
static void all_sizes(struct perf *perf, struct p2p *p2p, bool speed, bool delay,
		      void (*print)(const struct p2p_row *row))
{
	const struct perf_options *options = perf->options;

	for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
	     bytes = perf_next_size(options, bytes)) {
		struct p2p_row row = {.bytes = bytes, .count = options->iterations};

		fill(perf->in, bytes, bytes);
		memset(perf->out, 0, bytes);
		if (options->warmup > 0)
			run(perf, p2p, bytes, options->warmup, true);
		if (speed)
			bandwidth(perf, p2p, &row);
		if (delay)
			latency(perf, p2p, &row);
		check(perf, &row);
		if (perf->rank == 0) {
			print(&row);
			fflush(stdout);
		}
	}
}

void perf_p2p(struct perf *perf)
{
	struct p2p *p2p = calloc(1, sizeof *p2p);

	if (!p2p)
		tool_die(PERF_COMMUNICATION, "no memory for the messages");
	p2p->times = perf->times;
	if (!perf->options->perftest) {
		if (perf->rank == 0)
			printf("# %12s  %10s  %12s  %12s  %12s  %12s  %12s\n# %12s  %10s  %12s  "
			       "%12s  %12s  %12s  %12s\n",
			       "size", "iterations", "bandwidth", "rate", "lat_min", "lat_p50",
			       "lat_p99", "(B)", "", "(MB/s)", "(1000/s)", "(us)", "(us)", "(us)");
		all_sizes(perf, p2p, true, true, print_both);
	} else {
		if (perf->rank == 0)
			fputs(bandwidth_columns, stdout);
		all_sizes(perf, p2p, true, false, print_bandwidth);
		if (perf->rank == 0)
			fputs(latency_columns, stdout);
		all_sizes(perf, p2p, false, true, print_latency);
	}
	free(p2p);
}
