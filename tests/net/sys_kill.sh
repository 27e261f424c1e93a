#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kill -9 of applications and daemons while connections are set up, used and closed: whoever survives has all
# its requests completed in bounded time, the next transfer needs no cleaning up, nothing is left behind. The same
# with SIGTERM, with TC filters instead of links, and with a program that was there before. SEED repeats a run.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

SEED=${SEED:-$$}
ROUNDS=${ROUNDS:-1}
MOMENTS=${MOMENTS:-set-up transfer}
VICTIMS=${VICTIMS:-client_dies server_dies near_daemon_dies far_daemon_dies far_daemon_is_replaced \
	both_daemons_die everything_on_one_side_dies far_daemon_stops}
RANDOM=$SEED
echo "# SEED=$SEED ROUNDS=$ROUNDS"

declare -A load=(
	# Many short connections: most of the time one is being set up or closed.
	[set-up]="--repeat 0 --streams 3 --messages 4 --random 20000"
	# One that has always something in flight, for some seconds at the rate of this fabric.
	[transfer]="--repeat 1 --streams 12 --messages 300 --random 200000 --window 16"
)

# Seconds in which a survivor must be told. A silent peer is given up after two, and eight tries; a set-up after ten;
# the rest is for a busy machine.
declare -A bound=([set-up]=14 [transfer]=8)

all_up() {
	alive h1 || daemon_up h1 || return 1
	alive h2 || daemon_up h2 || return 1
}

load_up() {	# moment
	all_up || return 1
	server_up server h2 --count 0 || return 1
	# shellcheck disable=SC2086
	app client h1 "$exchange" run "$(sock h1)" 10.1.0.2 --seed $RANDOM ${load[$1]}
	wait_until traffic || { cat "$work/client"; return 1; }
	sleep "0.$(printf %03d $((RANDOM % 300)))"
	alive client || { cat "$work/client" "$work/server"; return 1; }
}

traffic() {
	(($(counted h2 RX_REDIRECT) > 50))
}

nothing_wrong() {
	! grep -h wrong: "$work/server" "$work/client"
}

# A new client is served, by the same server if it lives. That also shows that the server is not caught in
# the old connection.
works_again() {	# moment
	all_up || return 1
	alive server || server_up server h2 --count 0 || return 1
	app again h1 "$exchange" run "$(sock h1)" 10.1.0.2 --seed $RANDOM
	app_ends again 0 "${bound[$1]}" || { cat "$work/server" "$work/log.h1" "$work/log.h2"; return 1; }
	nothing_wrong || return 1
	end9 server
}

# The ids of the programs and maps of a daemon, to see that the kernel forgets them.
remember() {	# host
	show "$1" "' '.join(str(p['prog_id']) for p in s['ports'])" >"$work/progs" || return 1
	# shellcheck disable=SC2046
	for id in $(cat "$work/progs"); do
		bpftool -j prog show id "$id" | python3 -c 'import json, sys; print(*json.load(sys.stdin)["map_ids"])'
	done >"$work/maps"
	[[ -s $work/maps ]]
}

forgotten() {
	local id
	for id in $(cat "$work/progs"); do
		fails bpftool prog show id "$id" || return 1
	done
	for id in $(cat "$work/maps"); do
		fails bpftool map show id "$id" || return 1
	done
}

nothing_left() {	# host
	bare "$1" || return 1
	wait_until forgotten || { bpftool map show; return 1; }
	[[ -z $(find /sys/fs/bpf -name '*mroce*' 2>/dev/null) ]] || { echo "pins are left"; return 1; }
}

# ---- victims ----

client_dies() {	# moment
	load_up "$1" || return 1
	end9 client
	: >"$work/client"
	works_again "$1"
}

server_dies() {
	load_up "$1" || return 1
	end9 server
	app_ends client 3 "${bound[$1]}" && nothing_wrong && works_again "$1"
}

near_daemon_dies() {
	load_up "$1" && remember h1 || return 1
	end9 h1
	app_ends client 3 2 && nothing_left h1 && works_again "$1"
}

far_daemon_dies() {
	load_up "$1" && remember h2 || return 1
	end9 h2
	app_ends server 3 2 && nothing_left h2 || return 1
	app_ends client 3 "${bound[$1]}" && nothing_wrong && works_again "$1"
}

# The new daemon is there before the peer has noticed that the old one has gone.
far_daemon_is_replaced() {
	load_up "$1" || return 1
	end9 h2
	daemon_up h2 || return 1
	app_ends server 3 2 && app_ends client 3 "${bound[$1]}" && nothing_wrong && works_again "$1"
}

both_daemons_die() {
	load_up "$1" && remember h2 || return 1
	end9 h1
	end9 h2
	app_ends client 3 2 && app_ends server 3 2 && nothing_left h2 && bare h1 && nothing_wrong && works_again "$1"
}

everything_on_one_side_dies() {
	load_up "$1" && remember h2 || return 1
	end9 server
	end9 h2
	nothing_left h2 || return 1
	app_ends client 3 "${bound[$1]}" && nothing_wrong && works_again "$1"
}

# SIGTERM: the daemon is gone within a second, and its peer was told.
far_daemon_stops() {
	local start stopped told
	load_up "$1" && remember h2 || return 1
	start=$(now_ms)
	daemon_stop h2 || return 1
	stopped=$(now_ms)
	if [[ $1 == transfer ]]; then
		app_ends client 3 6 || return 1
		told=$(($(now_ms) - start))
		echo "stopped after $((stopped - start)) ms, the peer's application had ended after $told"
		# Sooner than silence would have told.
		((told < 1900)) || return 1
	else
		app_ends client 3 "${bound[$1]}" || return 1
	fi
	((stopped - start < 1000)) || { echo "it took $((stopped - start)) ms to stop"; return 1; }
	app_ends server 3 2 && nothing_left h2 && nothing_wrong && works_again "$1"
}

# ---- other ways to be attached ----

netlink_filters() {
	[[ -z ${pid[h2]:-} ]] || daemon_stop h2 || return 1
	daemon_up MROCE_TC=netlink h2 || return 1
	[[ $(attached h2) == *clsact* ]] || { attached h2; return 1; }
	swap
}

guardian_cleans_up() {
	end9 h2
	wait_until bare h2
}

adopted() {
	[[ -z ${pid[h2]:-} ]] || daemon_stop h2 || return 1
	for interface in "${interfaces[@]}"; do
		on h2 ip link set dev "$interface" xdpdrv obj "$build/bpf/mroce_xdp.bpf.o" sec xdp.frags || return 1
	done
	daemon_up h2 || return 1
	equal "$(show h2 "s['ports'][0]['attach']")" adopted attach && swap
}

others_pass() {
	F exec h1 ping -q -c 20 -i 0.01 -W 3 10.1.0.2 | tee "$work/ping" | grep -q ' 20 received' || { cat "$work/ping"; return 1; }
	F exec h1 ping -q -c 20 -i 0.01 -W 3 fd00:1::2 | grep -q ' 20 received'
}

adopted_dies() {
	end9 h2
	others_pass || return 1
	[[ $(attached h2) == *xdp* ]] || { echo "the adopted program is gone"; return 1; }
}

detach_cleans_up() {
	on h2 "$build/mroce" detach "${interfaces[@]}" && bare h2
}

check "fabric" fabric_up 2 --mtu 1500 --rate 25mbit --limit 50k
for ((round = 1; round <= ROUNDS; round++)); do
	for moment in $MOMENTS; do
		for victim in $VICTIMS; do
			check "round $round, $moment: ${victim//_/ }" "$victim" "$moment"
			[[ ! -s $work/check ]] || grep -h 'conn ' "$work"/log.h? | tail -n 6 | sed 's/^/# /'
			for name in client server again; do
				[[ -z ${pid[$name]:-} ]] || end9 "$name"
			done
		done
	done
done
check "TC filters by netlink" netlink_filters
check "kill -9: the guardian takes them away" guardian_cleans_up
check "and it starts again" eval 'all_up && swap'
check "a program attached with ip link is adopted" adopted
check "kill -9: it stays, other traffic passes" adopted_dies
check "the next daemon adopts it again" eval 'all_up && swap'
check "kill -9 again" adopted_dies
check "mroce detach cleans up" detach_cleans_up
check "and it starts again" eval 'all_up && swap'
check "daemons stop well" daemon_stop h1 h2
check "nothing is left" eval 'bare h1 && bare h2'
check "namespaces go" fabric_down
finish
