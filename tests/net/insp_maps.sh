#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Counters and tables read without the daemon's help: mroce show counters --maps, and bpftool as docs/inspection.md
# walks through it. Nothing is pinned unless it is wished (insp_pins.sh), and nothing may be left after kill -9.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

in_h1()
{
	nsenter --net="/run/netns/mr-$fabric-h1" "$@"
}

ping_works()
{
	perf_server_up && on h1 ping -c 20 10.1.0.2
}

kernel_counters()
{
	json '[(c["name"], c["kernel"]) for c in d["counters"]]'
}

# The connection has ended: what both say does not move.
same()
{
	on h1 -j show counters | kernel_counters >"$work/asked"
	on h1 -j show counters --maps | kernel_counters >"$work/read"
	cat "$work/read"
	cmp "$work/asked" "$work/read" && grep -q "'TX_ACK', [1-9]" "$work/read"
}

# With two planes one set of maps is shared: nothing may be counted twice.
both_interfaces()
{
	[ "$(on h1 -j show counters --maps | json '[i["name"] for i in d["interfaces"]], len({i["counters_map_id"] for i in d["interfaces"]})')" = \
		"(['p1', 'p2'], 1)" ]
}

while_it_hangs()
{
	local status
	kill -STOP "${daemon_pid[h1]}"
	says TX_ACK on h1 show counters --maps
	status=$?
	kill -CONT "${daemon_pid[h1]}"
	return $status
}

# The walk through docs/inspection.md.

by_bpftool()
{
	local id maps
	id=$(in_h1 ip -details link show dev p1 | sed -nE 's/.*prog\/xdp id ([0-9]+).*/\1/p')
	maps=$(bpftool -j prog show id "$id" | json '",".join(map(str, d["map_ids"]))') || return 1
	echo "program $id, maps $maps"
	for map in ${maps//,/ }; do
		bpftool map show id "$map"
	done >"$work/maps"
	cat "$work/maps"
	grep -q "name mroce_counters" "$work/maps" && grep -q "name mroce_config" "$work/maps" || return 1
	map=$(sed -nE 's/^([0-9]+): .*name mroce_config .*/\1/p' "$work/maps")
	bpftool map dump id "$map" >"$work/config"
	grep -q '"udp_port": 4797' "$work/config" || { cat "$work/config"; return 1; }
	map=$(sed -nE 's/^([0-9]+): .*name mroce_counters .*/\1/p' "$work/maps")
	bpftool -j map lookup id "$map" key 35 0 0 0 >"$work/counter"
	[ "$(json 'sum(v["value"] for v in d["formatted"]["values"])' <"$work/counter")" = \
		"$(on h1 -j show counters | json '[c["kernel"] for c in d["counters"] if c["name"] == "TX_ACK"][0]')" ] ||
		{ cat "$work/counter"; return 1; }
}

nothing_left()
{
	local before
	before=$(cat "$work/maps" | sed -nE 's/^([0-9]+): .*/\1/p')
	kill -9 "${daemon_pid[h1]}"
	wait "${daemon_pid[h1]}" 2>/dev/null
	for map in $before; do
		wait_until sh -c "! bpftool map show id $map" || { bpftool map show id "$map"; return 1; }
	done
	! find /sys/fs/bpf -name '*mroce*' 2>/dev/null | grep .
}

set_up 2
check "traffic" ping_works
check "counters from maps are those of the daemon" wait_until same
check "two interfaces, one set of maps" both_interfaces
check "while the daemon stands still" while_it_hangs
check "--maps goes with counters alone" ends_with 2 on h1 show path --maps
check "walk through bpftool" by_bpftool
check "kill -9 leaves no map and no pin" nothing_left
check "then there is nothing to read, and it is said" says "no interface here has mroce's XDP program" on h1 show counters --maps
check "with an exit status" ends_with 1 on h1 show counters --maps
finish
