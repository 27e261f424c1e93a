#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the switch is told to do to packets is what the receiver sees, and what the counters say.
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "$0")/fabric_lib.sh"
N=10000

delta() {	# name: growth of a counter of port h2 between set_rule and the end of `train_h2`
	echo $(($(sed -n "s/^$1 //p" "$work/after") - $(sed -n "s/^$1 //p" "$work/before")))
}

set_rule() {	# arguments of set
	F set --clear "$@" && counters "$work/before" 1 h2 to
}

train_h2() {	# as train
	train h2 "$@" && counters "$work/after" 1 h2 to
}

loses_share() {	# address percent options
	set_rule --loss "$2" && train_h2 "$1" $N || return
	between "$lost" $((N * $2 * 85 / 10000)) $((N * $2 * 115 / 10000)) lost &&
		equal "$(delta lost)" "$lost" "lost, as counted"
}

same_again() {
	local before
	F set --clear --loss 5 && train_h2 10.1.0.2 2000 || return
	before=$lost
	F set --clear --loss 5 && train_h2 10.1.0.2 2000 && equal "$lost" "$before" "lost the second time"
}

other_seed() {
	local before=$lost.$bursts
	F set --seed 77 --clear --loss 5 && train_h2 10.1.0.2 2000 &&
		[[ $lost.$bursts != "$before" ]]
}

bursts_of_eight() {
	set_rule --loss 5 --burst-mean 8 && train_h2 10.1.0.2 $N || return
	between "$lost" $((N * 3 / 100)) $((N * 7 / 100)) lost &&
		between "$mean_burst_x100" 650 1000 "mean burst, hundredths" &&
		equal "$(delta lost_burst)" "$lost" "lost, as counted"
}

bursts_by_p_and_r() {
	set_rule --burst 0.5,25 && train_h2 10.1.0.2 $N || return
	between "$mean_burst_x100" 330 480 "mean burst, hundredths"
}

duplicates_some() {
	set_rule --dup 5 && train_h2 10.1.0.2 $N || return
	between "$duplicates" 420 580 duplicates && equal "$unique" $N unique &&
		equal "$(delta duplicated)" "$duplicates" "duplicated, as counted"
}

# What is damaged in its UDP header does not reach the socket.
corrupts_some() {
	set_rule --corrupt 5 && train_h2 "$1" $N -s 1000 || return
	between "$(delta corrupted)" 420 580 "corrupted, as counted" &&
		between $((N - arrived + damaged + shortened)) $(($(delta corrupted) * 98 / 100)) \
			"$(($(delta corrupted) * 102 / 100))" "damaged, or dropped by the host" &&
		between "$damaged" 360 580 damaged
}

truncates_some() {
	set_rule --truncate 5 && train_h2 "$1" $N -s 1000 || return
	between "$(delta truncated)" 420 580 "truncated, as counted" &&
		between "$shortened" 160 340 "shortened, with lengths made to agree" &&
		between "$lost" 160 340 "dropped, with lengths that disagree"
}

marks_some() {
	set_rule --ce 5 && train_h2 "$1" $N || return
	between "$ce" 420 580 marked && equal "$(delta ce_marked)" "$ce" "marked, as counted"
}

reorders_some() {	# gap
	set_rule --reorder "5,$1" && train_h2 10.1.0.2 $N || return
	between "$late" 420 580 late && equal "$unique" $N unique &&
		equal "$(delta reordered)" "$(delta released)" "released, of those held" &&
		between "$(delta reordered)" "$late" $((late + 16)) "held, as counted" &&
		between "$mean_late_x100" $(($1 * 95)) $(($1 * 120)) "overtaken by, hundredths"
}

lets_go_in_time() {
	set_rule --reorder 20,3 && train_h2 10.1.0.2 200 -g 5000 || return
	equal "$unique" 200 unique && equal "$late" 0 late &&
		between "$(delta released_by_time)" 20 60 "released by time"
}

hits_types() {
	local whole
	set_rule --loss 100 --only-type poll,3 && train_h2 10.1.0.2 4000 -t 1,2,3,4 || return
	whole=$lost
	F set --only-type 9 && train_h2 10.1.0.2 4000 -t 1,2,3,4 || return
	equal "$whole" 2000 "lost of types 2 and 3" && equal "$lost" 0 "lost of type 9"
}

from_one_host() {
	set_rule --host 1 --dir from --loss 50 && train_h2 10.1.0.2 1000 || return
	between "$lost" 420 580 lost && equal "$(counter 1 h1 from lost)" "$lost" "lost, as counted" &&
		equal "$(delta lost)" 0 "lost at the other port"
}

changes_under_way() {
	local pid
	set_rule --loss 0 || return
	F exec h2 "$probe" recv 3000 >"$work/account" &
	pid=$!
	wait_until listens h2 4797
	probe_send 10.1.0.2 10.1.0.2 3000 -g 300 &
	F set --loss 100 && wait_until lost_one && F set --loss 0
	wait "$pid" && . "$work/account" && wait
	between "$lost" 1 2990 lost && between "$bursts" 1 1 "periods of loss"
}

lost_one() {
	(($(counter 1 h2 to lost) > $(sed -n "s/^lost //p" "$work/before")))
}

check "up" F up
check "no rule: everything arrives in order" eval \
	"train h2 10.1.0.2 $N && equal \$unique $N unique && equal \$late 0 late"
check "1 % loss" loses_share 10.1.0.2 1
check "30 % loss" loses_share 10.1.0.2 30
check "10 % loss, IPv6" loses_share fd00:1::2 10
check "the same seed gives the same loss" same_again
check "another seed another" other_seed
check "loss in bursts of eight" bursts_of_eight
check "Gilbert-Elliott by its own parameters" bursts_by_p_and_r
check "duplication" duplicates_some
check "corruption" corrupts_some 10.1.0.2
check "corruption, IPv6" corrupts_some fd00:1::2
check "truncation" truncates_some 10.1.0.2
check "truncation, IPv6" truncates_some fd00:1::2
check "random CE marks" marks_some 10.1.0.2
check "random CE marks, IPv6" marks_some fd00:1::2
check "reordering by one" reorders_some 1
check "reordering by ten" reorders_some 10
check "a held packet goes when none follows" lets_go_in_time
check "only some packet types" hits_types
check "a packet type that is none is refused" fails F set --loss 1 --only-type pol
check "one direction of one host" from_one_host
check "changed while packets flow" changes_under_way
finish
