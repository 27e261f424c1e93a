#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Two engines on real ports exchange messages whose every word is checked: both families, small and large
# MTU, several queues, every way to attach, rings that are too small, a lossy fabric.
# shellcheck source-path=SCRIPTDIR source=port_lib.sh
. "$(dirname "$0")/port_lib.sh"

fabric=mrpt$$
trap 'scripts/fabric --name $fabric down >/dev/null; cleanup' EXIT

ready() {
	grep -q ready "$work/recv" || ! kill -0 "$receiver" 2>/dev/null
}

# The receiver's command line is in $far, the sender's in $near: arrays, namespace first.
run_pair() {	# megabytes peer
	"${far[@]:0:2}" "$blast" -m "$1" "${far[@]:2}" >"$work/recv" 2>"$work/recv.log" &
	receiver=$!
	wait_until ready
	"${near[@]:0:2}" "$blast" -m "$1" "${near[@]:2}" >"$work/send" 2>"$work/send.log"
	sent=$?
	wait "$receiver"
	received=$?
	equal "$sent $received" "0 0" "exit status" ||
		{ cat "$work/send" "$work/send.log" "$work/recv" "$work/recv.log"; return 1; }
}

# value of what a side printed at its end
of() {	# send|recv name
	sed -n "s/^messages.* $2=\([0-9]*\).*/\1/p" "$work/$1"
}

more_than() {	# value limit what
	(($1 > $2)) || { echo "$3: got $1, want more than $2"; return 1; }
}

transfer() {	# megabytes peer [options of both]
	far=(nsenter "--net=/run/netns/${ns}b" "${@:3}" recv v0)
	near=(nsenter "--net=/run/netns/${ns}a" "${@:3}" send "$2" v0)
	run_pair "$1" "$2"
}

to_address() {	# megabytes own peer
	far=(nsenter "--net=/run/netns/${ns}b" recv "v0@$3")
	near=(nsenter "--net=/run/netns/${ns}a" send "$3" "v0@$2")
	run_pair "$1" "$3"
}

over_fabric() {	# megabytes peer
	far=(nsenter "--net=/run/netns/mr-$fabric-h2" recv p1 p2)
	near=(nsenter "--net=/run/netns/mr-$fabric-h1" send "$2" p1 p2)
	run_pair "$1" "$2"
}

by_netlink() {
	MROCE_TC=netlink transfer "$@"
}

adopted() {
	local n
	for n in a b; do
		ip -n "$ns$n" link set dev v0 xdpdrv obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags
	done
	transfer "$@"
	local rc=$?
	for n in a b; do
		ip -n "$ns$n" link set dev v0 xdpdrv off
	done
	return $rc
}

net_up
check "IPv4, MTU 3498" transfer 64 10.77.0.2
check "data came through AF_XDP" more_than "$(of recv redirect)" 19000 redirected
check "POLLs were answered by XDP" more_than "$(of recv acks)" 10 acks
check "IPv6" to_address 32 fd77::1 fd77::2
check "TC filters instead of TCX" by_netlink 16 10.77.0.2
check "adopted programs" adopted 16 10.77.0.2
check "without NACKs by TC" transfer 16 10.77.0.2 -n
check "another UDP port" transfer 16 10.77.0.2 -u 9999
check "one path" transfer 16 10.77.0.2 -p 1
check "16 paths" transfer 16 10.77.0.2 -p 16
check "rings of 64 frames lose nothing" transfer 16 10.77.0.2 -r 64
net_down
net_up 1280
check "MTU 1280" transfer 16 10.77.0.2
net_down
net_up 1500
check "MTU 1500" transfer 16 10.77.0.2
net_down
net_up 9000
check "MTU 9000: packets in single buffers" transfer 32 10.77.0.2
net_down
net_up 3498 "numrxqueues 4 numtxqueues 4"
check "four receive queues" transfer 32 10.77.0.2
net_down

scripts/fabric --name "$fabric" up --planes 2 >/dev/null
check "two planes" over_fabric 16 10.1.0.2
scripts/fabric --name "$fabric" set --loss 10
check "10 % loss" over_fabric 16 10.2.0.2
check "gaps were found" more_than "$(of recv gaps)" 500 gaps
check "each with a NACK by TC" equal "$(of recv nacks)" "$(of recv gaps)" NACKs
check "IPv6 and 10 % loss" over_fabric 8 fd00:1::2
finish
