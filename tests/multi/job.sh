#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stretto-info --job: where the ranks of a job are, as text and as JSON, printed by rank 0 alone.
# shellcheck disable=SC2317,SC2016 # ok calls the functions; the ranks expand what is quoted
set -u
build=$(cd "${1:?usage: job.sh BUILD}" && pwd) || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0
# nothing is sent, so any transport will do
export STRETTO_TRANSPORTS=self,shm
unset STRETTO_RANK STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN STRETTO_LISTEN_FD

ok() { # ok NAME COMMAND...: one test
	name=$1
	shift
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
		for file in out err; do sed "s/^/    $file: /" "$file" | head -n 20; done
		failures=$((failures + 1))
	fi
}

job() { # job RANKS NODE ARGUMENT...: NODE is an expression that gives a rank its node
	ranks=$1 node=$2
	shift 2
	timeout -k 5 60 "$build/stretto-run" -n "$ranks" -- sh -c "
		export STRETTO_NODE=\$(($node)); exec \"\$@\"" sh "$build/stretto-info" --job "$@" \
		>out 2>err </dev/null
}

row() { # row RANK NODE LOCAL PLACE
	tr -s ' ' <out | grep -q "^$1 $(hostname) $2 $3 $4 [0-9?][^ ]* [0-9][^ ]* "
}

alone() {
	timeout 60 "$build/stretto-info" --job >out 2>err && grep -q '^ranks: 1; nodes: 1, of 1 to 1 ranks; met by single;' out &&
		row 0 0 0 0
}
ok alone alone

one_node() {
	job 3 0 && grep -q '^ranks: 3; nodes: 1, of 3 to 3 ranks; met by tcp; ranks of a node share memory$' out &&
		row 0 0 0 0 && row 1 0 1 1 && row 2 0 2 2 && grep -qx 'ring: 0 1 2' out &&
		[ "$(wc -l <out)" = 6 ]
}
ok one_node one_node

in_turn() {
	job 5 'STRETTO_RANK % 2' && grep -q '^ranks: 5; nodes: 2, of 2 to 3 ranks; ' out &&
		row 0 0 0 0 && row 1 1 0 3 && row 2 0 1 1 && row 3 1 1 4 && row 4 0 2 2 &&
		grep -qx 'ring: 0 2 4 | 1 3' out
}
ok ranks_that_go_to_nodes_in_turn in_turn

without_shm() {
	STRETTO_TRANSPORTS=self job 2 0 && grep -q '; nodes: 1, .* no memory is shared$' out
}
ok without_shm without_shm

as_json() {
	job 4 'STRETTO_RANK / 3' --json && python3 - out <<'END'
import json, socket, sys
job = json.load(open(sys.argv[1]))
assert (job["ranks"], job["nodes"], job["least"], job["most"]) == (4, 2, 1, 3), job
assert job["shared_memory"] is True and job["bootstrap"] == "tcp"
assert [row["node"] for row in job["table"]] == [0, 0, 0, 1]
assert [row["local_rank"] for row in job["table"]] == [0, 1, 2, 0]
assert [row["ring"] for row in job["table"]] == [0, 1, 2, 3]
assert all(row["host"] == socket.gethostname() for row in job["table"])
END
}
ok as_json as_json

# The ranks that are there say who is missing, and none of them stays.
incomplete() {
	STRETTO_BOOTSTRAP_TIMEOUT_SECONDS=1 timeout 30 "$build/stretto-run" -n 2 -- sh -c '
		[ "$STRETTO_RANK" = 0 ] || { sleep 5; exit 0; }; exec "$0" --job' "$build/stretto-info" \
		>out 2>err
	[ $? = 3 ] && [ ! -s out ] && grep -q error err
}
ok a_job_that_does_not_meet incomplete
exit $failures
