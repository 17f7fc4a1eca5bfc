#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the RDMA transport side by side with perftest and Open MPI, in one emulated machine.
#   tools/bench_rdma.sh BUILD [ROUNDS [PART...]]    5 rounds of all parts: about ten minutes
# Prints a table; with all parts it is written to docs/results/rdma.md and rdma.csv too.
set -u
build=${1:?usage: tools/bench_rdma.sh BUILD [ROUNDS [PART...]]} rounds=${2:-5}
shift
[ $# = 0 ] || shift
results=docs/results
[ $# = 0 ] || results=$build/bench
raw=$build/bench/rdma.txt
mkdir -p "$build/bench" "$results"
# shellcheck disable=SC2016 # the shell in the machine expands it
tests/rdma/guest -t 2400 -- sh -c 'tests/rdma/wires make 4 1 && exec tests/rdma/bench.sh "$@"' bench \
	"$build" "$rounds" "$@" >"$raw"
status=$?
tools/bench_rdma_table.py "$raw" "$results/rdma.md" "$results/rdma.csv" || status=1
cat "$results/rdma.md"
exit $status
