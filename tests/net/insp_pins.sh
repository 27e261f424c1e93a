#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# pin = yes: maps and programs are there by name, and gone however the daemon, its guardian or the interface ends; what
# is not ours stays. In a mount namespace with a bpffs of its own, so that the host's sees nothing of it.
[[ ${PINS_PRIVATE:-} ]] || PINS_PRIVATE=1 exec unshare --mount --propagation private "$0" "$@"
mount -t bpf -o mode=700 bpf /sys/fs/bpf || { echo "1..0 # SKIP needs bpffs"; exit 0; }
PORT_NS=${PORT_NS:-mrpins$$}
# shellcheck source-path=SCRIPTDIR source=../ops/pair_lib.sh
. "$(dirname "$0")/../ops/pair_lib.sh"

root=/sys/fs/bpf/mroce
schema=$(sed -nE 's/^#define MROCE_MAP_SCHEMA ([0-9]+).*/\1/p' include/mroce/maps.h)
own="mroce_config mroce_conns mroce_counters mroce_paths mroce_tc_egress mroce_tc_ingress mroce_trace mroce_vq_rx \
mroce_vq_tx mroce_xdp mroce_xsks"
adopted="mroce_config mroce_conns mroce_counters mroce_paths mroce_trace mroce_vq_rx mroce_xdp mroce_xsks"
post="mroce_config mroce_counters mroce_post mroce_posted mroce_tc_post mroce_vq_tx"

mroce() {	# arguments, in a
	in_ns a "$build/mroce" --socket "$work/a.sock" "$@"
}

# What a failed test has left running must not be in the way of the next.
start() {	# [VARIABLE=VALUE...] [options], in a
	local env=()
	while [[ ${1:-} == *=* ]]; do
		env+=("$1")
		shift
	done
	[[ -z ${daemon[a]:-} ]] || killed a
	launch "${env[@]}" a "$@"
}

# The folder of an interface in a.
folder() {	# interface
	echo "$root/v$schema/netns-$(stat -L -c %i "/run/netns/${ns}a")/$1"
}

pins_are() {	# names, as in: ls [interface]
	equal "$(find "$(folder "${2:-v0}")" -type f -printf '%f\n' 2>/dev/null | sort | tr '\n' ' ')" "${1:+$1 }" pins
}

nothing_pinned() {
	[[ ! -e $root ]] || { find "$root"; return 1; }
}

prog_id() {
	mroce -j show port | python3 -c 'import json, sys; print(json.load(sys.stdin)["ports"][0]["prog_id"])'
}

pinned_id() {	# prog|map name
	bpftool -j "$1" show pinned "$(folder v0)/$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'
}

not_wanted() {
	start && nothing_pinned && ! mroce doctor | grep "v0 .*pin" &&
		equal "$(mroce -j show port | grep -cE '"pins(_reason)?": null')" 2 "keys without a value" && over a
}

# What is pinned is what works.
pinned_is_used() {
	equal "$(pinned_id prog mroce_xdp)" "$(prog_id)" "program id"
}

dumps_by_name() {
	local config
	config=$(bpftool map dump pinned "$(folder v0)/mroce_config") || return 1
	grep -q '"udp_port": 4797' <<<"$config" || { echo "$config"; return 1; }
	bpftool map lookup pinned "$(folder v0)/mroce_counters" key 35 0 0 0 | grep -q '"cpu": 0' &&
		bpftool prog show pinned "$(folder v0)/mroce_tc_ingress" | grep -q 'sched_cls *name mroce_tc_ingres' &&
		pinned_is_used
}

only_root_reads() {
	equal "$(find $root -type d -printf '%m %u\n' | sort -u)" "700 root" folders &&
		equal "$(find $root -type f -printf '%m %u\n' | sort -u)" "600 root" files
}

shown() {
	mroce show config | grep -Eq '^ports.pin +yes +--pin$' || { mroce show config; return 1; }
	mroce -j show port | grep -qF "\"pins\": \"$(folder v0)\"" || { mroce -j show port; return 1; }
	mroce doctor | grep -q "v0 *maps and programs are pinned in $(folder v0)" || { mroce doctor; return 1; }
}

# The kernel lets go of them, too.
kill_leaves_nothing() {
	local map
	map=$(pinned_id map mroce_paths)
	killed a
	wait_until nothing_pinned || nothing_pinned || return 1
	wait_until sh -c "! bpftool map show id $map" || { bpftool map show id "$map"; return 1; }
}

# The guardian of one that was killed must not touch those of the next, which may be there first.
guardians_are() {	# how many, of all daemons of this test, which have its mount namespace
	equal "$(pgrep --ns $$ --nslist mnt -cx mroced-guard)" "$1" guardians
}

next_keeps_its_own() {
	start --pin || return 1
	for _ in 1 2 3 4 5; do
		killed a
		start --pin || return 1
		wait_until guardians_are 1 || { guardians_are 1; return 1; }
		pins_are "$own" && pinned_is_used || return 1
	done
	over a
}

# A predecessor's guardian may hold the lock of the socket for a moment.
lock_is_waited_for() {
	local good=0
	flock "$work/a.sock.lock" sleep 0.2 &
	local holder=$!
	wait_until lock_is_held
	start --pin || good=1
	wait "$holder"
	[[ $good == 0 ]] && over a
}

lock_is_held() {
	! flock -n "$work/a.sock.lock" true
}

# Also while it makes folders and pins, or is just removing them. SEED repeats a run.
killed_at_any_moment() {
	local round pid
	RANDOM=${SEED:-$$}
	echo "SEED=${SEED:-$$}"
	for ((round = 0; round < 20; round++)); do
		nsenter --net="/run/netns/${ns}a" "$build/mroced" --socket "$work/a.sock" -i v0 --pin >"$work/log.a" 2>&1 &
		pid=$!
		daemon[any]=$pid
		sleep "0.$(printf %03d $((RANDOM % 200)))"
		((round % 2)) || kill "$pid"
		((round % 2)) || sleep "0.$(printf %03d $((RANDOM % 30)))"
		kill -9 "$pid" 2>/dev/null # it may have ended
		wait "$pid" 2>/dev/null
		unset "daemon[any]"
		wait_until nothing_pinned || { echo "round $round"; nothing_pinned; return 1; }
	done
	wait_until guardians_are 0
}

link_back() {
	ip link add v0 netns "${ns}a" mtu 3498 numrxqueues 2 type veth peer name v0 netns "${ns}b" mtu 3498
	in_ns a ethtool -L v0 rx 1 >/dev/null 2>&1
	ip -n "${ns}a" address add 10.77.0.1/24 dev v0
	ip -n "${ns}b" address add 10.77.0.2/24 dev v0
	ip -n "${ns}a" link set v0 up
	ip -n "${ns}b" link set v0 up
}

deleted() {
	ip -n "${ns}a" link del v0
	wait_until nothing_pinned || nothing_pinned
}

deleted_and_back() {
	start --pin && deleted || return 1
	kill -0 "${daemon[a]}" && link_back || return 1
	wait_until pins_are "$own"
	pins_are "$own" && pinned_is_used
}

rename() {	# from to
	ip -n "${ns}a" link set "$1" down
	ip -n "${ns}a" link set "$1" name "$2"
	ip -n "${ns}a" link set "$2" up
}

renamed_now() {
	mroce show port | grep -q w0
}

renamed() {
	rename v0 w0
	wait_until renamed_now && pins_are "$own" && pinned_is_used && over a && nothing_pinned
}

# Another number of queues has it opened anew, under the name it has now; its folder is that of the configuration.
renamed_and_opened_anew() {
	rename w0 v0
	wait_until link_is_up a v0
	start --pin && rename v0 w0 && wait_until renamed_now && in_ns a ethtool -L w0 rx 2 &&
		wait_until grep -q "w0: has another number of queues" "$work/log.a" && wait_until pinned_is_used &&
		pins_are "$own" && pinned_is_used && over a && nothing_pinned || { cat "$work/log.a"; mroce -j show port; find $root; ethtool -l v0; return 1; }
}

dotted() {
	rename w0 v0.7
	wait_until link_is_up a v0.7
	planes=(v0.7)
	start --pin && pins_are "$own" v0:7 && over a && nothing_pinned
	local status=$?
	planes=(v0)
	rename v0.7 v0
	wait_until link_is_up a v0
	return $status
}

# Nobody is left who could clean up.
killed_with_guardian() {	# [options]
	start --pin "$@" || return 1
	local guardian
	guardian=$(pgrep -P "${daemon[a]}" mroced-guard) && kill -9 "$guardian" && killed a && pins_are "$own"
}

doctor_tells() {
	mroce doctor | grep -q "WARN *leftovers *$(folder v0) has pins of an mroced that is gone" || { mroce doctor; return 1; }
}

no_pins_next() {
	start || return 1
	nothing_pinned && grep -q "$(folder v0): pins removed" "$work/log.a" && over a
}

detach_takes() {
	mroce detach >"$work/detached" 2>&1 && grep -q "$(folder v0): pins removed" "$work/detached" && nothing_pinned ||
		{ cat "$work/detached"; return 1; }
}

# Of another version of the maps, and of a namespace that is no more.
others_go() {
	local stale
	stale=$(folder v0)
	mkdir -p "$root/v1/netns-1" && mv "$stale" "$root/v1/netns-1/v9" && detach_others
}

detach_others() {
	mroce detach v0 >"$work/detached" && grep -q "/v1/netns-1/v9: pins removed" "$work/detached" && nothing_pinned
}

# Files of others in each of our folders, named as those of ours only where that is no harm.
foreign_in() {
	local at
	at=$(folder v0)
	mkdir -p "$at" && for at in "$root" "$root/v$schema" "${at%/*}" "$at"; do
		bpftool map create "$at/theirs" type array key 4 value 4 entries 1 name theirs || return 1
	done
	mkdir "$(folder v0)/mroce_folder"
}

foreign_stays() {
	equal "$(find $root -name theirs -type f | wc -l)" 4 "files of others" && [[ -d $(folder v0)/mroce_folder ]] &&
		equal "$(find $root -name 'mroce_*' -type f | wc -l)" 0 "files of ours"
}

foreign_untouched() {
	foreign_in && start --pin && has_ours && over a && foreign_stays || return 1
	start --pin && has_ours && killed a && wait_until foreign_stays && foreign_stays || return 1
	mroce detach && foreign_stays || return 1
	start && foreign_stays && ! mroce doctor | grep "is gone" && over a
}

has_ours() {
	[[ -e $(folder v0)/mroce_xdp ]]
}

# One that lives in the same namespace, on another interface, keeps what it has.
other_lives() {
	ip link add v1 netns "${ns}a" type veth peer name v1 netns "${ns}b"
	ip -n "${ns}a" address add 10.78.0.1/24 dev v1
	ip -n "${ns}a" link set v1 up
	ip -n "${ns}b" link set v1 up
	start --pin || return 1
	nsenter --net="/run/netns/${ns}a" "$build/mroced" --socket "$work/other.sock" -i v1 --pin >"$work/log.other" 2>&1 &
	daemon[other]=$!
	wait_until grep -q ready: "$work/log.other"
	pins_are "$own" v1 && killed a && wait_until pins_are "" && wait_until guardians_are 1 && pins_are "$own" v1 || return 1
	in_ns a "$build/mroce" detach v0 >/dev/null && pins_are "$own" v1 && start && pins_are "$own" v1 && over a &&
		kill "${daemon[other]}" && wait "${daemon[other]}" || return 1
	unset "daemon[other]"
	nothing_pinned
}

detach_of_living() {
	start --pin || return 1
	mroce detach v0 >"$work/detached" && nothing_pinned && over a && nothing_pinned
}

adopts() {
	ip -n "${ns}a" link set dev v0 xdpdrv obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags && start --pin "$@" &&
		equal "$(attach_of)" '"attach": "adopted"' attach
}

adopted_pins() {
	adopts --no-nack && pins_are "$adopted" && pinned_is_used && over a && nothing_pinned && start --pin && pins_are "$own" &&
		killed a && wait_until nothing_pinned || return 1
	start --pin && pins_are "$own" && deleted && over a && link_back
}

shared_pins() {
	start --pin --share && equal "$(attach_of)" '"attach": "shared"' attach && pins_are "$own" && pinned_is_used && over a &&
		nothing_pinned && start --pin --share && killed a && wait_until nothing_pinned
}

filters_pins() {
	start MROCE_TC=netlink --pin && pins_are "$own" && over a && nothing_pinned && start MROCE_TC=netlink --pin && killed a &&
		wait_until bare a && wait_until nothing_pinned
}

socket_pins() {
	start --port socket --pin && pins_are "$post" && over a && nothing_pinned || return 1
	start --port socket --pin && killed a && wait_until nothing_pinned && start --port socket --pin && deleted && over a || return 1
	link_back && start --port socket --no-handover --pin && nothing_pinned && over a
}

# As it is in `ip netns exec`, which mounts another /sys; mroced starts all the same.
without_bpffs() {
	: >"$work/log.a"
	ip netns exec "${ns}a" "$build/mroced" --socket "$work/a.sock" -i v0 --pin >"$work/log.a" 2>&1 &
	daemon[a]=$!
	wait_until ready_or_over a
	grep -q "nothing is pinned: v0: no bpffs is mounted on /sys/fs/bpf: .mount -t bpf bpf /sys/fs/bpf" "$work/log.a" &&
		grep -q ready: "$work/log.a" && mroce doctor | grep -q "WARN *v0 *pin = yes, but nothing is pinned (v0: no bpffs" && over a ||
		{ cat "$work/log.a"; return 1; }
}

read_only_bpffs() {
	mount -o remount,bind,ro /sys/fs/bpf
	start --pin && grep -q "nothing is pinned: $root.*: Read-only file system: .* ReadWritePaths=/sys/fs/bpf/mroce" "$work/log.a" && over a
	local status=$?
	mount -o remount,bind,rw /sys/fs/bpf
	return $status
}

net_up
check "by default nothing is pinned, and nothing said of it" not_wanted
start --pin
check "pin = yes: all maps and programs are pinned" pins_are "$own"
check "and dumped by name" dumps_by_name
check "only root may look" only_root_reads
check "configuration, port and doctor tell" shown
check "after the end nothing is left" eval 'over a && nothing_pinned'
start --pin
check "after kill -9 nothing is left" kill_leaves_nothing
check "the next one's pins are its own, not its predecessor's guardian's" next_keeps_its_own
check "a lock that is about to be given back is waited for" lock_is_waited_for
check "after kill -9 at any moment nothing is left" killed_at_any_moment
check "interface deleted: they go; back: they come" deleted_and_back
check "interface renamed: they stay where they are, and go in the end" renamed
check "renamed and opened anew: they stay there, too" renamed_and_opened_anew
check "interface with a dot in its name" dotted
check "killed with its guardian: they stay" killed_with_guardian
check "mroce doctor names them" doctor_tells
check "the next daemon takes them away, though it pins nothing" no_pins_next
check "killed with its guardian again" killed_with_guardian
check "mroce detach takes them away" detach_takes
check "killed with its guardian once more" killed_with_guardian
check "those of another version and namespace go, too" others_go
check "mroce detach takes those of a running daemon" detach_of_living
check "those of another daemon that lives stay" other_lives
check "adopted program" adopted_pins
if bpftool feature probe kernel 2>/dev/null | grep -q 'program_type ext is available'; then
	check "shared interface" shared_pins
else
	skip "shared interface" "needs BPF programs of type ext"
fi
check "TC filters" filters_pins
check "plain sockets: the TC program's" socket_pins
check "no bpffs: said, and it starts" without_bpffs
check "bpffs read-only: said, and it starts" read_only_bpffs
check "no guardian is left" wait_until guardians_are 0
check "files of others stay" foreign_untouched
finish
