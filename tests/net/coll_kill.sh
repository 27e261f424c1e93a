#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A rank or a daemon is killed in the middle of an operation: all other ranks end with an error, soon, and name it. Strangers,
# who are no ranks, can come and go while ranks gather.
# shellcheck source-path=SCRIPTDIR source=coll_lib.sh
. "$(dirname "$0")/coll_lib.sh"

victim=2

all_loop() {
	local r
	for ((r = 0; r < ranks; r++)); do
		said "r$r" "loop runs" || return 1
	done
}

others_end() {	# seconds
	local r good=0
	for ((r = 0; r < ranks; r++)); do
		((r == victim)) || app_ends "r$r" 3 "$1" || good=1
	done
	cat "$work"/r[0-9]*
	return $good
}

rank_killed() {
	ranks_start loop
	wait_long 30 all_loop || { cat "$work"/r[0-9]*; return 1; }
	end9 "r$victim"
	others_end 10
}

somebody_names_it() {
	grep -l "rank $victim (10.1.0.$((victim + 1))) is lost" "$work"/r[0-9]*
}

daemon_killed() {
	ranks_start loop
	wait_long 30 all_loop || { cat "$work"/r[0-9]*; return 1; }
	end9 "h$((victim + 1))"
	app_ends "r$victim" 3 10 && said "r$victim" "the local mroced is gone" && others_end 30
}

nobody_comes() {
	app alone h1 "$peer" "$(sock h1)" 0 check 10.1.0.1 10.1.0.2
	app_ends alone 4 40 && said alone "rank 1 (10.1.0.2) has not come"
}

rank_up() {	# rank mode
	app "r$1" "h$(($1 + 1))" "$peer" "$(sock "h$(($1 + 1))")" "$1" "$2" "${hosts[@]}"
}

# Rank 0 listens, and is no server of pings.
knocks() {
	on h2 timeout -k 5 20 "$build/mroce" --socket "$(sock h2)" ping -c 1 --service 7100 10.1.0.1 >"$work/knock" 2>&1
	grep -q "does not speak this" "$work/knock" || { cat "$work/knock" "$work/r0"; return 1; }
}

others_come() {
	local r
	for r in 1 2 3; do
		rank_up $r late
	done
	ranks_end 0 30
}

strangers_knock() {
	local i
	rank_up 0 late
	wait_until knocks || return 1
	for ((i = 0; i < 6; i++)); do
		knocks || return 1
	done
	others_come
}

strangers_stay() {
	local good=0
	rank_up 0 late
	app stranger h3 "$peer" "$(sock h3)" 0 strange "${hosts[@]}"
	wait_long 15 said stranger "strangers are there" || { cat "$work/stranger"; good=1; }
	others_come || good=1
	alive stranger || good=1
	end9 stranger
	return $good
}

check "fabric and daemons" ranks_up 4
check "mroce ping to the service while ranks gather" strangers_knock
check "strangers who say nothing, or nonsense" strangers_stay
check "a killed rank is an error for all" rank_killed
check "and is named" somebody_names_it
check "a killed daemon is one, too" daemon_killed
check "a rank that never comes" nobody_comes
finish
