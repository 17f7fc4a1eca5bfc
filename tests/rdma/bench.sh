#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317,SC2086 # functions are called by name; numbers are not quoted
# Measures verbs side by side with perftest and with Open MPI over UCX, on the nodes that `wires` made. tools/bench_rdma.sh
# starts it and makes a table of what it prints.
#   bench.sh BUILD ROUNDS [PART...]      parts: messages streams allreduce idle (all)
# Prints lines of
#   bandwidth|latency WHO BYTES VALUE            MB/s (10^6), us; of messages from one node to another
#   streams perftest RANKS VALUE                 MB/s of each of so many streams around a ring
#   allreduce-RANKS WHO BYTES MEDIAN PACKETS     us, packets sent by all devices in one operation
#   idle stretto RANK VALUE                      percent of a core that a rank used while it waited
# one for each round; in a round everything is measured by each library in turn.
set -u
build=${1:?usage: bench.sh BUILD ROUNDS [PART...]} rounds=${2:?}
shift 2
parts=${*:-messages streams allreduce idle}
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export PATH="/usr/sbin:/sbin:$PATH"
export STRETTO_TRANSPORTS=self,verbs
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0

fail() { # fail WHAT: with what it said
	echo "bench: $1 failed:" >&2
	tail -n 5 "$dir"/out* >&2
	failed=1
}

stretto() { # stretto RANKS COMMAND...
	n=$1
	shift
	timeout 90 "$build/stretto-run" -n "$n" --bind none "$here/placed" "$@" >"$dir/out" 2>&1 </dev/null
}

openmpi() { # openmpi RANKS COMMAND...: over UCX's reliable connections, by the same devices
	n=$1
	shift
	# UCX on this device works with the link-local address alone. Ranks that wait yield, which is best where
	# they are more than the processors.
	timeout 90 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ucx --mca osc ucx \
		-x UCX_TLS=rc,self -x UCX_IB_GID_INDEX=0 -n "$n" "$here/placed" "$@" >"$dir/out" 2>&1 </dev/null
}

# The index of a device's RoCE v2 address of family IPv4, which the transport takes too.
gid_index() {
	grep -l '^0000:0000:0000:0000:0000:ffff:' "/sys/class/infiniband/$1/ports/1/gids/"* | sed 's|.*/||' | head -n 1
}

perftest() { # perftest PROGRAM FROM TO OPTIONS...: its row of results, in out.TO
	program=$1 from=rxe_n${2}r0 to=rxe_n${3}r0 port=$((18515 + $3)) row=$dir/out.$3
	shift 3
	timeout 60 "$program" -d "$to" -x "$(gid_index "$to")" -p $port "$@" >"$dir/server.$port" 2>&1 &
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.2
		timeout 60 "$program" -d "$from" -x "$(gid_index "$from")" -p $port "$@" 127.0.0.1 >"$row.all" 2>&1 && break
	done
	wait $!
	awk '$1 ~ /^[0-9]+$/ { row = $0 } END { print row }' "$row.all" >"$row"
	[ -s "$row" ]
}

messages() {
	for bytes in 8 64 512 4096 32768 65536 262144 1048576; do
		count=$((12000000 / bytes))
		[ $count -lt 1000 ] || count=1000
		[ $count -gt 30 ] || count=30
		for test in bw lat; do
			perftest ib_write_$test 0 1 -s $bytes -n $count || fail "ib_write_$test -s $bytes"
			# MB/s of perftest are of 2^20 bytes
			awk -v test=$test -v bytes=$bytes '{
				if (test == "bw") print "bandwidth perftest", bytes, $4 * 1.048576
				else print "latency perftest", bytes, $5
			}' "$dir/out.1"
		done
		stretto 2 "$build/stretto-perf" p2p --format perftest -b $bytes -e $bytes -n $count ||
			fail "stretto-perf -b $bytes"
		awk -v bytes=$bytes '$1 == bytes {
			if (!seen++) print "bandwidth stretto", bytes, $4 * 1.048576
			else print "latency stretto", bytes, $5
		}' "$dir/out"
	done
}

streams() { # what the ring of an allreduce could have: all at once, each from one node to the next
	for ranks in 2 4; do
		for i in $(seq 0 $((ranks - 1))); do
			perftest ib_write_bw "$i" $(((i + 1) % ranks)) -s 1048576 -D 3 &
		done
		wait
		for i in $(seq 0 $((ranks - 1))); do
			awk -v ranks=$ranks '{ print "streams perftest", ranks, $4 * 1.048576 }' "$dir/out.$i"
		done
	done
}

sizes=8,64,512,4096,32768,262144,1048576,4194304
allreduce() {
	for ranks in 2 4; do
		counters=
		for i in $(seq 0 $((ranks - 1))); do
			counters="$counters /sys/class/infiniband/rxe_n${i}r0/ports/1/hw_counters/sent_pkts"
		done
		for who in openmpi stretto; do
			$who $ranks "$build/tests/peers/bench_$who" $sizes 100 $counters || fail "bench_$who on $ranks ranks"
			awk -v what="allreduce-$ranks $who" 'NF == 5 && $1 ~ /^[0-9]+$/ { print what, $1, $2, $5 }' "$dir/out"
		done
	done
}

idle() {
	stretto 2 "$build/tests/multi/rank" idle 3 || fail "rank idle"
	sed -n 's/^rank \([1-9]\): ok, \([0-9.]*\) percent.*/idle stretto \1 \2/p' "$dir/out"
}

# counters are to be read anew each time
for file in /sys/class/infiniband/*/ports/1/hw_counters/lifespan; do echo 0 >"$file"; done
for round in $(seq "$rounds"); do
	for part in $parts; do
		echo "bench: round $round of $rounds: $part" >&2
		$part
	done
done
exit $failed
