#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The fabric comes up, carries IPv4, IPv6 and large packets, stands beside others, and leaves nothing.
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "$0")/fabric_lib.sh"

left() {	# names of what is left of a fabric
	ip netns list | grep "^mr-$1-"
	[[ -e /run/mroce-fabric/$1 ]] && echo "/run/mroce-fabric/$1"
	ip -o link | grep -o "mr-$1-[^ ]*"
	return 0
}

nothing_left() {
	equal "$(left "$1")" "" "left of $1"
}

all_arrive() {	# receiver address count options
	train "$@" && equal "$unique" "$3" "arrived at $2" && equal "$late" 0 "out of order"
}

# Each end asks for the other, or learns it from the question.
learns_by_asking() {
	F exec h1 ip neigh flush dev p1
	F exec h2 ip neigh flush dev p1
	F exec h1 ping -q -c 1 -W 5 10.1.0.2 &&
		wait_until F exec h1 grep -q 02:00:00:01:00:02 /proc/net/arp &&
		wait_until F exec h2 grep -q 02:00:00:01:00:01 /proc/net/arp
}

killed_up() {	# milliseconds
	local pid
	scripts/fabric --name "$fabric" up --hosts 4 --planes 4 --rate 1gbit >/dev/null 2>&1 &
	pid=$!
	sleep "0.$(printf %03d "$1")"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	F down && nothing_left "$fabric"
}

check "down of what does not exist" F down
check "up: 2 hosts x 4 planes" F up --planes 4
check "up again is refused" fails F up
check "IPv4 crosses plane 1" all_arrive h2 10.1.0.2 2000
check "IPv4 crosses plane 4" all_arrive h2 10.4.0.2 2000
check "IPv6 crosses plane 3" all_arrive h2 fd00:3::2 2000
check "neighbours are learned by asking" learns_by_asking
check "packets have valid UDP checksums" all_arrive h2 10.2.0.2 2000 -c
check "counters: from host 1" between "$(counter 4 h1 from packets)" 2000 2100 packets
check "counters: to host 2" between "$(counter 4 h2 to packets)" 2000 2100 packets
check "exec in a host that is not there is refused" fails F exec h3 true
check "set without a change is refused" fails F set --host 1
check "set of an unknown host is refused" fails F set --host 9 --loss 1
check "set of nonsense is refused" fails F set --loss 101

first=$fabric
fabric=$first-2
check "a second one beside it" F up --hosts 3 --mtu 9000
check "packets of 8972 bytes cross it" all_arrive h3 10.1.0.3 500 -s 8972
check "list names both" [ "$(F list | grep -c "^fabric $first\(-2\)\?:")" = 2 ]
scripts/fabric --name "$fabric" exec h1 sleep 1000 &
sleeper=$!
wait_until grep -q sleep /proc/$sleeper/comm
check "down ends what runs in it" F down
wait "$sleeper" 2>/dev/null
check "by SIGTERM" [ $? = $((128 + 15)) ]
check "and leaves nothing" nothing_left "$fabric"
fabric=$first
check "the first one still works" all_arrive h2 10.1.0.2 2000
check "down" F down
check "leaves nothing" nothing_left "$fabric"

check "up --direct" F up --direct --planes 2 --mtu 3498
check "packets of 3470 bytes cross it" all_arrive h2 10.2.0.2 500 -s 3470
check "set has nothing to set there" fails F set --loss 1
check "down of it" F down

for ms in 5 15 25 40 60; do
	check "nothing is left of an up killed after $ms ms" killed_up "$ms"
done
finish
