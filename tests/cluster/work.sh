# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154 # the variables are those of run
# What jobs do once their ranks have met, between virtual nodes: collectives, training, and what ends them early. `run`
# sources this. Ranks of a node reach each other by shm, others by UCX over TCP.

worker=$build/tests/multi/rank
# Seconds in which a fault must have reached every rank; STRETTO_TIMEOUT_SECONDS is less where it is what finds it.
bound=20

step_on() { # step_on LAUNCHER NODES RANKS-PER-NODE COMMAND...: its output in $out
	launcher=$1 nodes=$2 per_node=$3
	shift 3
	if [ "$launcher" = mpirun ]; then
		on 1 90 salloc -Q -N "$nodes" --ntasks-per-node="$per_node" mpirun --allow-run-as-root --oversubscribe \
			-n $((nodes * per_node)) "$@"
	else
		on 1 90 srun --mpi="$launcher" -N "$nodes" --ntasks-per-node="$per_node" --kill-on-bad-exit --wait=10 "$@"
	fi
}

all_right() { # all_right RANKS: all end well, and with right data
	# wherever in a line: launchers join the output of ranks with their logs
	good && [ "$(grep -o 'rank [0-9]*: ok' "$out" | sort -u | wc -l)" = "$1" ] || ! echo "    not all of $1 ranks are well"
}

collectives() { # collectives LAUNCHER NODES RANKS-PER-NODE
	step_on "$1" "$2" "$3" "$worker" matrix 1501
	all_right $(($2 * $3))
}

# Two ranks on each node: each reaches the other by shm, and one at least of other nodes by UCX.
both_transports() {
	step_on pmi2 3 2 env STRETTO_LOG=debug "$worker" steady 1 300000
	all_right 6 && lines 6 ' by shm' && [ "$(sed -n 's/\(rank [0-9]*\): .* by ucx/\1/p' "$out" | sort -u | wc -l)" = 6 ]
}

# The same bits on nodes as on one machine, whoever carries them, as long as they are added in the same order.
losses() { # losses FILE: of a rank, a line each
	sed -n 's/.*\("loss":[^,}]*\).*/\1/p' "$1"
}
train() { # train STRATEGY FILE LAUNCH...
	rm -f "$2"
	# shellcheck disable=SC2086 # words on purpose
	env STRETTO_ALGORITHM=allreduce=ring $3 "$build/stretto-train" --strategy "$1" --model mlp:784-16-10 --batch 16 \
		--steps 12 --threads 1 --quiet --log "$2" --log-every 1 >>"$out" 2>&1
}
trains() { # trains STRATEGY RANKS NODES
	metrics=$STRETTO_TEST_CLUSTER/metrics
	: >"$out"
	train "$1" "$metrics.here" "timeout 60 $build/stretto-run -n $2" &&
		train "$1" "$metrics.nodes" "timeout 60 $here/nodes exec 1 srun --mpi=pmi2 -N $3 -n $2" || return 1
	losses "$metrics.here" >"$metrics.1" && losses "$metrics.nodes" >"$metrics.2"
	[ "$(wc -l <"$metrics.1")" = 12 ] && cmp "$metrics.1" "$metrics.2" >>"$out" 2>&1
}

# A job of four ranks, one on each node, whose output is in files that a node's cable does not take away.
# shellcheck disable=SC2016 # the tasks expand it
start_working() { # start_working SECONDS BYTES [SETTING...]
	words="$1 $2" files=$STRETTO_TEST_CLUSTER/work
	shift 2
	rm -f "$files".*
	# shellcheck disable=SC2086 # two words
	"$here/nodes" exec 1 timeout -k 5 90 srun --job-name=work --mpi=pmi2 -N 4 -n 4 env "$@" \
		sh -c 'files=$1; shift; exec "$@" >"$files.$SLURM_PROCID" 2>&1' sh "$files" "$worker" steady $words \
		>"$out" 2>&1 </dev/null &
	step=$!
	polls=0
	until [ "$(cat "$files".* 2>/dev/null | grep -c ': started')" = 4 ] || [ $polls = 200 ]; do
		polls=$((polls + 1))
		sleep 0.1
	done
}
ended() { # ended COUNT: so many ranks have said how they ended
	[ "$(cat "$files".* | grep -cE '^rank [0-9]*: (ok|STRETTO_)')" = "$1" ]
}
stop_working() { # after at most `bound` seconds for COUNT ranks to end
	polls=0
	until ended "$1" || [ $polls = $((bound * 10)) ]; do
		polls=$((polls + 1))
		sleep 0.1
	done
	"$here/nodes" exec 1 scancel --name=work >/dev/null 2>&1
	wait "$step"
	cat "$files".* >>"$out"
}
failed() { # failed COUNT: that many ranks, with the right status and a reason, and no other rank is well
	[ "$(grep -E '^rank [0-9]*: STRETTO_(PEER_FAILED|TIMEOUT) after' "$out" |
		awk -v bound=$bound '$5 < bound && NF > 10' | wc -l)" = "$1" ] && ! grep -q '^rank [0-9]*: ok' "$out"
}

killed() { # killed BYTES
	start_working 60 "$1"
	"$here/nodes" exec 3 kill -9 "$(sed -n 's/^rank 2: started //p' "$files.2")"
	stop_working 3
	failed 3
}
crashed() {
	start_working 60 40000 STRETTO_TIMEOUT_SECONDS=10
	"$here/nodes" crash 4
	stop_working 3
	"$here/nodes" boot 4
	failed 3
}
# Whoever is cut off and whoever is left must know.
cable_out() {
	start_working 60 40000 STRETTO_TIMEOUT_SECONDS=10
	"$here/nodes" link 4 down
	stop_working_when_cut
	failed 4
}
stop_working_when_cut() {
	polls=0
	until ended 4 || [ $polls = $((bound * 10)) ]; do
		polls=$((polls + 1))
		sleep 0.1
	done
	"$here/nodes" link 4 up
	stop_working 4
}
cable_out_for_a_moment() {
	start_working 6 40000
	"$here/nodes" link 4 down
	sleep 3
	"$here/nodes" link 4 up
	stop_working 4
	[ "$(grep -c '^rank [0-9]*: ok' "$out")" = 4 ]
}
# SIGTERM is not caught: the ranks end at once, and `nothing is left` looks at what remains.
cancelled() {
	start_working 60 40000
	"$here/nodes" exec 1 scancel --name=work
	wait "$step" && ! echo "    the step's status is 0"
	[ "$(cat "$files".* | grep -c ': ok')" = 0 ] && nothing_left
}

# A batch job with the shortest limit that Slurm has, a minute; it looks for jobs over their limits every 30 s. The job
# waits idly on two nodes while other tests run.
start_limited() {
	printf '#!/bin/sh\nsrun --mpi=pmi2 %s idle 200\n' "$worker" >"$STRETTO_TEST_CLUSTER/limited"
	"$here/nodes" exec 1 sbatch --quiet --job-name=limited --time=1 -w 'node[2-3]' -n 2 -N 2 \
		--output="$STRETTO_TEST_CLUSTER/limited.out" "$STRETTO_TEST_CLUSTER/limited" >"$out" 2>&1
}
ends_at_its_limit() {
	polls=0
	while "$here/nodes" exec 1 squeue -h -n limited -o %i | grep -q . && [ $polls -lt 120 ]; do
		polls=$((polls + 1))
		sleep 1
	done
	cp "$STRETTO_TEST_CLUSTER/limited.out" "$out"
	says 'DUE TO TIME LIMIT' && ! grep -q ': ok' "$out"
}
