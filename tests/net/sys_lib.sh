# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of the whole system: on top of fabric_lib.sh a mroced on each host of a fabric, and pairs of
# applications that exchange messages and check them (exchange.c).
fabric=${fabric:-sys$$}
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"

build=${BUILD:-build}
exchange=$build/tests/net/exchange
declare -A pid=()	# of daemons (h1, h2, ...) and of applications, by name
interfaces=()		# of each host
trap 'sys_clean_up' EXIT

sys_clean_up() {
	local name
	for name in "${!pid[@]}"; do
		kill -CONT "${pid[$name]}" 2>/dev/null
		kill -9 "${pid[$name]}" 2>/dev/null
	done
	F down >/dev/null 2>&1
	rm -rf "$work"
}

skip() {	# name reason
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# Not `ip netns exec`, which hides bpffs.
on() {	# host command...
	nsenter --net="/run/netns/mr-$fabric-$1" "${@:2}"
}

sock() {	# host
	echo "$work/$1.sock"
}

alive() {	# name
	[[ -n ${pid[$1]:-} ]] && kill -0 "${pid[$1]}" 2>/dev/null
}

said() {	# name pattern
	grep -q -- "$2" "$work/$1"
}

now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# Like wait_until, which allows ten seconds.
wait_long() {	# seconds command...
	local deadline=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < deadline)) || { echo "# waited in vain for: $*"; return 1; }
		sleep 0.05
	done
}

# ---- fabric and daemons ----

# A fabric with nothing on it. Sets $interfaces to what daemons use: all planes, IPv4.
fabric_up() {	# planes [options of fabric up]
	local plane
	F up --planes "$1" --seed 7 "${@:2}" >"$work/fabric" 2>&1 || { cat "$work/fabric"; return 1; }
	interfaces=()
	for ((plane = 1; plane <= $1; plane++)); do
		interfaces+=("p$plane")
	done
}

fabric_down() {
	F down >"$work/fabric" 2>&1 || { cat "$work/fabric"; return 1; }
}

# $interfaces are used; %h in one becomes the number of the host. VARIABLE=VALUE may come first.
daemon_up() {	# [VARIABLE=VALUE...] host [options of mroced]
	local env=() host use=() interface
	while [[ ${1:-} == *=* ]]; do
		env+=("$1")
		shift
	done
	host=$1
	shift
	for interface in "${interfaces[@]}"; do
		use+=(-i "${interface//%h/${host#h}}")
	done
	: >"$work/log.$host"
	env "${env[@]}" nsenter --net="/run/netns/mr-$fabric-$host" "$build/mroced" --socket "$(sock "$host")" \
		"${use[@]}" "$@" >>"$work/log.$host" 2>&1 &
	pid[$host]=$!
	wait_until daemon_ready_or_dead "$host"
	said "log.$host" ready: || { cat "$work/log.$host"; return 1; }
}

daemon_ready_or_dead() {
	said "log.$1" ready: || ! alive "$1"
}

daemons_up() {	# [options of mroced], on h1 and h2
	daemon_up h1 "$@" && daemon_up h2 "$@"
}

# As systemd stops it.
daemon_stop() {	# host...
	local host status=0
	for host; do
		kill "${pid[$host]}"
	done
	for host; do
		wait "${pid[$host]}" || { echo "mroced of $host: exit status $?"; cat "$work/log.$host"; status=1; }
		unset "pid[$host]"
	done
	return $status
}

end9() {	# name of daemon or application
	kill -9 "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	unset "pid[$1]"
	return 0
}

# ---- what the daemons say ----

show() {	# host python-expression on s, what `mroce show -j` prints
	on "$1" "$build/mroce" --socket "$(sock "$1")" -j show | python3 -c "import json, sys; s = json.load(sys.stdin); print($2)"
}

port_sum() {	# host counter: over all ports
	show "$1" "sum(p['$2'] for p in s['ports'])"
}

counted() {	# host counter-name: kernel and engine together
	show "$1" "sum(c['kernel'] + c['engine'] for c in s['counters'] if c['name'] == '$2')"
}

frames_add_up() {	# host
	equal "$(show "$1" "sum(p['frames_wrong'] for p in s['ports'])")" 0 "wrong sums of frames"
}

# ---- applications ----

# One in the background; what it says goes to $work/NAME.
app() {	# name host command...
	: >"$work/$1"
	nsenter --net="/run/netns/mr-$fabric-$2" "${@:3}" >>"$work/$1" 2>&1 &
	pid[$1]=$!
}

# 0 if it ended with that status within the time.
app_ends() {	# name status seconds
	local status
	wait_long "$3" fails alive "$1" || { cat "$work/$1"; return 1; }
	wait "${pid[$1]}"
	status=$?
	unset "pid[$1]"
	[[ $status == "$2" ]] || { echo "$1: exit status $status, want $2"; cat "$work/$1"; return 1; }
}

server_up() {	# name host [options of exchange serve]
	app "$1" "$2" "$exchange" serve "$(sock "$2")" "${@:3}"
	wait_until said "$1" ready || { cat "$work/$1"; return 1; }
}

# h1 and h2 exchange messages; everything must be right at both ends.
swap() {	# [options of exchange run]
	local address=${to:-10.1.0.2} good=0
	server_up server h2 || return 1
	app client h1 "$exchange" run "$(sock h1)" "$address" "$@"
	app_ends client 0 "${patience:-60}" || good=1
	if [[ $good == 0 ]]; then
		app_ends server 0 20 || good=1
	else
		cat "$work/server"
		tail -n 20 "$work/log.h1" "$work/log.h2"
		end9 server
		[[ -z ${pid[client]:-} ]] || end9 client
	fi
	sed -n 's/^right: //p' "$work/client"
	return $good
}

# ---- leftovers ----

# What is attached to the interfaces of a host, in words: programs, TCX links, filters, qdiscs.
attached() {	# host
	local interface
	for interface in "${interfaces[@]}"; do
		on "$1" "$build/tests/net/blast" attached "${interface%@*}"
		on "$1" tc qdisc show dev "${interface%@*}" | grep -o clsact
	done | sort -u | tr '\n' ' '
}

bare() {	# host
	equal "$(attached "$1")" "" "attached at $1"
}

# Maps of ours on the machine. Other daemons may run on it: compare before and after.
our_maps() {
	bpftool map show | grep -c 'name mroce_'
}
