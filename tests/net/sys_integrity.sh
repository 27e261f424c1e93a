#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Every operation, in both directions at once, byte for byte, over everything a network does to packets, at
# every MTU, over IPv4 and IPv6, one path and many, one plane and several, one receive queue and several.
# SEED repeats a run.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

SEED=${SEED:-$$}
echo "# SEED=$SEED"

# Payload of a chunk: MTU and AF_XDP buffer less IP, UDP and our headers; a multiple of eight.
chunk_of() {	# mtu 4|6
	local frame=$(($1 < 3498 ? $1 : 3498)) ip=$(($2 == 4 ? 20 : 40))
	echo $(((frame - ip - 8 - 36 - 44) & ~7))
}

# Everything: all operations, all memory, the sizes at which something changes.
mix() {	# mtu 4|6 [options of exchange run]
	swap --seed "$SEED" --chunk "$(chunk_of "$1" "$2")" --random 1048576 "${@:3}"
}

under() {	# name options of fabric set: on all planes
	local name=$1
	shift
	F set --clear "$@" --seed "$SEED" >/dev/null 2>&1 || { ok 1 "fabric set $*"; return; }
	check "$name" mix 1500 4 --streams 12 --messages 40
}

new_daemons() {	# [options of mroced]
	[[ -z ${pid[h1]:-} ]] || daemon_stop h1 h2 || return 1
	daemons_up "$@"
}

new_fabric() {	# planes options of fabric up
	[[ -z ${pid[h1]:-} ]] || daemon_stop h1 h2 || return 1
	fabric_down && fabric_up "$@"
}

# Loss of data on one side of the switch, of one kind of packet on the other.
without() {	# name type percent
	F set --clear --dir from --loss 3 --seed "$SEED" >/dev/null 2>&1 &&
		F set --clear --dir to --loss "$3" --only-type "$2" --seed "$SEED" >/dev/null 2>&1 ||
		{ ok 1 "fabric set"; return; }
	check "$1" mix 1500 4 --streams 12 --messages 40
	check "some were lost" no_impairment_was_idle lost
	F set --clear --dir from >/dev/null 2>&1
}

# The chunk that this test believes in is the one that is used: a byte more is a packet more.
chunk_is_right() {
	local chunk extra before packets=()
	chunk=$(chunk_of 1500 4)
	F set --clear >/dev/null 2>&1
	for extra in 0 1; do
		before=$(counted h2 RX_REDIRECT)
		swap --ops w --sizes $((chunk + extra)) --messages 2000 --window 64 --streams 1 --one-way || return 1
		packets+=($(($(counted h2 RX_REDIRECT) - before)))
	done
	echo "packets for 2000 messages of $chunk bytes: ${packets[0]}, of one byte more: ${packets[1]}"
	((packets[0] >= 2000 && packets[0] < 3200 && packets[1] >= 4000))
}

no_impairment_was_idle() {	# counter of the switch...
	local name
	for name; do
		(($(F show -j | python3 -c "
import json, sys
planes = json.load(sys.stdin)['planes']
print(sum(port['to'].get('$name', 0) for plane in planes for port in plane['ports']))") > 0)) ||
			{ echo "the switch never did: $name"; return 1; }
	done
}

# --- four planes, eight paths: what networks do to packets ---
check "fabric of four planes" fabric_up 4 --mtu 1500
check "daemons" daemons_up
under "no impairment" --loss 0
under "1 % loss" --loss 1
under "10 % loss" --loss 10
under "30 % loss" --loss 30
under "5 % loss in bursts of 8" --loss 5 --burst-mean 8
under "reordering, 10 %" --reorder 10,3
under "duplicates, 10 %" --dup 10
under "damage, 5 %" --corrupt 5
under "truncated, 5 %" --truncate 5
under "all together" --loss 3 --burst-mean 4 --reorder 5,2 --dup 5 --corrupt 3 --truncate 3
check "the switch did all of it" no_impairment_was_idle lost reordered duplicated corrupted truncated
without "3 % loss, and half of the ACKs" ack 50
without "3 % loss, and half of the POLLs" poll 50
without "3 % loss, and all NACKs" nack 100
F set --clear >/dev/null 2>&1
check "chunks are as large as the MTU allows" chunk_is_right
check "shared memory only" mix 1500 4 --memory shared
check "registered in place only" mix 1500 4 --memory inplace
check "frames add up" eval 'frames_add_up h1 && frames_add_up h2'
check "one path" eval 'new_daemons --paths 1 && F set --clear --loss 3 && mix 1500 4'
check "sixteen paths" eval 'new_daemons --paths 16 && F set --clear --loss 3 && mix 1500 4 --streams 64 --messages 6'

# --- plain sockets instead of AF_XDP, at both ends and at one ---
check "plain sockets, everything together" eval 'new_daemons --port socket &&
	F set --clear --loss 3 --burst-mean 4 --reorder 5,2 --dup 5 --corrupt 3 --truncate 3 && mix 1500 4'
check "plain sockets with AF_XDP" eval 'daemon_stop h1 h2 && daemon_up h1 --port socket && daemon_up h2 && mix 1500 4'

# --- IPv6 ---
interfaces=(p1@fd00:1::%h p2@fd00:2::%h p3@fd00:3::%h p4@fd00:4::%h)
F set --clear >/dev/null 2>&1
check "IPv6" eval 'new_daemons && to=fd00:1::2 mix 1500 6'
F set --clear --loss 5 --reorder 3 --corrupt 1 --truncate 1 >/dev/null 2>&1
to=fd00:1::2 check "IPv6 with loss, reordering, damage" mix 1500 6

# --- one plane, every MTU ---
for mtu in 1280 3498 9000; do
	check "MTU $mtu" eval 'new_fabric 1 --mtu $mtu && daemons_up && mix $mtu 4'
	F set --clear --loss 3 --corrupt 1 >/dev/null 2>&1
	check "MTU $mtu with loss and damage" mix $mtu 4
done

# --- a long message ---
F set --clear --loss 0.1 >/dev/null 2>&1
check "one message of 1 GiB, 0.1 % loss" \
	swap --ops w --sizes 1073741824 --streams 1 --messages 1 --one-way --memory shared --seed "$SEED"

# --- receive queues ---
check "four receive queues" eval 'new_fabric 2 --mtu 1500 --queues 4 && daemons_up --paths 16 && mix 1500 4'
check "all four are used" equal "$(show h2 "s['ports'][0]['queues']")" 4 queues
F set --clear --loss 5 --reorder 3 >/dev/null 2>&1
check "four receive queues with loss and reordering" mix 1500 4

# --- direct ---
check "bare veth pairs" eval 'new_fabric 2 --direct --mtu 3498 && daemons_up && mix 3498 4'
check "daemons stop well" daemon_stop h1 h2
check "nothing is left attached" eval 'bare h1 && bare h2'
finish
