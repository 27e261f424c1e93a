#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# `make install` into a clean root: all parts are there, the installed programs work from there, and
# `make uninstall` leaves nothing.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"

root=$work/root
built=$(realpath "$build")
lib=$root/usr/lib

make_it() {	# goal: says nothing unless it fails
	make -s BUILD="$build_folder" DESTDIR="$root" PREFIX=/usr "$1" >"$work/make" 2>&1 ||
		{ tail -n 20 "$work/make"; return 1; }
}
build_folder=$build

there() {	# file...
	local file bad=0
	for file; do
		[[ -s $root$file ]] || { echo "missing or empty: $file"; bad=1; }
	done
	return $bad
}

# After `sudo make install` the caller can go on with `make`, and `tests/run`, in his folder.
belongs_to_caller() {
	local strange
	cp -a "$built" "$work/build-sudo" && touch "$work/build-sudo/made-by-root" || return 1
	build_folder=$work/build-sudo
	SUDO_UID=65534 SUDO_GID=65534 ASAN_BUILD=$work/none FUZZ_BUILD=$work/none make_it install || return 1
	build_folder=$build
	strange=$(find "$work/build-sudo" ! -user 65534 | head -n 3)
	equal "$strange" "" "files of root"
}

# A page for each in docs/man.
pages() {
	local page file bad=0
	for page in docs/man/*.scd; do
		file=$(basename "$page" .scd)
		there "/usr/share/man/man${file##*.}/$file" || bad=1
	done
	return $bad
}

# What the units start and read exists there.
unit_programs() {
	local word bad=0
	for word in $(sed -nE 's/^Exec[A-Za-z]*=[-+@:!]*([^ ]+).*/\1/p' "$lib"/systemd/system/mroced*.service | sort -u); do
		case $word in
		/usr/*) there "$word" || bad=1 ;;
		*) [[ -x $word ]] || { echo "not on this system: $word"; bad=1; } ;;
		esac
	done
	! grep -n '@[A-Z]*@' "$lib"/systemd/system/mroced*.service || bad=1
	return $bad
}

completes() {
	local COMP_WORDS=("$root/usr/bin/mroce" det) COMP_CWORD=1 COMPREPLY
	# shellcheck source=/dev/null
	. "$root/usr/share/bash-completion/completions/mroce"
	_mroce
	equal "${COMPREPLY[*]}" detach completion
}

configuration_is_fine() {
	sed 's/^#interface = eth0/interface = eth0/' "$root/etc/mroce/mroced.conf" >"$work/conf"
	has "configuration is fine" "$root/usr/sbin/mroced" --check-config --config "$work/conf"
}

compiles() {
	local flags
	flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$lib/pkgconfig pkg-config --cflags --libs libmroce) ||
		return 1
	# shellcheck disable=SC2086
	gcc -O2 -Wall -Werror -o "$work/hello" examples/hello.c $flags && has 'libmroce.so.0\]' readelf -d "$work/hello"
}

with_library() {	# host arguments of hello
	on "$1" env MROCE_SOCKET="$(sock "$1")" LD_LIBRARY_PATH="$lib" "$work/hello" "${@:2}"
}

compiled_program_runs() {
	app hello_server h2 env MROCE_SOCKET="$(sock h2)" LD_LIBRARY_PATH="$lib" "$work/hello"
	wait_until with_library h1 10.1.0.2 "good day"
	has "good day" with_library h1 10.1.0.2 "good day" || { cat "$work/hello_server"; return 1; }
	end9 hello_server
}

attaches() {
	on h1 ip link set dev p1 xdpdrv obj "$lib/mroce/mroce_xdp.bpf.o" sec xdp.frags &&
		on h1 ip link set dev p1 xdpdrv off
}

nothing_left() {
	equal "$(files_of "$root")" "" "files left" && equal "$(find "$root" -name '*mroce*')" "" "folders left"
}

changed_configuration_stays() {
	make_it install || return 1
	echo '[ports]' >"$root/etc/mroce/mroced.conf"
	make_it install || return 1
	equal "$(cat "$root/etc/mroce/mroced.conf")" "[ports]" "configuration after another install"
}

kept_at_uninstall() {
	make_it uninstall && has "was changed and stays" cat "$work/make" &&
		equal "$(files_of "$root")" ./etc/mroce/mroced.conf "files left"
}

own_files_untouched() {
	for file in /usr/lib/mroce /usr/local/lib/mroce /etc/mroce; do
		ls -ld "$file" 2>/dev/null
	done
	return 0
}

before=$(own_files_untouched)
check "make install" make_it install
check "programs, library, header" there /usr/bin/mroce /usr/sbin/mroced /usr/lib/libmroce.so.0 \
	/usr/lib/libmroce.so /usr/lib/libmroce-collective.so.0 /usr/include/mroce_collective.h /usr/lib/libmroce.a /usr/include/mroce.h /usr/lib/pkgconfig/libmroce.pc
check "BPF objects, units, completion, configuration" there /usr/lib/mroce/mroce_xdp.bpf.o \
	/usr/lib/mroce/mroce_tc.bpf.o /usr/lib/systemd/system/mroced.service \
	/usr/lib/systemd/system/mroced@.service /usr/share/bash-completion/completions/mroce \
	/etc/mroce/mroced.conf /usr/share/doc/mroce/README.md
check "every man page" pages
check "what sudo makes belongs to the caller" belongs_to_caller
check "what the units start is there" unit_programs
check "the installed completion completes" completes
check "the installed configuration is accepted" configuration_is_fine
check "a program compiles with pkg-config" compiles
use_installed "$root/usr/bin" "$root/usr/sbin"
fabric_up 1 || exit 1
check "installed daemons start" daemons_up
check "and carry packets" pings
check "the compiled program runs over them" compiled_program_runs
check "installed daemons stop" daemon_stop h1 h2
check "the installed XDP program attaches by ip link" attaches
build=$built
check "make uninstall" make_it uninstall
check "leaves nothing" nothing_left
check "a changed configuration stays as it is" changed_configuration_stays
check "also when all else is uninstalled" kept_at_uninstall
check "the host's own folders are untouched" equal "$(own_files_untouched)" "$before" "folders"
finish
