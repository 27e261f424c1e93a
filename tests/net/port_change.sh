#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The interface and its surroundings change while ports are open: link, MTU, addresses, neighbours, routes.
# shellcheck source-path=SCRIPTDIR source=port_lib.sh
. "$(dirname "$0")/port_lib.sh"

router=${ns}r
trap '[[ -e /run/netns/$router ]] && ip netns del $router; cleanup' EXIT

# Runs the loop of a's ports until the first port shows that.
becomes() {	# expression want
	local deadline=$((SECONDS + 10)) got
	while ((SECONDS < deadline)); do
		tell a work >/dev/null
		got=$(show a "$1")
		[[ $got == "$2" ]] && return
	done
	echo "$1 is $got, want $2"
	return 1
}

# A transfer from a to b with something done to it after its start.
transfer_while() {	# megabytes peer command...
	local megabytes=$1 peer=$2 rc
	shift 2
	in_ns b "$blast" -m "$megabytes" recv v0 >"$work/recv" 2>"$work/recv.log" &
	local receiver=$!
	wait_until grep -q ready "$work/recv"
	in_ns a "$blast" -m "$megabytes" send "$peer" v0 >"$work/send" 2>"$work/send.log" &
	local sender=$!
	wait_until grep -q "event 2" "$work/recv.log"
	"$@"
	wait $sender
	rc=$?
	wait $receiver || rc=1
	((rc == 0)) || cat "$work/send" "$work/send.log" "$work/recv" "$work/recv.log"
	return $rc
}

flush_neighbours() {
	for _ in 1 2 3 4 5; do
		ip -n "${ns}a" neighbour flush dev v0
		ip -n "${ns}b" neighbour flush dev v0
		sleep 0.05
	done
}

bounce() {
	ip -n "${ns}a" link set v0 down
	sleep 0.1
	ip -n "${ns}a" link set v0 up
	wait_until link_is_up a v0
}

many_routes() {	# add|del
	seq 1 20000 | awk -v op="$1" '{
		printf "route %s 10.%d.%d.%d/32 dev v0\n", op, 100 + $1 / 65536, $1 / 256 % 256, $1 % 256
	}' | ip -n "${ns}a" -batch -
}

# a - router - b; the router's ends need an XDP program, or answers that XDP sends are lost on the way.
routed_net() {
	local n
	for n in a b r; do
		ip netns add "$ns$n"
		ip -n "$ns$n" link set lo up
	done
	for n in a b; do
		ip link add v0 netns "$ns$n" type veth peer name "to$n" netns "$router"
		ip -n "$router" link set dev "to$n" xdpdrv obj "$build/tests/net/foreign.bpf.o" sec xdp
		ip -n "$ns$n" link set v0 up
		ip -n "$router" link set "to$n" up
	done
	ip -n "${ns}a" address add 10.77.1.1/24 dev v0
	ip -n "${ns}b" address add 10.77.2.1/24 dev v0
	ip -n "$router" address add 10.77.1.254/24 dev toa
	ip -n "$router" address add 10.77.2.254/24 dev tob
	in_ns r sysctl -qw net.ipv4.ip_forward=1
	wait_until link_is_up a v0
	wait_until link_is_up b v0
	ip -n "${ns}a" route add default via 10.77.1.254
	ip -n "${ns}b" route add 10.77.0.0/16 via 10.77.2.254
}

net_up
hold a hold v0 >/dev/null
ip -n "${ns}b" link set v0 down
check "carrier lost is seen" becomes "['up']" False
ip -n "${ns}b" link set v0 up
check "carrier back is seen" becomes "['up']" True
ip -n "${ns}a" link set v0 mtu 2000
check "MTU is followed" becomes "['mtu']" 2000
ip -n "${ns}a" link set v0 mtu 1200
check "an MTU that is too small takes the port down" becomes "['up']" False
ip -n "${ns}a" link set v0 mtu 3498
check "and back" becomes "['up']" True
ip -n "${ns}a" address add 10.79.0.9/24 dev v0
check "a second address changes nothing" becomes "['addr']" 10.77.0.1
ip -n "${ns}a" address del 10.77.0.1/24 dev v0
check "the address is gone: another is taken" becomes "['addr']" 10.79.0.9
ip -n "${ns}a" address flush dev v0
check "no address: the port is down" becomes "['up']" False
ip -n "${ns}a" address add 10.77.0.1/24 dev v0
check "an address: the port is up" becomes "['addr']" 10.77.0.1
many_routes add
check "more route changes than fit are survived" becomes "['up']" True
check "by reading all anew" grep -q "tables were read anew" "$work/log.a"
many_routes del
check "routes gone" becomes "['up']" True
ip -n "${ns}a" link del v0
check "the interface is gone" becomes "['up']" False
check "and that is told" grep -q "the interface is gone" "$work/log.a"
quit a
net_down

net_up
check "neighbours flushed during a transfer" transfer_while 64 10.77.0.2 flush_neighbours
check "link bounced during a transfer" transfer_while 256 10.77.0.2 bounce
net_down

routed_net
check "over a router" transfer_while 8 10.77.2.1 true
check "neighbours flushed, over a router" transfer_while 8 10.77.2.1 flush_neighbours
net_down
ip netns del "$router"
finish
