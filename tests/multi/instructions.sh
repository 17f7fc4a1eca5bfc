#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Instructions of a blocking call of few bytes, counted by valgrind: not many, as many in each call, no system call.
#   tests/multi/instructions.sh BUILD
# not under sanitizers: what they add would be counted, and valgrind does not run it
set -u
build=${1:?usage: tests/multi/instructions.sh BUILD}
build=$(cd "$build" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
unset STRETTO_RANK STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN STRETTO_LISTEN_FD

# Rank 0 runs under valgrind, which writes a file for each call. It comes late to each, so that it has nothing to wait
# for, and the others poll until then, so that it need not wake them.
cat >"$dir/rank" <<'EOF'
#!/bin/sh
[ "$STRETTO_RANK" = 0 ] || exec "$@"
exec valgrind --tool=callgrind --callgrind-out-file="$COUNTS" --toggle-collect=stretto_allreduce \
	--dump-after=stretto_allreduce "$@"
EOF
chmod +x "$dir/rank"

least() { # least FIRST LAST: instructions of a call in which rank 0 did not wait, among some
	for call in $(seq "$1" "$2"); do
		sed -n 's/^summary: //p' "$dir/counts.$call"
	done | sort -n | head -n 1
}

# calls_kernel COUNT: whether a call of so many instructions has one of the functions that a call could wait or wake with
calls_kernel() {
	for file in "$dir"/counts.*; do
		grep -q "^summary: $1\$" "$file" || continue
		grep -E '^c?fn=\([0-9]+\) (read|write|poll|epoll_p?wait|sched_yield|syscall|u?sleep|.*nanosleep|pthread_cond_.*)$' "$file" && return 0
	done
	return 1
}

per_call() { # per_call RANKS BYTES MOST: no more than MOST, and no more in later calls
	rm -f "$dir"/counts*
	COUNTS="$dir/counts" STRETTO_SPIN_SECONDS=1 timeout -k 5 60 "$build/stretto-run" -n "$1" "$dir/rank" \
		"$build/tests/multi/short_calls" 200 "$2" >"$dir/out" 2>&1 || { cat "$dir/out" >&2; return 1; }
	early=$(least 5 50)
	late=$(least 151 200)
	echo "$1 ranks, $2 bytes: $early instructions a call, $late in later ones"
	[ "$early" -gt 100 ] && [ "$early" -le "$3" ] && [ "$late" -le "$early" ] && ! calls_kernel "$late"
}

check() { # check NAME RANKS BYTES MOST
	if per_call "$2" "$3" "$4"; then
		echo "ok $1"
	else
		echo "not ok $1"
		failures=$((failures + 1))
	fi
}

check two_ranks 2 8 1400
check two_ranks_beside_the_line 2 1024 1800
check three_ranks 3 8 2000
[ $failures = 0 ]
