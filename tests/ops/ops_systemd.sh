#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The service under a real systemd, as an administrator meets it: enabled, looked at, reloaded, killed, wedged, pinned,
# another instance, stopped. See box_lib.sh.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"
# shellcheck source=box_lib.sh
. "$(dirname "$0")/box_lib.sh"

if why=$(box_why_not); then
	echo "1..0 # SKIP $why"
	exit 0
fi

install_all() {
	in_box make -s BUILD="$build" PREFIX=/usr UNITDIR=/lib/systemd/system install >"$work/install" 2>&1 ||
		{ tail -n 20 "$work/install"; return 1; }
	in_box systemctl daemon-reload
}

# p1 here, p1 of the far host with a mroced of its own, which no systemd looks after; and an interface for an instance.
network() {
	# shellcheck disable=SC2016 # for the inner shell
	in_box sh -ec '
		ip link set lo up
		for name in far lab; do
			ip netns add $name
			ip -n $name link set lo up
		done
		ip link add p1 mtu 3498 type veth peer name p1 netns far mtu 3498
		ip -n lab link add p1 mtu 3498 type veth peer name p2 netns far mtu 3498
		ip address add 10.9.0.1/24 dev p1
		ip -n far address add 10.9.0.2/24 dev p1
		ip -n far address add 10.8.0.2/24 dev p2
		ip -n lab address add 10.8.0.1/24 dev p1
		ip link set p1 up
		ip -n far link set p1 up
		ip -n far link set p2 up
		ip -n lab link set p1 up'
}

far_daemon() {
	in_box nsenter --net=/run/netns/far /usr/sbin/mroced -i p1 -i p2 --socket /run/far.sock >"$work/far" 2>&1 &
	pid[far]=$!
	wait_until said far ready:
}

configure() {	# file line...
	printf '%s\n' "${@:2}" >"$work/conf"
	in_box tee "$1" <"$work/conf" >/dev/null
}

service_is() {	# property value [unit]
	equal "$(service "$1" "${3:-}")" "$2" "$1"
}

pings_far() {
	in_box mroce ping -c 2 10.9.0.2
}

starts() {
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1' '[quota]' 'connections = 100' && in_box mroced --check-config &&
		in_box systemctl enable --now mroced && service_is ActiveState active && service_is UnitFileState enabled
}

no_sooner_than_it_is_ready() {
	equal "$(in_box mroce -j show port | python3 -c 'import json, sys; print([p["up"] for p in json.load(sys.stdin)["ports"]])')" \
		"[True]" "ports right after the start"
}

status_has_numbers() {
	has "^ *Status: \"1 of 1 plane up, .* packets/s in, .* % busy\"" in_box systemctl status --no-pager mroced
}

# As the unit says, and no more.
confined() {
	local main
	main=$(service MainPID)
	has "^Seccomp:.2" in_box cat "/proc/$main/status" && has "^NoNewPrivs:.1" in_box cat "/proc/$main/status" &&
		equal "$(in_box sed -n 's/^CapBnd:.//p' "/proc/$main/status")" 000000c000087002 "capabilities" &&
		has "Read-only file system" in_box nsenter --target "$main" --mount touch /etc/mroce/file
}

in_force() {	# key value
	has "^$1  *$2 " in_box mroce show config
}

reload_takes_over() {
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1' '[quota]' 'connections = 77' && in_box systemctl reload mroced &&
		wait_until in_force quota.connections 77
}

wrong_reload_fails() {
	local main
	main=$(service MainPID)
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1' '[quota]' 'connections = many'
	! in_box systemctl reload mroced && service_is MainPID "$main" && in_force quota.connections 77 && pings_far || return 1
	has "mroced.conf:4: .*connections" in_box journalctl --no-pager -u mroced
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1' 'pin = yes' '[daemon]' 'verbose = yes'
}

restarted() {	# pid before
	[[ $(service MainPID) != "$1" && $(service MainPID) != 0 && $(service ActiveState) == active ]]
}

back_after_kill9() {
	local main
	main=$(service MainPID)
	in_box kill -9 "$main"
	wait_until restarted "$main" && wait_until pings_far && has "status=9/KILL" in_box journalctl --no-pager -u mroced
}

# What does its work no more cannot say that it is well.
watchdog_bites() {
	local main
	main=$(service MainPID)
	in_box kill -STOP "$main"
	wait_long 40 restarted "$main" && wait_until pings_far && has "[Ww]atchdog timeout" in_box journalctl --no-pager -u mroced
}

pinned() {
	has "mroce_xdp" in_box find /sys/fs/bpf/mroce
}

journal_is_structured() {
	in_box ip link set p1 down
	wait_until journal_tells port_down || return 1
	in_box ip link set p1 up
	wait_until journal_tells port_up && wait_until pings_far
}

journal_tells() {	# event
	in_box journalctl --no-pager -o json -u mroced "MROCE_EVENT=$1" | python3 -c 'import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert lines and all(len(l["MESSAGE_ID"]) == 32 and l["MROCE_PORT"] == "p1" and "p1" in l["MESSAGE"] for l in lines), lines'
}

instance() {
	in_box systemctl start mroced@lab && { echo "started without a configuration"; return 1; }
	configure /etc/mroce/lab.conf '[ports]' 'interface = p1'
	in_box systemctl start mroced@lab && service_is ActiveState active mroced@lab &&
		in_box mroce --socket /run/mroce/lab/mroced.sock ping -c 2 10.8.0.2 && pings_far
}

wrong_configuration() {
	in_box systemctl stop mroced
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1' 'ring_size = round'
	! in_box systemctl start mroced && service_is ActiveState failed && service_is NRestarts 0 &&
		has "ring_size: 'round'" in_box journalctl --no-pager -u mroced || return 1
	configure /etc/mroce/mroced.conf '[ports]' 'interface = p1'
	in_box systemctl reset-failed mroced
	in_box systemctl start mroced && pings_far
}

stops() {
	in_box systemctl stop mroced@lab && in_box systemctl stop mroced && service_is Result success && service_is Result success mroced@lab
}

nothing_left() {
	equal "$(in_box sh -c 'ls -d /run/mroce /sys/fs/bpf/mroce' 2>/dev/null)" "" "left" &&
		equal "$(in_box ip -d link show dev p1 | grep -c xdp)" 0 "programs on p1" &&
		equal "$(in_box pgrep -c mroced)" 1 "daemons, the far one among them"
}

check "a box with systemd" box_up
[[ -n $box_pid ]] || finish
check "make install" install_all
check "network" network
check "a far daemon" far_daemon
check "systemctl enable --now" starts
check "it is ready when systemctl returns" no_sooner_than_it_is_ready
check "it reaches the other one" pings_far
check "mroce doctor has nothing to say against it" in_box mroce doctor
check "systemctl status has numbers" status_has_numbers
check "it is confined as the unit says" confined
check "systemctl reload takes over what it can" reload_takes_over
check "and fails on what is wrong, the daemon goes on" wrong_reload_fails
check "back by itself after kill -9" back_after_kill9
check "pin = yes: there for bpftool" pinned
check "wedged: the watchdog restarts it" watchdog_bites
check "the journal has fields" journal_is_structured
check "an instance in another network namespace" instance
check "a wrong configuration fails once, and is told" wrong_configuration
check "systemctl stop" stops
check "nothing is left" nothing_left
check "the box is taken away" box_down
finish
