#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The Debian packages: built from a copy of the tree, checked by lintian, installed into a root of their
# own, used, upgraded, removed and purged.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"
# shellcheck source=box_lib.sh
. "$(dirname "$0")/box_lib.sh"

root=$work/root
version=$(cat VERSION)
arch=$(dpkg --print-architecture 2>/dev/null)
multiarch=$(uname -m)-linux-gnu

if ! command -v dpkg-buildpackage >/dev/null || ! command -v dh >/dev/null; then
	echo "1..0 # SKIP needs dpkg-dev and debhelper"
	exit 0
fi

# What git knows or would add; of a tree without git all but what was built.
copy_tree() {
	mkdir -p "$work/src/mroce"
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -co --exclude-standard | while read -r file; do
			[[ -e $file ]] && echo "$file"
		done | tar cT - | tar x -C "$work/src/mroce"
	else
		tar c --exclude='./build*' . | tar x -C "$work/src/mroce"
	fi
}

build_packages() {
	copy_tree || return 1
	(cd "$work/src/mroce" &&
		DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc -b) >"$work/deb.log" 2>&1 ||
		{ tail -n 30 "$work/deb.log"; return 1; }
}

packages() {
	local name
	for name in mroced libmroce0 libmroce-dev; do
		echo "$work/src/${name}_${version}_$arch.deb"
	done
}

lintian_has_no_errors() {
	local text
	text=$(lintian --allow-root --fail-on error "$work"/src/*.changes 2>&1) || { echo "$text"; return 1; }
}

# dpkg works on $root only: the rest of the file system is read-only for it, and it sees no systemd.
# Maintainer scripts run on this host's programs (there is no shell in the root) and get DPKG_ROOT.
dpkg_in_root() {	# arguments of dpkg
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount sh -ec '
		root=$1; shift
		mount --bind "$root" "$root"
		mount -t tmpfs tmpfs /run
		mount -o remount,bind,ro /
		exec dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends \
			--log=/dev/null "$@"' sh "$root" "$@" >"$work/dpkg" 2>&1 || { cat "$work/dpkg"; return 1; }
}

install_packages() {
	mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
	touch "$root"/var/lib/dpkg/{status,available}
	mapfile -t debs < <(packages)
	dpkg_in_root --install "${debs[@]}"
}

installed_properly() {
	local name
	for name in mroced libmroce0 libmroce-dev; do
		equal "$(dpkg-query --root="$root" -W -f '${db:Status-Abbrev}' $name)" "ii " "$name" || return 1
	done
}

# Of the dependencies that dpkg was told to overlook each is met by this host, on which the programs run.
dependencies_met() {
	local name bad=0
	for name in $(dpkg-query --root="$root" -W -f '${Depends}\n' mroced libmroce0 | sed 's/([^)]*)//g; s/,/\n/g'); do
		dpkg-query -W "$name" >/dev/null 2>&1 || { echo "$name is not on this host"; bad=1; }
	done
	return $bad
}

contents() {	# package path...
	local name=$1 path bad=0
	shift
	for path; do
		dpkg-query --root="$root" -L "$name" | grep -qxF "$path" || { echo "$name lacks $path"; bad=1; }
	done
	return $bad
}

all_contents() {
	contents mroced /usr/sbin/mroced /usr/bin/mroce /lib/systemd/system/mroced.service \
		/lib/systemd/system/mroced@.service /etc/mroce/mroced.conf /usr/lib/mroce/mroce_xdp.bpf.o \
		/usr/share/man/man8/mroced.8.gz /usr/share/man/man5/mroced.conf.5.gz \
		/usr/share/bash-completion/completions/mroce &&
		contents libmroce0 "/usr/lib/$multiarch/libmroce.so.0" &&
		contents libmroce-dev /usr/include/mroce.h "/usr/lib/$multiarch/libmroce.so" \
			"/usr/lib/$multiarch/pkgconfig/libmroce.pc"
}

# An administrator who has named no interface gets no failing service.
not_enabled() {
	equal "$(find "$root/etc/systemd" -name 'mroced*' 2>/dev/null)" "" "enabled at"
}

compiles() {
	local flags
	flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/$multiarch/pkgconfig \
		pkg-config --cflags --libs libmroce) || return 1
	# shellcheck disable=SC2086
	gcc -O2 -Wall -Werror -o "$work/hello" "$root"/usr/share/doc/libmroce-dev/examples/hello.c $flags
}

configuration_survives_upgrade() {
	sed -i 's/^#interface = eth0/interface = eth7/' "$root/etc/mroce/mroced.conf"
	install_packages && has "^interface = eth7" cat "$root/etc/mroce/mroced.conf"
}

nothing_left() {
	equal "$(find "$root" ! -path "$root/var/lib/dpkg*" ! -type d)" "" "files left" &&
		equal "$(find "$root" -name '*mroce*' ! -path "$root/var/lib/dpkg/*")" "" "folders left"
}

# ---- under a real systemd, by dpkg as it is, maintainer scripts and all ----

box_dpkg() {	# option, then names of packages
	in_box env DEBIAN_FRONTEND=noninteractive dpkg "$@" >"$work/dpkg" 2>&1 || { cat "$work/dpkg"; return 1; }
}

box_install() {
	local deb
	for deb in $(packages); do
		in_box tee "/run/${deb##*/}" <"$deb" >/dev/null || return 1
	done
	# Images of containers forbid packages to start services.
	in_box rm -f /usr/sbin/policy-rc.d
	mapfile -t debs < <(packages)
	box_dpkg --install "${debs[@]/#*\//\/run\/}"
}

asks_for_nothing() {
	equal "$(service UnitFileState) $(service ActiveState)" "disabled inactive" "state after the installation"
}

box_starts() {
	in_box sh -c 'ip link add p1 type veth peer name p2 && ip link set p2 up && ip address add 10.9.0.1/24 dev p1 && ip link set p1 up &&
		sed -i "s/^#interface = eth0$/interface = p1/; s/^#port = afxdp/port = socket/" /etc/mroce/mroced.conf' &&
		in_box systemctl enable --now mroced && in_box mroce show port
}

upgrade_restarts() {
	local main
	main=$(service MainPID)
	box_install && equal "$(service ActiveState)" active state && [[ $(service MainPID) != "$main" ]] &&
		in_box mroce show port && in_box grep -q '^interface = p1' /etc/mroce/mroced.conf
}

purge_leaves_nothing() {
	box_dpkg --purge libmroce-dev mroced libmroce0 || return 1
	equal "$(in_box find / -xdev \( -path "$PWD" -o -path /var/log/journal \) -prune -o \
		\( -name '*mroce*' -cnewer /run/boxed \) -print)" "" "files left" &&
		equal "$(in_box pgrep -x mroced)" "" "daemons" && equal "$(in_box ls -d /run/mroce 2>/dev/null)" "" "folder"
}

in_the_box() {
	local why
	if why=$(box_why_not); then
		skip "packages under systemd" "$why"
		return
	fi
	check "a box with systemd" box_up
	[[ -n $box_pid ]] || return
	in_box touch /run/boxed
	check "packages under systemd: installed" box_install
	check "nothing is enabled or started unasked" asks_for_nothing
	check "the service starts" box_starts
	check "an upgrade restarts it and keeps its configuration" upgrade_restarts
	check "purged: nothing is left" purge_leaves_nothing
	check "the box is taken away" box_down
}

check "dpkg-buildpackage" build_packages
if command -v lintian >/dev/null; then
	check "lintian finds no errors" lintian_has_no_errors
else
	skip "lintian finds no errors" "lintian is not installed"
fi
check "the packages install" install_packages
check "and are configured" installed_properly
check "their dependencies are met by this host" dependencies_met
check "each part is in its package" all_contents
check "the service is not enabled unasked" not_enabled
check "an example compiles with the installed files" compiles
use_installed "$root/usr/bin" "$root/usr/sbin"
fabric_up 1 || exit 1
check "installed daemons start" daemons_up
check "and carry packets" pings
check "and stop" daemon_stop h1 h2
check "a changed configuration survives an upgrade" configuration_survives_upgrade
check "the packages are removed" dpkg_in_root --remove libmroce-dev libmroce0 mroced
check "the changed configuration is still there" [ -e "$root/etc/mroce/mroced.conf" ]
check "and purged" dpkg_in_root --purge libmroce-dev libmroce0 mroced
check "nothing is left" nothing_left
in_the_box
finish
