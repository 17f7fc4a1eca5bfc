#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # functions are called through check
# What goes wrong on the wires between three nodes in one machine: each rank ends with right data or the right
# error, soon. tests/rdma/run starts it.
set -u
build=$1
# shellcheck source=tests/rdma/lib.sh
. "$(dirname "$0")/lib.sh"

job() { # job SECONDS BYTES [COMMAND...]: three ranks; the command is run once all work
	ranks 3 "$build/tests/multi/rank" steady "$1" "$2" &
	pid=$!
	shift 2
	until_started 3 && { [ $# = 0 ] || "$@"; }
	wait $pid
	"$here/wires" reset
}

patient
with_loss() { # with_loss PERCENT
	for node in 0 1 2; do "$here/wires" netem $node 0 loss "$1"; done
	job 4 65536
	all_ok 3
}
check right_data_with_1_percent_loss with_loss 1%
check right_data_with_5_percent_loss with_loss 5%

reordered() {
	for node in 0 1 2; do "$here/wires" netem $node 0 delay 2ms reorder 25% 50%; done
	job 3 20000
	all_ok 3
}
check right_data_when_packets_are_reordered reordered

by_default
kill_rank_2() { kill -9 "$(sed -n 's/^rank 2: started //p' "$dir/out")"; }
killed() { # killed BYTES
	job 60 "$1" kill_rank_2
	all_failed 2
}
check killed_rank_ends_the_others killed 65536
check killed_rank_ends_large_transfers killed 4000000

for_a_moment() { # for_a_moment DO UNDO
	"$here/wires" "$1" 1 0 && sleep 0.3 && "$here/wires" "$2" 1 0
}
moment() { # moment DO UNDO: either nobody minds or all give up
	job 6 65536 for_a_moment "$1" "$2"
	all_ok 3 || all_failed 3
}
check silence_for_a_moment moment drop pass
check cable_out_for_a_moment moment cut heal
check link_down_for_a_moment moment down up

for_good() { # for_good DO
	job 60 65536 "$here/wires" "$1" 1 0
	all_failed 3
}
check silence_for_good for_good drop
check cable_out_for_good for_good cut
check link_down_for_good for_good down
check address_removed for_good away

# Lost connections that are made anew. The device gives up soon, so that two seconds are a loss. What a link that goes
# down shows is run always; its variants take long, and are run by name.
by_name() { [ -z "${STRETTO_TEST_ONLY:-}" ] || check "$@"; }
anew() { # anew DO UNDO [CONNECT]: out for two seconds; what was in flight is called again, by all
	export STRETTO_VERBS_CONNECT="${3:-cm}"
	job 8 65536 for_two_seconds "$1" "$2"
	unset STRETTO_VERBS_CONNECT
	all_ok 3 && [ "$(sed -n 's/^\(rank [0-9]*\): again.*/\1/p' "$dir/out" | sort -u | wc -l)" = 3 ] &&
		[ "$(sed -n 's/^rank [0-9]*: again, //p' "$dir/out" | sort | uniq -c | awk '$1 != 3' | wc -l)" = 0 ]
}
for_two_seconds() { # for_two_seconds DO UNDO
	"$here/wires" "$1" 1 0 && sleep 2 && "$here/wires" "$2" 1 0
}
export STRETTO_VERBS_RETRY_SECONDS=0.5 STRETTO_VERBS_RECONNECT_SECONDS=15
by_name made_anew_after_cable_out anew cut heal
check made_anew_after_link_down anew down up
by_name made_anew_out_of_band anew cut heal oob
export STRETTO_VERBS_RECONNECT_SECONDS=4
not_in_time() {
	for_good down && grep -q 'STRETTO_VERBS_RECONNECT_SECONDS=4' "$dir/out"
}
check made_anew_not_in_time not_in_time
unset STRETTO_VERBS_RETRY_SECONDS STRETTO_VERBS_RECONNECT_SECONDS

[ $failures = 0 ]
