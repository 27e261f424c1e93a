#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Socket ports whose letters a TC program puts into envelopes: beside AF_XDP ports and ports that do it themselves, in
# both directions, over good and bad networks, every byte checked; who picks the paths, and why; what happens when the
# program goes.
# shellcheck source-path=SCRIPTDIR source=sock_lib.sh
. "$(dirname "$0")/sock_lib.sh"

picked_by() {	# host words
	equal "$(show "$1" "s['ports'][0]['paths_by']")" "$2" "paths are picked by"
}

reason_has() {	# host words
	[[ $(show "$1" "s['ports'][0]['paths_reason']") == *"$2"* ]] || { show "$1" "s['ports'][0]['paths_reason']"; return 1; }
}

letters() {	# host
	port_sum "$1" letters
}

# All data went as letters, each exactly once: none came back, none left without its envelope.
by_letters() {	# host bytes-at-least
	more_than "$(letters "$1")" $(($2 / 3498)) letters &&
		equal "$(counted "$1" TX_LETTER)" "$(letters "$1")" "letters put into envelopes" &&
		equal "$(port_sum "$1" letters_returned)" 0 "letters that came back"
}

every_path_used() {	# host
	equal "$(show "$1" "sum(1 for c in s['conns'] for p in c['paths'] if p['tx_packets'] > 50)")" "$2" "paths with packets"
}

on_the_wire() {	# address
	capture 300 "$1" || return 1
	equal "$(grep -c 'tos 0x2,ECT(0)' "$work/wire") $(grep -c 'no cksum' "$work/wire")" \
		"$(grep -c ' > ' "$work/wire") $(grep -c ' > ' "$work/wire")" "with ECT(0), without checksum"
}

source_ports() {
	equal "$(source_ports_seen)" 4 "source ports of data on plane 1, of 8 paths over 2 planes"
}

doctor_says() {	# status words
	mroce h1 doctor >"$work/doctor" 2>&1
	grep -q "^$1.*$2" "$work/doctor" || { cat "$work/doctor"; return 1; }
}

shows() {	# words
	mroce h1 show port >"$work/show" 2>&1
	grep -q "$1" "$work/show" || { cat "$work/show"; return 1; }
}

bare() {	# host: nothing is left at its interfaces
	local found
	found=$(on "$1" tc qdisc show dev p1 | grep -o clsact; on "$1" bpftool net show dev p1 | grep -o 'mroce[a-z_]*')
	equal "$found" "" attached
}

filter_there() {	# host
	on "$1" tc filter show dev p1 egress | grep -q mroce_tc_post
}

all_there_is() {	# directions and losses
	check "64 MB" transfer 1000 10.1.0.2
	check "5 % loss" under --loss 5 -- 1000 10.1.0.2
	check "is repaired" repaired 300
	check "reads: data comes back" transfer 500 10.1.0.2 -o read
	check "reads, 5 % loss" under --loss 5 -- 500 10.2.0.2 -o read
}

fabric_up 2 3498 || exit 1

# ---- both by the TC program ----
check "daemons start" pair_up root socket socket
check "the TC program picks paths" picked_by h1 "TC program"
check "doctor says so" doctor_says OK "paths are picked by the TC program (attached"
check "and so does show port" shows "p2: paths are picked by the TC program (attached"
check "64 MB" transfer 1000 10.1.0.2
check "all of it as letters" by_letters h1 65536000
check "IPv6" transfer 500 fd00:2::2
check "as packets on the wire" on_the_wire 10.1.0.2
check "a source port for every path" source_ports
check "5 % loss" under --loss 5 -- 1000 10.1.0.2
check "is repaired" repaired 300
check "5 % loss, IPv6" under --loss 5 -- 500 fd00:1::2
check "reordering" under --reorder 10,3 -- 500 10.1.0.2
check "duplicates" under --dup 5 -- 500 10.1.0.2
check "many connections" many_connections
check "sends" transfer 300 10.1.0.2 -o send
on h1 ip neigh flush all
check "neighbours forgotten: what waited for them is not lost, nor sent twice" transfer 500 10.1.0.2
check "and the TC program still picks paths" picked_by h1 "TC program"
check "no letter left without its envelope" equal "$(counted h2 HDR_CRC)" 0 "packets with a wrong header"
F set --plane 2 --blackhole >/dev/null
check "plane 2 swallows everything: the other one carries on" transfer 500 10.1.0.2
F set --plane 2 --no-blackhole >/dev/null
check "and both again" transfer 500 10.1.0.2
check "letters and envelopes agree to the end" equal "$(counted h1 TX_LETTER)" "$(letters h1)" letters
check "daemons stop" daemon_stop h1 h2
check "nothing is left" bare h1

# ---- with the others ----
check "AF_XDP at the other end: daemons start" pair_up root socket afxdp
all_there_is
check "daemons stop" daemon_stop h1 h2
check "AF_XDP at this end: daemons start" pair_up root afxdp socket
all_there_is
check "daemons stop" daemon_stop h1 h2
check "handover = no at the other end: daemons start" daemon_up h1 root --port socket
check "both" daemon_up h2 root --port socket --no-handover
check "one does" picked_by h1 "TC program"
check "the other does not" picked_by h2 daemon
check "for this reason" reason_has h2 "handover = no"
all_there_is
check "daemons stop" daemon_stop h1 h2

# ---- it cannot be had ----
check "as nobody" daemon_up h1 nobody --port socket
check "the daemon picks paths" picked_by h1 daemon
check "for this reason" reason_has h1 "capability CAP_BPF is missing"
check "in the log too" said log.h1 "paths are picked by the daemon: capability CAP_BPF"
check "doctor says so" doctor_says OK "paths are picked by the daemon (capability CAP_BPF is missing"
check "stops" daemon_stop h1

# ---- congestion is marked ----
check "marking: daemons start" pair_up root socket socket --mark --link-mbps 500
check "it transfers" transfer 500 10.1.0.2
check "what leaves is marked" more_than "$(counted h2 RX_CE)" 10 "packets that arrived with CE"
check "daemons stop" daemon_stop h1 h2

# ---- by TC filters, as before Linux 6.6; the program goes ----
export MROCE_TC=netlink
check "TC filters: daemons start" pair_up root socket socket
unset MROCE_TC
check "attached so" reason_has h1 "attached by a TC filter"
check "64 MB, 5 % loss" under --loss 5 -- 1000 10.1.0.2
on h1 tc filter del dev p1 egress
on h1 tc filter del dev p2 egress
check "somebody removes the filters: all arrives" transfer 6000 10.1.0.2
check "it is said" said log.h1 "no word from it: is it still attached"
check "and shown" picked_by h1 daemon
check "daemons stop" daemon_stop h1 h2
check "nothing is left" bare h1
export MROCE_TC=netlink
check "once more" daemon_up h1 root --port socket
unset MROCE_TC
check "there it is" filter_there h1
end9 h1
check "killed: it goes" wait_until bare h1
fabric_down
finish
