#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce monitor: each kind of event by making it happen, as lines and as JSON.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

# Number of events of that kind so far: events KIND [python condition on the record e]
events()
{
	python3 - "$work/events" "$1" "${2:-True}" <<-'END'
	import json, sys
	path, kind, condition = sys.argv[1:]
	records = [json.loads(line) for line in open(path) if line.endswith("\n")]
	print(sum(1 for e in records if e["event"] == kind and eval(condition)))
	END
}

happens()	# kind [condition]
{
	wait_until test_events "$@" || { tail -n 5 "$work/events"; return 1; }
}

test_events()
{
	(($(events "$@") > 0))
}

monitor_up()
{
	spawn h1 -j monitor >"$work/events"
	monitor=$!
	happens start
}

traffic_up()
{
	perf_server_up || return 1
	spawn h1 perf -D 100 10.1.0.2
	client=$!
	# The line for people names the connection as `mroce show conn` takes it.
	happens conn_up "e['peer'] == '10.1.0.2' and e['service'] == 7002 and e['text'].startswith('conn ' + e['conn'] + ':')"
}

stall()
{
	kill -STOP "${daemon_pid[h2]}"
	happens stall "e['level'] == 4 and 'msg' in e"
	local good=$?
	kill -CONT "${daemon_pid[h2]}"
	return $good
}

traffic_down()
{
	kill "$client"
	happens conn_down "e['service'] == 7002"
}

numbered()
{
	python3 - "$work/events" <<-'END'
	import json, sys
	numbers = [json.loads(line)["number"] for line in open(sys.argv[1])][1:]
	assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
	END
}

# As lines: ends by itself after one event of a kind.
one_line()
{
	on h1 monitor -c 1 port_down >"$work/lines" &
	local waiting=$!
	wait_until grep -q start "$work/lines" && F set --plane 1 --down && wait $waiting || return 1
	cat "$work/lines"
	[ "$(wc -l <"$work/lines")" = 2 ] && grep -qE '^[0-9:]{8}\.[0-9]{6} port_down +port 0 \(p1\): down$' "$work/lines"
}

interrupted()
{
	kill -INT "$monitor"
	wait "$monitor"
}

told_of_end()
{
	local status
	rm -f "$work/lines"     # has the start of another monitor
	on h1 monitor >"$work/lines" 2>"$work/err" &
	local waiting=$!
	wait_until grep -q start "$work/lines" || return 1
	kill "${daemon_pid[h1]}"
	wait $waiting
	status=$?
	cat "$work/lines" "$work/err"
	[ $status = 1 ] && grep -q "mroced ends" "$work/lines" && grep -q "has ended" "$work/err"
}

# A listener that does not read must not slow packets down, and must not make the daemon grow.
deaf_listener()
{
	spawn h1 monitor >/dev/null
	local deaf=$!
	kill -STOP $deaf
	for ((i = 0; i < 30; i++)); do
		on h1 ping -c 1 10.1.0.2 >/dev/null || return 1
	done
	kill -9 $deaf
}

set_up 2
check "listening" monitor_up
check "connection up" traffic_up
check "port down" sh -c "scripts/fabric --name $fabric set --plane 1 --down"
check "is told" happens port_down "e['port'] == 'p1'"
check "its paths are left" happens path_dead "e['port'] == 'p1' and e['path'] in range(8) and e['reason']"
check "port up" sh -c "scripts/fabric --name $fabric set --plane 1 --up"
check "is told too" happens port_up "e['port'] == 'p1'"
check "its paths are back" happens path_back "e['port'] == 'p1'"
check "a black hole" sh -c "scripts/fabric --name $fabric set --plane 2 --blackhole"
check "is told as path that does not answer" happens path_dead "e['port'] == 'p2' and 'answer' in e['reason']"
check "black hole gone" sh -c "scripts/fabric --name $fabric set --plane 2 --no-blackhole"
check "path is back" happens path_back "e['port'] == 'p2'"
check "stall" stall
check "connection down" traffic_down
check "no number is missing" numbered
check "SIGINT ends it well" interrupted
check "as lines, of one kind, and -c" one_line
F set --plane 1 --up >/dev/null
check "an unknown event is misuse" ends_with 2 on h1 monitor nonsense
check "a listener that does not read holds nobody up" deaf_listener
kill "$server"
check "the daemon's end is told" told_of_end
finish
