#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The launcher as its users see it: status, output, signals, binding, and that nothing is left.
#   tests/multi/run.sh BUILD
set -u
build=${1:?usage: tests/multi/run.sh BUILD}
run=$(cd "$build" && pwd)/stretto-run
[ -x "$run" ] || { echo "not ok run: $run is not built" && exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0
unset STRETTO_RANK STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN STRETTO_LISTEN_FD

# The ranks expand these when they run, not this script.
# shellcheck disable=SC2016
ranks='echo "$STRETTO_RANK/$STRETTO_SIZE"'

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

launch() { # launch ARGUMENT...: runs the launcher; its status in $status, output in out and err
	timeout -k 5 30 "$run" "$@" >out 2>err </dev/null
	status=$?
}

is() { [ "$(cat "$1")" = "$2" ] || ! echo "    $1 should be: $2"; }
says() { grep -q -- "$1" err; }
lines() { [ "$(wc -l <"$1")" = "$2" ]; }
gone() { # gone MARK: no process has MARK in its command line, give or take a moment
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		grep -lsaF -- "$1" /proc/[0-9]*/cmdline >alive || return 0
		sleep 0.1
	done
	return 1
}
waits_for() { # waits_for FILE LINES: until FILE has so many lines
	for _ in $(seq 100); do
		[ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return 0
		sleep 0.05
	done
	return 1
}
# A sleep that can be found again: its argument is a number that nobody else uses.
mark=9$$
long="sleep $mark"

ranks_and_sizes() {
	launch -n 3 sh -c "$ranks"
	[ $status = 0 ] && sort out >sorted && is sorted "0/3
1/3
2/3" && [ ! -s err ]
}
ok ranks_and_sizes ranks_and_sizes

environment() {
	# shellcheck disable=SC2016
	launch -n 2 -x COLOR=blue --set=EMPTY= -x STRETTO_RANK=7 sh -c '
		test "$COLOR" = blue && test "${EMPTY-unset}" = "" &&
		test "$STRETTO_RANK" = "$STRETTO_LOCAL_RANK" && test "$STRETTO_LOCAL_SIZE" = 2 &&
		test ${#STRETTO_TOKEN} = 32 && case $STRETTO_ROOT in 127.0.0.1:*) ;; *) exit 3 ;; esac &&
		if [ "$STRETTO_RANK" = 0 ]; then
			test -S "/proc/self/fd/$STRETTO_LISTEN_FD"
		else
			test -z "${STRETTO_LISTEN_FD-}" && ! ls -l /proc/self/fd | grep socket
		fi'
	[ $status = 0 ]
}
ok environment environment

token_differs_from_job_to_job() {
	# shellcheck disable=SC2016
	launch -n 1 sh -c 'echo $STRETTO_TOKEN' && cp out first
	# shellcheck disable=SC2016
	launch -n 1 sh -c 'echo $STRETTO_TOKEN'
	! cmp -s first out
}
ok token_differs_from_job_to_job token_differs_from_job_to_job

arguments_are_kept() {
	launch -n 1 printf '%s|' -n 7 --help 'a  b' ''
	[ $status = 0 ] && is out '-n|7|--help|a  b||'
}
ok arguments_are_kept arguments_are_kept

status_of_a_rank() {
	# shellcheck disable=SC2016
	launch -n 3 sh -c '[ $STRETTO_RANK = 1 ] && exit 42; exit 0'
	[ $status = 42 ] && lines err 1 &&
		says '^stretto-run: rank 1 (pid [0-9]*) exited with status 42$'
}
ok status_of_a_rank status_of_a_rank

killed_rank_is_named() {
	# shellcheck disable=SC2016
	launch -n 3 --grace 0 sh -c "[ \$STRETTO_RANK = 2 ] && kill -9 \$\$; $long"
	[ $status = 137 ] && lines err 1 && gone "$mark" &&
		says '^stretto-run: rank 2 (pid [0-9]*) was killed by signal 9 (Killed)$'
}
ok killed_rank_is_named killed_rank_is_named

# The first failure counts, not one that follows from it.
grace_lets_the_others_end() {
	# shellcheck disable=SC2016
	launch -n 2 --grace 5 sh -c '[ $STRETTO_RANK = 1 ] && exit 3; sleep 0.5; echo bye; exit 4'
	[ $status = 3 ] && is out bye
}
ok grace_lets_the_others_end grace_lets_the_others_end

stubborn_ranks_are_killed() {
	# shellcheck disable=SC2016
	launch -n 2 --grace 0.1 sh -c "[ \$STRETTO_RANK = 0 ] && exit 5
		trap 'echo term' TERM; while :; do $long & wait \$!; done"
	[ $status = 5 ] && is out term && gone "$mark"
}
ok stubborn_ranks_are_killed stubborn_ranks_are_killed

# A grandchild in the background, and one in a session of its own.
nothing_is_left_behind() {
	launch -n 2 sh -c "$long & setsid $long & exit 0"
	[ $status = 0 ] && gone "$mark"
}
ok nothing_is_left_behind nothing_is_left_behind

ranks_die_with_the_launcher() {
	"$run" -n 2 sh -c "echo up >>up; exec $long" </dev/null >out 2>err &
	pid=$!
	waits_for up 2 && kill -9 $pid
	wait $pid 2>wait_message
	rm -f up
	gone "$mark"
}
ok ranks_die_with_the_launcher ranks_die_with_the_launcher

tagged_output() {
	# shellcheck disable=SC2016
	launch -n 2 --tag-output sh -c 'echo "first $STRETTO_RANK"; echo wrong >&2; printf "x\n\nlast"'
	[ $status = 0 ] && grep '^\[1\]' out >one && is one '[1] first 1
[1] x
[1] 
[1] last' && sort err >sorted && is sorted '[0] wrong
[1] wrong' && lines out 8
}
ok tagged_output tagged_output

tagged_lines_stay_whole() {
	# shellcheck disable=SC2016
	launch -n 4 --tag-output sh -c 'for i in $(seq 200); do
		printf "%s" "$STRETTO_RANK-"; echo "$i-abcdefghijklmnopqrstuvwxyz"; done'
	[ $status = 0 ] && lines out 800 &&
		! grep -qvE '^\[([0-3])\] \1-[0-9]+-abcdefghijklmnopqrstuvwxyz$' out
}
ok tagged_lines_stay_whole tagged_lines_stay_whole

tagged_output_is_complete() {
	# much more than the pipes hold, to a slow reader
	timeout 30 "$run" -n 2 --tag-output seq 50000 </dev/null 2>err | (sleep 0.3 && sort) >out
	lines out 100000 && { seq 50000 | sed 's/^/[0] /' && seq 50000 | sed 's/^/[1] /'; } |
		sort >wanted && cmp -s out wanted
}
ok tagged_output_is_complete tagged_output_is_complete

tagged_long_line_is_split() {
	launch -n 1 --tag-output sh -c "head -c 5000 /dev/zero | tr '\\0' x"
	[ $status = 0 ] && lines out 2 && [ "$(tr -dc x <out | wc -c)" = 5000 ]
}
ok tagged_long_line_is_split tagged_long_line_is_split

reader_that_leaves_ends_the_ranks() {
	timeout 30 "$run" -n 2 --tag-output --grace 0.1 yes </dev/null 2>err | head -n 1 >out
	is out '[0] y' || is out '[1] y'
}
ok reader_that_leaves_ends_the_ranks reader_that_leaves_ends_the_ranks

stdin_is_rank_0s() {
	echo hello | timeout 30 "$run" -n 3 --tag-output cat >out 2>err
	is out '[0] hello' || return 1
	echo hello | timeout 30 "$run" -n 3 --tag-output readlink /proc/self/fd/0 >out 2>err
	grep -q '^\[0\] pipe:' out && [ "$(grep -c '/dev/null$' out)" = 2 ]
}
ok stdin_is_rank_0s stdin_is_rank_0s

signals_are_forwarded() {
	for signal in INT TERM HUP USR1 USR2; do
		rm -f up
		# a background job of this shell ignores INT, which the ranks would inherit
		env --default-signal "$run" -n 2 sh -c "trap 'echo got $signal; exit 0' $signal
			echo up >>up; while :; do sleep 0.05; done" </dev/null >out 2>err &
		pid=$!
		waits_for up 2 && kill -s $signal $pid
		wait $pid || return 1
		is out "got $signal
got $signal" || return 1
	done
}
ok signals_are_forwarded signals_are_forwarded

# What a rank has started gets the signal too, here from a shell that itself does not mind it.
signals_reach_the_group() {
	rm -f up
	"$run" -n 2 --timeout 5 sh -c "trap : USR1
		sh -c 'trap \"echo inner; exit 0\" USR1; echo up >>up; while :; do sleep 0.05; done'" \
		</dev/null >out 2>err &
	pid=$!
	waits_for up 2 && kill -s USR1 $pid
	wait $pid && is out "inner
inner"
}
ok signals_reach_the_group signals_reach_the_group

timeout_ends_the_job() {
	launch -n 2 --timeout 0.3 sh -c "$long"
	[ $status = 124 ] && lines err 1 && says 'the job is over its limit of 0.3 s' && gone "$mark"
}
ok timeout_ends_the_job timeout_ends_the_job

cores=$(nproc)
masks() { launch -n "$1" --bind "$2" sh -c 'grep Cpus_allowed_list /proc/self/status'; }

each_rank_has_its_core() {
	masks 2 auto
	[ $status = 0 ] && [ "$(sort -u out | wc -l)" = 2 ]
}
no_binding_where_ranks_exceed_cores() {
	grep Cpus_allowed_list /proc/self/status >mine
	masks $((cores + 1)) auto
	[ $status = 0 ] && sort -u out | cmp -s - mine
}
binding_can_be_off() {
	grep Cpus_allowed_list /proc/self/status >mine
	masks 1 none
	[ $status = 0 ] && cmp -s out mine
}
too_few_cores_to_bind() {
	masks $((cores + 1)) core
	[ $status = 2 ] && lines err 1 && says 'needs a core for each rank'
}
if [ "$cores" -ge 2 ]; then
	ok each_rank_has_its_core each_rank_has_its_core
else
	echo "skip each_rank_has_its_core: this machine has one core"
fi
ok no_binding_where_ranks_exceed_cores no_binding_where_ranks_exceed_cores
ok binding_can_be_off binding_can_be_off
ok too_few_cores_to_bind too_few_cores_to_bind

wrong_options() {
	while read -r options; do
		# shellcheck disable=SC2086
		launch $options
		[ $status = 2 ] && lines err 1 && says '^stretto-run: .*; see stretto-run --help$' && continue
		echo "    options: $options"
		return 1
	done <<-END
		-n 0 true
		-n 4097 true
		-n two true
		-n 2x true
		-n
		-n 2
		true
		--ranks
		--nonsense -n 2 true
		-q -n 2 true
		--tag-output=yes -n 2 true
		-n 2 --bind socket true
		-n 2 --grace -1 true
		-n 2 --timeout 0 true
		-n 2 -x NAME true
		-n 2 -x =value true
	END
}
ok wrong_options wrong_options

help_and_version() {
	launch --help && [ $status = 0 ] && grep -q '^usage: stretto-run' out || return 1
	launch --version && [ $status = 0 ] && grep -q '^stretto-run [0-9]*\.[0-9]*\.[0-9]*$' out
}
ok help_and_version help_and_version

missing_program() {
	launch -n 3 ./no-such-program
	[ $status = 127 ] && lines err 1 && says "cannot run './no-such-program'" || return 1
	: >not-executable
	launch -n 3 ./not-executable
	[ $status = 126 ] && lines err 1
}
ok missing_program missing_program

# The launcher's own sockets and pipes must not become the ranks' streams.
closed_streams() {
	timeout 30 "$run" -n 2 --tag-output sh -c 'test ! -S /proc/self/fd/0 && test ! -p /proc/self/fd/0' \
		<&- >out 2>err || return 1
	# shellcheck disable=SC2016
	timeout 30 "$run" -n 2 sh -c 'for i in 0 1 2; do
		test ! -S /proc/self/fd/$i && test ! -p /proc/self/fd/$i || exit 1; done' <&- >&- 2>&-
}
ok closed_streams closed_streams

many_ranks() {
	launch -n 100 --tag-output sh -c "$ranks"
	[ $status = 0 ] && lines out 100
}
ok many_ranks many_ranks

[ $failures = 0 ]
