#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce perf and ping: every operation, checked contents at loss, latency, several connections, and
# what they say when nobody answers. No figure is judged.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

server()
{
	: >"$work/perf"
	spawn h2 perf -s "$@" 2>"$work/perf"
	server=$!
	wait_until listening h2 answering perf
}

checked()	# op options
{
	local text op=$1
	shift
	text=$(on h1 -j perf -o "$op" --check "$@" 10.1.0.2) || { echo "$text"; return 1; }
	echo "$text"
	[ "$(json 'sum(r["check_errors"] for r in d["results"])' <<<"$text")" = 0 ]
}

iterations()	# expected options
{
	local text expected=$1
	shift
	text=$(on h1 -j perf "$@" 10.1.0.2) || { echo "$text"; return 1; }
	echo "$text"
	[ "$(json 'd["results"][0]["iterations"]' <<<"$text")" = "$expected" ]
}

latency()
{
	local text
	text=$(on h1 -j perf -l -n 100 "$@" 10.1.0.2) || { echo "$text"; return 1; }
	echo "$text"
	[ "$(json '(lambda r: 0 < r["t_min_us"] <= r["t_typical_us"] <= r["t_99_us"] <= r["t_99_9_us"] <= r["t_max_us"])(d["results"][0])' <<<"$text")" = True ]
}

all_sizes()
{
	local text
	text=$(on h1 -j perf -a -n 2 10.1.0.2) || { echo "$text"; return 1; }
	echo "$text"
	[ "$(json 'len(d["results"])' <<<"$text")" = 23 ]
}

ping_json()	# kind
{
	local text
	text=$(on h1 -j ping -c 3 -i 0.01 10.1.0.2) || return 1
	echo "$text"
	[ "$(json 'd["kind"], d["sent"], d["answered"]' <<<"$text")" = "('$1', 3, 3)" ]
}

once()
{
	kill -INT $server
	wait $server || return 1
	server --once || return 1
	on h1 perf -n 10 10.1.0.2 && wait $server
}

server_killed()
{
	local client
	server || return 1
	spawn h1 perf -D 50 10.1.0.2 2>"$work/client"
	client=$!
	wait_until sh -c "'$MROCE' --socket '$work/h1.sock' show path -j | grep -q '\"tx_packets\": [1-9]'"
	kill -9 $server
	wait $server 2>/dev/null
	ends_with 1 wait $client && grep -q "broke off" "$work/client"
}

set_up 1 --mtu 1500
check "ping without a server times set-ups" ping_json set-up
check "perf without a server tells what to start" says "mroce perf -s" on h1 perf 10.1.0.2
server
for op in write send read; do
	check "$op: all iterations" iterations 500 -o $op -n 500
	check "$op: latency" latency -o $op
done
check "messages of no bytes" iterations 100 -n 100 -m 0
check "sends of no bytes" iterations 100 -o send -n 100 -m 0
check "three connections" iterations 300 -q 3 -n 100
check "more streams than messages in flight" iterations 50 --streams 64 -t 2 -n 50
check "both ways" iterations 200 -b -n 200
check "memory in place" checked write --inplace -n 100
check "all sizes" all_sizes
F set --loss 3 --reorder 1 --dup 1 --corrupt 1 >/dev/null
for op in write send read; do
	for size in 1 1500 100000; do
		check "$op of $size bytes is right at loss" checked $op -m $size -n 200
	done
done
check "a message of 64 MiB is right at loss" checked write -m 64M -n 2
F set --loss 0 --reorder 0 --dup 0 --corrupt 0 >/dev/null
check "ping with a server" ping_json messages
check "a server with --once ends" once
check "kill -9 of the server ends the client" server_killed
check "misuse: no host" ends_with 2 on h1 perf
check "misuse: unknown operation" ends_with 2 on h1 perf -o jump 10.1.0.2
check "misuse: impossible depth" ends_with 2 on h1 perf -t 0 10.1.0.2
finish
