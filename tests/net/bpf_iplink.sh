#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The object attaches with iproute2, and bpftool shows its maps by name and field.
# shellcheck disable=SC2317 # functions are called by check
set -u
cd "$(dirname "$0")/../.." || exit 1
ns=mrbpf-link-$$
dev=mrbpfl0
object=${BUILD:-build}/bpf/mroce_xdp.bpf.o
tests=0
failures=0
trap 'ip netns del "$ns" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
work=$(mktemp -d)

check() {	# name command...
	local name=$1 verdict=ok
	shift
	tests=$((tests + 1))
	"$@" >"$work/out" 2>&1 || { verdict="not ok"; failures=$((failures + 1)); }
	echo "$verdict $tests - $name"
	[ "$verdict" = ok ] || sed 's/^/# /' "$work/out"
}

in_ns() {
	nsenter --net="/run/netns/$ns" "$@"
}

attach() {	# mode mtu
	in_ns ip link set "$dev" "$1" off && in_ns ip link set "$dev" mtu "$2" &&
		in_ns ip link set "$dev" "$1" obj "$object" sec xdp.frags
}

program_id() {
	in_ns ip -j -d link show "$dev" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["xdp"]["prog"]["id"])'
}

# The id of the attached program's map of that name.
map_id() {	# name
	python3 - "$(program_id)" "$1" <<-'PY'
	import json, subprocess, sys
	def show(*what):
	    return json.loads(subprocess.check_output(("bpftool", "-j") + what))
	for i in show("prog", "show", "id", sys.argv[1])["map_ids"]:
	    if show("map", "show", "id", str(i))["name"] == sys.argv[2]:
	        print(i)
	PY
}

dump_shows() {	# map fields...
	local map=$1 id
	shift
	id=$(map_id "$map")
	bpftool map lookup id "$id" key 0 0 0 0 >"$work/dump" || return 1
	cat "$work/dump"
	for field in "$@"; do
		grep -q "\"$field\":" "$work/dump" || { echo "no field $field"; return 1; }
	done
}

whole_dump() {
	bpftool map dump id "$(map_id mroce_config)" | tee "$work/dump"
	grep -q '"udp_port": 0' "$work/dump"
}

no_program() {
	in_ns ip link set "$dev" xdpdrv off && ! in_ns ip -d link show "$dev" | grep -q prog/xdp
}

ip netns add "$ns" || exit 1
in_ns ip link add "$dev" type veth peer name mrbpfl1 || exit 1
check "attaches in driver mode" attach xdpdrv 1500
check "attaches at MTU 9000" attach xdpdrv 9000
check "is named mroce_xdp" sh -c "bpftool prog show id $(program_id) | grep -q 'name mroce_xdp '"
check "has BTF" sh -c "bpftool -j prog show id $(program_id) | grep -q btf_id"
check "mroce_config has named fields" dump_shows mroce_config schema udp_port nack
check "mroce_conns has named fields" dump_shows mroce_conns cid token peer_cid peer_token hint npaths
check "mroce_paths has named fields" dump_shows mroce_paths seen kbase highest epoch placed missed base
check "mroce_counters can be read" dump_shows mroce_counters value
check "bpftool map dump" whole_dump
check "detaches" no_program
echo "1..$tests"
exit $((failures > 0))
