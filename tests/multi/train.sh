#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# not under TSan: the threads of a training are those of test_train_family and test_train_watch
# shellcheck disable=SC2059,SC2317 # formats are made here; functions are called through check
# stretto-train on two ranks: it learns, it is reproducible, and it says in one line what is wrong.
set -u
build=${1:?usage: train.sh BUILD}
[ -x "$build/stretto-train" ] || {
	echo "skip train: this build has no trainer (OpenBLAS or zlib is missing)"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
fashion=/usr/share/datasets/fashion-mnist

check() { # check NAME CONDITION...: the condition is a command
	name=$1
	shift
	if "$@" >>"$dir/log" 2>&1; then
		echo "ok $name"
	else
		failed=1
		echo "not ok $name"
		tail -n 20 "$dir/log" "$dir/err" | sed 's/^/    /'
	fi
	: >"$dir/log"
}

train() { # train OPTION...: on two ranks; stdout, stderr and status are kept
	timeout 120 "$build/stretto-run" -n 2 "$build/stretto-train" "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	cat "$dir/out" "$dir/err" >>"$dir/log"
}

value() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$dir/out"; }
holds() { awk "BEGIN { exit !($1) }"; }
says() { # says STATUS TEXT: the last run ended so, with one line of the trainer's that has the text
	[ "$status" = "$1" ] && [ "$(grep -v '^stretto-run:' "$dir/err" | grep -c .)" = 1 ] && grep -q "$2" "$dir/err"
}

# A data set of noise: 200 images of 4 x 4 to train on, 40 to test with, 10 labels in turn.
number() { printf "\\000\\000\\000\\$(printf %03o "$1")"; }
samples() { # samples KIND COUNT
	{
		printf '\000\000\010\003'
		number "$2"
		number 4
		number 4
		head -c $(($2 * 16)) /dev/urandom
	} >"$dir/noise/$1-images-idx3-ubyte"
	{
		printf '\000\000\010\001'
		number "$2"
		i=0
		while [ $i -lt "$2" ]; do
			printf '\000\001\002\003\004\005\006\007\010\011'
			i=$((i + 10))
		done
	} >"$dir/noise/$1-labels-idx1-ubyte"
}
mkdir "$dir/noise"
samples train 200
samples t10k 40
noise="--data $dir/noise --model mlp:16-8-10 --batch 10 --quiet"

learns() { # learns STRATEGY: and copies nothing, and gives the same the second time
	own=0.25
	[ "$1" = local ] && own=0
	train --strategy "$1" --own-weight "$own" --steps 100 --json --quiet
	[ "$status" = 0 ] || return 1
	first="$(value loss) $(value test_accuracy)"
	holds "$(value test_accuracy) > 0.65" || return 1
	[ "$(value bytes_copied)" = 0 ] || return 1
	train --strategy "$1" --own-weight "$own" --steps 100 --json --quiet
	echo "$first, then $(value loss) $(value test_accuracy)"
	[ "$first" = "$(value loss) $(value test_accuracy)" ]
}
if [ -d $fashion ]; then
	for strategy in none sync local dasgd dasgd-delta; do
		check "learns and repeats itself: $strategy" learns $strategy
	done
else
	echo "skip learns: $fashion is missing (package dataset-fashion-mnist)"
fi

# 200 images make 10 steps an epoch of 2 ranks with a batch of 10.
# shellcheck disable=SC2086 # words on purpose
{
	train $noise --epochs 3 --log "$dir/log.jsonl" --log-every 7
	check "log: one line every 7 steps and the last" [ "$(grep -c '"event":"step".*"loss":[0-9.]*,"lr"' "$dir/log.jsonl")" = 5 ]
	check "log: steps, epochs and samples of all ranks" grep -q '"step":30,"epoch":3,"samples":600,' "$dir/log.jsonl"
	check "log: begins, tests and ends" [ "$(sed -n 's/.*"event":"\([a-z]*\)".*/\1/p' "$dir/log.jsonl" | uniq | tr '\n' ' ')" = "start step test end " ]
	check "log: the configuration" grep -q '"strategy":"dasgd","ranks":2,"model":"mlp:16-8-10".*"steps":30,"seed":1}$' "$dir/log.jsonl"
	check "log: every line is JSON" python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$dir/log.jsonl"
	check "log: names the slowest rank and its host" grep -q "\"why\":\"done\".*\"slowest_rank\":[01],\"slowest_host\":\"$(hostname)\"" "$dir/log.jsonl"
	check "the summary has all its parts" [ "$(grep -cE '^(strategy|throughput|step|communication|effective|test)' "$dir/out")" = 6 ]
	tested() { # tested STRATEGY: tests on the way change no bit
		train $noise --strategy "$1" --epochs 3 --log "$dir/log1.jsonl" --log-every 1
		train $noise --strategy "$1" --epochs 3 --log "$dir/log2.jsonl" --log-every 1 --test-every 7 --probe-every 8
		[ "$(grep -c '"event":"test"' "$dir/log2.jsonl")" = 5 ] || return 1
		[ "$(sed -n 's/.*"test",.*"step":\([0-9]*\),.*/\1/p' "$dir/log2.jsonl" | tr '\n' ' ')" = "7 14 21 28 30 " ] || return 1
		[ "$(sed -n 's/.*"probe",.*"step":\([0-9]*\),.*"gradient_norm":[0-9].*/\1/p' "$dir/log2.jsonl" | tr '\n' ' ')" = "8 16 24 " ] || return 1
		for file in log1 log2; do
			grep -o '"loss":[^,]*\|"event":"end"\|"step":30.*test_accuracy.*' "$dir/$file.jsonl" >"$dir/$file"
		done
		[ "$(wc -l <"$dir/log1")" = 32 ] && diff "$dir/log1" "$dir/log2"
	}
	for strategy in sync dasgd; do
		check "--test-every, --probe-every: tests and probes change no bit of $strategy" tested $strategy
	done
	train $noise --test-every 5
	check "--test-every: goes with --log" says 2 'go with --log'
	train $noise --probe-every 5
	check "--probe-every: goes with --log" says 2 'probe-every go with --log'
	traced() { # traced: the last 10 of 30 steps on both ranks; an average every 5 steps, merged 2 steps later
		python3 - "$dir/trace.json" <<-'END'
			import collections, json, sys
			trace = json.load(open(sys.argv[1]))
			about = trace["otherData"]
			assert (about["ranks"], about["first_step"], about["last_step"]) == (2, 21, 30), about
			assert about["clock_error_us"] == 0, about
			for rank in (0, 1):
			    events = [e for e in trace["traceEvents"] if e["pid"] == rank]
			    kinds = collections.Counter(e["name"] + e["ph"] for e in events)
			    for kind, count in {"forwardX": 10, "backwardX": 10, "updateX": 10, "mergeX": 2, "process_nameM": 1}.items():
			        assert kinds[kind] == count, (rank, kind, kinds)
			    merges = [e["args"]["step"] for e in events if e["name"] == "merge"]
			    assert merges == [22, 27], merges
			    # Those two, and the one that the drain ends.
			    assert kinds["averageb"] == kinds["averagee"] == 3, kinds
			    waited = [e for e in events if e["ph"] == "b" and e["args"]["end"] == "waited"]
			    assert len(waited) == kinds["waitX"], kinds
			    assert all(e["dur"] >= 0 for e in events if e["ph"] == "X")
		END
	}
	train $noise --strategy dasgd --tau 5 --delay 2 --epochs 3 --trace "$dir/trace.json" --trace-steps 10 --log "$dir/log2.jsonl"
	check "trace: the steps, merges and flights of both ranks" traced
	check "trace and log: the report takes them" "$build/stretto-report" "$dir/log2.jsonl" --trace "$dir/trace.json" -o "$dir/report.html"
	check "trace and log: with a timeline" grep -q 'Steps 27 to 30' "$dir/report.html"
	train $noise --trace /dev/full
	check "trace: a full disk is a warning" says 0 'trace /dev/full: cannot write it: No space left'
	train $noise --strategy dasgd,sync --trace "$dir/trace.json"
	check "trace: of one strategy only" says 2 'goes with one strategy'
	timeout 60 "$build/stretto-train" $noise --json >"$dir/out" 2>"$dir/err"
	check "one rank, without the launcher" [ "$(value ranks)" = 1 ]

	repeats() { # repeats STRATEGY: the same loss and accuracy twice, nothing copied
		train $noise --strategy "$1" --epochs 4 --json --optimizer adamw:lr=0.01 --schedule cosine:warmup=5
		[ "$status" = 0 ] && [ "$(value bytes_copied)" = 0 ] && [ "$(value strategy)" = "$1" ] || return 1
		first="$(value loss) $(value test_accuracy)"
		train $noise --strategy "$1" --epochs 4 --json --optimizer adamw:lr=0.01 --schedule cosine:warmup=5
		[ "$first" = "$(value loss) $(value test_accuracy)" ]
	}
	for strategy in post-local overlap-local dga co2 acco streaming; do
		check "trains and repeats itself: $strategy" repeats $strategy
	done

	# A link whose latency alone is many steps, and rounds of two at most.
	train $noise --delay auto --tau 2 --steps 4 --pace 1gbit:50ms
	check "--delay auto: says that nothing hides an average" grep -q \
		'^stretto-train: --delay auto: a step computes .* nothing hides it; dasgd goes on with delay 2 and tau 2' "$dir/err"
	train --data "$dir/noise" --model mlp:16-8-10 --batch 10 --delay auto --json --strategy dasgd,sync
	chosen=$(sed -n 's/.*dasgd .*with delay \([0-9]*\) and tau \([0-9]*\).*/"tau": \2, "delay": \1,/p' "$dir/err")
	check "--delay auto: the delay that is said is the one that is used" grep -q "\"dasgd\".*$chosen" "$dir/out"
	check "--delay auto: sync has none" grep -q 'sync has no delay to choose' "$dir/err"

	train $noise --epochs 20 --log /dev/full
	check "a full disk: why, and the training goes on" says 0 'log /dev/full: .*No space left.*goes on'
	train $noise --log "$dir/none/log"
	check "no folder for the log: status 1 and why" says 1 'No such file'
	train $noise --epochs 20 --optimizer sgd:lr=1000
	check "a loss that is no number: status 1, step and rank" says 1 'not a number at step [0-9]* on rank [01]'
	train $noise --epochs 20 --optimizer sgd:lr=1000 --log "$dir/log.jsonl"
	check "log: a loss that is no number" grep -q '"event":"end".*"why":"loss"' "$dir/log.jsonl"
	check "log: without a test" [ "$(grep -c '"event":"test"' "$dir/log.jsonl")" = 0 ]

	# A rank that is killed: its parent is stretto-run, which lets the others end by themselves for 5 s.
	timeout 60 "$build/stretto-run" -n 2 "$build/stretto-train" $noise --epochs 100000 --quiet --strategy sync --log "$dir/killed.jsonl" \
		--trace "$dir/killed.json" >"$dir/out" 2>"$dir/err" &
	launched=$!
	for _ in $(seq 300); do
		grep -qs '"event":"step"' "$dir/killed.jsonl" && break
		sleep 0.1
	done
	for child in $(pgrep -P "$(pgrep -P $launched -x stretto-run || echo $launched)"); do
		tr '\0' '\n' <"/proc/$child/environ" | grep -qx STRETTO_RANK=1 && kill -9 "$child"
	done
	wait $launched
	check "a rank that dies: the log ends with what happened and after which step" \
		grep -q '^{"event":"end",.*"step":[1-9][0-9]*,.*"why":"error","error":".*rank 1' "$dir/killed.jsonl"
	own() { # own: a trace of rank 0 alone
		python3 - "$dir/killed.json" <<-'END'
			import json, sys
			trace = json.load(open(sys.argv[1]))
			about = trace["otherData"]
			steps = {e["args"]["step"] for e in trace["traceEvents"] if e["name"] == "forward"}
			assert about["ranks"] == 2 and {e["pid"] for e in trace["traceEvents"]} == {0}
			assert len(steps) == min(64, max(steps)) and max(steps) == about["last_step"], (steps, about)
		END
	}
	check "a rank that dies: the trace has what rank 0 recorded" own
	told() { # told: the page says why the training ended
		"$build/stretto-report" "$dir/killed.jsonl" --trace "$dir/killed.json" -o "$dir/killed.html" &&
			grep -q "error: .*rank 1" "$dir/killed.html"
	}
	check "a rank that dies: the report says it" told

	for bad in "--strategy dasgd --tau 4 --delay 5" "--own-weight 1" "--strategy best" "--model mlp:16" "--tau 0" \
		"--optimizer sgd:lr=0" "--schedule sine" "--batch 0" "--epochs x" "--unknown" "operand" "--pace fast" "--strategy dga --delay 0" \
		"--strategy streaming --fragments 3" "--strategy acco --optimizer sgd:clip=1" "--strategy co2 --outer-momentum 1" \
		"--optimizer adam:decay=0.1" "--schedule cosine:floor=2" "--delay soon" \
		"--augment rotate" "--augment crop:65" "--prefetch 17" "--prefetch auto"; do
		train $noise $bad
		check "bad option: $bad" says 2 .
	done
	train $noise --augment crop:4
	check "a border as wide as the images is named" says 2 'border of 4 pixels is too much to crop images of 4 x 4'
	head -c 3000 /dev/urandom >"$dir/letters"
	train --data "text:$dir/letters" --model transformer:8-8-2-1 --augment flip
	check "text cannot be augmented" says 2 'only images .* can be augmented, and the data set is text'
	train $noise --model mlp:17-8-10
	check "a model of another width than the images" says 2 'has 16 pixels'
	train $noise --model mlp:16-8-9
	check "a model with too few outputs" says 2 '10 classes'
	train $noise --batch 101
	check "too few images for one step" says 2 'too few'

	cp "$dir/noise/train-images-idx3-ubyte" "$dir/kept"
	head -c 1000 "$dir/kept" >"$dir/noise/train-images-idx3-ubyte"
	train $noise
	check "a truncated file: status 1, file and offset" says 1 'train-images-idx3-ubyte: at offset 1000: expected 3216'
	cp "$dir/kept" "$dir/noise/train-images-idx3-ubyte"
	printf '\000\000\010\001\000\000\000\050\377' >"$dir/noise/t10k-labels-idx1-ubyte"
	train $noise
	check "a lying file: status 1, file and offset" says 1 't10k-labels-idx1-ubyte: at offset 9: expected 48'
	samples t10k 40
	rm "$dir/noise/train-labels-idx1-ubyte"
	train $noise
	check "a missing file: status 1 and its name" says 1 'train-labels-idx1-ubyte: no such file'
	samples train 200

	STRETTO_RANK=0 STRETTO_SIZE=2 STRETTO_ROOT=127.0.0.1:38471 STRETTO_TOKEN=00112233445566778899aabbccddeeff STRETTO_BOOTSTRAP_TIMEOUT_SECONDS=1 \
		timeout 60 "$build/stretto-train" $noise >"$dir/out" 2>"$dir/err"
	check "a rank that never comes: status 3" [ $? = 3 ]
}
exit $failed
