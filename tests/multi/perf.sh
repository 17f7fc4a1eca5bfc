#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# not under TSan: options, formats and files of one program
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

for test in allgatherv alltoallv reduce_scatterv; do
	name="perf_$test"
	if perf 3 "$test" -b 8 -e 256K -f 64 -n 2 -w 0 -c 1 && rows_are_good; then ok "$name"; else not_ok "$name"; fi
done

# three sizes of 8 integers with 11 operations, 4 floats with 5 and 2 complex numbers with 3
name=perf_all_types_and_ops
if perf 3 allreduce -d all -o all -b 40 -e 100000 -f 50 -n 2 -w 0 && rows_are_good &&
	[ "$(grep -vc '^#' "$out")" = $((3 * (8 * 11 + 4 * 5 + 2 * 3))) ]; then ok $name; else not_ok $name; fi

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
	awk '!/^#/ { rows++; if (NF != 8 || $3 <= 0 || $4 <= 0 || $5 < $4 / 2 || $8 != 0) bad = 1 } END { exit bad || rows != 2 }' "$out"; then
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

printf 'stretto-tuning 1\nallreduce 0-4096 tree\n' >"$scratch/tuning"
name=perf_tuning_file_decides_and_says_so
export STRETTO_TUNING="$scratch/tuning"
if STRETTO_LOG=info perf 2 allreduce -b 64 -e 64K -f 1024 -n 2 && rows_are_good &&
	grep -q 'allreduce of 16 x float on 2 ranks: tree, window .*channel(s), estimated [0-9.]* us (file: ' "$err" &&
	grep -q 'allreduce of 16384 x float .* (model: least of ' "$err"; then ok $name; else not_ok $name; fi

name=perf_other_tuning_on_a_rank_is_refused
# shellcheck disable=SC2016 # the ranks expand it
if ! timeout 60 "$build/stretto-run" -n 2 sh -c '[ "$STRETTO_RANK" = 0 ] || unset STRETTO_TUNING; exec "$0" allreduce -b 8 -e 8 -n 1' \
	"$build/stretto-perf" >"$out" 2>"$err" &&
	grep -q 'rank 1 has another tuning (0000000000000000) than rank 0 ([0-9a-f]*; 0: none): the file of STRETTO_TUNING' "$err"; then
	ok $name
else
	not_ok $name
fi

name=perf_bad_tuning_is_one_line
printf 'stretto-tuning 1\nnode shm latency 1us\nnode shm speed 5\n' >"$scratch/tuning"
if ! perf 1 allreduce -b 8 -e 8 -n 1 && [ "$(grep -c 'STRETTO_TUNING' "$err")" = 1 ] &&
	grep -q "STRETTO_TUNING: $scratch/tuning, line 3: unknown key \"speed\"; there are: latency," "$err"; then ok $name; else not_ok $name; fi
unset STRETTO_TUNING

# what was measured is read back, and decides: the same text on all ranks, the fitted values in the estimates
# (over a slow link, whose times no load of the machine bends)
slow="--pace 100mbit:200us"
name=perf_tune_writes_a_file_that_is_read_back
# shellcheck disable=SC2086 # words on purpose
if perf 2 tune -b 8 -e 64K -f 8 -n 5 $slow -o "$scratch/tuned" && [ ! -s "$err" ] &&
	[ "$(grep -cE '^node shm (latency|per_byte|per_reduce|message) [0-9.e-]+$' "$scratch/tuned")" = 4 ] &&
	[ "$(awk '/^# node shm, between ranks 0 and 1/ { on = 1 } /^# latency/ { on = 0 } on && !/^#/ { printf "%s ", $1 }' "$out")" = "8 64 512 4096 32768 " ] &&
	grep -qE '^# latency [0-9.e-]+ us; per_byte [0-9.e-]+ ns \([0-9.e+]+ GB/s\); per_reduce [0-9.e-]+ ns ' "$out" &&
	[ "$(awk '/^# allreduce of float on 2 ranks/ { on = 1 } on && !/^#/ && NF == 5 { rows++ } END { print rows }' "$out")" = 5 ] &&
	cp "$scratch/tuned" "$scratch/before" && STRETTO_TUNING="$scratch/tuned" perf 2 allreduce -b 8 -e 8 -n 1 && rows_are_good &&
	cmp -s "$scratch/tuned" "$scratch/before"; then ok $name; else not_ok $name; fi

name=perf_tune_prints_without_a_file
# shellcheck disable=SC2086 # words on purpose
if perf 3 tune -b 8 -e 64K -f 64 -n 3 $slow && sed -n '/^stretto-tuning 1$/,$p' "$out" >"$scratch/printed" && [ -s "$scratch/printed" ] &&
	STRETTO_TUNING="$scratch/printed" perf 3 barrier -n 1; then ok $name; else not_ok $name; fi

name=perf_tune_fixes_algorithms
# shellcheck disable=SC2086 # words on purpose
if perf 2 tune -b 64 -e 64K -f 32 -n 3 -w 1 $slow --fix -o "$scratch/fixed" && grep -q '^# faster than the choice by more than 10 %: ' "$out" &&
	STRETTO_TUNING="$scratch/fixed" perf 2 allreduce -b 64 -e 64 -n 1; then ok $name; else not_ok $name; fi

# one line on rank 0, exit 1, and the file is what it was
refused() { # refused NAME WORDS ARGUMENTS...
	name=$1 words=$2
	shift 2
	cp "$scratch/tuned" "$scratch/before"
	# shellcheck disable=SC2086 # words on purpose
	perf 2 tune -n 2 $slow "$@"
	status=$?
	if [ $status = 1 ] && [ "$(grep -c '^stretto-perf: tune: ' "$err")" = 1 ] && grep -q "$words" "$err" &&
		cmp -s "$scratch/tuned" "$scratch/before" && [ "$(find "$scratch" -name 'tuned*' | wc -l)" = 1 ]; then ok "$name"; else not_ok "$name"; fi
}
refused perf_tune_of_one_size 'no line fits the times' -b 1K -e 1K -o "$scratch/tuned"
refused perf_tune_nowhere_to_write '/nonexistent/tuned cannot be written: No such file' -e 64K -f 64 -o /nonexistent/tuned
refused perf_tune_to_a_device '/dev/null cannot be written: Operation not supported' -e 64K -f 64 -o /dev/null

# Rows without the lines of the header.
rows() { grep -v '^#' "$out" | grep -v '^$'; }

for format in osu imb; do
	for test in allreduce broadcast allgather reduce_scatter barrier overlap; do
		name="perf_columns_of_${format}_${test}"
		if perf 2 "$test" --format $format -b 64K -e 128K -f 2 -n 3 -w 1 && python3 - $format "$test" "$out" <<-'EOF' 2>"$err"; then ok "$name"; else not_ok "$name"; fi
			import re, sys
			form, test, path = sys.argv[1:]
			text = open(path).read()
			names = {"allreduce": "Allreduce", "broadcast": "Bcast", "allgather": "Allgather", "reduce_scatter": "Reduce_scatter",
			         "barrier": "Barrier", "overlap": "Iallreduce"}
			sizes = {"barrier": [], "allgather": [32768, 65536]}.get(test, [65536, 131072])
			rows = [line for line in text.splitlines() if line and not line.startswith("#") and not line.lstrip().startswith("#")]
			if form == "osu":
			    assert "# Stretto %s Latency Test v" % names[test] in text
			    head = {"barrier": "# Avg Latency(us)",
			            "overlap": "%-10s%20s%20s%20s%20s" % ("# Size", "Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)")}.get(
			                test, "%-10s%20s" % ("# Size", "Avg Latency(us)"))
			    pattern = {"barrier": r" *\d+\.\d\d", "overlap": r"\d+ *( +\d+\.\d\d){4}"}.get(test, r"\d+ +\d+\.\d\d")
			    width = {"barrier": 17, "overlap": 90}.get(test, 30)
			else:
			    assert "# Benchmarking %s \n# #processes = 2 \n#---" % names[test] in text
			    times = ["t_min[usec]", "t_max[usec]", "t_avg[usec]"]
			    columns = {"barrier": ["#repetitions"] + times,
			               "overlap": ["#bytes", "#repetitions", "t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"]}.get(
			                   test, ["#bytes", "#repetitions"] + times)
			    head, width = "".join("%13s" % c for c in columns), 13 * len(columns)
			    pattern = r"( +\d+){%d}( +\d+\.\d\d)+" % (1 if test == "barrier" else 2)
			assert head in text.splitlines(), head
			assert len(rows) == max(1, len(sizes)) and all(re.fullmatch(pattern, row) and len(row) == width for row in rows), rows
			if sizes:
			    assert [int(row.split()[0]) for row in rows] == sizes, rows
			if form == "imb" and test != "overlap":
			    for row in rows:
			        low, high, mean = map(float, row.split()[-3:])
			        assert row.split()[-4] == "3" and low <= mean <= high, row
			# each format's own definition, from the times in the row
			if test == "overlap":
			    for row in rows:
			        v = [float(x) for x in row.split()]
			        if form == "osu":
			            expected = max(0, 100 * (1 - (v[1] - v[2]) / v[3]))
			        else:
			            expected = 100 * max(0, min(1, (v[3] + v[4] - v[2]) / max(v[3], v[4])))
			        assert abs(v[-1] - expected) < 0.1, (row, expected)
			EOF
	done
done

name=perf_osu_full
if perf 2 allreduce --format osu --full --place in -b 1K -e 1K -n 4 && [ "$(rows | awk '{ print NF, $5, $6 }')" = "8 4 Pass" ]; then
	ok $name
else
	not_ok $name
fi

# The same run printed as JSON into a file and as CSV: the numbers are the same, and agree with their definitions.
for test in allreduce broadcast allgather reduce_scatter barrier; do
	for calls in blocking nonblocking persistent; do
		option=--$calls
		[ $calls = blocking ] && option=
		name="perf_csv_json_${test}_$calls"
		# shellcheck disable=SC2086 # no option where it is empty
		if perf 3 "$test" $option --format csv --json "$json" --rotate-buffers 3 -b 12 -e 48K -f 64 -n 5 -w 1 &&
			python3 - "$out" "$json" "$test" $calls <<-'EOF' 2>"$err"; then ok "$name"; else not_ok "$name"; fi
			import csv, json, sys
			lines = [line for line in open(sys.argv[1]) if not line.startswith("#")]
			rows = list(csv.DictReader(lines, strict=True))
			report = json.load(open(sys.argv[2]))
			test, calls = sys.argv[3:]
			factor = {"allreduce": 4 / 3, "allgather": 2 / 3, "reduce_scatter": 2 / 3}.get(test, 1)
			halves = [(r, p, r[k]) for r in report["results"] for p, k in (("out", "out_of_place"), ("in", "in_place")) if r[k]]
			assert len(rows) == len(halves) == (1 if test == "barrier" else 3 if test == "broadcast" else 6), rows
			assert report["config"]["calls"] == calls and report["config"]["sets"] == 3
			assert all(rank["governor"] and "shm" in rank["transports"].split() for rank in report["ranks"])
			for row, (result, place, half) in zip(rows, halves):
			    assert None not in row and None not in row.values(), row
			    assert (row["test"], row["ranks"], row["place"], row["calls"], row["sets"], row["iterations"]) == (test, "3", place, calls, "3", "5")
			    assert [row[k] for k in ("size", "count", "type", "redop", "root")] == [str(result[k]) for k in ("size", "count", "type", "redop", "root")]
			    for column, key in (("p50_us", "p50"), ("p99_us", "p99"), ("min_us", "min_us"), ("max_us", "max_us"), ("avg_us", "avg_us"),
			                        ("rank_avg_us", "rank_avg_us"), ("rank_min_us", "rank_min_us"), ("rank_max_us", "rank_max_us"),
			                        ("algbw", "alg_bw"), ("busbw", "bus_bw")):
			        assert float(row[column]) == half[key], (column, row, half)
			    assert half["min_us"] <= half["p50"] <= half["p99"] <= half["max_us"]
			    assert half["rank_min_us"] <= half["rank_avg_us"] + 1e-3 and half["rank_avg_us"] <= half["rank_max_us"] + 1e-3
			    assert half["rank_max_us"] <= half["avg_us"] + 1e-3, half
			    algbw = result["size"] / half["p50"] / 1e3
			    assert abs(half["alg_bw"] - algbw) < 1e-4 + 2e-3 * algbw and abs(half["bus_bw"] - factor * half["alg_bw"]) < 2e-4, half
			    assert row["nwrong"] == ("" if test == "barrier" else "0") and half["nwrong"] == (None if test == "barrier" else 0)
			EOF
	done
done

name=perf_json_alone_on_stdout
if perf 2 allreduce --format json -b 8 -e 8 -n 2 && python3 -m json.tool "$out" >/dev/null 2>"$err"; then ok $name; else not_ok $name; fi

name=perf_overlap_csv
if perf 2 overlap --persistent --format csv --json "$json" -b 64K -e 64K -n 5 -w 1 --compute sleep && python3 - "$out" "$json" <<-'EOF' 2>"$err"; then ok $name; else not_ok $name; fi
	import csv, json, sys
	row, = csv.DictReader([line for line in open(sys.argv[1]) if not line.startswith("#")], strict=True)
	result, = json.load(open(sys.argv[2]))["results"]
	pure, compute, total = (float(row[k + "_us"]) for k in ("pure", "compute", "total"))
	assert (pure, compute, total) == tuple(result[k]["p50"] for k in ("pure", "compute", "total"))
	assert abs(float(row["overlap_osu"]) - max(0, 100 * (1 - (total - compute) / pure))) < 0.1, row
	assert abs(float(row["overlap_imb"]) - 100 * max(0, min(1, (pure + compute - total) / max(pure, compute)))) < 0.1, row
	assert float(row["overlap_osu"]) == result["overlap_osu"] and float(row["overlap_imb"]) == result["overlap_imb"]
	EOF

name=perf_place
if perf 2 allreduce --place in -b 8 -e 8 -n 2 && [ "$(rows | awk '{ print ($6 == "N/A"), ($10 == "N/A") }')" = "1 0" ] &&
	perf 2 allreduce --place out -b 8 -e 8 -n 2 && [ "$(rows | awk '{ print ($6 == "N/A"), ($10 == "N/A") }')" = "0 1" ]; then ok $name; else not_ok $name; fi

name=perf_header
if perf 2 barrier -n 1 && grep -q '^# load average [0-9]' "$out" &&
	[ "$(grep -cE '^#  Rank .*on .*: affinity .*compute cores .*memlock .*governor .*transports self' "$out")" = 2 ]; then ok $name; else not_ok $name; fi

name=perf_min_bw_met
if perf 2 allreduce --min-bw 0.000001 -b 4M -e 4M -n 2 && [ ! -s "$err" ]; then ok $name; else not_ok $name; fi

name=perf_min_bw_missed
perf 2 allreduce --min-bw 1000000 -b 4K -e 4K -n 2
if [ $? = 1 ] && grep -q 'allreduce of 4096 bytes, float sum, in place: busbw [0-9.]* GB/s is below --min-bw 1e+06' "$err" &&
	[ "$(grep -c 'below --min-bw' "$err")" = 2 ]; then ok $name; else not_ok $name; fi

# Two ranks without a launcher, so that nobody ends the one because the other did.
name=perf_timeout_on_all_ranks
STRETTO_SIZE=2 STRETTO_ROOT=127.0.0.1:$((20000 + $$ % 10000)) STRETTO_TOKEN=0123456789abcdef0123456789abcdef
export STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN
STRETTO_RANK=1 timeout 60 "$build/stretto-perf" barrier -n 10000000 --timeout 2 >/dev/null 2>"$scratch/err1" &
other=$!
STRETTO_RANK=0 timeout 60 "$build/stretto-perf" barrier -n 10000000 --timeout 2 >"$out" 2>"$err"
first=$?
wait $other
second=$?
cat "$scratch/err1" >>"$err"
if [ "$first $second" = "4 4" ] && [ "$(grep -cE '^stretto-perf: rank [01]: --timeout 2 s passed in barrier' "$err")" = 2 ]; then
	ok $name
else
	echo "exit $first $second" >>"$err"
	not_ok $name
fi

name=perf_timeout_while_ranks_meet
STRETTO_RANK=0 timeout 60 "$build/stretto-perf" barrier --timeout 0.5 >"$out" 2>"$err"
if [ $? = 4 ] && grep -q '^stretto-perf: --timeout 0.5 s passed before the ranks had met$' "$err"; then ok $name; else not_ok $name; fi
unset STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN

name=perf_timeout_not_reached
if perf 2 barrier -n 2 --timeout 100 && [ ! -s "$err" ]; then ok $name; else not_ok $name; fi

for where in out in guard; do
	for sets in 1 3; do
		name="perf_finds_damage_${where}_$sets"
		TAMPER=$where timeout 60 "$build/stretto-run" -n 2 "$build/tests/multi/perf_tampered" allreduce --place out -b 4K -e 4K -n 6 -w 0 \
			--rotate-buffers $sets >"$out" 2>"$err"
		if [ $? = 1 ] && grep -q '^# Out of bounds values : 6 FAILED$' "$out" && [ "$(rows | awk '{ print $9 }')" = 6 ]; then
			ok "$name"
		else
			not_ok "$name"
		fi
	done
done

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
wrong perf_unknown_test "$build/stretto-perf" alltosome
wrong perf_two_tests "$build/stretto-perf" allreduce barrier
wrong perf_unknown_option "$build/stretto-perf" allreduce --fast
wrong perf_bad_size "$build/stretto-perf" allreduce -b 8Q
wrong perf_bad_type "$build/stretto-perf" allreduce -d float128
wrong perf_bad_op "$build/stretto-perf" allreduce -o xor
wrong perf_op_of_another_type "$build/stretto-perf" allreduce -d half -o bor
wrong perf_sizes_reversed "$build/stretto-perf" allreduce -b 1M -e 1K
wrong perf_no_iterations "$build/stretto-perf" allreduce -n 0
wrong perf_bad_compute "$build/stretto-perf" overlap --compute lu
wrong perf_bad_format "$build/stretto-perf" p2p --format nccl
wrong perf_format_unknown "$build/stretto-perf" allreduce --format xml
wrong perf_format_twice "$build/stretto-perf" allreduce --format json --json "$json"
wrong perf_full_not_osu "$build/stretto-perf" allreduce --full
wrong perf_bad_place "$build/stretto-perf" allreduce --place here
wrong perf_osu_both "$build/stretto-perf" allreduce --format osu --place both
wrong perf_two_modes "$build/stretto-perf" allreduce --persistent --nonblocking
wrong perf_overlap_nonblocking "$build/stretto-perf" overlap --nonblocking
wrong perf_overlap_in_place "$build/stretto-perf" overlap --place in
wrong perf_p2p_persistent "$build/stretto-perf" p2p --persistent
wrong perf_tune_alone "$build/stretto-perf" tune -e 8
wrong perf_tune_persistent "$build/stretto-perf" tune --persistent
wrong perf_tune_json "$build/stretto-perf" tune --json "$json"
wrong perf_tune_format "$build/stretto-perf" tune --format csv
wrong perf_fix_not_tune "$build/stretto-perf" allreduce --fix
wrong perf_no_sets "$build/stretto-perf" allreduce --rotate-buffers 0
wrong perf_min_bw_zero "$build/stretto-perf" allreduce --min-bw 0
wrong perf_min_bw_nan "$build/stretto-perf" allreduce --min-bw nan
wrong perf_min_bw_barrier "$build/stretto-perf" barrier --min-bw 1
wrong perf_timeout_zero "$build/stretto-perf" allreduce --timeout 0
wrong perf_timeout_word "$build/stretto-perf" allreduce --timeout soon
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
