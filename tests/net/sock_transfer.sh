#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Socket ports carry messages, every byte checked: among themselves and with AF_XDP ports in both directions, run by
# root and by nobody, over good and bad networks, both families, small and large MTU.
# shellcheck source-path=SCRIPTDIR source=sock_lib.sh
. "$(dirname "$0")/sock_lib.sh"

every_plane_used() {	# host
	equal "$(show "$1" "all(p['tx_packets'] > 100 for p in s['ports'])")" True "every plane used"
}

kinds_are() {	# of h1, of h2
	equal "$(show h1 "s['ports'][0]['kind']") $(show h2 "s['ports'][0]['kind']")" "$1 $2" kinds
}

gaps_were_answered() {
	more_than "$(counted h2 TX_NACK)" 100 NACKs
}

# How packets of h1 look when they reach h2: no checksum, ECT(0), the service's port as destination.
on_the_wire() {	# address words-that-all-data-has
	local total good
	capture 200 "$1" || return 1
	total=$(grep -c ' > ' "$work/wire")
	good=$(grep -c -- "$2" "$work/wire")
	if ! equal "$good" "$total" "packets with $2" || ! more_than "$total" 100 packets; then
		head -n 4 "$work/wire"
		return 1
	fi
}

# As many UDP source ports as paths, seen from outside.
source_ports() {
	equal "$(source_ports_seen)" 2 "source ports of data on plane 1, of 8 paths over 4 planes"
}

no_capabilities() {	# host
	local effective
	effective=$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/${pid[$1]}/status")
	equal "$effective" 0000000000000000 "effective capabilities" &&
		equal "$(stat -c %U "/proc/${pid[$1]}")" nobody user
}

large_packets() {	# bytes sent
	local per_packet=$(($1 / $(perf_says packets)))
	more_than "$per_packet" 5000 "bytes per packet, POLLs and all"
}

# ---- root, four planes ----
fabric_up 4 3498 || exit 1
check "socket to socket: daemons start" pair_up root socket socket
check "and say what they are" kinds_are socket socket
check "64 MB" transfer 1000 10.1.0.2
check "every plane is used" every_plane_used h1
check "IPv6" transfer 500 fd00:2::2
check "IPv4 on the wire: ECT(0)" on_the_wire 10.1.0.2 "tos 0x2,ECT(0)"
check "no UDP checksum" equal "$(grep -c 'no cksum' "$work/wire")" "$(grep -c ' > ' "$work/wire")" "without checksum"
check "a source port for every path" source_ports
check "1 % loss" under --loss 1 -- 1000 10.1.0.2
check "is repaired" repaired 100
check "10 % loss" under --loss 10 -- 1000 10.2.0.2
check "is repaired" repaired 1000
check "gaps are answered at once" gaps_were_answered
check "10 % loss, IPv6" under --loss 10 -- 500 fd00:1::2
check "reordering" under --reorder 10,3 -- 500 10.1.0.2
check "duplicates and corruption" under --dup 5 --corrupt 2 -- 500 10.1.0.2
check "CE on some packets" under --ce 20 -- 500 10.1.0.2
check "is seen" more_than "$(counted h2 RX_CE)" 100 "packets with CE"
check "many connections" many_connections
check "sends" transfer 300 10.1.0.2 -o send
check "memory in place" transfer 300 10.1.0.2 --inplace
check "nothing was refused by the kernel" equal "$(port_sum h1 tx_errors) $(port_sum h2 tx_errors)" "0 0" errors
check "daemons stop" daemon_stop h1 h2

# ---- with AF_XDP, both directions ----
check "AF_XDP to socket: daemons start" pair_up root afxdp socket
check "and say what they are" kinds_are afxdp socket
check "64 MB" transfer 1000 10.1.0.2
check "1 % loss" under --loss 1 -- 1000 10.1.0.2
check "10 % loss, IPv6" under --loss 10 -- 300 fd00:1::2
check "reads: data comes back" transfer 500 10.1.0.2 -o read
check "daemons stop" daemon_stop h1 h2
check "socket to AF_XDP: daemons start" pair_up root socket afxdp
check "64 MB" transfer 1000 10.1.0.2
check "1 % loss" under --loss 1 -- 1000 10.1.0.2
check "10 % loss, IPv6" under --loss 10 -- 300 fd00:1::2
check "reads: data comes back" transfer 500 10.1.0.2 -o read
check "reordering" under --reorder 10,3 -- 300 10.1.0.2
check "daemons stop" daemon_stop h1 h2

# ---- without any privilege ----
check "nobody: daemons start without an interface named" pair_up nobody socket socket --none
check "and say which they chose" said log.h1 "p3: chosen, since no interface is named"
check "without any capability" no_capabilities h1
check "64 MB" transfer 1000 10.1.0.2
check "10 % loss" under --loss 10 -- 500 10.3.0.2
check "daemons stop" daemon_stop h1 h2
check "root by AF_XDP, nobody by sockets" daemon_up h1 root --port afxdp
check "both start" daemon_up h2 nobody --port socket
check "32 MB, 1 % loss" under --loss 1 -- 500 10.1.0.2
check "reads, 1 % loss" under --loss 1 -- 500 10.1.0.2 -o read
check "daemons stop" daemon_stop h1 h2
fabric_down

# ---- MTU ----
fabric_up 1 9000 || exit 1
check "MTU 9000: daemons start" pair_up root socket socket
check "64 MB" transfer 64 10.1.0.2 -m 1M
check "in packets as large as the MTU allows" large_packets $((64 * 1048576))
check "daemons stop" daemon_stop h1 h2
check "MTU 9000, AF_XDP to socket" pair_up root afxdp socket
check "32 MB" transfer 500 10.1.0.2
check "and back" transfer 500 10.1.0.2 -o read
check "daemons stop" daemon_stop h1 h2
fabric_down
fabric_up 1 1500 || exit 1
check "MTU 1500: daemons start" pair_up root socket socket
check "16 MB, 1 % loss" under --loss 1 -- 250 10.1.0.2
check "daemons stop" daemon_stop h1 h2
fabric_down
finish
