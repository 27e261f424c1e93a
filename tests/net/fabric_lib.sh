# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of the fabric itself: TAP, a fabric of their own that is gone at the end, and a train of
# numbered packets whose fate is compared with what the switch says it did.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
fabric=${fabric:-fbt$$}
probe=${BUILD:-build}/tests/fabric/udpprobe
work=$(mktemp -d)
tests=0
failures=0
# What `train` says of the last train.
# shellcheck disable=SC2034
arrived=0 unique=0 lost=0 bursts=0 mean_burst_x100=0 duplicates=0 damaged=0 shortened=0 ce=0 late=0 \
	max_late=0 mean_late_x100=0 min_way_us=0 mean_way_us=0 us=0 kbit=0
trap 'F down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

F() {
	scripts/fabric --name "$fabric" "$@"
}

ok() {	# result-of-command name
	tests=$((tests + 1))
	if [[ $1 == 0 ]]; then
		echo "ok $tests - $2"
	else
		failures=$((failures + 1))
		echo "not ok $tests - $2"
	fi
}

check() {	# name command...
	local name=$1
	shift
	"$@" >"$work/check" 2>&1
	ok $? "$name"
	[[ -s $work/check ]] && sed 's/^/# /' "$work/check"
	return 0
}

fails() {	# command...: true if it fails
	! "$@"
}

equal() {	# got want what
	[[ $1 == "$2" ]] || { echo "$3: got $1, want $2"; return 1; }
}

between() {	# value low high what
	(($1 >= $2 && $1 <= $3)) || { echo "$4: got $1, want $2 to $3"; return 1; }
}

finish() {
	echo "1..$tests"
	exit $((failures > 0))
}

# Polls until the command is true, for ten seconds at most.
wait_until() {
	local deadline=$((SECONDS + 10))
	until "$@" >/dev/null 2>&1; do
		((SECONDS < deadline)) || { echo "# waited in vain for: $*"; return 1; }
		sleep 0.02
	done
}

listens() {	# host udp-port
	F exec "$1" grep -q ":$(printf %04X "$2") " /proc/net/udp6
}

listens_tcp() {	# host tcp-port
	F exec "$1" grep -q ":$(printf %04X "$2") 0*:0000 0A" /proc/net/tcp6 /proc/net/tcp
}

# Sets $plane and $host_number.
address_split() {	# 10.<plane>.0.<host> or fd00:<plane>::<host>
	IFS=.: read -r _ plane _ host_number <<<"$1"
}

# Packets that wait for ARP are sent in one go when the answer comes, and a sender that goes on meanwhile, on another
# CPU, overtakes them. So h1 knows the receiver's address before the first packet of a train.
knows_neighbour() {	# address
	local plane host_number
	address_split "$1"
	F exec h1 ip neigh replace "$1" dev "p$plane" \
		lladdr "$(printf '02:00:00:%02x:00:%02x' "$plane" "$host_number")" nud reachable
}

# A train is sent on the CPU on which the receiver's interface takes packets in, as scripts/fabric's flows_in_order has
# set it. There each is received before the next is sent; from another CPU a train of more than net.core.netdev_max_backlog
# packets could lose some at the host when the machine is slow, and its fate would say nothing about the network.
probe_send() {	# address-of-receiver address count [options of udpprobe send]
	local plane host_number pin
	address_split "$1"
	shift
	pin=(taskset -c $(((plane + host_number) % $(nproc --all))))
	"${pin[@]}" true 2>/dev/null || pin=()	# of a CPU that is not for us
	F exec h1 "${pin[@]}" "$probe" send "$@" || echo "# cannot send to $1"
}

# Sends a train; the account of the receiver is in $arrived, $unique, $lost, $late ... afterwards.
train() {	# receiver address count [options of udpprobe send]
	local receiver=$1 count=$3 pid
	F exec "$receiver" "$probe" recv "$count" >"$work/account" &
	pid=$!
	wait_until listens "$receiver" 4797
	knows_neighbour "$2"
	probe_send "$2" "${@:2}"
	wait "$pid"
	# shellcheck disable=SC1091
	. "$work/account"
}

# Writes the counters of one side of a port into a file, as "name value" lines.
counters() {	# file plane port from|to
	F show -j | python3 -c '
import json, sys
plane, port, side = sys.argv[1:]
for p in json.load(sys.stdin)["planes"][int(plane) - 1]["ports"]:
    if p["port"] == port:
        for name, value in p[side].items():
            print(name, value)' "${@:2}" >"$1"
}

counter() {	# plane port from|to name
	counters "$work/counter" "$1" "$2" "$3"
	sed -n "s/^$4 //p" "$work/counter"
}
