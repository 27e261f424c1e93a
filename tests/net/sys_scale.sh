#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# 4,000 connections between two daemons: set-up, goodput against one alone, fair shares, memory, idle CPU.
# shellcheck source-path=SCRIPTDIR source=lib_daemon.sh
. "$(dirname "$0")/lib_daemon.sh"

count=${SCALE_CONNECTIONS:-4000}
ms=${SCALE_MS:-2000}
scale=$build/tests/net/scale
mroce=$build/mroce

value() {	# name
	sed -n "s/.*\<$1=\([0-9.]*\).*/\1/p" "$work/load"
}

at_least() {	# value limit what
	awk -v a="$1" -v b="$2" -v w="$3" 'BEGIN { print w " " a ", wanted " b; exit !(a != "" && a >= b) }'
}

at_most() {	# value limit what
	awk -v a="$1" -v b="$2" -v w="$3" 'BEGIN { print w " " a ", wanted at most " b; exit !(a != "" && a <= b) }'
}

ended() {
	grep -q '^connections=' "$work/load" || ! kill -0 "${daemon[load]}" 2>/dev/null
}

loads() {
	local place deadline=$((SECONDS + 240))
	app server nsenter --net="/run/netns/${ns}b" "$scale" serve "$work/b.sock" "$count"
	wait_until said server memory || return
	place=$(sed -n 's/^memory //p' "$work/server")
	mkfifo "$work/hold"
	# shellcheck disable=SC2086
	nsenter --net="/run/netns/${ns}a" "$scale" load "$work/a.sock" 10.77.0.2 "$count" "$ms" $place \
		>"$work/load" 2>&1 <"$work/hold" &
	daemon[load]=$!
	exec 7>"$work/hold"
	until ended || ((SECONDS > deadline)); do sleep 0.1; done
	cat "$work/load"
	said server accepted && grep -q '^connections=' "$work/load"
}

memory_of() {
	in_ns a "$mroce" --socket "$work/a.sock" -j show conn | python3 -c "
import json, sys
c = json.load(sys.stdin)['connections']
print(len(c), sum(x['memory_bytes'] for x in c) // max(1, len(c)))"
}

memory_is_small() {
	local n bytes
	read -r n bytes <<<"$(memory_of)"
	equal "$n" "$count" connections && at_most "$bytes" 8192 "bytes of a connection"
}

# Keepalives of all connections, which are one question a second each, and no more than that.
idle_is_cheap() {
	local before
	sleep 2
	before=$(ticks "${daemon[a]}")
	sleep 5
	at_most $((($(ticks "${daemon[a]}") - before) * 1000 / 500)) 250 "idle daemon, thousandths of a CPU:"
}

all_gone() {
	local n
	read -r n _ <<<"$(memory_of)"
	[[ $n == 0 ]]
}

net_up
mroced_up a
mroced_up b
check "$count connections come up and carry data" loads
check "all together carry as much as one alone" at_least "$(value ratio)" "${SCALE_RATIO:-0.25}" ratio
check "shares are fair" at_least "$(value jain)" 0.8 "Jain's index"
check "memory of a connection" memory_is_small
check "idle connections cost next to nothing" idle_is_cheap
app_kill load
exec 7>&-
check "all are gone after their application" wait_until all_gone
check "the first daemon stops" mroced_stop a
check "the second daemon stops" mroced_stop b
finish
