# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of daemon and library in two namespaces: on top of port_lib.sh a mroced in each.
PORT_NS=${PORT_NS:-mrcl$$}
# shellcheck source-path=SCRIPTDIR source=port_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/port_lib.sh"

mroced=${MROCED:-$build/mroced}
export peer=$build/tests/net/lib_peer

mroced_up() {	# a|b [options]
	local where=$1
	shift
	: >"$work/mroced.$where"
	# Directly, so that $! is the daemon and not a shell.
	nsenter --net="/run/netns/$ns$where" "$mroced" -i v0 --socket "$work/$where.sock" "$@" >>"$work/mroced.$where" 2>&1 &
	daemon[$where]=$!
	wait_until ready_or_ended "$where"
	grep -q 'ready:' "$work/mroced.$where" || { cat "$work/mroced.$where"; return 1; }
}

ready_or_ended() {
	grep -q 'ready:' "$work/mroced.$1" || ! kill -0 "${daemon[$1]}"
}

# Stops it as systemd would. Fails unless it ends well.
mroced_stop() {	# a|b
	local status
	kill "${daemon[$1]}"
	wait "${daemon[$1]}"
	status=$?
	unset "daemon[$1]"
	[[ $status == 0 ]] || { echo "exit status $status"; cat "$work/mroced.$1"; return 1; }
}

mroced_kill() {	# a|b
	kill -9 "${daemon[$1]}"
	wait "${daemon[$1]}" 2>/dev/null
	unset "daemon[$1]"
	return 0
}

# An application in the background under a name; what it says goes to $work/NAME.
app() {	# name command...
	local name=$1
	shift
	: >"$work/$name"
	"$@" >>"$work/$name" 2>&1 &
	daemon[$name]=$!
}

app_kill() {	# name
	kill -9 "${daemon[$1]}" 2>/dev/null
	wait "${daemon[$1]}" 2>/dev/null
	unset "daemon[$1]"
	return 0
}

said() {	# name pattern
	grep -q -- "$2" "$work/$1"
}

said_times() {	# name pattern count
	(($(grep -c -- "$2" "$work/$1") >= $3))
}

now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# CPU time of a process in ticks of 10 ms.
ticks() {
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}
