#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# not under TSan: it reads tables
# The benchmark beside other libraries: wrong results end it, the files have the columns that others read, ratios and
# quantiles are what they say, a library that is absent is named, wrong options are answered with one line.
set -u
build=${1:?usage: bench.sh BUILD}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out err=$scratch/err
here=$(pwd)
failed=0

ok() { echo "ok $1"; }
not_ok() {
	echo "not ok $1"
	sed 's/^/    /' "$out" "$err" 2>/dev/null | tail -n 20
	failed=1
}

# A build of its own, where only this library is: the programs are links.
mkdir -p "$scratch/build/tests/peers"
ln -s "$(realpath "$build")/stretto-run" "$scratch/build/"
ln -s "$(realpath "$build")"/tests/peers/*_stretto "$scratch/build/tests/peers/"

name=bench_rows
if timeout 60 "$build/stretto-run" -n 3 "$build/tests/peers/latency_stretto" malloc 4,1000,70000 rotated,in_place 1 >"$out" 2>"$err" &&
	awk '{ print $1, $2; if (NF < 8 || $3 < 1) exit 1 }' "$out" >"$err" &&
	[ "$(tr '\n' ',' <"$err")" = "4 in_place,4 rotated,1000 in_place,1000 rotated,70000 in_place,70000 rotated," ]; then
	ok $name
else
	not_ok $name
fi

for placement in in_place out_of_place rotated; do
	name=bench_wrong_result_$placement
	if "$build/tests/peers/latency_alone" own 4096 $placement 1 >"$out" 2>"$err" &&
		! PEER_WRONG=1 "$build/tests/peers/latency_alone" own 4096 $placement 1 >"$out" 2>"$err" &&
		[ ! -s "$out" ] && grep -q "^latency: alone: rank 0: element 1023 of 1024, $placement, is 24, not 23$" "$err"; then
		ok $name
	else
		not_ok $name
	fi
done

if [ -e "$build/tests/peers/overlap_alone" ]; then
	name=bench_wrong_overlap
	if "$build/tests/peers/overlap_alone" 4096 2 sleep >"$out" 2>"$err" && awk 'NF != 5 { exit 1 }' "$out" &&
		! PEER_WRONG=1 "$build/tests/peers/overlap_alone" 4096 2 sgemm >"$out" 2>"$err" && [ ! -s "$out" ]; then
		ok $name
	else
		not_ok $name
	fi
fi

name=bench_files_and_absent_libraries
if timeout 120 tools/bench.py "$scratch/build" --rounds 2 --ranks 2 --sizes 4,4K --ms 1 --only latency >"$out" 2>"$err" &&
	[ "$(head -n 1 "$scratch/build/bench/latency.csv")" = "library,ranks,bytes,placement,p50_us,p99_us" ] &&
	[ "$(grep -cE '^stretto,2,(4|4096),(malloc_)?(in_place|out_of_place|rotated),[0-9.]+,[0-9.]+$' "$scratch/build/bench/latency.csv")" = 12 ] &&
	grep -q '^bench: absent: Open MPI was not built' "$err" && grep -q '^bench: absent: MPICH was not built' "$err" &&
	grep -q '^\* absent: Gloo was not built' "$out" && grep -q '^\* load average before: ' "$out" &&
	grep -qE '^\* latency, round 2: stolen [0-9.]+ %, others [0-9.]+ %' "$out"; then
	ok $name
else
	not_ok $name
fi

name=bench_wrong_options
if ! tools/bench.py "$scratch/build" --sizes 4,x >"$out" 2>"$err" && grep -q 'is no list of sizes' "$err" &&
	! tools/bench.py "$scratch/build" --release --rounds 1 >"$out" 2>"$err" && grep -q 'run with no other option' "$err" &&
	! tools/bench.py "$scratch/nothing" --only latency >"$out" 2>"$err" && [ "$(grep -vc 'latency, 2 ranks' "$err")" = 1 ]; then
	ok $name
else
	not_ok $name
fi

name=bench_ratios_and_quantiles
if PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here/tools" python3 - >"$out" 2>"$err" <<-'END'; then ok $name; else not_ok $name; fi
	from lib import peers, peers_report as report
	assert report.quantile([5, 1, 4, 2, 3], 0.99) == 5 and report.quantile(range(1, 101), 0.99) == 99
	latency = {('stretto', 2, 4, 'in_place'): [[1, 1, 9], [2, 2, 2], [4, 4, 4]],
	           ('stretto', 2, 4, 'malloc_in_place'): [[2], [2], [2]],
	           ('mpich', 2, 4, 'in_place'): [[3], [4], [4]], ('gloo', 2, 4, 'in_place'): [[7], [1], [8]]}
	assert report.latency_rows(latency)[0] == ('stretto', 2, 4, 'in_place', '2.000', '9.000')
	# the peer whose median round is best, and each round by itself
	assert report.best_peer(latency, 2, 4, 'in_place') == 'mpich'
	assert report.ratios(latency, 2, 4, 'in_place') == [3, 2, 1]
	assert report.ratios(latency, 2, 4, 'in_place', 'malloc_') == [1.5, 2, 2]
	assert report.ratios(latency, 4, 4, 'in_place') == []
	missed = report.judge({**latency, ('stretto', 2, 4, 'in_place'): [[4], [4], [4]]})
	assert '**missed** (4 1.00 of 1.5)' in missed[0] and '**met**' in missed[1], missed
	# more bytes that take less time, in every round or not; other libraries and placements do not count
	flat = {('stretto', 2, 4, 'in_place'): [[2], [2]], ('stretto', 2, 8, 'in_place'): [[2], [3]],
	        ('stretto', 2, 16, 'rotated'): [[1], [1]], ('gloo', 2, 16, 'in_place'): [[1], [1]]}
	assert 'never took less' in report.monotone(flat)
	assert report.worst_inversion({**flat, ('stretto', 2, 16, 'in_place'): [[1], [2]]})[:3] == ([2, 1.5], 8, 16)
	assert '**in every round**' in report.monotone({**flat, ('stretto', 2, 16, 'in_place'): [[1], [2]]})
	assert 'within noise' in report.monotone({**flat, ('stretto', 2, 16, 'in_place'): [[1], [3]]})
	assert peers.parse_overlap('talk\n64 1.0 2.0 3.0 4.5\n') == {64: (1, 2, 3, 4.5)}
	assert peers.parse_latency('a b c d\n4 rotated 64 0.5 0.25\n') == {(4, 'rotated'): [0.5, 0.25]}
	rows = report.overlap_rows({('gloo', 2, 64, 'shm', 'sleep'): [(1, 2, 3, 0), (3, 2, 3, 66), (2, 2, 3, 50)]})
	assert rows == [('gloo', 2, 64, 'shm', '2.0', '2.0', '3.0', '50.0', 'sleep')], rows
END

name=bench_train_ratios_and_table
if PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here/tools" python3 - "$scratch" >"$out" 2>"$err" <<-'END'; then ok $name; else not_ok $name; fi
	import sys
	import bench_train as bench
	rows = [bench.Row('node', 'cnn', kind, turn, best, median) for kind, turn, best, median in (
	    ('Stretto sync', 1, 1, 2), ('PyTorch DDP, gloo', 1, 3, 4), ('Stretto sync', 2, 2, 4), ('PyTorch DDP, gloo', 2, 4, 4),
	    ('Stretto sync', 3, 2, 5), ('PyTorch DDP, gloo', 3, 4, 20))]
	# of each round by itself; other places and models do not count
	assert bench.ratios(rows, 'node', 'cnn', 'Stretto sync') == [2, 1, 4]
	assert bench.ratios(rows, 'node', 'mlp', 'Stretto sync') == bench.ratios(rows, 'link', 'cnn', 'Stretto sync') == []
	assert '| Stretto sync | 1.00 | 4.00 (2.00..5.00) | 2.00 (1.00..4.00) |' in bench.table(rows)
	log = sys.argv[1] + '/log'
	with open(log, 'w') as file:
	    file.write('{"event":"start"}\n{"event":"step","step_ms":2.5}\n{"event":"end","step_ms":9}\n')
	assert bench.step_times(log) == [2.5]
END

name=bench_train_wrong_options
if ! tools/bench_train.py "$scratch/build" --places one,moon >"$out" 2>"$err" && grep -q 'expected some of one,two,node,link, not moon$' "$err" &&
	! tools/bench_train.py "$scratch/build" --steps 8 >"$out" 2>"$err" && grep -q 'at least one round, and 24 steps$' "$err"; then
	ok $name
else
	not_ok $name
fi
exit $failed
