#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# With both programs attached and configured at both ends of a link, all other traffic is as before: ARP,
# ping, neighbour discovery, TCP, UDP, fragments; and our own port too while no daemon runs.
# shellcheck disable=SC2317 # functions are called by check
set -u
cd "$(dirname "$0")/../.." || exit 1
a=mrbpf-a-$$
b=mrbpf-b-$$
objects=${BUILD:-build}/bpf
tests=0
failures=0
work=$(mktemp -d)

clean() {
	ip netns del "$a" 2>/dev/null
	ip netns del "$b" 2>/dev/null
	umount "$work/bpffs" 2>/dev/null
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

check() {	# name command...
	local name=$1 verdict=ok
	shift
	tests=$((tests + 1))
	"$@" >"$work/out" 2>&1 || { verdict="not ok"; failures=$((failures + 1)); }
	echo "$verdict $tests - $name"
	[ "$verdict" = ok ] || sed 's/^/# /' "$work/out"
}

in_ns() {	# namespace command...
	nsenter --net="/run/netns/$1" "${@:2}"
}

host_up() {	# namespace device number
	in_ns "$1" ip addr add "10.78.0.$3/24" dev "$2" &&
		in_ns "$1" ip -6 addr add "fd78::$3/64" dev "$2" nodad &&
		in_ns "$1" ip link set lo up && in_ns "$1" ip link set "$2" up
}

map_ids() {	# namespace device: lines of "name id"
	in_ns "$1" ip -j -d link show "$2" | python3 -c '
import json, subprocess, sys
def show(*what):
    return json.loads(subprocess.check_output(("bpftool", "-j") + what))
prog = json.load(sys.stdin)[0]["xdp"]["prog"]["id"]
for i in show("prog", "show", "id", str(prog))["map_ids"]:
    print(show("map", "show", "id", str(i))["name"], i)'
}

# struct mroce_bpf_config as bytes for bpftool: this schema, port 4797, NACKs on, two addresses of the host.
config_bytes() {	# number bytes
	local schema
	schema=$(awk '$2 == "MROCE_MAP_SCHEMA" { print $3 }' include/mroce/maps.h)
	python3 -c '
import ipaddress, struct, sys
schema, number, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
local = [ipaddress.ip_address(f"::ffff:10.78.0.{number}"), ipaddress.ip_address(f"fd78::{number}")]
value = struct.pack("<IHHII", schema, 4797, 1, 0, 0) + b"".join(a.packed for a in local)
print(*value.ljust(size, b"\0"))' "$schema" "$1" "$2"
}

value_bytes() {	# map id
	bpftool -j map show id "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["bytes_value"])'
}

# Both objects, on the same maps, configured as by a daemon.
attach() {	# namespace device pin number
	local pin=$work/bpffs/$3 name id
	local -a share=()

	in_ns "$1" ip link set "$2" xdpdrv obj "$objects/mroce_xdp.bpf.o" sec xdp.frags || return 1
	map_ids "$1" "$2" >"$work/maps-$3"
	while read -r name id; do
		case $name in
		mroce_config) # shellcheck disable=SC2046 # one word a byte
			bpftool map update id "$id" key 0 0 0 0 value $(config_bytes "$4" "$(value_bytes "$id")") || return 1 ;;&
		mroce_config | mroce_conns | mroce_paths | mroce_counters)
			share+=(map name "$name" id "$id") ;;
		esac
	done <"$work/maps-$3"
	mkdir -p "$pin" && bpftool prog loadall "$objects/mroce_tc.bpf.o" "$pin" "${share[@]}" || return 1
	in_ns "$1" tc qdisc add dev "$2" clsact &&
		in_ns "$1" tc filter add dev "$2" egress bpf da pinned "$pin/mroce_tc_egress" &&
		in_ns "$1" tc filter add dev "$2" ingress bpf da pinned "$pin/mroce_tc_ingress"
}

counters() {	# pin: "number count" of those that are not zero
	bpftool -j map dump id "$(awk '$1 == "mroce_counters" { print $2 }' "$work/maps-$1")" | python3 -c '
import json, sys
for entry in json.load(sys.stdin):
    n = sum(v["value"] for v in entry["formatted"]["values"])
    if n:
        print(entry["formatted"]["key"], n)'
}

counted() {	# pin want
	local got
	got=$(counters "$1")
	[ "$got" = "$2" ] || { echo "counters of $1: got '$got', want '$2'"; return 1; }
}

pings() {	# options address
	in_ns "$a" ping -q -i 0.01 -c 50 -W 5 "$@" | tee "$work/ping" && grep -q ' 50 received' "$work/ping"
}

resolves() {	# family address
	in_ns "$a" ip "$1" neigh flush dev mrbpft0 && in_ns "$a" ping -q -c 1 -W 5 "$2" &&
		in_ns "$a" ip "$1" neigh show "$2" | grep -q lladdr
}

# Sends bytes from a to b by TCP or UDP, and compares what arrives.
transfer() {	# kind address port bytes
	rm -f "$work/ready"
	READY=$work/ready in_ns "$b" python3 - "$@" >"$work/sum" 2>"$work/err" <<-'PY' &
	import hashlib, os, socket, sys
	kind, address, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
	family = socket.AF_INET6 if ":" in address else socket.AF_INET
	s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
	s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
	s.settimeout(20)
	s.bind((address, port))
	if kind == "tcp":
	    s.listen()
	open(os.environ["READY"], "w").close()
	if kind == "tcp":
	    s = s.accept()[0]
	    s.settimeout(20)
	digest = hashlib.sha256()
	got = 0
	while got < size:
	    part = s.recv(1 << 20)
	    if not part:
	        break
	    got += len(part)
	    digest.update(part)
	print(got, digest.hexdigest())
	PY
	local receiver=$!
	READY=$work/ready in_ns "$a" python3 - "$@" >"$work/sent" <<-'PY' || { kill "$receiver"; return 1; }
	import hashlib, os, random, socket, sys, time
	kind, address, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
	family = socket.AF_INET6 if ":" in address else socket.AF_INET
	data = random.Random(size).randbytes(size)
	deadline = time.monotonic() + 20
	while not os.path.exists(os.environ["READY"]):
	    assert time.monotonic() < deadline, "the receiver did not start"
	    time.sleep(0.01)
	s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
	s.connect((address, port))
	s.sendall(data)
	print(size, hashlib.sha256(data).hexdigest())
	PY
	wait "$receiver"
	cat "$work/sum" "$work/sent" "$work/err"
	cmp "$work/sum" "$work/sent"
}

no_socket_counted() {
	local got
	got=$(counters b)
	[[ $got =~ ^40\ [0-9]+$ ]] || { echo "counters of b: got '$got', want 40 only"; return 1; }
}

ip netns add "$a" && ip netns add "$b" || exit 1
in_ns "$a" ip link add mrbpft0 type veth peer name mrbpft1 netns "$b" || exit 1
mkdir "$work/bpffs" && mount -t bpf bpf "$work/bpffs" || exit 1
check "host a" host_up "$a" mrbpft0 1
check "host b" host_up "$b" mrbpft1 2
check "programs at a" attach "$a" mrbpft0 a 1
check "programs at b" attach "$b" mrbpft1 b 2
check "ARP" resolves -4 10.78.0.2
check "IPv6 neighbour discovery" resolves -6 fd78::2
check "ping" pings 10.78.0.2
check "ping of 4000 bytes, in fragments" pings -s 4000 10.78.0.2
check "ping6" pings -6 fd78::2
check "ping6 of 4000 bytes, in fragments" pings -6 -s 4000 fd78::2
check "TCP, 64 MiB" transfer tcp 10.78.0.2 5001 67108864
check "TCP over IPv6, 64 MiB" transfer tcp fd78::2 5002 67108864
check "TCP to our port number" transfer tcp 10.78.0.2 4797 1000000
check "UDP" transfer udp 10.78.0.2 5003 1000
check "UDP, in fragments" transfer udp 10.78.0.2 5004 20000
check "UDP over IPv6, in fragments" transfer udp fd78::2 5005 20000
check "UDP to our port, in fragments" transfer udp 10.78.0.2 4797 20000
check "nothing was counted as ours at a" counted a ""
check "UDP to our port, without a daemon" transfer udp 10.78.0.2 4797 1000
check "UDP over IPv6 to our port, without a daemon" transfer udp fd78::2 4797 1000
check "which is all that was counted at b" no_socket_counted
echo "1..$tests"
exit $((failures > 0))
