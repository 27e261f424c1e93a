#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Stated loss tolerance through daemons, kernel and a network that loses packets in bursts: what completions say is
# compared with the memory, byte by byte (tolerate.c), and the sender's numbers with the receiver's and the daemon's.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

tolerate=$build/tests/net/tolerate
COUNT=${COUNT:-60}

total() {	# name key
	sed -n "s/^total .*$2=\([0-9]*\).*/\1/p" "$work/$1"
}

# At least so many messages must have ended without all their bytes.
account() {	# forgiven-at-least [deadline_us]
	local good=0
	app server h2 "$tolerate" serve "$(sock h2)"
	wait_until said server ready || { cat "$work/server"; return 1; }
	app client h1 "$tolerate" run "$(sock h1)" 10.1.0.2 "$COUNT" "${2:-0}"
	app_ends client 0 100 || good=1
	if [[ $good == 0 ]]; then
		app_ends server 0 20 || good=1
	else
		cat "$work/server"
		end9 server
		[[ -z ${pid[client]:-} ]] || end9 client
	fi
	grep -h -e ^total -e ^wrong "$work/client" "$work/server"
	[[ $good == 0 ]] || return 1
	grep ^total "$work/server" >>"$work/totals"
	equal "$(grep ^total "$work/client")" "$(grep ^total "$work/server")" "what sender and receiver were told" &&
		(($(total client forgiven) >= $1))
}

# What the daemon of the receiver has counted of all that was accounted for up to now, while no connection is left.
daemon_counted() {
	on h2 ip link set lo up
	local want scraped shown="[s['daemon']['tolerant_' + k] for k in ('forgiven', 'over_bound', 'missing_bytes')]"
	want=$(awk '{ gsub(/[a-z]*=/, ""); f += $3; o += $4; m += $5 } END { printf "[%d, %d, %d]", f, o, m }' "$work/totals")
	scraped=$(on h2 curl -sS --noproxy '*' --max-time 10 http://127.0.0.1:9797/metrics |
		awk '/^mroce_tolerant_.*(forgiven|over_bound|bytes)/ { printf "%s%s", n++ ? ", " : "[", $2 } END { print "]" }')
	equal "$(show h2 "$shown")" "$want" "mroce show" && equal "$scraped" "$want" "metrics" &&
		on h2 "$build/mroce" --socket "$(sock h2)" show | grep "^  tolerant: "
}

# What mroce show says while the connection is there, beside what perf counts.
perf_and_show() {
	local text forgiven
	app perf h2 "$build/mroce" --socket "$(sock h2)" perf -s
	wait_until said perf answering || { cat "$work/perf"; return 1; }
	text=$(on h1 "$build/mroce" --socket "$(sock h1)" -j perf -m 500K -n 60 -t 8 --max-missing 20000 --deadline 20000 \
		10.1.0.2) || { echo "$text"; end9 perf; return 1; }
	forgiven=$(python3 -c 'import json, sys; r = json.load(sys.stdin)["results"][0]; print(r["forgiven"])
assert (r["missing_bytes"] > 0) == (r["forgiven"] > 0) and r["missing_bytes"] <= 60 * 512000 / 50' <<<"$text") ||
		{ echo "$text"; end9 perf; return 1; }
	echo "$forgiven of 60 messages of perf were forgiven"
	end9 perf
	((forgiven > 0))
}

shows_account() {
	app load h2 "$tolerate" serve "$(sock h2)"
	wait_until said load ready || return 1
	app loader h1 "$tolerate" run "$(sock h1)" 10.1.0.2 100000 2000
	wait_until is_true "any(c['tolerant_forgiven'] and c['tolerant_missing_bytes'] for c in s['connections'])" &&
		on h2 "$build/mroce" --socket "$(sock h2)" show conn >"$work/text"
	local status=$?
	end9 loader
	end9 load
	grep "tolerant: " "$work/text" && return $status
}

is_true() {	# python expression on what h2 shows
	[[ $(show h2 "$1") == True ]]
}

no_connection_is_left() {
	equal "$(show h1 "len(s['connections'])")$(show h2 "len(s['connections'])")" 00 "connections"
}

check "two hosts, two planes" fabric_up 2 --mtu 1500
check "daemons" daemons_up --metrics 127.0.0.1:9797
check "no loss: the account is exact" account 0
F set --loss 1 --burst-mean 8 >/dev/null 2>&1
check "1 % in bursts of eight" account 1
check "the same with deadlines" account 1 3000
F set --loss 5 --burst-mean 8 --reorder 3 --dup 1 >/dev/null 2>&1
check "5 % in bursts, reordering, duplicates" account 1 5000
check "daemon and metrics have counted all of it" daemon_counted
check "mroce perf states a tolerance" perf_and_show
check "mroce show tells of it" shows_account
F set --loss 0 --reorder 0 --dup 0 >/dev/null 2>&1
check "connections are gone" wait_until no_connection_is_left
check "frames add up" frames_add_up h2
check "daemons stop well" daemon_stop h1 h2
check "daemons over plain sockets" daemons_up --port socket
F set --loss 3 --burst-mean 8 >/dev/null 2>&1
check "3 % in bursts, plain sockets" account 1 5000
check "these stop, too" daemon_stop h1 h2
finish
