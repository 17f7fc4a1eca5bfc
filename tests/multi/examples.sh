#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples of the documentation: they stand there as they are in docs/examples, and do what it says.
#   tests/multi/examples.sh BUILD
set -u
build=${1:?usage: tests/multi/examples.sh BUILD}
build=$(cd "$build" && pwd)
cd "$(dirname "$0")/../.." || exit 1
failures=0
unset STRETTO_RANK STRETTO_SIZE STRETTO_ROOT STRETTO_TOKEN STRETTO_LISTEN_FD

ok() { # ok NAME COMMAND...: one test
	name=$1
	shift
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
		failures=$((failures + 1))
	fi
}

example() { # example RANKS NAME
	timeout -k 5 60 "$build/stretto-run" -n "$1" "$build/docs/examples/$2"
}

block() { # block LANGUAGE FILE: the blocks of code of a document
	sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$2" | grep -v "^\`\`\`"
}

is_quoted() { # is_quoted FILE NAME
	[ "$(block c "$1")" = "$(cat "docs/examples/$2.c")" ]
}

background_sums() {
	[ "$(example 3 background_allreduce | sort)" = "rank 0 of 3: 6
rank 1 of 3: 6
rank 2 of 3: 6" ]
}

# Whatever the number of ranks, and as the document says.
exact_sums() {
	for n in 1 2 3 4; do
		example $n sum_exact || return 1
	done >"$build/sum_exact.out"
	[ "$(cut -d: -f2 "$build/sum_exact.out" | sort -u | wc -l)" = 1 ] || return 1
	[ "$(block text docs/reproducibility.md | grep ranks:)" = "$(cat "$build/sum_exact.out")" ]
}

# With every strategy that makes them equal in the end, all ranks have learned, and the same.
regressions() {
	for strategy in sync local dasgd dasgd-delta post-local overlap-local dga co2 acco streaming; do
		out=$(timeout -k 5 60 "$build/stretto-run" -n 3 "$build/docs/examples/logistic_regression" $strategy) || return 1
		[ "$(echo "$out" | grep -c "of 3: $strategy, accuracy 0\.9[5-9].*, bias")" = 3 ] || return 1
		[ "$(echo "$out" | sed 's/.*: //' | sort -u | wc -l)" = 1 ] || return 1
	done
}

alone() {
	"$build/docs/examples/logistic_regression" | grep -q 'rank 0 of 1: dasgd, accuracy 0\.9'
}

ok the_readme_quotes_its_example is_quoted README.md background_allreduce
ok reproducibility_quotes_its_example is_quoted docs/reproducibility.md sum_exact
ok a_background_sum_is_complete background_sums
ok an_exact_sum_has_the_documented_bits exact_sums
ok a_regression_is_learned_alike_with_every_strategy regressions
ok a_regression_is_learned_on_one_rank alone
[ $failures = 0 ]
