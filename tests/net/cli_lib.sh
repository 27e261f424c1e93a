# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# For cli_*.sh: two hosts with a daemon each on a fabric, TAP, and tidying up.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

BUILD=${BUILD:-build}
MROCE=$PWD/$BUILD/mroce
MROCED=$PWD/$BUILD/mroced
fabric=mrcli$$
work=$(mktemp -d /tmp/mroce-cli.XXXXXX)
number=0
declare -A daemon_pid
background=()

F()
{
	scripts/fabric --name "$fabric" "$@"
}

# mroce as it is typed on a host; never longer than a minute.
on()
{
	local host=$1
	shift
	timeout -k 5 60 nsenter --net="/run/netns/mr-$fabric-$host" "$MROCE" --socket "$work/$host.sock" "$@"
}

# The same in the background, without a shell or timeout between, so that $! is mroce itself.
spawn()
{
	local host=$1
	shift
	nsenter --net="/run/netns/mr-$fabric-$host" "$MROCE" --socket "$work/$host.sock" "$@" &
	background+=($!)
}

# perf -s on h2, and it listens: until then its mroced answers set-ups, too.
perf_server_up()
{
	spawn h2 perf -s --quiet
	# shellcheck disable=SC2034 # for who ends it
	server=$!
	wait_until perf_server_answers
}

perf_server_answers()
{
	local text
	text=$(on h1 ping -c 1 10.1.0.2 2>&1) && [[ $text != *set-up* ]]
}

result()
{
	local status=$1
	shift
	number=$((number + 1))
	if [ "$status" = 0 ]; then
		echo "ok $number - $*"
	else
		sed 's/^/# /' "$work/out" 2>/dev/null
		echo "not ok $number - $*"
	fi
}

# check NAME COMMAND...: the command succeeds; its output is shown only if it does not.
check()
{
	local name=$1
	shift
	"$@" >"$work/out" 2>&1
	result $? "$name"
}

# The command ends with that status.
ends_with()
{
	local status=$1 got
	shift
	"$@"
	got=$?
	[ "$got" = "$status" ] || { echo "exit status $got instead of $status"; return 1; }
}

says()
{
	local words=$1 text
	shift
	text=$("$@" 2>&1)
	echo "$text"
	grep -qF -- "$words" <<<"$text"
}

# Until the command succeeds, 20 s at most.
wait_until()
{
	local deadline=$((SECONDS + 20))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.05
	done
}

listening()
{
	on "$1" show conn >/dev/null || return 1
	grep -q "$2" "$work/$3"
}

# A value out of JSON on standard input: json 'd["key"]'.
json()
{
	python3 -c "import json, sys; d = json.load(sys.stdin); print(($1))"
}

start_daemon()
{
	local host=$1 ports=() i
	for ((i = 1; i <= planes; i++)); do
		ports+=(-i "p$i")
	done
	nsenter --net="/run/netns/mr-$fabric-$host" "$MROCED" --socket "$work/$host.sock" "${ports[@]}" \
		>>"$work/$host.log" 2>&1 &
	daemon_pid[$host]=$!
	wait_until on "$host" show port || { sed 's/^/# /' "$work/$host.log"; return 1; }
}

tidy()
{
	trap - EXIT
	[ ${#background[@]} = 0 ] || kill -9 "${background[@]}" 2>/dev/null
	[ ${#daemon_pid[@]} = 0 ] || kill "${daemon_pid[@]}" 2>/dev/null
	wait 2>/dev/null
	F down >/dev/null 2>&1
	rm -rf "$work"
}

# set_up PLANES FABRIC-OPTION...
set_up()
{
	planes=$1
	shift
	[ "$(id -u)" = 0 ] || { echo "1..0 # SKIP needs root, for network namespaces and BPF"; rm -rf "$work"; exit 0; }
	trap tidy EXIT
	trap 'exit 143' TERM
	trap 'exit 130' INT
	F up --hosts 2 --planes "$planes" "$@" >"$work/out" 2>&1 ||
		{ result 1 "fabric comes up"; echo "1..$number"; exit 1; }
	if ! { start_daemon h1 && start_daemon h2; }; then
		result 1 "daemons start"
		echo "1..$number"
		exit 1
	fi
}

finish()
{
	echo "1..$number"
}
