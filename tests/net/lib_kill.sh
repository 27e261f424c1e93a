#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kill -9 of application and daemon at random moments under load: the other side is told in bounded time,
# restarts work at once, nothing is left behind. SEED repeats a run.
# shellcheck source-path=SCRIPTDIR source=lib_daemon.sh
. "$(dirname "$0")/lib_daemon.sh"

ROUNDS=${ROUNDS:-4}
SEED=${SEED:-$$}
RANDOM=$SEED
echo "# SEED=$SEED ROUNDS=$ROUNDS"

server_up() {
	app server "$peer" serve "$work/b.sock"
	wait_until said server ready || { cat "$work/server" "$work/mroced.b"; return 1; }
}

alive() {	# name
	[[ -n ${daemon[$1]:-} ]] && kill -0 "${daemon[$1]}" 2>/dev/null
}

# Also after a test that failed half way, so that the next one tells its own story.
all_up() {
	alive load && app_kill load
	alive a || mroced_up a || return 1
	alive b || mroced_up b || return 1
	alive server || server_up
}

load_up() {
	all_up || return 1
	app load "$peer" load "$work/a.sock" 10.77.0.2
	wait_until said load running || { cat "$work/load" "$work/server" "$work/mroced.a"; return 1; }
}

random_moment() {
	sleep "0.$(printf %03d $((RANDOM % 300)))"
}

# Within 10 s: a path is given up after 2 s of silence, the rest is for a busy machine.
told() {	# name pattern
	wait_until said "$1" "$2" || { cat "$work/$1"; return 1; }
}

nothing_wrong() {
	! grep -E "wrong|hangs" "$work/server" "$work/load"
}

client_killed() {
	local before
	load_up || return 1
	before=$(grep -c "guest ended" "$work/server")
	random_moment
	app_kill load
	wait_until said_times server "guest ended" $((before + 1)) || { cat "$work/server"; return 1; }
	nothing_wrong
}

server_killed() {
	load_up || return 1
	random_moment
	app_kill server
	told load "ended the peer" || return 1
	nothing_wrong
}

far_daemon_killed() {
	load_up || return 1
	random_moment
	mroced_kill b
	told load "ended the peer" || return 1
	told server "daemon gone" || return 1
	nothing_wrong || return 1
	bare b
}

near_daemon_killed() {
	local before
	load_up || return 1
	before=$(grep -c "guest ended" "$work/server")
	random_moment
	mroced_kill a
	told load "ended the local mroced is gone" || return 1
	wait_until said_times server "guest ended" $((before + 1)) || { cat "$work/server"; return 1; }
	nothing_wrong || return 1
	bare a
}

both_daemons_killed() {
	load_up || return 1
	random_moment
	mroced_kill a
	mroced_kill b
	told load "ended the local mroced is gone" || return 1
	told server "daemon gone" || return 1
	bare a && bare b
}

far_daemon_stopped() {
	load_up || return 1
	random_moment
	mroced_stop b || return 1
	told load "ended the peer" || return 1
	bare b
}

# What the daemon keeps for a dead application.
nothing_kept() {	# a|b
	"$build/mroce" show -j --socket "$work/$1.sock" >"$work/show" 2>&1 || { cat "$work/show"; return 1; }
	python3 - "$work/show" "$2" <<-'END'
		import json, sys
		show = json.load(open(sys.argv[1]))
		clients = show["daemon"]["clients"]
		conns = [c for c in show["connections"] if c["state"] != "closing"]
		if clients != int(sys.argv[2]) or conns:
		    sys.exit(f"clients {clients}, connections {conns}")
	END
}

net_up
for ((round = 1; round <= ROUNDS; round++)); do
	check "round $round: client killed, server is told" client_killed
	check "round $round: server killed, client is told" server_killed
	check "round $round: far daemon killed, client and server are told" far_daemon_killed
	check "round $round: near daemon killed, client and server are told" near_daemon_killed
	check "round $round: both daemons killed" both_daemons_killed
	check "round $round: far daemon stopped, client is told" far_daemon_stopped
done
check "all start again" all_up
app_kill server
if [[ -x $build/mroce ]]; then
	check "daemon a keeps nothing of the dead" wait_until nothing_kept a 0
	check "daemon b keeps nothing of the dead" wait_until nothing_kept b 0
fi
check "daemon a still stops well" mroced_stop a
check "daemon b still stops well" mroced_stop b
check "nothing is left on either side" eval 'bare a && bare b'
finish
