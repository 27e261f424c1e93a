# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For tests of operation on two hosts joined directly: on top of port_lib.sh a mroced in a and in b, on the
# interfaces in $planes.
# shellcheck source-path=SCRIPTDIR source=../net/port_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../net/port_lib.sh"

exchange=$build/tests/net/exchange
planes=(v0)

# stdin=- closes the daemon's.
launch() {	# [VARIABLE=VALUE...] a|b options of mroced: 0 when it is ready
	local where env=() use=() plane
	while [[ ${1:-} == *=* ]]; do
		env+=("$1")
		shift
	done
	where=$1
	shift
	for plane in "${planes[@]}"; do
		use+=(-i "$plane")
	done
	: >"$work/log.$where"
	env "${env[@]}" nsenter --net="/run/netns/$ns$where" "$build/mroced" --socket "$work/$where.sock" \
		"${use[@]}" "$@" <&"${stdin:-0}" >>"$work/log.$where" 2>&1 &
	daemon[$where]=$!
	wait_until ready_or_over "$where"
	grep -q ready: "$work/log.$where" || { cat "$work/log.$where"; return 1; }
}

ready_or_over() {
	grep -q ready: "$work/log.$1" || ! kill -0 "${daemon[$1]}"
}

over() {	# a|b
	kill "${daemon[$1]}"
	wait "${daemon[$1]}"
	local status=$?
	unset "daemon[$1]"
	[[ $status == 0 ]] || { echo "mroced of $1: exit status $status"; cat "$work/log.$1"; }
	return $status
}

killed() {	# a|b
	kill -9 "${daemon[$1]}"
	wait "${daemon[$1]}" 2>/dev/null
	unset "daemon[$1]"
	return 0
}

transfers() {	# [address of a]
	nsenter --net="/run/netns/${ns}a" "$exchange" serve "$work/a.sock" >"$work/serve" 2>&1 &
	local server=$!
	wait_until grep -q ready "$work/serve"
	in_ns b "$exchange" run "$work/b.sock" "${1:-10.77.0.1}" --messages 20 --streams 4 --sizes 1,4000,300000 &&
		wait "$server" || { cat "$work/serve"; kill -9 "$server"; return 1; }
}

attach_of() {
	in_ns a "$build/mroce" --socket "$work/a.sock" -j show port | grep -o '"attach": "[a-z]*"'
}
