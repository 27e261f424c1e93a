#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce trace: packets of one connection or path, as lines and as pcapng that tshark reads, on and off again, and
# off again after kill -9.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

traffic_up()
{
	perf_server_up && wait_until under_way h1 10.1.0.2
}

# Starts a client of host $1 to $2, unless there is one.
under_way()
{
	[ "${client:-0}" != 0 ] && kill -0 "$client" 2>/dev/null || { spawn "$1" perf -m 64 -D 200 "$2"; client=$!; }
	on "$1" -j show path | grep -q tx_packets
}

id_of()	# host
{
	on "$1" -j show conn | json 'max(d["connections"], key=lambda c: c["rx_bytes"])["id"]'
}

# The word that bpftool prints of what the programs look at.
traced()	# host
{
	local id map
	id=$(nsenter --net="/run/netns/mr-$fabric-$1" ip link show dev p1 | sed -nE 's/.*prog\/xdp id ([0-9]+).*/\1/p')
	for map in $(bpftool -j prog show id "$id" | json '" ".join(map(str, d["map_ids"]))'); do
		bpftool -j map show id "$map" | grep -q mroce_config && bpftool map dump id "$map" | sed -nE 's/.*"trace": ([0-9]+).*/\1/p'
	done
}

is_off()
{
	[ "$(traced "$1")" = 0 ]
}

is_on()
{
	! is_off "$1"
}

lines()
{
	on h2 trace -c 200 "$(id_of h2)" >"$work/lines" || return 1
	head -n 3 "$work/lines"
	[ "$(wc -l <"$work/lines")" = 200 ] && grep -q " DATA path [0-7] psn .*: to mroced$" "$work/lines" &&
		grep -qE " ACK path [0-7] .*: answered$" "$work/lines" && ! grep -qv " $(id_of h2) " "$work/lines"
}

one_path()
{
	on h2 trace -c 50 -p 3 "$(id_of h2)" >"$work/lines" || return 1
	[ "$(grep -c " path 3 " "$work/lines")" = 50 ]
}

another_connection()
{
	spawn h2 trace 0x12345678 >"$work/lines"
	local pid=$!
	wait_until is_on h2
	on h1 ping -c 5 10.1.0.2 >/dev/null
	kill $pid
	wait $pid
	[ ! -s "$work/lines" ]
}

dropped()
{
	F set --dup 20 >/dev/null
	on h2 trace all | grep -m 1 "DROPPED: PSN" >"$work/lines"
	F set --clear >/dev/null
	cat "$work/lines"
	grep -qE "DROPPED: PSN (already seen|below the window)" "$work/lines"
}

as_pcapng()
{
	on h2 trace -c 300 -w "$work/trace.pcapng" all || return 1
	HOME=$work tshark -X lua_script:tools/wireshark/mroce.lua -r "$work/trace.pcapng" -T fields -e frame.interface_name -e mroce.type \
		-e mroce.hdr_crc.status -e frame.comment -e frame.packet_flags_direction -e _ws.malformed -e _ws.lua.error 2>/dev/null >"$work/fields"
	head -n 3 "$work/fields"
	[ "$(wc -l <"$work/fields")" = 300 ] || return 1
	# Data comes in, ACKs that the kernel made go out.
	! grep -qvE "^p1	[0-9]+	good	" "$work/fields" && grep -q "^p1	1	good	to mroced	0x00000001	*$" "$work/fields" &&
		grep -q "^p1	3	good	answered	0x00000002	*$" "$work/fields"
}

on_standard_output()
{
	on h2 trace -c 5 -w - all | HOME=$work tshark -r - 2>/dev/null | wc -l | grep -qx 5
}

closed_pipe()
{
	on h2 trace all | head -n 1 >/dev/null
	[ "${PIPESTATUS[0]}" != 124 ] && is_off h2
}

killed()
{
	spawn h2 trace all >/dev/null
	local pid=$!
	wait_until is_on h2
	kill -9 $pid
	wait $pid 2>/dev/null
	says "another trace is on" on h2 trace all && says "turned off" on h2 trace --off && is_off h2
}

interrupted()
{
	spawn h2 trace all >/dev/null
	local pid=$!
	wait_until is_on h2
	kill -INT $pid
	wait $pid && is_off h2
}

set_up 1
check "traffic" traffic_up
check "off at first" is_off h2
check "lines of one connection" lines
check "off afterwards" is_off h2
check "one path" one_path
check "another connection: nothing" another_connection
check "what is dropped, and why" dropped
if command -v tshark >/dev/null; then
	check "pcapng, read by tshark" as_pcapng
	check "pcapng to standard output" on_standard_output
else
	number=$((number + 1))
	echo "ok $number - pcapng # SKIP tshark is not installed (scripts/deps)"
fi
check "a pipe that is closed ends it" closed_pipe
check "SIGINT turns it off" interrupted
check "kill -9 leaves it on, which is said and mended" killed
check "no connection named: misuse" ends_with 2 on h2 trace
check "no id: misuse" ends_with 2 on h2 trace nonsense
check "no such folder" ends_with 1 on h2 trace -w /nowhere/file all
check "off after all that" is_off h2
kill "${daemon_pid[h2]}"
wait "${daemon_pid[h2]}" 2>/dev/null
check "without programs: said" says "mroced does not run" on h2 trace all
finish
