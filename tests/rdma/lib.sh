# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154 # build is the script's
# What the RDMA test scripts share. A script sets `build` first; its tests are functions that are given to check.
# STRETTO_TEST_ONLY: run only tests whose name has one of these words; STRETTO_TEST_TRANSPORTS: over these.
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
export STRETTO_TEST_SEED="${STRETTO_TEST_SEED:-$(date +%s)}"
# Nothing waits that long when all is well.
export STRETTO_TIMEOUT_SECONDS="${STRETTO_TIMEOUT_SECONDS:-60}"

# For tests in which packets are lost or late, but none for good. A sender that repeats what is merely late makes the
# emulated device end its connection now and then ("remote invalid request error"; Linux 6.1), which no other does: so
# senders are patient. Faults that are for good shall be found with the default.
patient() { export STRETTO_VERBS_RETRY_SECONDS=15; }
by_default() { unset STRETTO_VERBS_RETRY_SECONDS; }

wanted() { # wanted NAME: whether it shall run
	[ -n "${STRETTO_TEST_ONLY:-}" ] || return 0
	for word in $STRETTO_TEST_ONLY; do
		case $1 in *"$word"*) return 0 ;; esac
	done
	return 1
}

check() { # check NAME COMMAND...: one test
	name=$1
	shift
	wanted "$name" || return 0
	: >"$dir/out"
	start=$(date +%s)
	"$@"
	result=$?
	took=$(($(date +%s) - start))
	if [ $result = 0 ]; then
		echo "ok $name ($took s)"
	else
		echo "not ok $name (status $result after $took s, seed $STRETTO_TEST_SEED)"
		for file in "$dir"/out*; do sed "s|^|    ${file##*/}: |" "$file" | tail -n 25; done
		# a process that died without a word is one that the kernel has a word about
		[ ! -d /run/guest ] || dmesg | tail -n 5 | sed 's/^/    kernel: /'
		failures=$((failures + 1))
	fi
	rm -f "$dir"/out*
}

verbs() { # verbs COMMAND...: with verbs alone between the ranks
	STRETTO_TRANSPORTS="${STRETTO_TEST_TRANSPORTS:-self,verbs}" "$@"
}

ranks() { # ranks N COMMAND...: a job in this machine; its output in out, its status returned
	n=$1
	shift
	verbs timeout -k 5 "${limit:-120}" "$build/stretto-run" -n "$n" --bind none --grace 60 \
		"$here/placed" "$@" >>"$dir/out" 2>&1 </dev/null
}

rank() { # rank N WHAT...: all ranks say ok
	n=$1
	shift
	ranks "$n" "$build/tests/multi/rank" "$@" && [ "$(grep -c '^rank [0-9]*: ok' "$dir/out")" = "$n" ]
}

# What `rank steady` printed.
until_started() { # until_started N: ranks work; false when that takes too long
	for _ in $(seq 300); do
		[ "$(grep -c '^rank [0-9]*: started' "$dir/out")" -lt "$1" ] || return 0
		sleep 0.1
	done
	return 1
}
all_ok() { # all_ok N
	[ "$(grep -c '^rank [0-9]*: ok' "$dir/out")" = "$1" ]
}
# Seconds in which a fault must have reached every rank.
bound=20
all_failed() { # all_failed N: with the right status, in time, with a reason
	[ "$(awk -v bound=$bound '/^rank [0-9]*: STRETTO_PEER_FAILED after/ && $5 < bound && NF > 10' "$dir/out" | wc -l)" = "$1" ] &&
		! grep -q ': ok' "$dir/out"
}
