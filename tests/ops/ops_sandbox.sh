#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroced with exactly what its unit leaves it: capabilities, system calls, address families, a read-only
# file system, few devices. Read from the unit, so what is tested is what is shipped.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"

unit=$work/mroced.service
confine=$(realpath "$build/tests/ops/confine")
mroced=$(realpath "$build/mroced")
# Everybody, since applications of other users come to the socket.
chmod 755 "$work"

directive() {	# name: its values, of all lines with that name
	sed -n "s/^$1=//p" "$unit"
}

capabilities() {	# as setpriv wants them, without CAP_, in small letters
	directive CapabilityBoundingSet | tr ' ' '\n' | sed 's/^CAP_//' | tr '[:upper:]' '[:lower:]'
}

# As systemd does it: lists first to last, a ~ takes away.
system_calls() {
	local line word
	directive SystemCallFilter | while read -r line; do
		for word in ${line#\~}; do
			if [[ $word == @* ]]; then expand "$word"; else echo "$word"; fi
		done | if [[ $line == \~* ]]; then sed 's/^/-/'; else cat; fi
	done | awk '/^-/ { delete call[substr($0, 2)]; next } { call[$0] } END { for (c in call) print c }' | sort
}

expand() {	# @group: its calls, also those of groups within
	local word
	# shellcheck disable=SC2046 # one word each
	for word in $(systemd-analyze syscall-filter --no-pager "$1" | sed -n 's/^ \{4\}\([@a-z_0-9]*\)$/\1/p'); do
		if [[ $word == @* ]]; then expand "$word"; else echo "$word"; fi
	done
}

address_families() {
	local name list=
	for name in $(directive RestrictAddressFamilies); do
		list+=,$(python3 -c "import socket; print({'AF_XDP': 44}.get('$name') or int(socket.$name))")
	done
	echo "${list#,}"
}

make_box() {
	make -s BUILD="$build" "$build/mroced.service" && cp "$build/mroced.service" "$unit" || return 1
	system_calls >"$work/calls"
	families=$(address_families)
	# shellcheck disable=SC2016 # for the shell in the box
	cat >"$work/box" <<-'SH'
	#!/bin/sh
	# ProtectSystem=strict, ProtectKernelTunables=, ProtectHome=, PrivateDevices=; a bpffs of its own, lest the host's has to do
	set -e
	work=$1 caps=$2 calls=$3 families=$4 confine=$5 pre=$6 writable=$7
	shift 7
	mount --make-rprivate /
	mount --bind "$work" "$work"
	for node in null zero full random urandom; do
		touch "$work/$node" && mount --bind "/dev/$node" "$work/$node"
	done
	mount -t tmpfs -o mode=755 tmpfs /dev
	for node in null zero full random urandom; do
		touch "/dev/$node" && mount --bind "$work/$node" "/dev/$node" && umount "$work/$node" && rm "$work/$node"
	done
	[ ! -d /home ] || mount -t tmpfs -o mode=000 tmpfs /home
	[ ! -d /root ] || mount -t tmpfs -o mode=000 tmpfs /root
	mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys
	mount -t bpf -o mode=700 bpf /sys/fs/bpf
	${pre#-+}
	for path in $writable; do
		path=${path#-}
		[ ! -e "$path" ] || mount --bind "$path" "$path"
	done
	mount -o remount,bind,ro /sys/fs/bpf
	mount -o remount,bind,ro /sys 2>/dev/null || { mount --bind /sys /sys && mount -o remount,bind,ro /sys; }
	mount -o remount,bind,ro /
	ulimit -l unlimited 2>/dev/null || true # a container may not
	umask 077
	exec setpriv --bounding-set="-all$caps" --inh-caps=-all --ambient-caps=-all --no-new-privs \
		"$confine" "$calls" "$families" "$@"
	SH
	chmod +x "$work/box"
	rm -rf "$work/installed"
	mkdir "$work/installed"
	ln -s "$(realpath "$build/mroce")" "$(realpath "$build/tests")" "$work/installed/"
	boxed
	build=$work/installed
}

# From now on `mroced` of daemon_up runs in the box, but for the capabilities named.
boxed() {	# [without...]
	local caps="" cap
	for cap in $(capabilities); do
		[[ " $* " == *" $cap "* ]] || caps+=,+$cap
	done
	printf '#!/bin/sh\nexec unshare --mount "%s" "%s" "%s" "%s" "%s" "%s" "%s" "%s" "%s" "$@"\n' "$work/box" "$work" "$caps" \
		"$work/calls" "$families" "$confine" "$(directive ExecStartPre)" "$(directive ReadWritePaths)" "$mroced" >"$work/installed/mroced"
	chmod +x "$work/installed/mroced"
}

status_of() {	# host field
	sed -n "s/^$2:[[:space:]]*//p" "/proc/${pid[$1]}/status"
}

capability_mask() {
	local mask=0 name
	local -A number=([dac_override]=1 [net_admin]=12 [net_raw]=13 [ipc_lock]=14 [sys_ptrace]=19 [perfmon]=38 [bpf]=39)
	for name in $(capabilities); do
		[[ -n ${number[$name]:-} ]] || { echo "unknown here: $name"; return 1; }
		mask=$((mask | 1 << ${number[$name]}))
	done
	printf '%016x' "$mask"
}

in_the_box() {
	equal "$(status_of h1 CapEff)" "$(capability_mask)" CapEff &&
		equal "$(status_of h1 CapBnd)" "$(capability_mask)" CapBnd &&
		equal "$(status_of h1 CapAmb)" 0000000000000000 CapAmb &&
		equal "$(status_of h1 NoNewPrivs)" 1 NoNewPrivs && equal "$(status_of h1 Seccomp)" 2 Seccomp
}

# The filter bites: what is not on the list is refused, what is, is not.
box_is_tight() {
	local tool
	tool=("$confine" "$work/calls" "$families")
	"${tool[@]}" true && fails "${tool[@]}" unshare --uts true 2>/dev/null &&
		fails "${tool[@]}" mount -t tmpfs none /mnt 2>/dev/null &&
		fails "${tool[@]}" python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)' 2>/dev/null &&
		"${tool[@]}" python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'
}

# Applications of another user, whose memory mroced has to reach.
other_user() {	# memory
	local exchange_as=("$exchange")
	exchange=$work/as_nobody
	printf '#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups "%s" "$@"\n' \
		"$(realpath "${exchange_as[0]}")" >"$exchange"
	chmod +x "$exchange"
	swap --memory "$1" --messages 20 --streams 4 --sizes 1,4000,300000
	local status=$?
	exchange=${exchange_as[0]}
	return $status
}

netlink_daemons_up() {
	daemon_up MROCE_TC=netlink h1 && daemon_up MROCE_TC=netlink h2
}

restarts_after_kill() {
	end9 h1
	daemon_up h1 && swap --messages 5
}

# In the box's bpffs, which lives on in descriptor 7.
pins_in_box() {
	nsenter --mount=/proc/self/fd/7 find /sys/fs/bpf/mroce -mindepth 1 7<&7
}

pins_up() {
	daemon_up h1 "$@" --pin && exec 7<"/proc/${pid[h1]}/ns/mnt" && pins_in_box >"$work/pins"
	cat "$work/pins"
}

pins_of() {	# program [options]
	pins_up "${@:2}" || return 1
	equal "$(grep -c "/netns-[0-9]*/p[12]/$1\$" "$work/pins")" 2 "pins of $1"
}

# systemd removes the folder itself.
no_pins() {
	equal "$(pins_in_box)" "" pins
}

pins_gone_after() {	# daemon_stop|end9
	"$1" h1 && wait_until no_pins && no_pins
}

reloads() {
	kill -HUP "${pid[h1]}"
	wait_until said log.h1 "reload: done"
	said log.h1 "reload: done"
}

# Without one of these nothing can work, and mroced says which.
refused_without() {	# capability
	boxed "$1"
	daemon_up h1 >"$work/refused" 2>&1 && { daemon_stop h1; echo "it started"; return 1; }
	wait "${pid[h1]}"
	unset "pid[h1]"
	boxed
	grep -i -e "CAP_$1" -e "cannot be loaded" "$work/refused" || { cat "$work/refused"; return 1; }
}

not_reached_without() {	# capability
	boxed "$1"
	daemons_up || return 1
	app client h1 setpriv --reuid 65534 --regid 65534 --clear-groups "$exchange" run "$(sock h1)" 10.1.0.2 --memory inplace
	app_ends client 3 20
	has "mroce_alloc" cat "$work/client"
	local status=$?
	daemon_stop h1 h2
	boxed
	return $status
}

if ! command -v systemd-analyze >/dev/null || ! [[ -x $confine ]]; then
	echo "1..0 # SKIP needs systemd-analyze and libseccomp"
	exit 0
fi
check "the box is made from the unit" make_box
check "and is tight" box_is_tight
fabric_up 2 || exit 1
check "AF_XDP, in the box: starts" daemons_up
check "has just the unit's privileges" in_the_box
check "carries shared memory of another user" other_user shared
check "and memory registered in place" other_user inplace
check "reloads" reloads
check "starts again at once after kill -9" restarts_after_kill
check "stops in order" daemon_stop h1 h2
check "and leaves nothing" wait_until bare h1
check "TC filters, as on kernels before 6.6" netlink_daemons_up
check "carries" swap --messages 20
check "stops in order" daemon_stop h1 h2
check "and leaves no filter" wait_until bare h1
check "plain sockets" daemons_up --port socket
check "carry" other_user mixed
check "and stop" daemon_stop h1 h2
check "maps and programs are pinned" pins_of mroce_xdp
check "and no more, when it stops" pins_gone_after daemon_stop
check "pinned again" pins_of mroce_paths
check "and no more after kill -9" pins_gone_after end9
check "those of plain sockets" pins_of mroce_tc_post --port socket
check "and no more after kill -9" pins_gone_after end9
for cap in bpf perfmon net_admin net_raw; do
	check "CAP_${cap^^} is needed" refused_without $cap
done
for cap in sys_ptrace dac_override; do
	check "CAP_${cap^^} is needed for memory in place of other users" not_reached_without $cap
done
finish
