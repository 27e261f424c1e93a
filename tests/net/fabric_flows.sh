#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What scripts/bench measures with: flows and their samples, what flowstat and benchtable make of them, rawxsk. That they
# count right; how fast anything is does not matter.
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "$0")/fabric_lib.sh"

build=${BUILD:-build}
daemons=()
trap 'kill "${daemons[@]}" 2>/dev/null; F down; rm -rf "$work"' EXIT

flows() {	# arguments
	timeout 60 "$build/tests/fabric/flows" -f "$fabric" -S "$work/" -o "$work/samples" "$@" >"$work/result"
}

stat() {	# what arguments
	local what=$1
	shift
	case $what in
	last | jain) tests/fabric/flowstat "$what" "$work/result" ;;
	*) tests/fabric/flowstat "$what" "$work/result" "$work/samples" "$@" ;;
	esac
}

compare() {	# expression of awk
	awk "BEGIN { exit !($1) }" || { echo "not so: $1"; return 1; }
}

# Bytes of flow N, and whether it was done.
flow() {	# number key
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["flows"][int(sys.argv[2])][sys.argv[3]])' \
		"$work/result" "$1" "$2"
}

# Two flows of half a MiB share planes of 100 Mbit/s: no sooner than these allow, 64 KiB of burst on each aside.
shares_links() {	# kind planes
	flows -t 20000 -m 8192 -w "mr-$fabric-s1:h1" "$1:h2:h1,bytes=524288" "$1:h3:h1,bytes=524288" || return
	equal "$(flow 0 bytes)" 524288 "bytes of the first" && equal "$(flow 1 bytes)" 524288 "bytes of the second" &&
		compare "$(stat last) >= (1048576 - $2 * 65536) * 8 / 100 / $2" && compare "$(stat last) < 20e6" &&
		compare "$(stat jain) >= 0.5 && $(stat jain) <= 1"
}

# The port has carried its part of the bytes, and headers; its queue was never longer than it may be.
watched() {	# planes
	local sent
	sent=$(awk 'NR == 1 { first = $4 } { last = $4 } END { print last - first }' "$work/samples")
	compare "$sent >= 600000 / $1 && $sent <= 1600000" && compare "$(stat queue 0 20000 | cut -d' ' -f2) <= 310000"
}

start_daemons() {
	local host
	for host in h1 h2 h3; do
		nsenter --net="/run/netns/mr-$fabric-$host" "$build/mroced" -i p1 -i p2 --socket "$work/$host.sock" \
			>"$work/$host.log" 2>&1 &
		daemons+=($!)
	done
	for host in h1 h2 h3; do
		wait_until "$build/mroce" --socket "$work/$host.sock" show port || return
	done
}

# A plane goes while TCP has a connection on each, and mroce one over both.
plane_fails() {	# standing-still flow...
	local still=$1
	shift
	flows -t 2500 -m 8192 -d 32 -s 2 -w "mr-$fabric-s2:h2" \
		-r "600:$build/tests/fabric/fabricctl set --down -- mr-$fabric-s2" "$@" || return
	F set --plane 2 --up >/dev/null
	equal "$(stat failure 0.5 | cut -d' ' -f3)" "$still" "flows that stand still"
}

raw_carries() {	# drop|copy
	compare "$("$build/tests/fabric/rawxsk" "$1" "mr-$fabric-h1:p1" "mr-$fabric-h2:p1" 3384 200) > 0.01"
}

judges() {
	{
		printf 'clean\tzero loss\tmroce\tGbit/s\t%s\n' 10 12 11
		printf 'clean\tzero loss\tTCP bbr x1\tGbit/s\t%s\n' 4 5 6
		printf 'clean\tzero loss\tTCP bbr x1 offload\tGbit/s\t%s\n' 22
		printf 'clean\tzero loss\traw AF_XDP, drop\tGbit/s\t%s\n' 30
	} >"$work/table"
	tests/fabric/benchtable text "$work/table" clean >"$work/text" || return
	grep -q '(/ TCP): >= 1.25, is 2.200: pass' "$work/text" && grep -q '(/ any TCP): >= 1.25, is 0.500: MISS' "$work/text"
}

check "up: three hosts, two planes" F up --hosts 3 --planes 2 --mtu 3498 --rate 100mbit --limit 300k
check "two TCP flows share a link" shares_links cubic 1
check "the port they share is watched" watched 1
check "TCP on a plane that fails stands still" plane_fails 1 cubic:h1:h2,plane=1 cubic:h1:h2,plane=2
check "daemons start" start_daemons
check "two mroce flows share two planes" shares_links mroce 2
check "one of the ports they share is watched" watched 2
check "mroce on a plane that fails goes on" plane_fails 0 mroce:h1:h2
kill "${daemons[@]}"
wait "${daemons[@]}"
daemons=()
F down
F up --direct --mtu 3498 >/dev/null
check "raw AF_XDP into nothing" raw_carries drop
check "raw AF_XDP into memory" raw_carries copy
check "targets are judged" judges
finish
