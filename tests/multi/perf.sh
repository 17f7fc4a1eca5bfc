#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stretto-perf and stretto-info: correct data for each collective, the row format of nccl-tests, JSON that
# parses, wrong options answered with one line and exit 2.
set -u
build=${1:?usage: perf.sh BUILD}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out err=$scratch/err json=$scratch/perf.json
failed=0

ok() { echo "ok $1"; }
not_ok() {
	echo "not ok $1"
	sed 's/^/    /' "$out" "$err" 2>/dev/null | tail -n 20
	failed=1
}
perf() { # perf RANKS ARGUMENTS...
	ranks=$1
	shift
	timeout 120 "$build/stretto-run" -n "$ranks" "$build/stretto-perf" "$@" >"$out" 2>"$err"
}
# All rows have 13 columns, #wrong is 0 wherever it is a number, and the summary says so.
rows_are_good() {
	grep -q '^# Out of bounds values : 0 OK$' "$out" && ! grep '^#' "$out" | grep -q nan &&
		awk '!/^#/ && NF { rows++; if (NF != 13 || $9 !~ /^(0|N\/A)$/ || $13 !~ /^(0|N\/A)$/) bad = 1 }
			END { exit bad || rows == 0 }' "$out"
}

for ranks in 1 2 3 4; do
	for test in allreduce broadcast allgather reduce_scatter barrier; do
		name="perf_${test}_${ranks}_ranks"
		if perf "$ranks" "$test" -b 8 -e 256K -f 8 -n 3 -w 1 -c 1 && rows_are_good; then ok "$name"; else not_ok "$name"; fi
	done
done

name=perf_all_types_and_ops
if perf 3 allreduce -d all -o all -b 40 -e 100000 -f 50 -n 2 -w 0 && rows_are_good &&
	[ "$(grep -vc '^#' "$out")" = 105 ]; then ok $name; else not_ok $name; fi

name=perf_reduce_scatter_all_types_and_ops
if perf 2 reduce_scatter -d all -o all -b 8K -e 8K -n 2 -w 0 && rows_are_good; then ok $name; else not_ok $name; fi

name=perf_all_roots_malloc_buffers
if perf 3 broadcast -r all -R 0 -b 4 -e 4M -f 1024 -n 2 -w 0 && rows_are_good &&
	[ "$(awk '!/^#/ { roots[$5] } END { for (r in roots) n++; print n }' "$out")" = 3 ]; then ok $name; else not_ok $name; fi

name=perf_steps
if perf 1 allreduce -b 100 -e 500 -i 200 -n 1 -w 0 && [ "$(awk '!/^#/ { printf "%s ", $1 }' "$out")" = "100 300 500 " ]; then
	ok $name
else
	not_ok $name
fi

name=perf_json
if perf 2 allreduce -b 64 -e 64K -f 1024 -n 3 --json "$json" --pace 10gbit:5us &&
	python3 - "$json" <<-'EOF' >"$err" 2>&1; then ok $name; else not_ok $name; fi
	import json, sys
	report = json.load(open(sys.argv[1]))
	assert [row["size"] for row in report["results"]] == [64, 65536], report["results"]
	for row in report["results"]:
	    for half in "out_of_place", "in_place":
	        assert row[half]["nwrong"] == 0 and 0 < row[half]["min_us"] <= row[half]["p50"] <= row[half]["p99"]
	# 64 KiB over 1.25 GB/s: a link that is not paced would be far faster
	assert report["results"][1]["in_place"]["min_us"] > 52, report["results"][1]
	assert len(report["ranks"]) == 2 and report["out_of_bounds"] == {"count": 0, "okay": True}
	assert "STRETTO_PACE=10gbit:5us" in report["settings"]
	EOF

name=perf_overlap
if perf 2 overlap -b 64K -e 256K -n 5 -w 1 --compute sleep --json "$json" && python3 -m json.tool "$json" >/dev/null 2>"$err" &&
	grep -q '^# Out of bounds values : 0 OK$' "$out" &&
	awk '!/^#/ { rows++; if (NF != 7 || $3 <= 0 || $4 <= 0 || $5 < $4 / 2 || $7 != 0) bad = 1 } END { exit bad || rows != 2 }' "$out"; then
	ok $name
else
	not_ok $name
fi

name=perf_p2p
if perf 2 p2p -b 8 -e 64K -f 64 -n 20 && grep -q '^# Out of bounds values : 0 OK$' "$out" &&
	awk '!/^#/ { rows++; if (NF != 7 || $3 <= 0 || $6 <= 0) bad = 1 } END { exit bad || rows != 3 }' "$out"; then ok $name; else not_ok $name; fi

name=perf_p2p_in_the_columns_of_perftest
if perf 2 p2p -b 8 -e 64K -f 64 -n 20 --format perftest && grep -q 'BW average\[MB/sec\]' "$out" && grep -q 't_typical\[usec\]' "$out" &&
	[ "$(awk '/^ [0-9]/ { print NF }' "$out" | sort | uniq -c | tr -s ' \n' ' ')" = " 3 5 3 9 " ]; then ok $name; else not_ok $name; fi

# wrong NAME ARGUMENTS...: exit 2 and exactly one line on stderr, nothing on stdout
wrong() {
	name=$1
	shift
	"$@" >"$out" 2>"$err"
	code=$?
	if [ $code = 2 ] && [ "$(wc -l <"$err")" = 1 ] && [ ! -s "$out" ]; then
		ok "$name"
	else
		echo "exit $code" >>"$err"
		not_ok "$name"
	fi
}
wrong perf_no_test "$build/stretto-perf"
wrong perf_unknown_test "$build/stretto-perf" alltoall
wrong perf_two_tests "$build/stretto-perf" allreduce barrier
wrong perf_unknown_option "$build/stretto-perf" allreduce --fast
wrong perf_bad_size "$build/stretto-perf" allreduce -b 8Q
wrong perf_bad_type "$build/stretto-perf" allreduce -d float128
wrong perf_bad_op "$build/stretto-perf" allreduce -o xor
wrong perf_sizes_reversed "$build/stretto-perf" allreduce -b 1M -e 1K
wrong perf_no_iterations "$build/stretto-perf" allreduce -n 0
wrong perf_bad_compute "$build/stretto-perf" overlap --compute lu
wrong perf_bad_format "$build/stretto-perf" p2p --format nccl
wrong perf_p2p_alone "$build/stretto-perf" p2p -e 8
wrong perf_bad_root "$build/stretto-perf" broadcast -r 1
wrong perf_json_not_writable "$build/stretto-perf" barrier --json /nonexistent/file
wrong perf_bad_algorithm "$build/stretto-perf" barrier --algorithm fastest
wrong perf_bad_transport "$build/stretto-perf" barrier --transport carrier-pigeon
wrong perf_bad_pace "$build/stretto-perf" barrier --pace 10gbit
wrong info_unknown_option "$build/stretto-info" --fast
wrong info_operand "$build/stretto-info" all
wrong info_bad_setting env STRETTO_WINDOWS=none "$build/stretto-info"

name=info_text
if STRETTO_SPIN_SECONDS=20us "$build/stretto-info" >"$out" 2>"$err" && [ ! -s "$err" ] &&
	grep -q "STRETTO_SPIN_SECONDS = '20us' (default '-1', environment)" "$out" &&
	grep -q '^  shm  *usable' "$out" && grep -q '^  self .*usable' "$out" && grep -q '^  verbs  *not usable' "$out" &&
	grep -q '^  memlock ' "$out"; then ok $name; else not_ok $name; fi

name=info_hides_the_token
if STRETTO_TOKEN=0123456789abcdef0123456789abcdef "$build/stretto-info" >"$out" 2>"$err" &&
	! grep -q 0123456789abcdef "$out"; then ok $name; else not_ok $name; fi

name=info_json
if "$build/stretto-info" --json >"$json" 2>"$err" && python3 -m json.tool "$json" >"$out" 2>"$err"; then ok $name; else not_ok $name; fi

exit $failed
