# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of the ports: TAP, and two namespaces a and b with a veth pair v0, gone at the end.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${BUILD:-build}
blast=${BLAST:-$build/tests/net/blast}
ns=${PORT_NS:-mrpt$$}
work=$(mktemp -d)
tests=0
failures=0
declare -A daemon=()
trap 'cleanup' EXIT
trap 'exit 1' INT TERM HUP

cleanup() {
	local name
	for name in "${!daemon[@]}"; do
		kill -9 "${daemon[$name]}" 2>/dev/null
	done
	net_down
	rm -rf "$work"
}

# Not `ip netns exec`, which hides bpffs.
in_ns() {	# a|b command...
	nsenter --net="/run/netns/$ns$1" "${@:2}"
}

net_up() {	# [mtu [options of ip link add]]
	local n
	for n in a b; do
		ip netns add "$ns$n"
		ip -n "$ns$n" link set lo up
	done
	# shellcheck disable=SC2086
	ip link add v0 netns "${ns}a" mtu "${1:-3498}" ${2:-} type veth \
		peer name v0 netns "${ns}b" mtu "${1:-3498}" ${2:-}
	ip -n "${ns}a" address add 10.77.0.1/24 dev v0
	ip -n "${ns}b" address add 10.77.0.2/24 dev v0
	ip -n "${ns}a" address add fd77::1/64 dev v0 nodad
	ip -n "${ns}b" address add fd77::2/64 dev v0 nodad
	for n in a b; do
		ip -n "$ns$n" link set v0 up
	done
	wait_until link_is_up a v0
	wait_until link_is_up b v0
}

link_is_up() {	# a|b interface
	ip -n "$ns$1" link show "$2" | grep -q LOWER_UP
}

net_down() {
	local n
	for n in a b; do
		[[ -e /run/netns/$ns$n ]] && ip netns del "$ns$n"
	done
	return 0
}

ok() {	# result-of-command name
	tests=$((tests + 1))
	if [[ $1 == 0 ]]; then
		echo "ok $tests - $2"
	else
		failures=$((failures + 1))
		echo "not ok $tests - $2"
	fi
}

skip() {	# name reason
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

check() {	# name command...
	local name=$1
	shift
	"$@" >"$work/check" 2>&1
	ok $? "$name"
	[[ -s $work/check ]] && sed 's/^/# /' "$work/check"
	return 0
}

equal() {	# got want what
	[[ $1 == "$2" ]] || { echo "$3: got '$1', want '$2'"; return 1; }
}

finish() {
	echo "1..$tests"
	exit $((failures > 0))
}

# Polls until the command is true, for ten seconds at most.
wait_until() {
	local deadline=$((SECONDS + 10))
	until "$@" >/dev/null 2>&1; do
		((SECONDS < deadline)) || { echo "# waited in vain for: $*"; return 1; }
		sleep 0.02
	done
}

# Opens ports in a namespace and holds them; commands go in by a pipe. 0 when they are ready.
hold() {	# a|b [VARIABLE=VALUE...] [options] interfaces...
	local where=$1 env=()
	shift
	while [[ ${1:-} == *=* ]]; do
		env+=("$1")
		shift
	done
	rm -f "$work/in.$where"
	mkfifo "$work/in.$where"
	: >"$work/out.$where"
	env "${env[@]}" nsenter --net="/run/netns/$ns$where" "$blast" "$@" \
		<"$work/in.$where" >"$work/out.$where" 2>"$work/log.$where" &
	daemon[$where]=$!
	# Kept open, since the end of its input ends the program.
	if [[ $where == a ]]; then exec 8>"$work/in.a"; else exec 9>"$work/in.b"; fi
	wait_until ready_or_dead "$where"
	grep -q ready "$work/out.$where" || { cat "$work/log.$where"; return 1; }
}

ready_or_dead() {
	grep -q ready "$work/out.$1" || ! kill -0 "${daemon[$1]}"
}

# Sends one command and prints its one line of answer.
tell() {	# a|b command
	local lines
	lines=$(wc -l <"$work/out.$1")
	if [[ $1 == a ]]; then echo "$2" >&8; else echo "$2" >&9; fi
	wait_until answered "$1" "$lines"
	tail -n 1 "$work/out.$1"
}

answered() {
	(($(wc -l <"$work/out.$1") > $2))
}

quit() {	# a|b
	if [[ $1 == a ]]; then exec 8>&-; else exec 9>&-; fi
	wait "${daemon[$1]}"
	unset "daemon[$1]"
}

kill9() {	# a|b
	kill -9 "${daemon[$1]}"
	wait "${daemon[$1]}" 2>/dev/null
	if [[ $1 == a ]]; then exec 8>&-; else exec 9>&-; fi
	unset "daemon[$1]"
	return 0
}

# A value of the first port: show a "['attach']"
show() {	# a|b expression
	tell "$1" show | python3 -c "import json, sys; print(json.load(sys.stdin)[0]$2)"
}

# What is attached to v0, in words.
attached() {	# a|b
	{
		in_ns "$1" "$blast" attached v0
		in_ns "$1" tc qdisc show dev v0 | grep -o clsact
		in_ns "$1" tc filter show dev v0 ingress 2>/dev/null | grep -o 'mroce_tc_ingres'
		in_ns "$1" tc filter show dev v0 egress 2>/dev/null | grep -o 'mroce_tc_egress'
	} | sort -u | tr '\n' ' '
}

attached_is() {	# a|b words
	equal "$(attached "$1")" "$2" "attached"
}

bare() {	# a|b
	attached_is "$1" ""
}
