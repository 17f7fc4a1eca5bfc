#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2059,SC2317 # formats are made here; functions are called through check
# Checkpoints of stretto-train: what was killed and resumed ends with the bits of what was not, whatever was being
# written; a full disk, damaged files and other options cost one clear line and no checkpoint.
set -u
build=${1:?usage: checkpoint.sh BUILD}
[ -x "$build/stretto-train" ] || {
	echo "skip checkpoint: this build has no trainer (OpenBLAS or zlib is missing)"
	exit 77
}
dir=$(mktemp -d)
trap 'umount "$dir/full" 2>/dev/null; rm -rf "$dir"' EXIT
failed=0
seed=${STRETTO_TEST_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "seed $seed"

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

ranks=2
start() { # start OPTION...: the pid of each rank goes into $dir/pids
	: >"$dir/pids"
	# shellcheck disable=SC2016 # for the inner shell
	timeout 60 "$build/stretto-run" -n $ranks sh -c 'echo $$ >>"$0"; exec "$@"' "$dir/pids" "$build/stretto-train" --quiet \
		--data "$dir/noise" --model mlp:16-8-10 --batch 10 --epochs 1000000 "$@" >"$dir/out" 2>"$dir/err"
}
train() {
	start "$@"
	status=$?
	cat "$dir/out" "$dir/err" >>"$dir/log"
}
says() { # says STATUS TEXT: the last run ended so, and one line has the text
	[ "$status" = "$1" ] && [ "$(grep -c "$2" "$dir/err")" = 1 ]
}
latest() { # latest FOLDER: the last checkpoint of rank 0
	find "$1" -name 'samples-*.rank-0-of-*' | sort | tail -n 1
}
same() { # same FOLDER FOLDER: the last checkpoints are of the same bytes on both ranks
	for rank in 0 1; do
		one=$(latest "$1" | sed "s/rank-0/rank-$rank/")
		cmp "$one" "$2/$(basename "$one")" || return 1
	done
}

# 10 steps an epoch of 2 ranks with a batch of 10: a checkpoint every 7 steps is in the middle of an epoch, and of a round.
for strategy in none sync dasgd dasgd-delta co2 acco; do
	train --strategy $strategy --steps 42 --checkpoint "$dir/$strategy.whole" --checkpoint-every 7
	train --strategy $strategy --steps 21 --checkpoint "$dir/$strategy" --checkpoint-every 7
	train --strategy $strategy --steps 42 --checkpoint "$dir/$strategy" --checkpoint-every 7 --resume "$dir/$strategy"
	check "resumed, it has the bits of what was never stopped: $strategy" same "$dir/$strategy.whole" "$dir/$strategy"
done

# Running statistics and what is dropped go on too. The same files: the noise is 4 x 4.
printf 'input 4 4 1\nconv 4 3\nbatchnorm\nrelu\nflatten\ndropout 0.2\ndense 10\n' >"$dir/model"
for part in whole cut; do
	[ $part = cut ] && train --strategy dasgd --model "$dir/model" --steps 21 --checkpoint "$dir/norm.cut" --checkpoint-every 7
	resume=$([ $part = cut ] && echo "--resume $dir/norm.cut")
	# shellcheck disable=SC2086 # words on purpose
	train --strategy dasgd --model "$dir/model" --steps 42 --checkpoint "$dir/norm.$part" --checkpoint-every 7 $resume
done
check "with batch normalisation and dropout likewise" same "$dir/norm.whole" "$dir/norm.cut"

# What is drawn for images follows from the step, and what a thread has made ahead is in no checkpoint.
augmented="--strategy dasgd --augment crop:1,flip --checkpoint-every 7"
# shellcheck disable=SC2086 # words on purpose
{
	train $augmented --steps 42 --checkpoint "$dir/moved.whole" --prefetch 0
	train $augmented --steps 21 --checkpoint "$dir/moved.cut" --prefetch 3
	train $augmented --steps 42 --checkpoint "$dir/moved.cut" --resume "$dir/moved.cut" --prefetch 1
	check "with augmented images, made ahead or not, likewise" same "$dir/moved.whole" "$dir/moved.cut"
}
train --strategy dasgd --steps 49 --resume "$dir/moved.cut"
check "resumed without augmentation: refused" says 2 'of another training'
check "two checkpoints stay, of two ranks each" [ "$(find "$dir/sync" -type f | wc -l)" = 4 ]

# Killed at random moments, until it comes to its end.
steps=3000
train --strategy dasgd --steps $steps --checkpoint "$dir/unhurt" --checkpoint-every 30
kills=0 resume=
while [ $kills -lt 4 ]; do
	# shellcheck disable=SC2086 # words on purpose
	start --strategy dasgd --steps $steps --checkpoint "$dir/killed" --checkpoint-every 30 $resume &
	pid=$!
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	sleep 0.$((2 + seed / 65536 % 6))
	# shellcheck disable=SC2046 # one pid a word
	kill -9 $(cat "$dir/pids") 2>/dev/null
	wait $pid 2>/dev/null
	kills=$((kills + 1))
	[ -n "$(latest "$dir/killed" 2>/dev/null)" ] && resume="--resume $dir/killed"
done
# shellcheck disable=SC2086
train --strategy dasgd --steps $steps --checkpoint "$dir/killed" --checkpoint-every 30 $resume
check "killed $kills times at random, it has the same bits" same "$dir/unhurt" "$dir/killed"

# A disk that is full in the middle of a file: 12 KiB are left, a file has 28.
full_disk() {
	wide="--strategy sync --model mlp:16-128-10 --checkpoint-every 7"
	# shellcheck disable=SC2086 # words on purpose
	train $wide --steps 21 --checkpoint "$dir/full/it"
	cp -r "$dir/full/it" "$dir/kept"
	used=$(df --output=used "$dir/full" | tail -n 1)
	mount -o "remount,size=$((used + 12))k" "$dir/full"
	# shellcheck disable=SC2086
	train $wide --steps 35 --checkpoint "$dir/full/it" --resume "$dir/full/it"
	check "a full disk: why, on each rank, and the training goes on" [ "$status $(grep -c 'checkpoint .*cannot write it: No space left' "$dir/err")" = "0 4" ]
	check "a full disk: what was there is untouched, and nothing half written stays" diff -r "$dir/kept" "$dir/full/it"
	umount "$dir/full"
}
mkdir "$dir/full"
if mount -t tmpfs -o size=1m tmpfs "$dir/full" 2>/dev/null; then
	full_disk
else
	echo "skip a full disk: mounting one needs root"
fi

cp -r "$dir/sync" "$dir/damaged"
last=$(latest "$dir/damaged")
printf 'x' | dd of="$last" bs=1 seek=300 conv=notrunc 2>/dev/null
train --strategy sync --steps 42 --checkpoint "$dir/damaged" --checkpoint-every 7 --resume "$dir/damaged"
check "a damaged file is named" says 0 "$(basename "$last"): damaged: the checksum is wrong"
check "and the checkpoint before leads to the same bits" same "$dir/sync.whole" "$dir/damaged"
rm "$(latest "$dir/damaged" | sed 's/rank-0/rank-1/')"
train --strategy sync --steps 42 --checkpoint "$dir/damaged" --checkpoint-every 7 --resume "$dir/damaged"
check "without the file of one rank, likewise" same "$dir/sync.whole" "$dir/damaged"

train --strategy sync --steps 42 --checkpoint "$dir/damaged"
check "a folder of another training is refused" says 2 'holds checkpoints already'
train --strategy sync --checkpoint "$dir/noise/train-images-idx3-ubyte/here" --steps 4
check "a folder that cannot be made is refused before the first step" says 2 'checkpoints cannot be written to .*/here: Not a directory'
train --strategy sync --checkpoint "$dir/noise/train-images-idx3-ubyte" --steps 4
check "a file for a folder likewise" says 2 'checkpoints cannot be written to .*ubyte: Not a directory'
train --strategy sync --steps 42 --resume "$dir/noise"
check "no checkpoint to resume" says 2 'no complete checkpoint'
train --strategy sync --steps 42 --seed 2 --resume "$dir/sync"
check "other options are refused, with both" says 2 "has 'seed 1 .*say 'seed 2 "

ranks=3
train --strategy sync --steps 40 --checkpoint "$dir/sync" --checkpoint-every 4 --resume "$dir/sync"
check "on three ranks: it says that the bits differ" says 0 'resumed after 840 samples of 2 ranks with 3 ranks, at step 28'
check "on three ranks: it goes on" [ "$(basename "$(latest "$dir/sync")")" = samples-000000001200.rank-0-of-3 ]
ranks=2

for number in TERM USR1; do
	start --strategy dasgd --checkpoint "$dir/$number" --checkpoint-every 50 &
	pid=$!
	# It has begun, however slow the machine is; if it never does, its own limit ends it.
	while kill -0 $pid && [ -z "$(latest "$dir/$number")" ]; do sleep 0.1; done 2>/dev/null
	kill -$number "$(head -n 1 "$dir/pids")"
	wait $pid
	status=$?
	check "SIG$number to one rank: all write a checkpoint and end with 0" says 0 "stopped by a signal after step [0-9]*, with a checkpoint"
	step=$(sed -n 's/.*stopped by a signal after step \([0-9]*\),.*/\1/p' "$dir/err" | head -n 1)
	check "SIG$number: the checkpoint is of that step" \
		[ "$(basename "$(latest "$dir/$number")")" = "$(printf 'samples-%012d.rank-0-of-2' $((${step:-0} * 20)))" ]
done
exit $failed
