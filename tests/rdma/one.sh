#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # functions are called through check
# What must work over verbs, on one machine with RDMA devices. tests/rdma/run starts it.
set -u
build=$1
# shellcheck source=tests/rdma/lib.sh
. "$(dirname "$0")/lib.sh"
patient
sanitized=no
grep -qE '__(asan|tsan)_init' "$build/stretto-info" && sanitized=yes

transport_cases() {
	if [ -e /run/guest/wires ]; then export STRETTO_TEST_DEVICES="rxe_n0r0 rxe_n1r0"; fi
	timeout 120 "$build/tests/rdma/test_verbs" >"$dir/out" 2>&1
}
check transport_cases transport_cases

each_call_fails() {
	if [ -e /run/guest/wires ]; then export STRETTO_TEST_DEVICES="rxe_n0r0 rxe_n1r0"; fi
	timeout 120 "$build/tests/rdma/test_verbs_faults" >"$dir/out" 2>&1
}
check each_call_fails_in_turn each_call_fails

with() { # with NAME=VALUE... -- COMMAND...: a function with settings
	(
		while [ "$1" != -- ]; do
			export "${1?}"
			shift
		done
		shift
		"$@"
	)
}

if [ $sanitized = yes ]; then
	check matrix_3_ranks rank 3 matrix 3001
	check interleavings rank 3 interleave 3
	check fork_in_the_middle rank 2 fork 2
	[ $failures = 0 ]
	exit
fi
counts() { # counts RANKS
	STRETTO_ALGORITHM=allreduce=ring STRETTO_WINDOW=1M ranks "$1" "$build/tests/rdma/counts" 20 &&
		[ "$(grep -c '^rank [0-9]*: ok' "$dir/out")" = "$1" ]
}
check exact_counts_of_a_ring_of_4 counts 4
check exact_counts_of_a_ring_of_2 counts 2
for n in 1 2 3 4 5 8; do
	check "matrix_${n}_ranks" rank $n matrix 30011
	check "matrix_${n}_ranks_oob" with STRETTO_VERBS_CONNECT=oob -- rank $n matrix 3001
done
check matrix_with_little_eager with STRETTO_VERBS_EAGER=64 -- rank 3 matrix 3001
check matrix_in_small_windows with STRETTO_WINDOW=4K STRETTO_WINDOWS=4 -- rank 4 matrix 30011
check matrix_asleep with STRETTO_SPIN_SECONDS=0 -- rank 3 matrix 3001
check interleavings rank 4 interleave 10
check fork_in_the_middle rank 2 fork 5

# The goal is 2 percent, which bench-rdma measures; more than twice that is no slow moment but a spinning rank.
a_late_rank_costs_no_processor() {
	rank 3 idle 3 && awk '/percent/ { if ($4 >= 5) bad = 1 } END { exit bad }' "$dir/out"
}
check a_late_rank_costs_no_processor a_late_rank_costs_no_processor

packets() { cat "/sys/class/infiniband/rxe_n0r$1/ports/1/hw_counters/sent_pkts"; }
two_rails() {
	export STRETTO_TEST_RAILS=2 STRETTO_CHANNELS=2
	rank 4 matrix 3001 || return 1
	mv "$dir/out" "$dir/out.matrix"
	before0=$(packets 0) before1=$(packets 1)
	rank 4 steady 3 1200000 || return 1 # long enough to be striped
	sent0=$(($(packets 0) - before0)) sent1=$(($(packets 1) - before1))
	echo "packets sent: $sent0 on rail 0, $sent1 on rail 1" >>"$dir/out"
	[ $sent1 -gt 300 ] && [ $sent0 -lt $((2 * sent1)) ] && [ $sent1 -lt $((2 * sent0)) ]
}
# All cut by what one rank says: else they would not even agree on the number of messages.
a_slow_rail() {
	export STRETTO_TEST_RAILS=2 STRETTO_CHANNELS=2 STRETTO_TEST_SLOW=2
	before0=$(packets 0) before1=$(packets 1)
	rank 4 steady 3 4000000 || return 1
	sent0=$(($(packets 0) - before0)) sent1=$(($(packets 1) - before1))
	echo "packets sent: $sent0 on rail 0, $sent1 on rail 1" >>"$dir/out"
	[ $sent1 -gt 300 ] && [ $((10 * sent0)) -gt $((25 * sent1)) ] && [ $((10 * sent0)) -lt $((35 * sent1)) ]
}
if [ -e /run/guest/wires ]; then
	check two_rails with -- two_rails
	check a_slow_rail_gets_less with -- a_slow_rail
fi

# Node 0 is in the nets 20 and 30, node 1 in 40 and 30: only one pair of their addresses is in one subnet.
meet_in_net_30() { # meet_in_net_30 cm|oob
	: >"$dir/out"
	STRETTO_LOG=debug STRETTO_VERBS_CONNECT=$1 rank 2 steady 1 100000 &&
		grep -q 'from 10.30.0.1 to 10.30.0.2 .*same subnet' "$dir/out" &&
		grep -q 'from 10.30.0.2 to 10.30.0.1 .*same subnet' "$dir/out"
}
among_nets() {
	"$here/wires" also 0 0 30 && "$here/wires" away 1 0 && "$here/wires" also 1 0 40 && "$here/wires" also 1 0 30
	sleep 1 # until the devices have the GIDs
	meet_in_net_30 cm && meet_in_net_30 oob
	status=$?
	"$here/wires" not 0 0 30 && "$here/wires" not 1 0 40 && "$here/wires" not 1 0 30 && "$here/wires" back 1 0
	return $status
}
[ ! -e /run/guest/wires ] || check the_common_subnet_is_taken among_nets

# An ordinary user, who may lock so many KiB.
limited() { # limited KIB COMMAND...
	# shellcheck disable=SC3045 # dash has ulimit -l
	(ulimit -l "$1" && shift && verbs timeout -k 5 60 setpriv --reuid 1000 --regid 1000 --clear-groups \
		"$build/stretto-run" -n 2 --bind none "$here/placed" "$@" >"$dir/out" 2>&1 </dev/null)
}
memlock_too_small() {
	! limited 64 "$build/tests/multi/rank" steady 1 1000000 && grep -q 'RLIMIT_MEMLOCK' "$dir/out" &&
		grep -q 65536 "$dir/out" && grep -q limits.conf "$dir/out" && grep -q LimitMEMLOCK "$dir/out"
}
memlock_enough() { limited 65536 "$build/tests/multi/rank" steady 1 1000000; }
if [ "$(id -u)" = 0 ]; then
	check memlock_too_small_is_explained memlock_too_small
	check memlock_for_an_ordinary_user memlock_enough
fi

# The same bits whatever carries them, as long as they are added in the same order.
losses() { # losses TRANSPORTS
	STRETTO_TEST_TRANSPORTS=$1 STRETTO_ALGORITHM=allreduce=ring ranks 2 "$build/stretto-train" --strategy dasgd \
		--model mlp:784-64-10 --batch 32 --steps 40 --threads 1 --quiet --log "$dir/out.$1" --log-every 1 &&
		grep -o '"loss":[^,}]*' "$dir/out.$1" >"$dir/losses.$1"
}
training() {
	losses self,verbs && losses self,shm && [ "$(wc -l <"$dir/losses.self,verbs")" = 40 ] &&
		cmp "$dir/losses.self,verbs" "$dir/losses.self,shm" >>"$dir/out"
}
[ ! -x "$build/stretto-train" ] || check dasgd_learns_the_same_as_over_shm training

[ $failures = 0 ]
