#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stretto-sched: the steps of a small ring, word for word; proofs; wrong options answered with one line and
# exit 2; output that cannot be written is a failure, of every tool.
# shellcheck disable=SC2317,SC2086 # check calls the functions; numbers are one word
set -u
build=${1:?usage: sched.sh BUILD}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out err=$scratch/err
failed=0

check() { # check NAME COMMAND...: says whether the command succeeds
	name=$1
	shift
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
		sed 's/^/    /' "$out" "$err" | tail -n 20
		failed=1
	fi
}
sched() { # sched ARGUMENTS...: leaves its status in $status
	timeout 60 "$build/stretto-sched" "$@" >"$out" 2>"$err"
	status=$?
}

says_who_chose() {
	sched allreduce --size 2 --count 4 --rank 0
	[ $status = 0 ] && grep -qE '^chosen: window 4 elements, estimated [0-9.]+ us \(model: least of ' "$out" &&
		sched allreduce --size 2 --count 4 --rank 0 --algorithm tree &&
		grep -qE '^chosen: .* us \(hint: asked for by the call\)$' "$out"
}
ring_of_two() {
	sched allreduce --algorithm ring --size 2 --count 4 --rank 0
	sed -n '/^rank 0/,$p' "$out" | tr -s ' ' >"$scratch/rank"
	[ $status = 0 ] && cat >"$scratch/expected" <<'END' && diff "$scratch/expected" "$scratch/rank"
rank 0
 round step peer what
 1 0 --> 1 IN[0,2)
 1+2 <-- 1 OUT[2,4) = received + IN[2,4) final
 2 3 --> 1 OUT[2,4) after 2
 4 <-- 1 OUT[0,2) = received
END
}
ring_of_unequal_blocks() {
	sched allgatherv --algorithm ring --counts 2,0,1 --rank 1
	sed -n '/^rank 1/,$p' "$out" | tr -s ' ' >"$scratch/rank"
	[ $status = 0 ] && grep -q '^allgatherv, algorithm ring: 3 ranks, 2,0,1 elements$' "$out" &&
		cat >"$scratch/expected" <<'END' && diff "$scratch/expected" "$scratch/rank"
rank 1
 round step peer what
 0 0 (nothing)
 1 1 --> 2 (nothing)
 2 <-- 0 OUT[0,2) = received
 2 3 --> 2 OUT[0,2) after 2
 4 <-- 0 OUT[2,3) = received
END
}
check ring_of_unequal_blocks_word_for_word ring_of_unequal_blocks
direct_of_two() {
	sched allreduce --algorithm direct --size 2 --count 128 --rank 1 --in-place
	sed -n '/^rank 1/,$p' "$out" | tr -s ' ' >"$scratch/rank"
	[ $status = 0 ] && cat >"$scratch/expected" <<'END' && diff "$scratch/expected" "$scratch/rank"
rank 1
 round step peer what
 1 0 --> all phase 1
 1 <-- 0 phase 1
 2 OUT[64,128) of all = sum of IN[64,128) of all
 2 3 --> all phase 2
 4 <-- 0 phase 2
END
	grep -q '^cost: 2 meetings; a rank reads at most 128 elements and writes 128; scratch of 0 ' "$out"
}
direct_of_malloc_copies_what_others_need() {
	sched allreduce --algorithm direct --size 2 --count 128 --malloc
	grep -q '^cost: 2 meetings; a rank reads at most 256 elements and writes 256; scratch of 128 ' "$out"
}
check sched_says_who_chose says_who_chose
check direct_of_two_word_for_word direct_of_two
check direct_of_malloc_copies_what_others_need direct_of_malloc_copies_what_others_need
check ring_of_two_word_for_word ring_of_two

proves() { # proves ARGUMENTS...
	sched "$@" --check
	[ $status = 0 ] && grep -q '^proved: ' "$out" && [ ! -s "$err" ]
}
for ranks in 1 2 7 24; do
	check "ring_of_${ranks}_is_proved" proves allreduce -a ring -n $ranks
	check "tree_of_${ranks}_is_proved" proves allreduce -a tree -n $ranks -c 1000 --in-place
	check "chain_of_${ranks}_is_proved" proves broadcast -a chain -n $ranks -R $((ranks - 1))
	check "barrier_of_${ranks}_is_proved" proves barrier -n $ranks -a dissemination
done
for ranks in 2 7 24; do
	check "flat_of_${ranks}_is_proved" proves allreduce -a flat -n $ranks -c 1000
	check "direct_of_${ranks}_is_proved" proves allreduce -a direct -n $ranks -c 10000 --in-place
	check "direct_of_${ranks}_in_malloc_is_proved" proves allreduce -a direct -n $ranks -c 10000 --malloc
	check "flat_barrier_of_${ranks}_is_proved" proves barrier -n $ranks -a flat
done
for nodes in 1 4 1,1 2,2 2,1,3 1,5 3,3,3,3; do
	check "hierarchical_on_${nodes}_is_proved" proves allreduce -a hierarchical -N $nodes -c 100
	check "hierarchical_on_${nodes}_cyclic_is_proved" \
		proves allreduce -a hierarchical -N $nodes --cyclic --in-place -c 100
done
for lengths in 5 3,0,5 0,0,0 7,1,0,2,64K,3,9; do
	for algorithm in allgatherv:ring allgatherv:bruck alltoallv:pairwise alltoallv:linear \
		reduce_scatterv:ring reduce_scatterv:direct; do
		check "${algorithm}_of_${lengths}_is_proved" \
			proves ${algorithm%:*} -a ${algorithm#*:} --counts $lengths
	done
	check "reduce_scatterv_of_${lengths}_in_place_is_proved" proves reduce_scatterv --counts $lengths --in-place
done

# Within the nodes the whole vector moves, between them each leader's share of it, 2(N-1)/N times.
shares_between_nodes() {
	sched allreduce -a hierarchical -N 2,2,2,2 -c 800 --rank 0
	grep -q '^4 nodes: a rank sends at most 600 elements to others$' "$out"
}
check hierarchical_shares_the_way_between_nodes shares_between_nodes

chooses() { # chooses ALGORITHM ARGUMENTS...
	algorithm=$1
	shift
	sched "$@"
	head -n 1 "$out" | grep -q "algorithm $algorithm:"
}
check long_vector_over_nodes_is_hierarchical chooses hierarchical allreduce -N 4,4,4,4 -c 64M
check long_vector_on_a_node_is_direct chooses direct allreduce -N 4 -c 64M
check short_vector_on_a_node_is_flat chooses flat allreduce -N 4 -c 8
check one_rank_a_node_is_not chooses ring allreduce -N 1,1,1,1 -c 64M

refused() { # refused TEXT ARGUMENTS...: exit 2, one line on stderr that says TEXT, nothing on stdout
	text=$1
	shift
	sched "$@"
	[ $status = 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" = 1 ] && grep -qF -e "$text" "$err"
}
check no_collective refused 'name one collective'
check unknown_collective refused 'no collective is called "sum"' sum
check unknown_algorithm refused 'it has: ring, doubling, tree, hierarchical' allreduce -a nope
check no_ranks refused "--size '0' must be" allreduce -n 0
check too_many_ranks refused "--size '257' must be" allreduce -n 257
check no_number refused "--count 'x' must be" allreduce -c x
check root_outside refused 'the ranks of 4 are 0 to 3' broadcast -R 4
check no_ranks_on_a_node refused "--nodes '0' must be" allreduce -N 2,0
check too_many_ranks_on_nodes refused 'more than 256 ranks' allreduce -N 200,57
check cyclic_alone refused '--cyclic needs --nodes' allreduce --cyclic
check no_count_in_list refused "--counts '' must be" allgatherv --counts 3,
check no_number_in_list refused "--counts '-1' must be" allgatherv --counts 3,-1
check too_large_in_list refused "--counts '4097M' must be" allgatherv --counts 1,4097M
check too_long_in_list refused '--counts: a number has more than 15 characters' allgatherv --counts 0000000000000001
check too_many_in_list refused '--counts: more than 256 ranks' allgatherv --counts "$(seq -s, 257)"
check list_for_other_size refused '--counts has 2 numbers for 3 ranks' alltoallv --counts 3,1 --size 3
check list_for_other_nodes refused '--counts has 2 numbers for 3 ranks' alltoallv -N 1,2 --counts 3,1
check list_of_equal_blocks refused '--counts: the blocks of allgather are all of one length' allgather --counts 3,1
check list_in_place refused '--counts: in place, ranks have' alltoallv --counts 3,1 --in-place
check unknown_option refused 'unknown or ambiguous option --frob' allreduce --frob

unwritten() { # unwritten TOOL ARGUMENTS...: a full disk gives a line and a status that is not 0
	tool=$1
	shift
	: >"$out"
	timeout 60 "$build/$tool" "$@" >/dev/full 2>"$err"
	status=$?
	[ $status = 1 ] && grep -q "^$tool: cannot write the output: No space left on device$" "$err"
}
check full_disk_sched unwritten stretto-sched allreduce
check full_disk_info unwritten stretto-info
check full_disk_perf unwritten stretto-perf allreduce -b 8 -e 8 -n 1 -w 0
check full_disk_help unwritten stretto-run --help
exit $failed
