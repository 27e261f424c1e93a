#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Upgrade and downgrade. Another version is built from these sources, whose maps mean something else (the same sizes, another
# schema) and whose library speaks another version to its daemon: whichever of the two was there first, the other one starts
# after it, or says what is in its way and how to get rid of it; the host's own traffic passes all the time.
# shellcheck source-path=SCRIPTDIR source=pair_lib.sh
PORT_NS=${PORT_NS:-mrup$$}
. "$(dirname "$0")/pair_lib.sh"
# Another make's flags, as in `make check`, are not for ours.
unset MAKEFLAGS MFLAGS MAKELEVEL MROCE_SOCKET

ours=$(realpath "$build")
other=$work/other/build

# A copy of the sources in which words of a file are others.
other_sources() {
	mkdir -p "$work/other"
	cp -r Makefile VERSION LICENSE* bpf cli daemon docs examples include lib scripts tests tools contrib "$work/other" &&
		sed -i 's/^\(#define MROCE_MAP_SCHEMA\) .*/\1 999/' "$work/other/include/mroce/maps.h" &&
		sed -i 's/^\(#define ABI_VERSION\) .*/\1 999/' "$work/other/lib/common/abi.h"
}

build_other() {
	other_sources && make -s -C "$work/other" -j"$(nproc)" BUILD=build build/mroced build/mroce
}

# Also a program whose maps have another size.
build_larger() {
	mkdir -p "$work/larger"
	cp -r Makefile VERSION bpf include lib daemon scripts "$work/larger" &&
		sed -i 's/^\(#define MROCE_MAX_CONNS\) [0-9]*/\1 8192/' "$work/larger/include/mroce/maps.h" &&
		make -s -C "$work/larger" BUILD=build build/bpf/mroce_xdp.bpf.o
}

of_ours() {	# command...
	local build=$ours
	"$@"
}

of_other() {	# command...
	local build=$other
	"$@"
}

host_is_fine() {
	in_ns b ping -c 1 -W 2 10.77.0.1
}

bare() {	# no program, no filter, no qdisc of ours at the interface of a
	equal "$(in_ns a bpftool net show dev v0 | grep -o 'mroce[a-z_]*'; in_ns a tc qdisc show dev v0 | grep -o clsact)" "" "left at v0"
}

attach() {	# object
	ip -n "${ns}a" link set dev v0 xdpdrv obj "$1" sec xdp.frags
}

attached() {
	in_ns a bpftool net show dev v0 | grep -q 'v0.*driver'
}

# Refused in so many words, by a daemon that leaves everything as it was.
refused() {	# words...
	local word
	if launch a >"$work/refused"; then
		over a
		echo "it started"
		return 1
	fi
	wait "${daemon[a]}"
	unset "daemon[a]"
	for word in "$@"; do
		grep -qF -- "$word" "$work/refused" || { echo "not said: $word"; cat "$work/refused"; return 1; }
	done
	attached && host_is_fine
}

detached() {
	in_ns a "$build/mroce" detach v0 && bare && host_is_fine
}

carries() {
	of_ours transfers
}

# An application of the one library, and a daemon of the other.
stranger() {	# command... of mroce
	! in_ns a "$@" --socket "$work/a.sock" ping -c 1 10.77.0.2 >"$work/stranger" 2>&1 &&
		grep -q "speaks another version than this mroce" "$work/stranger" ||
		{ cat "$work/stranger"; return 1; }
}

# A client of b, whose messages never end.
client_starts() {
	nsenter --net="/run/netns/${ns}a" "$ours/mroce" --socket "$work/a.sock" perf -s >"$work/server" 2>&1 &
	server=$!
	wait_until grep -q answering "$work/server" || return 1
	nsenter --net="/run/netns/${ns}b" "$ours/mroce" --socket "$work/b.sock" perf -D 60 10.77.0.1 >"$work/client" 2>&1 &
	client=$!
	wait_until client_is_connected
}

client_is_connected() {
	[[ $(in_ns b "$ours/mroce" --socket "$work/b.sock" -j show conn | grep -c '"state": "up"') -ge 1 ]]
}

gone() {	# process
	! kill -0 "$1" 2>/dev/null
}

# A daemon that stops tells its peers: nobody waits until silence has lasted its time, which is two seconds.
peers_are_told() {
	local start end
	start=$(date +%s%N)
	kill "${daemon[a]}"
	wait_until gone "$client" || return 1
	end=$(date +%s%N)
	wait "${daemon[a]}"
	unset "daemon[a]"
	wait "$client" "$server" 2>/dev/null
	grep -q "broke off" "$work/client" || { cat "$work/client"; return 1; }
	(((end - start) / 1000000 < 1500)) || { echo "told after $(((end - start) / 1000000)) ms"; return 1; }
}

net_up >/dev/null || exit 1
check "another version is built" build_other
check "and one with larger maps" build_larger

# --- in order ---
check "the peer starts" of_ours launch b
check "the other version starts" of_other launch a
check "and carries, the wire being the same" of_ours in_ns b "$ours/mroce" --socket "$work/b.sock" ping -c 2 10.77.0.1
check "an application of this version is told so" stranger "$ours/mroce"
check "stops in order" over a
check "and leaves nothing" wait_until bare
check "upgrade: this version starts" of_ours launch a
check "and carries" carries
check "an application of the other version is told so" stranger "$other/mroce"
check "stops in order" over a
check "downgrade: the other version starts" of_other launch a
check "stops in order" over a

# --- after crashes ---
for way in "" MROCE_TC=netlink; do
	check "other version${way:+, TC filters}: starts" of_other launch $way a
	check "kill -9" killed a
	check "this one starts at once" of_ours launch $way a
	check "and carries" carries
	check "kill -9" killed a
	check "the other one starts at once" of_other launch $way a
	check "kill -9" killed a
	check "nothing is left" wait_until bare
	check "the host's own traffic passes" host_is_fine
done

# --- killed together with its guardian ---
of_other launch MROCE_TC=netlink a >/dev/null
guardian=$(pgrep -P "${daemon[a]}" mroced-guard)
kill -9 "$guardian"
killed a
check "filters of the other version are left" eval '! bare'
check "the host's own traffic passes" host_is_fine
check "this one starts all the same" of_ours launch MROCE_TC=netlink a
check "and carries" carries
check "stops in order" over a
check "and takes along what was left" wait_until bare

# --- attached by hand, to stay ---
check "the other version's program is attached by ip link" attach "$other/bpf/mroce_xdp.bpf.o"
check "this one says whose it is, and what to do" of_ours refused "schema 999" "another version" "mroce detach v0"
check "which works" of_ours detached
check "this one's program is attached by ip link" attach "$ours/bpf/mroce_xdp.bpf.o"
check "the other one says the same" of_other refused "schema" "another version" "mroce detach v0"
check "this one adopts it" of_ours launch a
check "and carries" carries
check "stops in order" over a
check "the other one still says the same" of_other refused "schema" "another version" "mroce detach v0"
check "its detach works as well" of_other detached
check "a program with larger maps is attached by ip link" attach "$work/larger/build/bpf/mroce_xdp.bpf.o"
check "which is said" of_ours refused "8192 entries" "another version" "mroce detach v0"
check "and can be mended" of_ours detached

# --- a restart is no silence ---
check "starts" of_ours launch a
check "a client is busy" client_starts
check "its daemon's peer stops: told at once" peers_are_told
check "starts again at once" of_ours launch a
check "and carries" carries
check "a stops in order" over a
check "b stops in order" over b
check "nothing is left" wait_until bare
finish
