#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The Wireshark dissector: every field of every type, damaged packets, and real traffic captured at a
# port of a lossy switch, whose packets by type must be as many as the daemon and its programs counted.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

script=tools/wireshark/mroce.lua

# Its own home, since a user's plugins would be loaded too.
dissect() {	# capture [options of tshark]
	HOME=$work tshark -X "lua_script:$script" -r "$1" "${@:2}" 2>>"$work/tshark.err"
}

# Lines of packets that the filter takes.
amount() {	# capture filter
	dissect "$1" -Y "$2" | wc -l
}

is_amount() {	# capture filter number
	equal "$(amount "$1" "$2")" "$3" "packets for '$2'"
}

# One row a packet, one column a field; some packet must have the value.
every_field() {
	local names=() name value status=0 column=0
	mapfile -t names < <(cut -d ' ' -f 1 "$work/expected")
	dissect "$work/good" -T fields -E occurrence=a "${names[@]/#/-emroce.}" >"$work/values"
	while read -r name value; do
		column=$((column + 1))
		cut -f $column "$work/values" | tr ',' '\n' | grep -qxF -- "$value" ||
			{ echo "no packet with mroce.$name == $value"; status=1; }
	done <"$work/expected"
	return $status
}

# What the C header calls a type, the dissector knows by the same number.
types_agree() {
	diff <(sed -nE 's/^\tMROCE_([A-Z_]+) = ([0-9]+),.*/\2 \1/p' include/mroce/wire.h | sed '/^15 /q') \
		<(sed -n '/^local types/,/^}/p' $script | grep -oE '\[[0-9]+\] = "[A-Z_]+"' | tr -d '[]="' | tr -s ' ')
}

well_formed() {	# capture
	is_amount "$1" '_ws.lua.error or _ws.malformed' 0
}

capture_up() {
	nsenter --net="/run/netns/mr-$fabric-s1" tcpdump -i h1 -Z root -B 65536 -s 0 -U -w "$work/real" udp port 4797 2>"$work/tcpdump" &
	pid[tcpdump]=$!
	wait_until said tcpdump "listening on"
}

# What waits in its buffer when it is told to stop would be lost.
all_written() {
	kill -USR1 "${pid[tcpdump]}"
	tail -n 1 "$work/tcpdump" | awk '/captured/ { good = $2 == $5 && $2 > 0 } END { exit !good }'
}

capture_down() {
	wait_until all_written
	kill -INT "${pid[tcpdump]}"
	wait "${pid[tcpdump]}"
	unset "pid[tcpdump]"
	grep -q "^0 packets dropped by kernel" "$work/tcpdump" || { cat "$work/tcpdump"; return 1; }
	dissect "$work/real" -T fields -e ip.src -e mroce.type >"$work/real.types"
}

traffic() {
	F set --loss 1 --seed 3 >/dev/null 2>&1
	swap --seed 5 --streams 6 --messages 60 --random 100000
}

settled() {
	equal "$(show h1 "len(s['connections'])")$(show h2 "len(s['connections'])")" 00 connections
}

# Packets of one side, of types from .. to.
captured() {	# source-address first-type last-type
	awk -v source="$1" -v first="$2" -v last="$3" '$1 == source && $2 >= first && $2 <= last' "$work/real.types" | wc -l
}

# Whatever XDP had of h1's packets it counted once, by what became of it.
received() {
	show h1 "sum(c['kernel'] for c in s['counters'] if c['name'] in ('RX_REDIRECT', 'RX_PASS_GAP', 'RX_PASS_CTL',
		'TX_ACK', 'TX_PROBE_REPLY', 'RX_NO_SOCKET') or c['kind'] == 'drop')"
}

# One that comes after the end of its connection or of its path's epoch is dropped. The counters of that do not
# say what type was dropped, so they are what may be missing; as a rule they are nought.
polls_are_answered() {
	local polls acks dropped
	polls=$(captured 10.1.0.2 2 2) acks=$(counted h1 TX_ACK)
	dropped=$(show h1 "sum(c['kernel'] for c in s['counters'] if c['name'] in ('NO_CONN', 'STALE_EPOCH', 'SEQUENCE'))")
	echo "POLLs to h1 $polls, ACKs made by its kernel $acks, dropped with no connection or an old epoch $dropped"
	equal "$(counted h1 REPLY_NO_ROOM)" 0 "POLLs left to the daemon" &&
		between "$polls" "$acks" $((acks + dropped)) "POLLs to h1"
}

setup_counted() {
	equal "$(captured 10.1.0.2 8 10)" "$(counted h1 RX_PASS_CTL)" "set-up packets"
}

nacks_counted() {
	local sent
	sent=$(captured 10.1.0.1 4 4)
	echo "NACKs seen $sent, made by the kernel of h1 $(counted h1 TX_NACK)"
	# The daemon makes some itself.
	((sent > 0 && sent >= $(counted h1 TX_NACK)))
}

all_types() {
	local type
	for type in 1 2 3 4 5 6 8 9 10 14; do
		grep -qw "$type\$" "$work/real.types" || { echo "no packet of type $type"; return 1; }
	done
}

repairs_seen() {
	(($(amount "$work/real" mroce.expert.repair) > 0 && $(amount "$work/real" mroce.expert.gap) > 0))
}

if ! command -v tshark >/dev/null; then
	echo "1..0 # SKIP tshark is not installed (scripts/deps)"
	exit 0
fi

check "types are those of wire.h" types_agree
python3 tests/net/insp_packets.py good "$work/good" >"$work/expected"
check "one of each: nothing is malformed" well_formed "$work/good"
check "one of each: no complaint about any" is_amount "$work/good" \
	'ip and _ws.expert.severity == "Error" or mroce.expert.payload or mroce.expert.reserved or mroce.expert.una' 0
check "every field has the value that was sent" every_field
check "CRCs of all are right" is_amount "$work/good" 'mroce and mroce.hdr_crc.status == "good" and not mroce.body_crc.status == "bad"' 49
python3 tests/net/insp_packets.py bad "$work/bad" 5000 "${SEED:-7}"
check "damaged ones do not confuse it" is_amount "$work/bad" _ws.lua.error 0
check "and wrong CRCs are pointed out" test "$(amount "$work/bad" mroce.expert.hdr_crc)" -gt 500

fabric_up 1 && daemons_up || { ok 1 "fabric and daemons"; finish; }
check "capture at a switch port" capture_up
check "traffic with 1 % of loss" traffic
check "all connections have ended" wait_until settled
check "the capture is complete" capture_down
check "every packet is dissected" is_amount "$work/real" 'udp.dstport == 4797 and not mroce' 0
check "none is malformed" well_formed "$work/real"
check "none has an error" is_amount "$work/real" '_ws.expert.severity == "Error"' 0
check "every CRC is right" is_amount "$work/real" 'mroce and not mroce.hdr_crc.status == "good"' 0
check "no reserved or impossible value" is_amount "$work/real" 'mroce.expert.reserved or mroce.expert.payload or mroce.expert.una' 0
check "the types expected are there" all_types
check "repairs and gaps are pointed out" repairs_seen
check "packets to h1: as many as its programs counted" equal "$(captured 10.1.0.2 1 15)" "$(received)" packets
check "POLLs: as many as ACKs by the kernel" polls_are_answered
check "set-up packets: as many as counted" setup_counted
check "NACKs: no fewer than counted" nacks_counted
check "the daemons stop well" daemon_stop h1 h2
finish
