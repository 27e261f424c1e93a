# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For coll_*.sh: a fabric with a daemon on each host and one rank on each.
fabric=${fabric:-col$$}
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/sys_lib.sh"

peer=$build/tests/net/coll_peer
ranks=0
hosts=()

ranks_up() {	# number of hosts [options of fabric up]
	local h
	ranks=$1
	fabric_up 1 --hosts "$ranks" "${@:2}" || return 1
	hosts=()
	for ((h = 1; h <= ranks; h++)); do
		daemon_up "h$h" || return 1
		hosts+=("10.1.0.$h")
	done
}

ranks_start() {	# mode
	local r
	for ((r = 0; r < ranks; r++)); do
		app "r$r" "h$((r + 1))" "$peer" "$(sock "h$((r + 1))")" "$r" "$1" "${hosts[@]}"
	done
}

ranks_end() {	# status seconds
	local r good=0
	for ((r = 0; r < ranks; r++)); do
		[[ -n ${pid[r$r]:-} ]] || continue
		app_ends "r$r" "$1" "$2" || good=1
	done
	cat "$work"/r[0-9]*
	return $good
}

run_ranks() {	# mode
	ranks_start "$1" && ranks_end 0 "${patience:-100}"
}

ranks_down() {
	local h
	for ((h = 1; h <= ranks; h++)); do
		daemon_stop "h$h" || return 1
	done
	fabric_down
}

no_connection_is_left() {
	local h
	for ((h = 1; h <= ranks; h++)); do
		equal "$(show "h$h" "len(s['connections'])")" 0 "connections at h$h" || return 1
	done
}
