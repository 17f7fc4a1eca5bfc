#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # functions are called through check
# The convergence study: what it plans and what it makes of results, by made-up ones; and a tiny one on noise, which is run
# once and not again.
# not under TSan: it starts stretto-train as train.sh does; the rest is Python
set -u
build=${1:?usage: study.sh BUILD}
here=$(dirname "$0")/../..
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

check() { # check NAME CONDITION...: the condition is a command
	name=$1
	shift
	if "$@" >"$dir/log" 2>&1; then
		echo "ok $name"
	else
		failed=1
		echo "not ok $name"
		tail -n 20 "$dir/log" | sed 's/^/    /'
	fi
}
python() { # python FILE: with the tools' modules
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here/tools" python3 "$@"
}
if [ ! -x "$build/stretto-train" ]; then
	echo "skip: stretto-train is not built (openblas or zlib missing)"
	exit 77
fi
check "plan and summary" python "$here/tests/multi/study_cases.py"

# 512 training and 64 test images of noise.
python3 - "$dir" <<'END'
import random, struct, sys
random.seed(1)
for name, count in ("train", 512), ("t10k", 64):
    labels = [random.randrange(10) for _ in range(count)]
    with open("%s/%s-images-idx3-ubyte" % (sys.argv[1], name), "wb") as file:
        file.write(struct.pack(">4I", 0x803, count, 28, 28) + random.randbytes(count * 784))
    with open("%s/%s-labels-idx1-ubyte" % (sys.argv[1], name), "wb") as file:
        file.write(struct.pack(">2I", 0x801, count) + bytes(labels))
END
study() { # study OPTION...: the tiny study of two strategies
	timeout 300 "$here/tools/study.py" "$build" --quick --data "$dir" --only "dasgd d=1,acco" --no-plots --out "$dir/study" "$@"
}
one_line() { # one_line TEXT OPTION...: fails with that line
	text=$1
	shift
	! study "$@" 2>"$dir/err" && [ "$(tail -n 1 "$dir/err")" = "$text" ]
}
whole() { # whole: a table of two, and steps and samples that are the same
	grep -q '"left_out": 0' "$dir/study/summary.json" &&
		grep -q '^| acco | [0-9.]* |' "$dir/study/study.md" &&
		grep -q -- "--strategy dasgd --tau 4 --delay 1 --own-weight 0.25 .* --batch 32 --epochs 1 --steps 8 " "$dir/study/study.md" &&
		grep -q -- "--strategy acco .* --batch 16 --epochs 1 --steps 16 " "$dir/study/study.md" &&
		[ "$(tail -qn 1 "$dir"/study/runs/accuracy_*.jsonl | grep -o '"samples":[0-9]*' | sort -u)" = '"samples":512' ]
}
again() { # again: nothing is run
	find "$dir/study/runs" -newer "$dir/mark" | grep -q . && return 1
	! grep -q 'this one about' "$dir/err"
}
check "a tiny study" study
check "a tiny study: its table and commands" whole
touch "$dir/mark"
study 2>"$dir/err"
check "what was run is not run again" again
rm "$dir/study/runs/accuracy_mlp_2_acco_1.json"
study --minutes 1e-9 2>"$dir/err"
check "what does not fit into the time is left out" grep -q '"left_out": 1,' "$dir/study/summary.json"
check "another number of epochs is another study" one_line \
	"study: $dir/study is a study of 1 epochs: give another --out" --epochs 2
printf 'xyz' >"$dir/train-images-idx3-ubyte"
check "a data set that is none is named" one_line \
	"study: $dir/train-images-idx3-ubyte: not a file of images in the IDX format"
check "an unknown strategy is named" one_line "study.py: error: --only: no strategy is called dasgd d=3" --only "dasgd d=3"
exit $failed
