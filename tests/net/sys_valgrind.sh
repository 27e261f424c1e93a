#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Applications that use every call of libmroce, under valgrind: no wrong access, nothing leaked, no descriptor
# left open; in a good run, with loss, when the peer dies and when the daemon dies.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

command -v valgrind >/dev/null || { echo "1..0 # SKIP valgrind is not installed"; exit 0; }

kinds=definite,indirect,possible
grind=(valgrind -q --error-exitcode=99 --leak-check=full "--show-leak-kinds=$kinds" "--errors-for-leak-kinds=$kinds"
	--track-fds=yes)

server_in_valgrind() {	# [options of exchange serve]
	app server h2 "${grind[@]}" "$exchange" serve "$(sock h2)" "$@"
	wait_long 60 said server ready || { cat "$work/server"; return 1; }
}

client_in_valgrind() {	# [options of exchange run]
	app client h1 "${grind[@]}" "$exchange" run "$(sock h1)" 10.1.0.2 --streams 5 --messages 8 --random 20000 "$@"
}

# valgrind tells of no error and of no open descriptor that the application did not inherit. (Its exit status is
# lost behind the application's own where that is not 0.)
clean() {	# name...
	local name
	for name; do
		awk '
			/^==.*(Invalid|uninitialised|lost:|Mismatched|overlap)/ { bad = 1 }
			/^==.*Open .*(descriptor|socket)/ { open = 1; next }
			open { bad += !/inherited from parent/; open = 0 }
			END { exit bad }' "$work/$name" || { cat "$work/$name"; return 1; }
	done
}

good_run() {
	server_in_valgrind || return 1
	client_in_valgrind "$@"
	app_ends client 0 100 && app_ends server 0 60 && clean client server
}

client_dies() {
	server_in_valgrind --count 1 || return 1
	app client h1 "$exchange" run "$(sock h1)" 10.1.0.2 --messages 20000 --random 1000 --streams 4
	wait_long 60 running || return 1
	end9 client
	app_ends server 3 60 && clean server
}

running() {
	(($(show h1 "sum(c['tx_messages'] for c in s['connections'])") > 50))
}

daemon_dies() {
	server_up server h2 || return 1
	client_in_valgrind --messages 20000 --random 1000
	wait_long 60 running || return 1
	end9 h1
	app_ends client 3 60 && clean client || return 1
	end9 server
}

errors() {
	"${grind[@]}" "$exchange" run "$work/nosuch.sock" 10.1.0.2 >"$work/none" 2>&1
	equal $? 3 "exit status without a daemon" && clean none || { cat "$work/none"; return 1; }
	on h1 "${grind[@]}" "$exchange" run "$(sock h1)" 10.1.0.2 --service 77 >"$work/none" 2>&1
	equal $? 3 "exit status without a server" && clean none || { cat "$work/none"; return 1; }
	on h1 "${grind[@]}" "$exchange" run "$(sock h1)" nowhere.invalid >"$work/none" 2>&1
	equal $? 3 "exit status with a wrong name" && clean none || { cat "$work/none"; return 1; }
}

check "fabric" fabric_up 2 --mtu 1500
check "daemons" daemons_up
check "every operation, both kinds of memory" good_run
F set --loss 5 >/dev/null 2>&1
check "with loss" good_run --seed 2
F set --clear >/dev/null 2>&1
check "the peer dies" client_dies
check "no daemon, no server, no such host" errors
check "the daemon dies" daemon_dies
check "daemons stop well" eval 'daemon_up h1 && daemon_stop h1 h2'
finish
