#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Two daemons on a veth pair and the example programs: they talk, the daemons are quiet when idle, and stop
# cleanly.
# shellcheck source-path=SCRIPTDIR source=lib_daemon.sh
. "$(dirname "$0")/lib_daemon.sh"

example() {	# a|b program [arguments]
	MROCE_SOCKET=$work/$1.sock timeout 30 "$build/examples/$2" "${@:3}"
}

hello_reaches() {	# address text
	example a hello "$1" "$2" >"$work/answer" 2>&1
	grep -q "you said: $2" "$work/answer" || { cat "$work/answer" "$work/hello.b"; return 1; }
}

write_arrives() {
	local before
	before=$(grep -c right "$work/write.b")
	example a write 10.77.0.2 || return 1
	wait_until said_times write.b right $((before + 1)) || { cat "$work/write.b"; return 1; }
	! grep WRONG "$work/write.b"
}

stops_within_a_second() {	# a|b
	local start
	start=$(now_ms)
	mroced_stop "$1" || return 1
	(($(now_ms) - start < 1000)) || { echo "took $(($(now_ms) - start)) ms"; return 1; }
}

nothing_left() {	# a|b
	bare "$1" || return 1
	! ls "$work/$1.sock" "$work/$1.sock.lock" 2>/dev/null
}

idle_is_quiet() {
	local a b
	a=$(ticks "${daemon[a]}")
	b=$(ticks "${daemon[b]}")
	sleep 6
	a=$(($(ticks "${daemon[a]}") - a))
	b=$(($(ticks "${daemon[b]}") - b))
	# 0.5 % of 6 s
	((a <= 3 && b <= 3)) || { echo "in 6 s: $a and $b ticks of 10 ms"; return 1; }
}

second_is_refused() {
	if in_ns a "$mroced" -i v0 --socket "$work/a.sock" >"$work/second" 2>&1; then
		echo "it ran"
		return 1
	fi
	grep -q "another mroced is using this socket" "$work/second" || { cat "$work/second"; return 1; }
}

refuses_option() {	# pattern options...
	"$mroced" "${@:2}" >"$work/refused" 2>&1 && return 1
	grep -q -- "$1" "$work/refused" || { cat "$work/refused"; return 1; }
}

check "an interface must be named" refuses_option "no interface named" --socket "$work/x.sock"
check "a bad number is explained" refuses_option "--paths: '99' is not a number from 1 to 16" --paths 99
check "an interface that is not there is explained" refuses_option "mrcl-none" -i mrcl-none \
	--socket "$work/x.sock"
check "and leaves no socket" test ! -e "$work/x.sock"

net_up
check "daemon a starts" mroced_up a
check "daemon b starts" mroced_up b
check "a second daemon on the same socket is refused" second_is_refused
app hello.b env "MROCE_SOCKET=$work/b.sock" "$build/examples/hello"
app write.b env "MROCE_SOCKET=$work/b.sock" "$build/examples/write"
wait_until said hello.b waiting
wait_until said write.b waiting

check "hello over IPv4" hello_reaches 10.77.0.2 "good day"
check "hello over IPv6" hello_reaches fd77::2 "good day, six"
check "remote write with immediate" write_arrives
for _ in {1..20}; do
	example a hello 10.77.0.2 again >/dev/null 2>&1 || break
done
check "twenty more connections" said_times hello.b "says: again" 20
check "idle daemons use no CPU" idle_is_quiet
app_kill write.b

check "daemon a stops within a second" stops_within_a_second a
check "and leaves nothing" nothing_left a
check "its restart works at once" mroced_up a
check "and it is reached again" hello_reaches 10.77.0.2 "after the restart"
app_kill hello.b
check "daemon b stops within a second" stops_within_a_second b
check "and leaves nothing" nothing_left b
mroced_stop a
finish
