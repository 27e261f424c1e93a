#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Starved on purpose: tiny rings, daemons that stand still, applications that are slow or post no receives,
# thousands of messages in flight. What the kernel drops after the XDP program has seen it must be
# repaired like any loss. SEED repeats a run.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

SEED=${SEED:-$$}
RANDOM=$SEED
echo "# SEED=$SEED"

start_swap() {	# [options of exchange run]
	server_up server h2 || return 1
	app client h1 "$exchange" run "$(sock h1)" 10.1.0.2 --seed "$SEED" "$@"
	wait_until running h1 || { cat "$work/client" "$work/server"; return 1; }
}

# Something of the plan itself has been sent.
running() {	# host
	(($(show "$1" "sum(c['tx_messages'] for c in s['connections'])") > 2))
}

# Nothing was lost, invented or put in the wrong place.
all_right() {
	local good=0
	app_ends client 0 60 || good=1
	app_ends server 0 60 || good=1
	sed -n 's/^right: //p' "$work/client"
	return $good
}

# Stops a daemon for 50 to 300 ms again and again while the exchange runs. Sets $pauses.
pause_daemon() {	# host times
	pauses=0
	while ((pauses < $2)) && alive client; do
		kill -STOP "${pid[$1]}"
		sleep "0.$(printf %03d $((RANDOM % 250 + 50)))"
		kill -CONT "${pid[$1]}"
		sleep 0.05
		pauses=$((pauses + 1))
	done
	return 0
}

LARGE=(--streams 16 --messages 1000000 --ops sSwW --sizes "0,1,1392,1393,65536,300000" --one-way --memory shared)

receiver_stands_still() {
	local dropped lost
	dropped=$(port_sum h2 rx_dropped)
	lost=$(counted h2 LOST_INSIDE)
	start_swap "${LARGE[@]}" --messages 80 || return 1
	pause_daemon h2 6
	all_right || return 1
	dropped=$(($(port_sum h2 rx_dropped) - dropped))
	lost=$(($(counted h2 LOST_INSIDE) - lost))
	echo "$pauses pauses, $dropped frames met a full receive ring or an empty fill ring, $lost PSNs were found lost inside"
	((pauses >= 2)) || { echo "it was over after $pauses pauses"; return 1; }
	((dropped > 0 && lost > 0)) || { echo "the case did not happen"; return 1; }
}

# Nothing gets lost here, so it takes many messages not to be done between two pauses.
sender_stands_still() {
	start_swap "${LARGE[@]}" --messages 400 || return 1
	pause_daemon h1 5
	all_right || return 1
	echo "$pauses pauses"
	((pauses >= 2))
}

both_stand_still() {
	start_swap --streams 8 --messages 150 --random 300000 || return 1
	pause_daemon h1 3
	pause_daemon h2 3
	all_right
}

# Each ring can be the one that is starved; which one is the kernel's choice.
drops_have_a_name() {
	local name n sum=0
	for name in rx_ring_full fill_ring_empty; do
		n=$(port_sum h2 $name)
		echo "$name: $n"
		sum=$((sum + n))
	done
	((sum > 0)) && equal "$sum" "$(port_sum h2 rx_dropped)" rx_dropped
}

application_stands_still() {
	start_swap --streams 8 --messages 400 --random 100000 --receives 4 || return 1
	kill -STOP "${pid[server]}"
	# Longer than it takes to give up a silent peer.
	sleep 3
	kill -CONT "${pid[server]}"
	all_right
}

# In flight: posted at h1 and not yet done.
in_flight() {
	show h1 "sum((x['tx_next_msg'] - x['tx_done_msg']) + x['tx_queued'] for x in s['streams'])"
}

many_in_flight() {
	(($(in_flight) >= 3000))
}

thousands_in_flight() {
	server_up server h2 || return 1
	app client h1 "$exchange" run "$(sock h1)" 10.1.0.2 --seed "$SEED" --streams 100 --messages 120 --window 64 \
		--receives 48 --ops sSwW --one-way --slow 20000 --sizes 0,1,64,5000 || return 1
	wait_until many_in_flight || { in_flight; cat "$work/client"; return 1; }
	echo "$(in_flight) in flight"
	all_right
}

check "fabric" fabric_up 1 --mtu 1500
check "daemons with the smallest rings" daemons_up --ring-size 64
check "the receiving daemon stands still again and again" receiver_stands_still
check "the sending daemon stands still again and again" sender_stands_still
check "both do, messages both ways" both_stand_still
check "drops are told apart" drops_have_a_name
check "frames add up" eval 'frames_add_up h1 && frames_add_up h2'
F set --loss 5 --burst-mean 4 >/dev/null 2>&1
check "the same with loss on the way" receiver_stands_still
F set --clear >/dev/null 2>&1
check "the application stands still for three seconds" application_stands_still
check "a slow application" swap --seed "$SEED" --slow 5000 --streams 16 --messages 30 --random 20000
check "one receive posted at a time" swap --seed "$SEED" --receives 1 --streams 4 --messages 100
check "thousands of messages in flight on a hundred streams" thousands_in_flight
check "a stream without receives holds up no other" \
	swap --seed "$SEED" --blocked 3 --streams 64 --messages 40 --window 32 --random 5000
check "nor does it with loss" eval 'F set --loss 5 >/dev/null 2>&1 &&
	swap --seed "$SEED" --blocked 0 --streams 16 --messages 60 --window 60 --random 20000'
check "a thousand streams" swap --seed "$SEED" --streams 1000 --messages 4 --window 2 --receives 4
check "daemons stop well" daemon_stop h1 h2
finish
