#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Trains an MLP on Fashion-MNIST on two ranks with each averaging strategy, over shared memory paced as a
# link on which one average takes about 1.8 compute steps, and compares.
#   tools/demo.sh BUILD
# Ends with a table, and the same numbers in BUILD/demo/summary.json.
set -eu
build=${1:?usage: tools/demo.sh BUILD}
out=$build/demo
ranks=2
ratio=1.8 # of the time of an average to the time of a compute step
latency=20us
batch=512
runs=3
strategies="none sync local dasgd dasgd-delta"
rm -rf "$out"
mkdir -p "$out"

train() { # train FILE OPTION...: its summary goes to FILE
	file=$1
	shift
	"$build/stretto-run" -n $ranks "$build/stretto-train" --data fashion-mnist --model mlp:784-512-256-10 \
		--batch $batch --optimizer sgd:lr=0.05,momentum=0.9 --seed 1 --json "$@" >"$file" || {
		echo "demo: the training failed (stretto-train $*)" >&2
		exit 1
	}
}

value() { # value NAME FILE: a field of a summary
	sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$2"
}

calculate() { awk "BEGIN { printf \"%.9g\", $1 }"; }
holds() { awk "BEGIN { exit !($1) }"; }

# The run of a strategy whose step is the middle one of its runs.
middle() { # middle STRATEGY
	for file in "$out/$1".[0-9].json; do
		echo "$(value step_ms "$file") $file"
	done | sort -g | awk '{ file[NR] = $2 } END { print file[int((NR + 1) / 2)] }'
}

echo "demo: $ranks ranks, MLP 784-512-256-10 on Fashion-MNIST, batch $batch a rank, one epoch a run"
# The time of a compute step: the least of several short runs, which other work on the machine only lengthens.
probe_compute() {
	train "$out/probe.json" --quiet --strategy none --steps 40
	step=$(value step_ms "$out/probe.json")
	if holds "$step < $compute"; then
		compute=$step
	fi
	bytes=$(value parameter_bytes "$out/probe.json")
}

# The time of one average at this rate, with nothing to hide under.
probe_average() {
	train "$out/probe.json" --quiet --strategy local --steps 40 --pace "$rate:$latency"
	average=$(value average_ms "$out/probe.json")
	echo "demo: one average of $bytes bytes takes $average ms at $rate bytes/s and $latency"
}

# Each of two ranks sends as many bytes as the weights have, whatever the algorithm; what the link does not
# explain (latency, reduction) is corrected for once.
compute=1e9
probe_compute
probe_compute
rate=$(calculate "int($bytes / ($ratio * $compute / 1000))")
probe_average
probe_compute
rate=$(calculate "int($rate * $average / ($ratio * $compute))")
probe_average
echo "demo: a compute step takes $compute ms: an average is $(calculate "$average / $compute") of them"

# Each strategy several times in turn, since a machine may have other work; the middle run counts.
run=1
while [ $run -le $runs ]; do
	for strategy in $strategies; do
		echo "demo: run $run of $runs: $strategy" >&2
		own=0.25
		[ "$strategy" = local ] && own=0
		train "$out/$strategy.$run.json" --strategy "$strategy" --tau 4 --delay 2 --own-weight $own --pace "$rate:$latency"
	done
	run=$((run + 1))
done
for strategy in $strategies; do
	cp "$(middle "$strategy")" "$out/$strategy.json"
done
compute=$(value step_ms "$out/none.json")

row() { # row STRATEGY FORMAT: its numbers
	file=$out/$1.json
	# shellcheck disable=SC2059 # the format is ours
	printf "$2" "$(value strategy "$file")" "$(value samples_per_s "$file")" "$(value step_ms "$file")" \
		"$(value compute_ms "$file")" "$(value exposed_ms "$file")" "$(value hidden_percent "$file")" \
		"$(value test_accuracy "$file")"
}

echo
printf '%-12s %10s %9s %10s %10s %9s %10s\n' strategy samples/s 'step ms' 'compute ms' 'exposed ms' 'hidden %' accuracy
for strategy in $strategies; do
	row "$strategy" '%-12s %10.0f %9.3f %10.3f %10.3f %9s %10s\n' | sed 's/null/   -/'
done
comma='['
for strategy in $strategies; do
	printf '%s\n' "$comma"
	row "$strategy" '{"strategy": "%s", "samples_per_s": %s, "step_ms": %s, "compute_ms": %s, "exposed_ms": %s, "hidden_percent": %s, "test_accuracy": %s}'
	comma=,
done >"$out/summary.json"
printf '\n]\n' >>"$out/summary.json"

goal() { # goal TEXT CONDITION
	if holds "$2"; then
		echo "met      $1"
	else
		echo "NOT met  $1"
	fi
}
echo
for strategy in dasgd dasgd-delta; do
	hidden=$(value hidden_percent "$out/$strategy.json")
	times=$(calculate "$(value step_ms "$out/$strategy.json") / $compute")
	goal "$strategy hides at least 95 % of its communication: $hidden %" "$hidden >= 95"
	goal "$strategy: its step is at most 1.05 x the compute-only step: $times x" "$times <= 1.05"
done
times=$(calculate "$(value step_ms "$out/sync.json") / $compute")
goal "sync: its step is at least 1.8 x the compute-only step: $times x" "$times >= 1.8"
echo "demo: the numbers are in $out/summary.json"
