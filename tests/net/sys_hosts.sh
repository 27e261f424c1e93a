#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Four hosts exchange with each other, all pairs at once, over two planes that lose packets; leaf-spine planes, too.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

SEED=${SEED:-$$}
echo "# SEED=$SEED"
HOSTS=(1 2 3 4)

all_daemons_up() {
	local host
	for host in "${HOSTS[@]}"; do
		daemon_up "h$host" || return 1
	done
}

# One application for each end of each pair; service 100 a + b at host b.
all_to_all() {	# [options of exchange run]
	local a b name good=0
	for a in "${HOSTS[@]}"; do
		for b in "${HOSTS[@]}"; do
			((a != b)) || continue
			server_up "serve$a$b" "h$b" --service $((100 * a + b)) || return 1
		done
	done
	for a in "${HOSTS[@]}"; do
		for b in "${HOSTS[@]}"; do
			((a != b)) || continue
			app "run$a$b" "h$a" "$exchange" run "$(sock "h$a")" "10.1.0.$b" --service $((100 * a + b)) \
				--seed $((SEED + 10 * a + b)) "$@"
		done
	done
	for name in "${!pid[@]}"; do
		[[ $name == h* ]] && continue
		app_ends "$name" 0 60 || good=1
	done
	return $good
}

no_connection_is_left() {
	local host
	for host in "${HOSTS[@]}"; do
		equal "$(show "h$host" "len(s['connections'])")" 0 "connections at h$host" || return 1
	done
}

planes_were_used() {
	F show -j | python3 -c '
import json, sys
planes = json.load(sys.stdin)["planes"]
packets = [sum(p["to"]["packets"] for p in plane["ports"]) for plane in planes]
print("packets per plane", packets)
sys.exit(min(packets) * 3 < max(packets))'
}

check "four hosts, two planes" fabric_up 2 --hosts 4 --mtu 1500
check "daemons" all_daemons_up
check "all to all" all_to_all --random 100000
F set --loss 1 >/dev/null 2>&1
check "all to all, 1 % loss" all_to_all --random 300000 --messages 40
F set --loss 10 --reorder 5 --dup 1 >/dev/null 2>&1
check "all to all, 10 % loss, reordering, duplicates" all_to_all --random 100000
check "both planes carried their part" planes_were_used
check "connections are gone" wait_until no_connection_is_left
check "daemons stop well" daemon_stop h1 h2 h3 h4
check "that fabric goes" fabric_down
check "four hosts, two leaf-spine planes" fabric_up 2 --hosts 4 --mtu 1500 --leaf-spine 2x2
check "daemons on it" all_daemons_up
F set --loss 1 >/dev/null 2>&1
check "all to all, 1 % loss, several spines" all_to_all --random 100000
check "daemons stop again" daemon_stop h1 h2 h3 h4
finish
