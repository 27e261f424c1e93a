# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For tests under a real systemd: a "box" in which it is process 1, on a copy of this host's file system that forgets
# everything (an overlay in memory), in namespaces of its own for all but users. Nothing in there is seen outside
# but BPF programs, which the kernel has for all. On top of ops_lib.sh.
# shellcheck disable=SC2034,SC2154 # work and pid are fabric_lib.sh's and sys_lib.sh's

box_pid=	# of its process 1
box_parent=	# of unshare outside, which ends with it
box_group=mroce-box-$$

box_why_not() {	# prints why there can be no box; true if so
	[[ -x /lib/systemd/systemd ]] || { echo "systemd is not installed"; return 0; }
	mkdir -p "$work/try"
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m sh -c 'mount -t tmpfs box "$0" && mkdir "$0/up" "$0/wk" "$0/root" &&
		mount -t overlay -o "lowerdir=/,upperdir=$0/up,workdir=$0/wk" box "$0/root"' "$work/try" 2>/dev/null ||
		{ echo "no overlay file system over / on this kernel"; return 0; }
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount -t cgroup2 cgroup "$0"' "$work/try" 2>/dev/null || { echo "no cgroup2"; return 0; }
	return 1
}

# First half, outside the box's other namespaces: a control group to be its root. Second half: the file system.
box_script() {
	cat <<-'SH'
	#!/bin/bash
	set -e
	box=$1 group=$2 tree=$3
	if [[ $4 == outside ]]; then
		mount -t tmpfs -o mode=755 box "$box"
		mkdir "$box"/{up,wk,root,groups}
		mount -t cgroup2 cgroup "$box/groups"
		mkdir "$box/groups/$group"
		echo 0 >"$box/groups/$group/cgroup.procs"
		umount "$box/groups"
		exec unshare --pid --fork --kill-child --mount --net --ipc --uts --cgroup "$0" "$box" "$group" "$tree" inside
	fi
	root=$box/root
	mount -t overlay -o "lowerdir=/,upperdir=$box/up,workdir=$box/wk" box "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
	mount -t bpf bpf "$root/sys/fs/bpf"
	mount -t tmpfs -o mode=755 run "$root/run"
	mount -t tmpfs -o mode=1777 tmp "$root/tmp"
	[[ -e $root$tree/Makefile ]] || { mkdir -p "$root$tree"; mount --bind "$tree" "$root$tree"; }
	mount -t tmpfs -o mode=755 dev "$root/dev"
	for node in null zero full random urandom tty; do
		touch "$root/dev/$node"
		mount --bind "/dev/$node" "$root/dev/$node"
	done
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
	mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
	ln -s pts/ptmx "$root/dev/ptmx"
	ln -s /proc/self/fd "$root/dev/fd"
	# What would reach for the host's kernel or hardware, or wait for a network that there is not, stays away.
	units=$root/etc/systemd/system
	mkdir -p "$units"
	for unit in "$root"/lib/systemd/system/{sysinit,local-fs,basic,multi-user,network-online,timers}.target.wants/* \
		"$units"/*.wants/* systemd-remount-fs.service systemd-udevd.service; do
		unit=${unit##*/}
		[[ $unit == systemd-journald.service || $unit == *.target || $unit == '*' ]] || ln -sf /dev/null "$units/$unit"
	done
	rm -rf "$units"/*.wants
	printf '[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n' >"$units/box.target"
	cd "$root"
	mkdir -p old
	pivot_root . old
	umount -l /old
	exec env -i container=box PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=box.target --log-target=journal
	SH
}

box_up() {
	mkdir -p "$work/box"
	box_script >"$work/box.sh"
	chmod +x "$work/box.sh"
	unshare --mount --propagation private "$work/box.sh" "$work/box" "$box_group" "$PWD" outside >"$work/box.log" 2>&1 &
	box_parent=$!
	pid[box]=$box_parent
	wait_until box_runs || { cat "$work/box.log"; return 1; }
}

box_runs() {
	box_pid=$(pgrep -P "$box_parent" -x systemd) && in_box systemctl is-active --quiet box.target
}

in_box() {	# command...
	nsenter --target "$box_pid" --mount --pid --net --ipc --uts --cgroup --wdns="$PWD" "$@"
}

service() {	# property [unit]
	in_box systemctl show --property "$1" --value "${2:-mroced}"
}

# The power goes; and what the host keeps of its control groups goes, too.
box_down() {
	kill -9 "$box_pid"
	wait "$box_parent" 2>/dev/null
	unset "pid[box]"
	wait_until box_is_gone && wait_until box_forget_groups
}

box_is_gone() {
	! kill -0 "$box_pid" 2>/dev/null
}

box_forget_groups() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private sh -c 'mount -t cgroup2 cgroup "$0" && { [ ! -d "$0/$1" ] ||
		find "$0/$1" -depth -type d -exec rmdir {} +; }' "$work/box" "$box_group"
}
