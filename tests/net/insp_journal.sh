#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The journal: a socket in the place of journald's gets events with their fields; what has none goes to standard
# error. In a mount namespace of its own, so that no real journal sees it.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
if [ "${MROCE_OWN_RUN:-}" != yes ] && [ "$(id -u)" = 0 ]; then
	export MROCE_OWN_RUN=yes
	exec unshare -m --propagation slave "$0" "$@"
fi
. "$(dirname "$0")/cli_lib.sh"

journald_up()
{
	mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/journal || return 1
	python3 - "$work/records" <<-'END' &
	import json, os, socket, struct, sys
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind("/run/systemd/journal/socket")
	out = open(sys.argv[1], "a", buffering=1)
	while True:
	    data, fields = s.recv(1 << 20), {}
	    while data:
	        line, _, data = data.partition(b"\n")
	        key, equals, value = line.partition(b"=")
	        if not equals:
	            size = struct.unpack("<Q", data[:8])[0]
	            value, data = data[8:8 + size], data[9 + size:]
	        fields[key.decode()] = value.decode()
	    out.write(json.dumps(fields) + "\n")
	END
	background+=($!)
	wait_until [ -S /run/systemd/journal/socket ]
}

start_under_systemd()
{
	local host
	for host in h1 h2; do
		kill "${daemon_pid[$host]}"
		wait "${daemon_pid[$host]}"
		export JOURNAL_STREAM; JOURNAL_STREAM=$(stat -c %d:%i "$work/$host.log")
		start_daemon $host || return 1
		unset JOURNAL_STREAM
	done
}

# recorded CONDITION: some record r, a dictionary, meets it.
recorded()
{
	python3 - "$work/records" "$1" <<-'END'
	import json, sys
	records = [json.loads(line) for line in open(sys.argv[1]) if line.endswith("\n")]
	sys.exit(not any(eval(sys.argv[2]) for r in records))
	END
}

comes()
{
	wait_until recorded "$1" || { cat "$work/records"; return 1; }
}

traffic()
{
	perf_server_up || return 1
	wait_until under_way
}

# A server that has just answered a ping may be between two listenings.
under_way()
{
	[ "${client:-0}" != 0 ] && kill -0 "$client" 2>/dev/null || { spawn h1 perf -D 100 10.1.0.2; client=$!; }
	on h1 -j show conn | grep -q 0x
}

# Every id in the source is in the documentation under its event's name, and no two are the same.
ids_documented()
{
	local name id
	while read -r name id; do
		grep -qF "| \`${name,,}\` | $id |" docs/inspection.md || { echo "$name $id"; return 1; }
	done < <(sed -nE 's/.*\[NOTE_([A-Z_]+)\] = "([0-9a-f]{32})".*/\1 \2/p' daemon/journal.c)
	[ "$(grep -cE '\[NOTE_[A-Z_]+\] = "' daemon/journal.c)" = 8 ] &&
		[ -z "$(grep -oE '"[0-9a-f]{32}"' daemon/journal.c | sort | uniq -d)" ]
}

all_have_ids()
{
	python3 - "$work/records" <<-'END'
	import json, re, sys
	for line in open(sys.argv[1]):
	    r = json.loads(line)
	    assert re.fullmatch("[0-9a-f]{32}", r["MESSAGE_ID"]) and r["SYSLOG_IDENTIFIER"] == "mroced", r
	    assert r["PRIORITY"] in "34567" and r["MESSAGE"] and r["MROCE_EVENT"], r
	END
}

without_journald()
{
	umount -l /run/systemd
	F set --plane 1 --down >/dev/null && wait_until grep -q "^<5>conn .* left" "$work/h1.log"
}

set_up 2
check "message ids are documented" ids_documented
check "a journal" journald_up
check "daemons as under systemd" start_under_systemd
check "plain lines have their priority" grep -q "^<6>ready: " "$work/h1.log"
check "traffic" traffic
check "a plane goes down" sh -c "scripts/fabric --name $fabric set --plane 1 --down"
check "paths that are left have their fields" comes \
	"r['MROCE_EVENT'] == 'path_dead' and r['MROCE_PORT'] == 'p1' and r['MROCE_CONN'].startswith('0x') and r['MROCE_PEER'].startswith('10.') and r['MROCE_PATH'].isdigit() and r['MROCE_REASON'] and r['PRIORITY'] == '5'"
check "comes back" sh -c "scripts/fabric --name $fabric set --plane 1 --up"
check "paths that are back, too" comes "r['MROCE_EVENT'] == 'path_back' and r['MROCE_PORT'] == 'p1'"
kill -STOP "${daemon_pid[h2]}"
check "stalls name the message" comes "r['MROCE_EVENT'] == 'stall' and 'MROCE_MSG' in r and r['PRIORITY'] == '4'"
kill -CONT "${daemon_pid[h2]}"
check "stalls are among the errors" says "stalled for" on h1 show errors
check "every event has what it must" all_have_ids
check "not twice: nothing of it on standard error" sh -c "! grep -q '^<5>conn' '$work/h1.log'"
check "without a journal, to standard error" without_journald
finish
