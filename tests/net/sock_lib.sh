# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of socket ports: on top of fabric_lib.sh a mroced on h1 and one on h2 of a fabric, each with ports
# of a kind and run by root or by nobody, and transfers of which every byte is checked.
fabric=${fabric:-sock$$}
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"

build=${BUILD:-build}
bin=$work/bin
run=$work/run
nobody=(setpriv --reuid nobody --regid nogroup --clear-groups)
declare -A pid=() as=()	# of daemons (h1, h2) and applications; who runs them
trap 'sock_clean_up' EXIT

# An ordinary user must reach the programs, wherever this tree lies, and a folder for sockets.
chmod 711 "$work"
install -d "$bin"
install -m 755 "$build/mroced" "$build/mroce" "$bin"
cp "$build"/libmroce.so* "$bin" 2>/dev/null
install -d -o nobody -g nogroup "$run"

sock_clean_up() {
	local name
	for name in "${!pid[@]}"; do
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

alive() {	# name
	[[ -n ${pid[$1]:-} ]] && kill -0 "${pid[$1]}" 2>/dev/null
}

said() {	# name pattern
	grep -q -- "$2" "$work/$1"
}

wait_long() {	# seconds command...
	local deadline=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < deadline)) || { echo "# waited in vain for: $*"; return 1; }
		sleep 0.05
	done
}

# ---- daemons ----

fabric_up() {	# planes mtu
	F up --planes "$1" --mtu "$2" --seed 7 >"$work/fabric" 2>&1 || { cat "$work/fabric"; return 1; }
	planes=$1
}

fabric_down() {
	F down >/dev/null 2>&1
}

# Interfaces are all planes, unless the options name some, or --none is among them: then the daemon chooses.
daemon_up() {	# host user [options of mroced]
	local host=$1 plane use=()
	as[$host]=$2
	shift 2
	if [[ " $* " == *" --none "* ]]; then
		set -- "${@/#--none/-v}"
	elif [[ " $* " != *" -i "* ]]; then
		for ((plane = 1; plane <= planes; plane++)); do
			use+=(-i "p$plane")
		done
	fi
	: >"$work/log.$host"
	# With a name of its own, as $! must be the daemon and not a shell.
	case ${as[$host]} in
	nobody) on_nobody "$host" "$bin/mroced" --socket "$run/$host.sock" "${use[@]}" "$@" >>"$work/log.$host" 2>&1 & ;;
	*) nsenter --net="/run/netns/mr-$fabric-$host" "$bin/mroced" --socket "$run/$host.sock" "${use[@]}" "$@" \
		>>"$work/log.$host" 2>&1 & ;;
	esac
	pid[$host]=$!
	wait_until ready_or_dead "$host"
	said "log.$host" ready: || { cat "$work/log.$host"; return 1; }
}

on_nobody() {	# host command...
	exec nsenter --net="/run/netns/mr-$fabric-$1" "${nobody[@]}" "${@:2}"
}

ready_or_dead() {
	said "log.$1" ready: || ! alive "$1"
}

# Kinds of h1 and h2, both run by one user.
pair_up() {	# user kind kind [options]
	daemon_up h1 "$1" --port "$2" "${@:4}" && daemon_up h2 "$1" --port "$3" "${@:4}"
}

daemon_stop() {	# host...
	local host status=0
	for host; do
		kill "${pid[$host]}"
		wait "${pid[$host]}" || { echo "mroced of $host: exit status $?"; cat "$work/log.$host"; status=1; }
		unset "pid[$host]"
	done
	return $status
}

end9() {	# name
	kill -9 "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	unset "pid[$1]"
	return 0
}

mroce() {	# host arguments
	local who=()
	[[ ${as[$1]:-} == nobody ]] && who=("${nobody[@]}")
	on "$1" "${who[@]}" "$bin/mroce" --socket "$run/$1.sock" "${@:2}"
}

show() {	# host python-expression on s, what `mroce show -j` prints
	mroce "$1" -j show | python3 -c "import json, sys; s = json.load(sys.stdin); print($2)"
}

port_sum() {	# host counter: over all ports
	show "$1" "sum(p['$2'] for p in s['ports'])"
}

counted() {	# host counter-name: tracker and engine together
	show "$1" "sum(c['kernel'] + c['engine'] for c in s['counters'] if c['name'] == '$2')"
}

more_than() {	# value limit what
	(($1 > $2)) || { echo "$3: got $1, want more than $2"; return 1; }
}

# ---- transfers ----

# Sets loss and so on for both ends, transfers, and takes it back.
under() {	# fabric-settings -- messages address [options]
	local settings=() status
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	shift
	F set "${settings[@]}" >/dev/null || return 1
	transfer "$@"
	status=$?
	F set --clear >/dev/null
	return "$status"
}

repaired() {	# more than so many
	more_than "$(perf_says repairs)" "$1" repairs
}

# The first packets of a transfer from h1 to h2, as h2 sees them.
capture() {	# packets address
	on h2 timeout 20 tcpdump -Z root -i p1 -c "$1" -vv -n -l "udp and dst port 4797 and dst host $2" >"$work/wire" 2>"$work/tcpdump" &
	pid[tcpdump]=$!
	wait_until said tcpdump "listening on" || { cat "$work/tcpdump"; return 1; }
	transfer 200 "$2" || return 1
	wait_long 10 fails alive tcpdump
	unset "pid[tcpdump]"
}

# UDP source ports of data seen there.
source_ports_seen() {
	grep 'length [0-9]\{4\}$' "$work/wire" | grep -o '10\.1\.0\.1\.[0-9]* > ' | sort -u | wc -l
}

# The receives of so many connections fill the queue to mroced for a moment, again and again.
many_connections() {
	local i
	for i in {1..8}; do
		transfer 200 10.1.0.2 -q 50 -m 4096 || { echo "time $i"; return 1; }
	done
}

serve() {	# host
	: >"$work/server"
	nsenter --net="/run/netns/mr-$fabric-$1" "$bin/mroce" --socket "$run/$1.sock" perf -s --once \
		>"$work/server" 2>&1 &
	pid[server]=$!
	wait_until said server "answering" || { cat "$work/server"; return 1; }
}

# From h1 to h2; 64 KiB messages unless options say otherwise. What perf says is in $work/perf.
transfer() {	# messages address [options of perf]
	local status
	serve h2 || return 1
	timeout 100 nsenter --net="/run/netns/mr-$fabric-h1" "$bin/mroce" --socket "$run/h1.sock" perf --check \
		-n "$1" "${@:3}" "$2" >"$work/perf" 2>&1
	status=$?
	if [[ $status != 0 ]]; then
		cat "$work/perf" "$work/server"
		tail -n 20 "$work/log.h1" "$work/log.h2"
		end9 server
		return 1
	fi
	wait "${pid[server]}"
	unset "pid[server]"
	said perf "^  0 messages with wrong contents" || { cat "$work/perf"; return 1; }
}

# packets|repairs of the last transfer, at its sender
perf_says() {
	grep -o "[0-9]* $1" "$work/perf" | head -n 1 | cut -d ' ' -f 1
}
