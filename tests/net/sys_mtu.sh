#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Networks that carry less than their interfaces say: known at set-up, found under way; and interfaces whose MTU changes.
# A switch port takes no larger packets than its own MTU, and says nothing.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

server()
{
	: >"$work/perf"
	spawn h2 perf -s --quiet
	server=$!
	wait_until on h1 ping -c 1 10.1.0.2
}

switch_mtu()	# plane mtu
{
	ip -n "mr-$fabric-s$1" link set h1 mtu "$2"
}

host_mtu()	# plane mtu
{
	ip -n "mr-$fabric-h1" link set "p$1" mtu "$2"
}

# The IP packets that paths by that plane carry, the smallest and the largest.
mtu_of()	# plane
{
	on h1 -j show path | json "(lambda m: (min(m), max(m)) if m else 0)([p['mtu'] for p in d['paths'] if p['port'] == $1 - 1])"
}

mtu_is()	# plane least most
{
	[ "$(mtu_of "$1" | tr -d '() ')" = "$2,$3" ] || { mtu_of "$1"; return 1; }
}

load()	# seconds
{
	on h1 -j perf --check -D "$1" -m 1M -t 8 10.1.0.2 >"$work/result" 2>&1 &
	load=$!
	wait_until paths_there
}

paths_there()
{
	[ "$(on h1 -j show path | json 'len(d["paths"])')" = 8 ]
}

all_right()
{
	wait "$load" || { cat "$work/result"; return 1; }
	[ "$(json 'sum(r["check_errors"] for r in d["results"])' <"$work/result")" = 0 ] &&
		[ "$(json 'd["results"][0]["iterations"] > 0' <"$work/result")" = True ]
}

logged()	# words
{
	grep -q "$1" "$work/h1.log"
}

anew()
{
	kill "$server" 2>/dev/null
	local host
	for host in h1 h2; do
		kill "${daemon_pid[$host]}"
		wait "${daemon_pid[$host]}"
		: >"$work/$host.log"
		start_daemon "$host" || return
	done
	server
}

set_up 2 --mtu 3498
check "a server answers" server
load 2
check "packets as large as the interfaces take" wait_until mtu_is 1 3492 3492
check "all bytes are right" all_right

switch_mtu 1 1500
check "daemons anew" anew
load 3
check "a switch that takes 1500 bytes is known before much is sent" wait_until mtu_is 1 1500 1500
check "the other plane is as it was" wait_until mtu_is 2 3492 3492
check "all bytes are right" all_right
check "it is told" logged "carries IP packets of 1500 bytes"

switch_mtu 1 3498
check "daemons anew" anew
load 5
check "large packets at first" wait_until mtu_is 1 3492 3492
switch_mtu 1 1500
check "a hole on one plane is found" wait_until mtu_is 1 1500 1500
switch_mtu 2 1400
check "and on the other" wait_until mtu_is 2 1380 1380
check "all bytes are right" all_right
switch_mtu 1 3498
switch_mtu 2 3498

check "daemons anew" anew
load 6
check "large packets at first" wait_until mtu_is 1 3492 3492
host_mtu 1 2000
check "the MTU of an interface is followed" wait_until mtu_is 1 2000 2000
host_mtu 2 1500
check "of the other, too" wait_until mtu_is 2 1500 1500
host_mtu 1 3498
host_mtu 2 3498
check "and back" wait_until mtu_is 2 3492 3492
check "all bytes are right" all_right
finish
