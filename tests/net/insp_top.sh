#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce top: rates that are right, in batch, as JSON, and on a terminal that is resized, suspended and killed.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

# On a terminal of its own: pty STEPS [options]
pty()
{
	local steps=$1
	shift
	nsenter --net="/run/netns/mr-$fabric-h1" python3 tests/net/insp_pty.py "$steps" "$MROCE" --socket "$work/h1.sock" top "$@"
}

# Perf's connection, with its paths, and no longer that of the ping before it.
only_perf()
{
	on h1 -j show all | python3 -c 'import json, sys
o = json.load(sys.stdin)
conns = o["connections"]
sys.exit(not (len(conns) == 1 and conns[0]["state"] == "up" and conns[0]["tx_bytes"] > 1 << 20 and len(o["paths"]) == 8))'
}

traffic_up()
{
	perf_server_up || return 1
	spawn h1 perf -D 100 10.1.0.2
	client=$!
	wait_until only_perf
}

# The rates of several views, times their lengths, against the counters before and after.
rates_are_right()
{
	on h1 -j show all >"$work/before"
	on h1 -j top -n 4 -d 0.3 >"$work/views"
	on h1 -j show all >"$work/after"
	python3 - "$work/before" "$work/views" "$work/after" <<-'END'
	import json, sys
	before, after = (json.load(open(sys.argv[i])) for i in (1, 3))
	views = [json.loads(line) for line in open(sys.argv[2])]
	assert len(views) == 4
	def grown(list_, key):
	    return after[list_][0][key] - before[list_][0][key]
	for list_, rate, counter, factor in (("connections", "tx_bps", "tx_bytes", 8), ("ports", "tx_pps", "tx_packets", 1),
	                                     ("ports", "rx_pps", "rx_packets", 1), ("paths", "tx_pps", "tx_packets", 1)):
	    moved = sum(v[list_][0][rate] * v["interval_s"] for v in views) / factor
	    print(list_, rate, moved, grown(list_, counter))
	    # It begins and ends inside the span of the counters.
	    assert 0 < moved <= grown(list_, counter) * 1.001 + 1
	    assert moved >= grown(list_, counter) * 0.3
	for v in views:
	    assert len(v["paths"]) == 8 and v["connections"][0]["state"] == "up"
	END
}

batch_text()
{
	on h1 top -b -n 2 -d 50ms -p >"$work/text" || return 1
	cat "$work/text"
	[ "$(grep -c ^mroced "$work/text")" = 2 ] && grep -q "^p1 .*up" "$work/text" && ! grep -q $'\033' "$work/text" &&
		[ "$(grep -c "^0x" "$work/text")" = 18 ] && grep -qE "^0x.* uuuuuuuu$" "$work/text"
}

closed_pipe()
{
	on h1 top -b -d 10ms | head -n 1 >/dev/null
	[ "${PIPESTATUS[0]}" != 124 ]
}

set_up 1
check "no connection" says "no connections" on h1 top -b -n 1 -d 50ms
check "traffic" traffic_up
check "rates are those of the counters" rates_are_right
check "batch: two views with paths, no escape" batch_text
check "a pipe that is closed ends it" closed_pipe
check "without a terminal: misuse" ends_with 2 on h1 top </dev/null
check "screen: shows and ends with q" pty "wait:RX-PKT/S,wait:10.1.0.2,key:q,ends:0" -d 0.1
check "paths come and go by key" pty "wait:PEER,absent:REASON,key:p,wait:REASON,key:p,absent:REASON,key:q,ends:0" -d 0.1
check "resizing, also to almost nothing" pty "wait:PEER,size:10x40,size:2x5,size:50x200,wait:PEER,key:q,ends:0" -d 5 -n 100 -p
for signal in SIGINT SIGQUIT SIGTERM SIGHUP; do
	check "terminal is put back after $signal" pty "wait:PEER,signal:$signal,ends:0" -d 0.1
done
check "suspended and continued" pty "wait:PEER,signal:SIGTSTP,stopped,signal:SIGCONT,wait:PEER,size:20x100,key:q,ends:0" -d 0.1
check "a terminal that is closed ends it" pty "wait:PEER,hangup,ends:0" -d 0.1
kill "$client"
kill "${daemon_pid[h1]}"
wait "${daemon_pid[h1]}" 2>/dev/null
check "no daemon: said" ends_with 1 on h1 top -b -n 1
finish
