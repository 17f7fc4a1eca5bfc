/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stretto-perf: measures the collectives over the public interface, and checks every element;
 * and single messages below it. And what the cost model goes by, into a tuning file.
 * docs/benchmarking.md says how to read it.
 */
#include "collectives/traits.h"
#include "tools/lib/options.h"
#include "tools/lib/perf.h"

static void body(struct perf *perf, const struct perf_case *test, void *context)
{
	(void)context;
	perf_call(perf, test);
}

/* One half of a row. */
static void measure(struct perf *perf, struct perf_part *part)
{
	perf_prepare(perf, part->test);
	perf_loop(perf, part, 1);
	perf_release(perf);
}

/* A broadcast has one buffer and a barrier none: their one form fills the first columns. */
static void one_row(struct perf *perf, const struct perf_case *test)
{
	bool one = perf_collectives[test->collective].one_buffer;
	bool out = one || (perf->options->places & PERF_OUT_OF_PLACE);
	bool in = !one && (perf->options->places & PERF_IN_PLACE);
	struct perf_case in_place = *test;
	struct perf_part first = {.test = test, .body = body};
	struct perf_part second = {.test = &in_place, .body = body};

	in_place.in_place = true;
	if (out)
		measure(perf, &first);
	if (in)
		measure(perf, &second);
	perf_report_row(perf, test, out ? &first.result : NULL, in ? &second.result : NULL);
}

static void all_sizes(struct perf *perf, enum stretto_type type, enum stretto_op op, int root)
{
	const struct perf_options *options = perf->options;
	bool sizes = !perf_collectives[options->collective].no_data;

	for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
	     bytes = perf_next_size(options, bytes)) {
		struct perf_case test = perf_case_of(perf, type, op, root, bytes);

		one_row(perf, &test);
		if (!sizes)
			return;
	}
}

static void all_roots(struct perf *perf, enum stretto_type type, enum stretto_op op)
{
	if (!perf_collectives[perf->options->collective].rooted || perf->options->root >= 0) {
		all_sizes(perf, type, op, perf->options->root);
		return;
	}
	for (int root = 0; root < perf->size; root++)
		all_sizes(perf, type, op, root);
}

static void all_types_and_ops(struct perf *perf)
{
	const struct perf_collective *collective = &perf_collectives[perf->options->collective];
	unsigned types = collective->no_data ? 1u << STRETTO_U8 : perf->options->types;
	unsigned ops = collective->reduces ? perf->options->ops : 1u << STRETTO_SUM;

	for (int type = 0; type < STRETTO_TYPE_COUNT; type++)
		for (int op = 0; op < STRETTO_OP_COUNT; op++)
			if ((types >> type & 1) && (ops >> op & 1) &&
			    stretto_type_has_op((enum stretto_type)type, (enum stretto_op)op))
				all_roots(perf, (enum stretto_type)type, (enum stretto_op)op);
}

int main(int argc, char **argv)
{
	struct perf_options options;
	struct perf perf;
	bool tuned = true;

	perf_options_read(&options, argc, argv);
	perf_watch(options.timeout);
	perf_open(&perf, &options);
	perf_report_open(&perf);
	if (options.p2p)
		perf_p2p(&perf);
	else if (options.overlap)
		perf_overlap(&perf);
	else if (options.tune)
		tuned = perf_tune(&perf);
	else
		all_types_and_ops(&perf);
	perf_report_close(&perf);
	perf_close(&perf);
	return tool_end(perf.total_wrong || perf.too_slow || !tuned ? PERF_BAD_RESULT : 0);
}
