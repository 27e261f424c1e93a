#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Everything else on the interfaces is as if we were not there, while we are busy on them: ARP, neighbour
# discovery, ping with fragments, TCP, UDP with every datagram counted, frames with a VLAN tag.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

# Our own traffic, both ways, until load_down.
load_up() {
	server_up server h2 --count 0 || return 1
	app client h1 "$exchange" run "$(sock h1)" 10.1.0.2 --repeat 0 --streams 8 --messages 60 --random 300000
	wait_until busy
}

busy() {
	(($(counted h2 RX_REDIRECT) > 1000))
}

load_down() {
	alive client || { cat "$work/client" "$work/server"; return 1; }
	end9 client
	end9 server
	! grep -h "wrong:\|ended:" "$work/client"
	grep -q right: "$work/client"
}

pings() {	# options address
	F exec h1 ping -q -i 0.01 -c 100 -W 10 "$@" >"$work/ping" || { cat "$work/ping"; return 1; }
	grep -q ' 100 received' "$work/ping" || { cat "$work/ping"; return 1; }
	! grep duplicates "$work/ping"
}

resolves() {	# -4|-6 address
	F exec h1 ip "$1" neigh flush dev p1
	F exec h1 ping -q -c 1 -W 10 "$2" && F exec h1 ip "$1" neigh show "$2" | grep -q lladdr
}

# 30 MiB, compared by SHA-256.
tcp() {	# address
	F exec h2 python3 - "$1" >"$work/tcp" <<-'END' &
		import hashlib, socket, sys
		s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
		s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		s.bind((sys.argv[1], 5301))
		s.listen()
		print("ready", flush=True)
		s.settimeout(20)
		c = s.accept()[0]
		c.settimeout(20)
		digest = hashlib.sha256()
		while part := c.recv(1 << 20):
		    digest.update(part)
		c.sendall(digest.digest())
	END
	local receiver=$!
	wait_until said tcp ready || return 1
	F exec h1 python3 - "$1" <<-'END' || return 1
		import hashlib, random, socket, sys
		data = random.Random(5).randbytes(30 << 20)
		s = socket.create_connection((sys.argv[1], 5301), 20)
		s.sendall(data)
		s.shutdown(socket.SHUT_WR)
		got = s.recv(32, socket.MSG_WAITALL)
		sys.exit(got != hashlib.sha256(data).digest())
	END
	wait $receiver
}

# Numbered datagrams to a port that is not ours; the kernel's queue is deep enough for all.
udp() {	# address
	F exec h2 python3 - "$1" >"$work/udp" <<-'END' &
		import socket, sys
		s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
		s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
		s.bind((sys.argv[1], 5300))
		s.settimeout(20)
		print("ready", flush=True)
		seen = {}
		while len(seen) < 3000:
		    data = s.recv(2000)
		    n = int.from_bytes(data[:4], "big")
		    assert data[4:] == bytes(i * n & 255 for i in range(1000)), f"datagram {n} was changed"
		    seen[n] = seen.get(n, 0) + 1
		assert sorted(seen) == list(range(3000)) and set(seen.values()) == {1}, "lost or repeated"
		print("all")
	END
	local receiver=$!
	wait_until said udp ready || return 1
	F exec h1 python3 - "$1" <<-'END'
		import socket, sys, time
		s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
		for n in range(3000):
		    s.sendto(n.to_bytes(4, "big") + bytes(i * n & 255 for i in range(1000)), (sys.argv[1], 5300))
		    if n % 20 == 0:
		        time.sleep(0.002)
	END
	wait $receiver || { cat "$work/udp"; return 1; }
}

# Frames with a VLAN tag, made by hand: UDP over IPv4 and IPv6, ARP, something unknown.
tagged() {
	on h2 python3 - >"$work/tagged" 2>&1 <<-'END' &
		import socket, time
		s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
		s.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
		s.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA: the kernel takes the tag out of the frame
		s.bind(("p1", 0))
		s.settimeout(1)
		print("ready", flush=True)
		got, deadline = set(), time.monotonic() + 20
		while len(got) < 200 and time.monotonic() < deadline:
		    try:
		        data, aux, _, _ = s.recvmsg(2000, 100)
		    except socket.timeout:
		        continue
		    at = data.find(b"MARK")
		    if at >= 0:
		        got.add(int.from_bytes(data[at + 4:at + 8], "big"))
		print(len(got), "tagged frames")
		print("all" if got == set(range(200)) else f"missing {sorted(set(range(200)) - got)[:10]}")
	END
	local receiver=$!
	wait_until said tagged ready || { cat "$work/tagged"; return 1; }
	on h1 python3 - <<-'END'
		import socket, struct
		s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
		s.bind(("p1", 0))
		ethernet = bytes.fromhex("020000010002" "020000010001" "8100" "0007")
		ipv4 = [bytes([10, 1, 0, n]) for n in (1, 2)]
		ipv6 = [socket.inet_pton(socket.AF_INET6, f"fd00:1::{n}") for n in (1, 2)]
		for n in range(200):
		    mark = b"MARK" + n.to_bytes(4, "big")
		    other = struct.pack("!HHHH", 1000, 5301, 8 + len(mark), 0) + mark
		    v4 = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(other), n, 0, 64, 17, 0, *ipv4)
		    v6 = struct.pack("!IHBB16s16s", 6 << 28, len(other), 17, 64, *ipv6)
		    arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, ethernet[6:12], ipv4[0], bytes(6), ipv4[1])
		    what = [(0x800, v4 + other), (0x86dd, v6 + other), (0x806, arp + mark), (0x88b5, mark)][n % 4]
		    s.send(ethernet + struct.pack("!H", what[0]) + what[1])
	END
	wait $receiver
	said tagged '^all' || { cat "$work/tagged"; return 1; }
}

under_load() {
	check "our own traffic runs" load_up
	check "ARP" resolves -4 10.1.0.2
	check "IPv6 neighbour discovery" resolves -6 fd00:1::2
	check "ping" pings 10.1.0.2
	check "ping of 4000 bytes, in fragments" pings -s 4000 10.1.0.2
	check "ping6" pings -6 fd00:1::2
	check "TCP" tcp 10.1.0.2
	check "TCP over IPv6" tcp fd00:1::2
	check "UDP, every datagram" udp 10.1.0.2
	check "UDP over IPv6, every datagram" udp fd00:1::2
	check "frames with a VLAN tag" tagged
	check "our own traffic was right meanwhile" load_down
}

check "fabric" fabric_up 1 --mtu 1500 --rate 300mbit --limit 2m
check "daemons" daemons_up
under_load
check "daemons stop well" daemon_stop h1 h2
finish
