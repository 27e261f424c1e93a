#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Interfaces that are deleted and made anew, renamed, or given other queues while mroced runs.
# shellcheck source-path=SCRIPTDIR source=pair_lib.sh
PORT_NS=${PORT_NS:-mrhp$$}
. "$(dirname "$0")/pair_lib.sh"

planes=(v0 v1)

link_make() {	# number [ifindex in a, and in b]
	ip link add "v$1" netns "${ns}a" ${2:+index "$2"} mtu 3498 numrxqueues 4 numtxqueues 4 type veth \
		peer name "v$1" netns "${ns}b" ${3:+index "$3"} mtu 3498 numrxqueues 4 numtxqueues 4
	ip -n "${ns}a" address add "10.8$1.0.1/24" dev "v$1"
	ip -n "${ns}b" address add "10.8$1.0.2/24" dev "v$1"
	ip -n "${ns}a" link set "v$1" up
	ip -n "${ns}b" link set "v$1" up
}

two_hosts() {
	ip netns add "${ns}a" && ip netns add "${ns}b" && link_make 0 && link_make 1
	wait_until link_is_up a v0 && wait_until link_is_up b v1
}

# A word of each line of `mroce show port`, as in: v0 up, v1 DOWN
ports_of() {	# a|b
	in_ns "$1" "$build/mroce" --socket "$work/$1.sock" show port | awk '/^ +[0-9]/ { printf "%s%s %s", sep, $2, $4; sep = ", " }'
}

ports_are() {	# a|b ports
	equal "$(ports_of "$1")" "$2" "ports of $1"
}

ports_become() {	# ports, on both hosts
	wait_until ports_are a "$1" && wait_until ports_are b "$1" && return
	ports_are a "$1"
	ports_are b "$1"
	return 1
}

queues_are() {	# a|b number
	equal "$(in_ns "$1" "$build/mroce" --socket "$work/$1.sock" -j show port |
		grep -o '"queues": [0-9]*' | head -n 1)" "\"queues\": $2" queues
}

# Messages without end, which must survive what happens meanwhile.
traffic_on() {
	nsenter --net="/run/netns/${ns}a" "$exchange" serve "$work/a.sock" --service 900 --count 1 >"$work/endless.a" 2>&1 &
	server=$!
	wait_until grep -q ready "$work/endless.a"
	nsenter --net="/run/netns/${ns}b" "$exchange" run "$work/b.sock" 10.80.0.1 --service 900 --messages 3000 --sizes 4000,30000 --slow 1000 \
		--streams 2 >"$work/endless.b" 2>&1 &
	client=$!
	wait_until connected
}

connected() {
	in_ns b "$build/mroce" --socket "$work/b.sock" -j show conn | grep -q '"state": "up"'
}

# Else it would prove nothing.
traffic_goes_on() {
	kill -0 "$client" && connected
}

traffic_is_right() {
	wait "$client" && wait "$server" || { cat "$work/endless.a" "$work/endless.b"; return 1; }
}

gone() {
	ip -n "${ns}a" link del v0
	ports_become "v0 DOWN, v1 up"
}

back() {
	link_make 0
	ports_become "v0 up, v1 up"
}

v1_too() {
	ip -n "${ns}a" link del v1
	ports_become "v0 up, v1 DOWN" || return
	link_make 1
	ports_become "v0 up, v1 up"
}

carries_alone() {	# number of the plane, and of the other
	local status states=(up up)
	states[$2]=DOWN
	ip -n "${ns}a" link set "v$2" down
	ports_become "v0 ${states[0]}, v1 ${states[1]}"
	transfers "10.8$1.0.1"
	status=$?
	ip -n "${ns}a" link set "v$2" up
	ports_become "v0 up, v1 up" && return $status
}

only_v0_carries() {
	carries_alone 0 1
}

only_v1_carries() {
	carries_alone 1 0
}

index_of() {	# a|b interface
	in_ns "$1" cat "/sys/class/net/$2/ifindex" 2>/dev/null || ip -n "$ns$1" -o link show "$2" | cut -d: -f1
}

# To the daemons it is one moment, and the number is the same.
replaced_at_once() {
	local in_a in_b
	in_a=$(index_of a v0) && in_b=$(index_of b v0) || return
	kill -STOP "${daemon[a]}" "${daemon[b]}"
	ip -n "${ns}a" link del v0 && link_make 0 "$in_a" "$in_b"
	local status=$?
	kill -CONT "${daemon[a]}" "${daemon[b]}"
	wait_until grep -q "v0: the interface went and came back" "$work/log.a"
	wait_until grep -q "v0: the interface went and came back" "$work/log.b"
	[[ $status == 0 ]] && ports_become "v0 up, v1 up"
}

# An interface of the name that was configured, while ours had another.
renamed_and_replaced() {
	renamed && ip -n "${ns}a" link del w0 && wait_until ports_are a "w0 DOWN, v1 up" && link_make 0 &&
		ports_become "v0 up, v1 up"
}

renamed() {
	ip -n "${ns}a" link set v0 down
	ip -n "${ns}a" link set v0 name w0
	ip -n "${ns}a" link set w0 up
	wait_until ports_are a "w0 up, v1 up"
	ports_are a "w0 up, v1 up" && grep -q "v0: the interface is called w0 now" "$work/log.a"
}

renamed_back() {
	ip -n "${ns}a" link set w0 down
	ip -n "${ns}a" link set w0 name v0
	ip -n "${ns}a" link set v0 up
	ports_become "v0 up, v1 up"
}

# A veth with XDP must not have fewer receive queues than its peer transmits on. The kernel itself refuses to
# take queues away that have AF_XDP sockets, so they can only become more.
more_queues() {
	queues_are a 2 && in_ns a ethtool -L v0 rx 4 && in_ns b ethtool -L v0 rx 4 && in_ns a ethtool -L v0 tx 4 &&
		in_ns b ethtool -L v0 tx 4 || return 1
	wait_until queues_are a 4 && wait_until queues_are b 4
	queues_are a 4 && queues_are b 4 && ports_become "v0 up, v1 up"
}

few_queues() {	# before there are programs
	in_ns a ethtool -L v0 rx 2 tx 2 && in_ns b ethtool -L v0 rx 2 tx 2
}

all_bare() {
	local host interface
	for host in a b; do
		for interface in v0 v1; do
			in_ns "$host" "$blast" attached "$interface"
			in_ns "$host" tc qdisc show dev "$interface" | grep clsact
		done
	done >"$work/left" 2>&1
	[[ ! -s $work/left ]] || { cat "$work/left"; return 1; }
}

check "two hosts, two planes" two_hosts
# Descriptor 0 is one of theirs then, and nobody else may close it.
stdin=- launch a
stdin=- launch b
check "both planes are up" ports_become "v0 up, v1 up"
traffic_on
check "v0 is deleted: its port goes down" gone
check "messages go on over v1" traffic_goes_on
check "and comes back with a new interface of that name" back
check "messages still go on" traffic_goes_on
check "which is told" grep -q "v0: an interface of this name is there again" "$work/log.a"
check "messages under way have all arrived, and right" traffic_is_right
check "v0 carries by itself" only_v0_carries
check "again" gone
check "and back again" back
check "v0 carries by itself" only_v0_carries
check "v1 is deleted, too, and comes back" v1_too
check "v0 still carries by itself" only_v0_carries
check "and so does v1" only_v1_carries
check "v0 is replaced within a moment by one of the same number" replaced_at_once
check "v0 carries by itself" only_v0_carries
check "a renamed interface is followed" renamed
check "and carries" transfers 10.80.0.1
check "also back" renamed_back
check "renamed, and another takes its name" renamed_and_replaced
check "v0 carries by itself" only_v0_carries
over a
over b
if few_queues >/dev/null 2>&1; then
	launch a
	launch b
	check "more queues: opened anew" more_queues
	check "v0 carries by itself" only_v0_carries
else
	skip "more queues: opened anew" "ethtool cannot set the channels of veth here"
	launch a
	launch b
fi
check "a stops in order" over a
check "b stops in order" over b
check "nothing is left" wait_until all_bare

launch MROCE_TC=netlink a
launch MROCE_TC=netlink b
check "TC filters: v0 deleted" gone
check "and back" back
killed a
killed b
check "after kill -9 nothing is left on the new interface either" wait_until all_bare

told_to_restart() {
	wait_until grep -q "v0: an interface of this name is there again: restart mroced" "$work/log.a"
	grep -q "v0: an interface of this name is there again: restart mroced" "$work/log.a" &&
		ports_are a "v0 DOWN, v1 up" && equal "$(grep -c 'there again' "$work/log.a")" 1 "times told"
}

link_again() {
	ip -n "${ns}a" link del v0
	link_make 0
}

launch a --port socket
link_again
check "plain sockets: told to restart, once" told_to_restart
over a
wait_until link_is_up a v0
ip -n "${ns}a" link set dev v0 xdpdrv obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags
launch a
link_again
check "an adopted program: told to restart, once" told_to_restart
check "stops in order" over a
check "nothing is left" wait_until all_bare
finish
