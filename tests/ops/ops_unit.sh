#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The systemd units as files, and what mroced tells systemd: ready, numbers, watchdog, reload, stop.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"

MAX_EXPOSURE=3.0
root=$work/root
units=$root/lib/systemd/system

install_here() {
	make -s BUILD="$build" PREFIX="$root" CONFDIR="$root/etc/mroce" install >"$work/make" 2>&1 ||
		{ tail "$work/make"; return 1; }
}

# A word about something else on this machine is no finding about our unit.
verifies() {	# unit
	local text status=0
	text=$(systemd-analyze verify --man=no "$units/$1" 2>&1) || status=$?
	text=$(grep -i mroce <<<"$text")
	[[ $status == 0 && -z $text ]] || { echo "status $status: $text"; return 1; }
}

exposure() {	# unit
	systemd-analyze security --offline=yes --no-pager "$units/$1" |
		sed -nE 's/.*exposure level for .*: ([0-9.]+) .*/\1/p'
}

exposed_at_most() {	# unit
	local got
	got=$(exposure "$1")
	echo "exposure $got"
	awk -v got="$got" -v max=$MAX_EXPOSURE 'BEGIN { exit !(got != "" && got <= max) }'
}

# Whoever hardens one hardens both: but for what belongs to instances the units are the same.
same_sandbox() {
	local unit
	for unit in mroced mroced@; do
		sed -n '/^CapabilityBoundingSet/,/^\[Install/p' "$units/$unit.service" >"$work/sandbox.$unit"
	done
	[[ $(wc -l <"$work/sandbox.mroced") -gt 20 ]] && cmp "$work/sandbox.mroced" "$work/sandbox.mroced@"
}

# ---- what systemd would hear ----

listen_as_systemd() {
	python3 - "$work/notify" >"$work/heard" 2>&1 <<-'PY' &
	import socket, sys
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind(sys.argv[1])
	while True:
	    print(s.recv(4096).decode().replace("\n", " "), flush=True)
	PY
	pid[listener]=$!
	wait_until [ -S "$work/notify" ]
}

start_under_systemd() {
	sed "s|^#interface = eth0|interface = p1|; s|^#spin_us.*|spin_us = 20|" daemon/mroced.conf >"$work/conf"
	interfaces=()
	daemon_up NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=400000 h1 --config "$work/conf"
	wait_until said heard READY=1
}

last_status_has() {	# pattern
	grep STATUS= "$work/heard" | tail -n 1 | grep -q "$1"
}

told_numbers() {	# pattern
	wait_until last_status_has "$1" || { grep STATUS "$work/heard"; return 1; }
}

kicks() {
	grep -c WATCHDOG=1 "$work/heard"
}

more_kicks() {	# than
	(($(kicks) > $1))
}

kicked_again() {
	wait_until more_kicks "$(kicks)"
}

# A worker that does not turn must not look alive. While it stands, twice the watchdog's time passes.
no_kick_while_stopped() {
	local before after
	kill -STOP "${pid[h1]}"
	wait_until grep -q '^State:.T' "/proc/${pid[h1]}/status"
	before=$(kicks)
	sleep 0.8
	after=$(kicks)
	kill -CONT "${pid[h1]}"
	equal "$after" "$before" kicks && kicked_again
}

setting() {	# key: value and origin
	on h1 "$build/mroce" --socket "$(sock h1)" show config | awk -v key="$1" '$1 == key { print $2, $3 }'
}

setting_is() {	# key value origin
	equal "$(setting "$1")" "$2 $3" "$1"
}

hup() {
	local before
	before=$(grep -c READY=1 "$work/heard")
	kill -HUP "${pid[h1]}"
	wait_until sh -c "[ \$(grep -c READY=1 '$work/heard') -gt $before ]"
}

reload_changes() {
	sed -i 's|^spin_us = 20|spin_us = 30|; s|^#contexts.*|contexts = 3|; s|^#paths.*|paths = 4|' "$work/conf"
	hup && said heard "RELOADING=1 MONOTONIC_USEC=[0-9]" || return 1
	setting_is daemon.spin_us 30 "$work/conf:$(grep -n ^spin_us "$work/conf" | cut -d: -f1)" &&
		setting_is quota.contexts 3 "$work/conf:$(grep -n ^contexts "$work/conf" | cut -d: -f1)" &&
		setting_is transport.paths 8 default &&
		has "transport. paths differs, which needs a restart" cat "$work/log.h1"
}

new_quota_counts() {
	local i
	for i in 1 2 3; do
		app "keeper$i" h1 "$exchange" serve "$(sock h1)" --service "800$i" --count 0
	done
	told_numbers "3 applications" || return 1
	has "Disk quota exceeded" on h1 "$build/mroce" --socket "$(sock h1)" ping -c 1 10.1.0.2
	local status=$?
	for i in 1 2 3; do
		end9 "keeper$i"
	done
	return $status
}

bad_reload_changes_nothing() {
	echo 'spin_us = soon' >>"$work/conf"
	hup
	has "nothing was changed" cat "$work/log.h1" && setting_is daemon.spin_us 30 "$work/conf:$(
		grep -n '^spin_us = 30' "$work/conf" | cut -d: -f1)"
}

stops_in_order() {
	daemon_stop h1 && said heard STOPPING=1
}

if ! command -v systemd-analyze >/dev/null; then
	echo "1..0 # SKIP needs systemd-analyze"
	exit 0
fi
check "installed" install_here
check "mroced.service verifies" verifies mroced.service
check "an instance of mroced@.service verifies" verifies mroced@lab.service
check "mroced.service: exposure at most $MAX_EXPOSURE" exposed_at_most mroced.service
check "mroced@.service: exposure at most $MAX_EXPOSURE" exposed_at_most mroced@.service
check "both have the same sandbox" same_sandbox
check "an instance lives in its namespace" grep -qx NetworkNamespacePath=/run/netns/%i "$units/mroced@.service"
check "and has folders of its own" grep -qx RuntimeDirectory=mroce/%i "$units/mroced@.service"

fabric_up 1 || exit 1
listen_as_systemd
check "tells READY" start_under_systemd
check "with numbers" told_numbers "1 of 1 plane up, 0 applications, 0 connections"
check "kicks the watchdog" kicked_again
check "but not while the loop stands" no_kick_while_stopped
on h1 ip link set p1 down
check "numbers follow: a plane is down" told_numbers "0 of 1 plane up"
on h1 ip link set p1 up
check "and up again" told_numbers "1 of 1 plane up"
check "reload takes what can be changed, and names the rest" reload_changes
check "a new quota counts at once" new_quota_counts
check "a wrong file changes nothing" bad_reload_changes_nothing
check "serves on after it" kicked_again
check "tells STOPPING" stops_in_order
finish
