#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # functions are called through check
# Two machines with a rank each. Runs on both at the same time: two.sh BUILD FOLDER, the folder being one that both
# write to. Machine 0 judges. Network 0 is for the rendezvous and stays whole; network 1 is the RDMA device's.
set -u
build=$1 shared=$2/two
# shellcheck source=tests/rdma/lib.sh
. "$(dirname "$0")/lib.sh"
node=${NODE:?this runs in the emulated machines}
mkdir -p "$shared"
meetings=0

meet() { # until the other has come here too
	meetings=$((meetings + 1))
	: >"$shared/meeting.$meetings.$node"
	for _ in $(seq 600); do
		[ ! -e "$shared/meeting.$meetings.$((1 - node))" ] || return 0
		sleep 0.1
	done
	echo "the other machine does not come" >>"$dir/out"
	return 1
}

export STRETTO_SIZE=2 STRETTO_TOKEN=00112233445566778899aabbccddeeff STRETTO_VERBS_DEVICES=rxe0
# This machine's rank; started by the function job, after which out has the output of both.
job() { # job "WHAT..." [COMMAND...]: the command is run, on both, once the ranks work
	meet || return 1
	# shellcheck disable=SC2086 # words on purpose
	STRETTO_RANK=$node STRETTO_ROOT=10.8.0.1:$((28000 + meetings)) verbs timeout -k 5 100 \
		"$build/tests/multi/rank" $1 >"$dir/out" 2>&1 </dev/null &
	pid=$!
	shift
	[ $# = 0 ] || { until_started 1 && "$@"; }
	wait $pid
	reset
	cp "$dir/out" "$shared/out.$node"
	meet
	[ "$node" = 1 ] || cat "$shared/out.1" >>"$dir/out"
	meet
}
judge() { # judge COMMAND...: on machine 0
	[ "$node" = 1 ] || "$@"
}
reset() {
	ip link set net1 up
	ip addr replace "10.9.0.$((node + 1))/24" dev net1
	tc qdisc del dev net1 root 2>/dev/null || :
	# a device that sent while its link was down may never send again, for the connection manager too
	timeout 30 rdma link del rxe0
	rdma link add rxe0 type rxe netdev net1
	chmod 666 /dev/infiniband/*
}

patient
collectives() {
	job "matrix 12007"
	judge all_ok 2
}
check two_machines_collectives collectives

with_loss() { # with_loss PERCENT
	tc qdisc add dev net1 root netem limit 10000 loss "$1"
	job "steady 4 65536"
	judge all_ok 2
}
check two_machines_1_percent_loss with_loss 1%
check two_machines_5_percent_loss with_loss 5%

by_default
on_1() { [ "$node" = 0 ] || "$@"; }

kill_ours() { kill -9 "$(sed -n 's/^rank 1: started //p' "$dir/out")"; }
killed() {
	job "steady 60 65536" on_1 kill_ours
	judge all_failed 1
}
check two_machines_killed_rank killed

for_a_moment() {
	ip link set net1 down
	sleep 0.3
	ip link set net1 up
}
down_for_a_moment() {
	job "steady 6 65536" on_1 for_a_moment
	judge all_ok 2 || judge all_failed 2
}
check two_machines_link_down_for_a_moment down_for_a_moment

for_good() { # for_good COMMAND...
	job "steady 60 65536" on_1 "$@"
	judge all_failed 2
}
silence() { tc qdisc add dev net1 root netem limit 10000 loss 100%; }
both_silent() {
	job "steady 60 65536" silence
	judge all_failed 2
}
check two_machines_link_down for_good ip link set net1 down
check two_machines_silent_partition both_silent
check two_machines_address_removed for_good ip addr del 10.9.0.2/24 dev net1

[ $failures = 0 ]
