#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# An interface shared with XDP programs of others by libxdp's dispatcher: xdp-filter before and after
# mroced, programs attached by xdp-loader and adopted, crashes, and what `mroce detach` takes away.
# shellcheck source-path=SCRIPTDIR source=pair_lib.sh
PORT_NS=${PORT_NS:-mrsh$$}
. "$(dirname "$0")/pair_lib.sh"
trap 'unload; cleanup' EXIT

# xdp-filter keeps pins of its own outside the namespace.
unload() {
	[[ -e /run/netns/${ns}a ]] || return
	in_ns a xdp-filter unload --all >/dev/null 2>&1
	in_ns a xdp-loader unload v0 --all >/dev/null 2>&1
}

kernel_has_ext() {
	bpftool feature probe kernel 2>/dev/null | grep -q 'program_type ext is available'
}

refused() {	# words options
	local words=$1
	shift
	if launch a "$@" >"$work/refused"; then
		over a
		echo "it started"
		return 1
	fi
	wait "${daemon[a]}"
	unset "daemon[a]"
	grep -qF -- "$words" "$work/refused" || { cat "$work/refused"; return 1; }
}

filter_on() {
	in_ns a xdp-filter load v0 -m native -f udp,ipv4 -p allow
}

filter_off() {
	in_ns a xdp-filter unload v0
}

filter_port() {	# port [options]
	in_ns a xdp-filter port "$@" -p udp -m dst
}

# The programs behind v0's dispatcher, in the order in which they run.
behind() {
	in_ns a xdp-loader status v0 | awk '$1 == "=>" { printf "%s%s", sep, $3; sep = " " }'
}

behind_is() {	# names
	equal "$(behind)" "$1" "behind the dispatcher"
}

pings() {
	in_ns b "$build/mroce" --socket "$work/b.sock" ping -c 3 10.77.0.1
}

no_ping() {
	! in_ns b "$build/mroce" --socket "$work/b.sock" ping -c 1 -W 1 10.77.0.1
}

by_loader() {
	in_ns a xdp-loader load -m native v0 "$build/bpf/mroce_xdp.bpf.o"
}

detached() {	# words
	in_ns a "$build/mroce" detach v0 >"$work/detach" 2>&1
	grep -qF -- "$1" "$work/detach" || { cat "$work/detach"; return 1; }
}

# Not by name, for it might be another's.
guardian_killed_too() {
	local guardian
	guardian=$(pgrep -P "${daemon[a]}" mroced-guard)
	[[ -n $guardian ]] || { echo "no guardian"; return 1; }
	kill -9 "$guardian"
	killed a
}

net_up
if ! command -v xdp-filter >/dev/null; then
	echo "1..0 # SKIP needs xdp-tools"
	exit 0
fi
if ! kernel_has_ext; then
	check "without programs of type ext: said" refused "no BPF programs of type ext" --share
	check "nothing is left of it" bare a
	skip "beside xdp-filter, before and after it; adopted from xdp-loader" "kernel has no BPF programs of type ext"
	finish
fi

launch b >/dev/null
check "xdp-filter is there first" filter_on
check "without share mroced is refused, and told how" refused "share = yes (--share) puts mroced's beside it"
check "with it, it starts" launch a --share
check "beside the filter, and after it" behind_is "xdpfilt_alw_all mroce_xdp"
check "and says so" equal "$(attach_of)" '"attach": "shared"' attach
check "carries set-ups" pings
check "carries messages" transfers
filter_port 4797
check "the filter rules over mroce's packets" no_ping
filter_port 4797 -r
check "and lets them through again" wait_until pings
check "stops in order" over a
check "the filter stays, alone" behind_is "xdpfilt_alw_all"
launch a --share >/dev/null
killed a
check "after kill -9 the filter stays, alone" wait_until behind_is "xdpfilt_alw_all"
launch a --share >/dev/null
check "starts again at once" behind_is "xdpfilt_alw_all mroce_xdp"
check "killed with its guardian" guardian_killed_too
check "the program stays, for lack of anybody" behind_is "xdpfilt_alw_all mroce_xdp"
check "the next mroced adopts it" launch a
check "and carries messages" transfers
over a
check "detach takes it" detached "detached"
check "and leaves the filter" behind_is "xdpfilt_alw_all"
filter_off

check "alone on the interface, ready to share" launch a --share
check "a filter joins" filter_on
check "and runs first" behind_is "xdpfilt_alw_all mroce_xdp"
check "messages go on" transfers
check "the filter leaves" filter_off
check "messages go on" transfers
check "stops in order" over a
check "nothing is left" bare a

check "xdp-loader attaches the program" by_loader
check "mroced adopts it" launch a
check "and says so" equal "$(attach_of)" '"attach": "adopted"' attach
check "carries messages" transfers
over a
check "it stays" behind_is mroce_xdp
check "detach takes it" detached "detached"
check "nothing is left" bare a
ip -n "${ns}a" link set dev v0 xdpdrv obj "$build/tests/net/foreign.bpf.o" sec xdp
check "a program without a dispatcher cannot be shared with" refused "without libxdp's dispatcher" --share
ip -n "${ns}a" link set dev v0 xdpdrv off
over b
finish
