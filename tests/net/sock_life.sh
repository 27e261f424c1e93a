#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Socket ports through the changes of life: kill -9, a plane that goes and comes back, addresses and MTU that change,
# ports that are taken; which kind of port is chosen, and what is said about it.
# shellcheck source-path=SCRIPTDIR source=sock_lib.sh
. "$(dirname "$0")/sock_lib.sh"

# A transfer in the background that goes on until something ends it.
load_up() {	# address
	serve h2 || return 1
	: >"$work/load"
	nsenter --net="/run/netns/mr-$fabric-h1" "$bin/mroce" --socket "$run/h1.sock" perf --check -D 60 --timeout 15 \
		"$1" >"$work/load" 2>&1 &
	pid[load]=$!
	wait_until flows
}

flows() {
	(($(port_sum h1 tx_packets) > 5000))
}

goes_on() {	# goodput after some event: packets still leave
	local before
	before=$(port_sum h1 tx_packets)
	wait_until leaves_more_than "$((before + 5000))"
}

leaves_more_than() {
	(($(port_sum h1 tx_packets) > $1))
}

ends_with_error() {	# name seconds
	local status
	wait_long "$2" fails alive "$1" || return 1
	wait "${pid[$1]}"
	status=$?
	unset "pid[$1]"
	[[ $status != 0 ]] || { echo "it ended well"; cat "$work/$1"; return 1; }
}

up_is() {	# host port True|False
	equal "$(show "$1" "s['ports'][$2]['up']")" "$3" "port $2 up"
}

address_is() {	# host port address
	equal "$(show "$1" "s['ports'][$2]['addr']")" "$3" "address of port $2"
}

mtu_is() {	# host port mtu
	equal "$(show "$1" "s['ports'][$2]['mtu']")" "$3" "MTU of port $2"
}

plane_two_carries() {	# until its counter moves
	local before
	before=$(show h1 "s['ports'][1]['tx_packets']")
	wait_until plane_two_beyond "$((before + 500))"
}

plane_two_beyond() {
	(($(show h1 "s['ports'][1]['tx_packets']") > $1))
}

change_address() {	# from to: of p1 at h1
	# Or all addresses of the network would go with the first.
	on h1 sysctl -qw net.ipv4.conf.p1.promote_secondaries=1
	on h1 ip address add "$2/24" dev p1 && on h1 ip address del "$1/24" dev p1
}

no_socket_left() {	# host
	equal "$(on "$1" cat /proc/net/udp /proc/net/udp6 | grep -vc local_address)" 0 "UDP sockets left"
}

bare() {	# host: no program, no filter
	local found
	found=$(on "$1" ip link show p1 | grep -o 'prog/xdp.*'; on "$1" tc qdisc show dev p1 | grep -o clsact)
	equal "$found" "" "attached"
}

refused() {	# words options...
	local status
	timeout 20 nsenter --net="/run/netns/mr-$fabric-h1" "$bin/mroced" --socket "$run/refused.sock" "${@:2}" >"$work/refused" 2>&1
	status=$?
	[[ $status != 0 && $status != 124 ]] || { echo "exit status $status"; cat "$work/refused"; return 1; }
	said refused "$1" || { cat "$work/refused"; return 1; }
}

doctor_says() {	# status words
	mroce h1 doctor >"$work/doctor" 2>&1
	grep -q "^$1.*$2" "$work/doctor" || { cat "$work/doctor"; return 1; }
}

fabric_up 2 1500 || exit 1

# ---- which kind ----
check "auto, as root: AF_XDP" daemon_up h1 root --port auto
check "and why" doctor_says OK "mroced uses AF_XDP (port = auto"
check "stops" daemon_stop h1
check "auto, as nobody: sockets" daemon_up h1 nobody --port auto
check "said loudly" said log.h1 "warning: AF_XDP cannot be had, so plain UDP sockets are used"
check "with the reason" said log.h1 "The reason: capability CAP_BPF is missing"
check "by doctor, too" doctor_says WARN "UDP sockets.*CAP_BPF is missing"
check "stops" daemon_stop h1
check "AF_XDP as nobody is refused" fails daemon_up h1 nobody --port afxdp
check "and says what to do" said log.h1 "or use plain UDP sockets.*--port socket"
check "a kind that is none" refused "not a kind of port: afxdp, socket or auto" -i p1 --port pigeon
check "no address of that kind" refused "address 10.9.9.9 is not (yet) on this interface" -i p1@10.9.9.9 --port socket
check "no such interface" refused "no such interface" -i nope --port socket

# ---- start and stop ----
F set --plane 2 --host 1 --down >/dev/null
check "a plane without carrier keeps nobody from starting" daemon_up h1 root --port socket
check "it counts as down" up_is h1 1 False
F set --plane 2 --host 1 --up >/dev/null
check "and joins when the link comes" wait_until up_is h1 1 True
check "stops" daemon_stop h1
check "sockets: daemons start" pair_up root socket socket
check "doctor is content" doctor_says OK "mroced uses UDP sockets (port = socket)"
check "nothing is attached" bare h1
check "a second daemon on the same ports is refused" refused "another program (an mroced already running here?)" -i p1 --port socket
check "it transfers" transfer 100 10.1.0.2

# ---- a plane goes and comes back ----
check "load" load_up 10.1.0.2
F set --plane 2 --host 1 --down >/dev/null
check "plane 2 down: seen" wait_until up_is h1 1 False
check "the other one carries on" goes_on
F set --plane 2 --host 1 --up >/dev/null
check "plane 2 up again: seen" wait_until up_is h1 1 True
check "and used" plane_two_carries
F set --plane 2 --blackhole >/dev/null
check "plane 2 swallows everything: the other one carries on" goes_on
F set --plane 2 --no-blackhole >/dev/null
check "plane 2 works again and is used" plane_two_carries

# ---- kill -9 ----
end9 h2
check "peer killed: the application hears of it" ends_with_error load 20
end9 server
check "nothing is left of it" no_socket_left h2
check "its successor starts at once" daemon_up h2 root --port socket
check "and is reached" transfer 100 10.1.0.2

# ---- addresses and MTU ----
check "another address" change_address 10.1.0.1 10.1.0.11
check "is taken over" wait_until address_is h1 0 10.1.0.11
check "and used" transfer 100 10.1.0.2
check "and back" change_address 10.1.0.11 10.1.0.1
check "is taken over" wait_until address_is h1 0 10.1.0.1
check "and used" transfer 100 10.1.0.2
on h1 ip link set p1 mtu 1400
check "a smaller MTU is seen" wait_until mtu_is h1 0 1400
check "and obeyed" transfer 100 10.1.0.2
check "daemons stop" daemon_stop h1 h2
check "no socket is left" no_socket_left h1
check "no file is left" equal "$(ls "$run")" "" files
fabric_down
finish
