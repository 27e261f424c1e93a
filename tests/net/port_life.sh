#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Ports come and go: attached in the best way there is, adopted, refused with a reason, and nothing is
# left behind, however the process ends.
# shellcheck source-path=SCRIPTDIR source=port_lib.sh
. "$(dirname "$0")/port_lib.sh"

kernel_has_tcx() {
	local major minor
	IFS=. read -r major minor _ < <(uname -r)
	((major > 6 || (major == 6 && minor >= 6)))
}

# The program refuses to start, and says why.
refused() {	# pattern options...
	local pattern=$1
	shift
	if in_ns a "$blast" hold "$@" </dev/null >"$work/refused" 2>&1; then
		echo "it started"
		return 1
	fi
	grep -q -- "$pattern" "$work/refused" || { cat "$work/refused"; return 1; }
}

refused_without_caps() {
	nsenter --net="/run/netns/${ns}a" setpriv --bounding-set=-bpf,-sys_admin \
		--inh-caps=-bpf,-sys_admin "$blast" hold v0 </dev/null >"$work/refused" 2>&1 && return 1
	grep -q "capability CAP_BPF is missing" "$work/refused" || { cat "$work/refused"; return 1; }
}

# hold is both the shell function and the program's mode
start() {	# [VARIABLE=VALUE...] options interfaces, in a
	local env=()
	while [[ ${1:-} == *=* ]]; do
		env+=("$1")
		shift
	done
	hold a "${env[@]}" hold "$@"
}

other_traffic() {
	in_ns a ping -c 3 -i 0.05 -W 2 10.77.0.2 && in_ns a ping -c 3 -i 0.05 -W 2 fd77::2
}

adoptable() {
	ip -n "${ns}a" link set dev v0 xdpdrv obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags
}

# The tables of the attached program: is anything in them?
schema_of_attached() {
	local prog
	prog=$(ip -n "${ns}a" -j link show v0 | python3 -c '
import json, sys
print(json.load(sys.stdin)[0]["xdp"]["prog"]["id"])') || return
	bpftool -j prog show id "$prog" | python3 -c '
import json, subprocess, sys
for m in json.load(sys.stdin)["map_ids"]:
    info = json.loads(subprocess.check_output(["bpftool", "-j", "map", "show", "id", str(m)]))
    if info["name"] == "mroce_config":
        out = json.loads(subprocess.check_output(["bpftool", "-j", "map", "dump", "id", str(m)]))
        print(out[0]["formatted"]["value"]["schema"])'
}

silent() {
	equal "$(schema_of_attached)" 0 "schema in the map"
}

net_up

# --- own programs ---
check "opens" start v0
check "native XDP by a link" equal "$(show a "['mode']") $(show a "['attach']")" "native link" mode
if kernel_has_tcx; then
	check "TC by TCX" equal "$(show a "['nack']")" tcx nack
	check "all is attached" attached_is a "tcx-egress tcx-ingress xdp "
else
	skip "TC by TCX" "needs Linux 6.6"
	skip "all is attached" "needs Linux 6.6"
fi
check "other traffic passes" other_traffic
check "frames add up" equal "$(show a "['frames']['total'] - 8192")" 0 total
check "a second one is refused" refused "another program (an mroced already running here?)" v0
check "a second one with another UDP port, too" refused "another mroced holds the interface" -u 4798 v0
quit a
check "nothing is left after its end" wait_until bare a
start v0 >/dev/null
kill9 a
check "nothing is left after kill -9" wait_until bare a
start v0 >/dev/null
kill9 a
check "starts again at once after kill -9" start v0
quit a

# --- TC by netlink ---
check "opens with TC filters" start MROCE_TC=netlink v0
check "TC by filters" attached_is a "clsact mroce_tc_egress mroce_tc_ingres xdp "
quit a
check "filters and clsact are gone after its end" wait_until bare a
start MROCE_TC=netlink v0 >/dev/null
kill9 a
check "filters and clsact are gone after kill -9" wait_until bare a
in_ns a tc qdisc add dev v0 clsact
start MROCE_TC=netlink v0 >/dev/null
quit a
check "somebody else's clsact stays" attached_is a "clsact "
start MROCE_TC=netlink v0 >/dev/null
kill9 a
check "also after kill -9" wait_until attached_is a "clsact "
in_ns a tc qdisc del dev v0 clsact
start MROCE_TC=netlink v0 >/dev/null
guardian=$(pgrep -P "${daemon[a]}" mroced-guard)
check "there is a guardian" [ -n "$guardian" ]
kill -9 "$guardian"
kill9 a
check "killed with its guardian, TC filters stay" attached_is a "clsact mroce_tc_egress mroce_tc_ingres "
in_ns a "$blast" detach v0 >"$work/detached" 2>&1
check "detach takes them" equal "$(grep removed= "$work/detached")" "removed=3" detach
check "and nothing is left" bare a
start MROCE_TC=netlink v0 >/dev/null
guardian=$(pgrep -P "${daemon[a]}" mroced-guard)
kill -9 "$guardian"
kill9 a
start MROCE_TC=netlink v0 >/dev/null
quit a
check "what it left goes with the end of the next one" bare a

# --- adopting ---
adoptable
check "a program by ip link is adopted" start v0
check "and told so" equal "$(show a "['attach']")" adopted attach
check "its tables are in use" [ "$(schema_of_attached)" -gt 0 ]
quit a
check "the adopted program stays, silent" silent
start v0 >/dev/null
kill9 a
check "after kill -9, too" wait_until silent
check "adopting can be switched off" refused "adopting is switched off" -A v0
in_ns a "$blast" detach v0 >"$work/detached" 2>&1
check "detach takes the adopted program" bare a
ip -n "${ns}a" link set dev v0 xdpgeneric obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags
check "one in generic mode is refused" refused "generic mode, which is slow" v0
check "unless allowed" start -g v0
check "and told so" equal "$(show a "['mode']")" generic mode
quit a
ip -n "${ns}a" link set dev v0 xdpgeneric off

# --- refusals ---
ip -n "${ns}a" link set dev v0 xdpdrv obj "$build/tests/net/foreign.bpf.o" sec xdp
check "a foreign program is named" refused "another XDP program is attached: foreign_pass" v0
check "and stays" attached_is a "xdp "
in_ns a "$blast" detach v0 >"$work/detached" 2>&1
check "also with detach" attached_is a "xdp "
ip -n "${ns}a" link set dev v0 xdpdrv off
check "no such interface" refused "nosuch: no such interface" nosuch
check "one of two is wrong: nothing is left" refused "nosuch: no such interface" v0 nosuch
check "named twice" refused "named twice" v0 v0
check "no address of that kind" refused "address 10.99.0.1 is not" v0@10.99.0.1
check "not an address" refused "'host' is not an IPv4 or IPv6 address" v0@host
check "odd ring size" refused "power of two" -r 100 v0
ip -n "${ns}a" link set v0 down
check "link down" refused "the link is down" v0
ip -n "${ns}b" link set v0 down
ip -n "${ns}a" link set v0 up
check "no carrier: starts all the same" start v0
check "and says so" grep -q "no carrier" "$work/log.a"
quit a
ip -n "${ns}b" link set v0 up
ip -n "${ns}a" link set v0 up mtu 1000
wait_until link_is_up a v0
check "small MTU" refused "MTU 1000 is below 1280" v0
ip -n "${ns}a" link set v0 mtu 3498
ip -n "${ns}a" link add d0 type bridge
ip -n "${ns}a" link add d1 type veth peer name d2
ip -n "${ns}a" link set d1 master d0 up
ip -n "${ns}a" link set d2 up
ip -n "${ns}a" link set d0 up
wait_until link_is_up a d0
ip -n "${ns}a" address flush dev d0 scope global
check "no address" refused "no global address" d0
ip -n "${ns}a" address add 10.78.0.1/24 dev d0
check "no native XDP" refused "takes no native XDP program" d0
check "no native XDP, but generic allowed" start -g d0
check "and told loudly" grep -q "NATIVE XDP REFUSED" "$work/log.a"
quit a
check "without capabilities" refused_without_caps
check "nothing is left of all this" bare a
finish
