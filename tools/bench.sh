#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the collectives and the overlap on this machine with stretto-perf, in about two minutes.
#   tools/bench.sh BUILD    writes BUILD/bench/NAME.txt and prints each
# docs/benchmarking.md says how to read the results.
set -u
build=${1:?usage: tools/bench.sh BUILD}
results=$build/bench
mkdir -p "$results"
failed=0

bench() { # bench NAME RANKS ARGUMENTS...
	name=$1 ranks=$2
	shift 2
	echo "== $name: stretto-run -n $ranks stretto-perf $*"
	timeout 60 "$build/stretto-run" -n "$ranks" "$build/stretto-perf" "$@" >"$results/$name.txt" 2>&1 || {
		echo "bench: $name failed" >&2
		failed=1
	}
	cat "$results/$name.txt"
}

for ranks in 2 4; do
	bench "allreduce-$ranks" "$ranks" allreduce -b 8 -e 16M -f 4
	bench "allreduce-$ranks-malloc" "$ranks" allreduce -b 8 -e 16M -f 16 -R 0
	bench "barrier-$ranks" "$ranks" barrier -n 200
	for test in broadcast allgather reduce_scatter; do
		bench "$test-$ranks" "$ranks" "$test" -b 1K -e 4M -f 16
	done
done
bench overlap-2-sleep 2 overlap -b 256K -e 4M -n 10 --compute sleep
bench overlap-2-paced 2 overlap -b 256K -e 4M -n 10 --pace 4gbit:20us
bench overlap-4-paced 4 overlap -b 256K -e 4M -n 10 --pace 4gbit:20us
echo "results are in $results"
exit $failed
