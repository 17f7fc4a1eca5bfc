#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the RDMA transport side by side with perftest and Open MPI, in one emulated machine.
#   tools/bench_rdma.sh BUILD [ROUNDS [PART...]]    5 rounds of all parts: about ten minutes
# Prints a table, which is in BUILD/bench/rdma.md; a whole run's is copied to docs/results/ with its rdma.csv.
set -u
build=${1:?usage: tools/bench_rdma.sh BUILD [ROUNDS [PART...]]} rounds=${2:-5}
shift
[ $# = 0 ] || shift
results=$build/bench
mkdir -p "$results"
# shellcheck disable=SC2016 # the shell in the machine expands it
tests/rdma/guest -t 2400 -- sh -c 'tests/rdma/wires make 4 1 && exec tests/rdma/bench.sh "$@"' bench \
	"$build" "$rounds" "$@" >"$results/rdma.txt"
status=$?
tools/bench_rdma_table.py "$results/rdma.txt" "$results/rdma.md" "$results/rdma.csv" || status=1
cat "$results/rdma.md"
if [ $status = 0 ] && [ $# = 0 ]; then
	mkdir -p docs/results && cp "$results/rdma.md" "$results/rdma.csv" docs/results/ || status=1
elif [ $status != 0 ]; then
	grep -A 6 failed "$results/rdma.txt" >&2
	echo "bench: not all was measured; see $results/rdma.txt" >&2
fi
exit $status
